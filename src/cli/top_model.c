/* top_model.c - what `sandpool top` knows of the pool, from the daemon's answers. */
#include "cli/top.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

void top_init(struct top *t)
{
    *t = (struct top){.box_count = 0};
}

void top_fini(struct top *t)
{
    free(t->boxes);
    free(t->coming);
    *t = (struct top){.box_count = 0};
}

static void take(const struct json *obj, const char *key, char *dst, size_t cap)
{
    str_copy_cut(dst, cap, show_str(obj, key));
}

static double number(const struct json *obj, const char *key, double absent)
{
    const struct json *v = json_get(obj, key);

    return json_is_num(v) ? json_num(v) : absent;
}

static bool flag(const struct json *obj, const char *key)
{
    const struct json *v = json_get(obj, key);

    return json_is_bool(v) && json_bool(v);
}

static struct top_count count(const struct json *obj, const char *key)
{
    struct top_count c = {.is_known = false};

    c.is_known = json_u64(json_get(obj, key), &c.n);
    return c;
}

/* --- the pool --- */

static void take_profile(struct top_profile *p, const struct json *o)
{
    const struct json *breaker = json_get(o, "breaker");

    *p = (struct top_profile){.target = show_u64(o, "target"),
                              .blank = show_u64(o, "blank"),
                              .leased = show_u64(o, "leased"),
                              .parked = show_u64(o, "parked"),
                              .starting = show_u64(o, "starting"),
                              .deleting = show_u64(o, "deleting"),
                              .waiting = show_u64(o, "waiting"),
                              .oldest_wait_ms = number(o, "oldest_wait_ms", 0),
                              .failures = show_u64(breaker, "failures"),
                              .is_open = flag(breaker, "open"),
                              .is_ready = flag(o, "ready"),
                              .retry_ms = number(breaker, "retry_in_ms", 0),
                              .leaking = show_u64(o, "leaking"),
                              .warm_hits = show_u64(o, "warm_hits"),
                              .cold_starts = show_u64(o, "cold_starts")};
    take(o, "name", p->name, sizeof(p->name));
    take(o, "mode", p->mode, sizeof(p->mode));
    take(o, "reason", p->reason, sizeof(p->reason)); /* what /readyz says comes first */
    if (str_is_empty(p->reason))
        take(breaker, "reason", p->reason, sizeof(p->reason));
}

static void take_disk(struct top *t, const struct json *disk)
{
    const struct json *largest = json_get(disk, "largest");

    t->disk_free = count(disk, "free_bytes");
    t->disk_total = count(disk, "total_bytes");
    t->largest_count = 0;
    for (size_t i = 0; i < json_len(largest) && i < ARRAY_LEN(t->largest); i++) {
        take(json_at(largest, i), "box_id", t->largest[i].key, sizeof(t->largest[i].key));
        t->largest[i].bytes = show_u64(json_at(largest, i), "bytes");
        t->largest_count++;
    }
}

/* The most important first. */
static void take_trouble(struct top *t, const struct json *pool)
{
    const struct json *store = json_get(pool, "store");

    take(pool, "backend_trouble", t->trouble, sizeof(t->trouble));
    if (!str_is_empty(show_str(store, "trouble")))
        take(store, "trouble", t->trouble, sizeof(t->trouble));
    if (!str_is_empty(show_str(json_get(pool, "disk"), "trouble")))
        take(json_get(pool, "disk"), "trouble", t->trouble, sizeof(t->trouble));
}

bool top_take_pool(struct top *t, const struct json *pool)
{
    const struct json *profiles = json_get(pool, "profiles");

    if (!json_is_arr(profiles) || json_len(profiles) > TOP_PROFILES_MAX ||
        !json_is_str(json_get(pool, "mode")))
        return false;
    take(pool, "instance", t->instance, sizeof(t->instance));
    take(pool, "mode", t->mode, sizeof(t->mode));
    take(json_get(pool, "store"), "state", t->store, sizeof(t->store));
    take_trouble(t, pool);
    take_disk(t, json_get(pool, "disk"));
    t->total = show_u64(pool, "total");
    t->max_boxes = show_u64(pool, "max_boxes");
    t->waiting = show_u64(pool, "waiting");
    t->oldest_wait_ms = 0;
    t->profile_count = (unsigned) json_len(profiles);
    for (unsigned i = 0; i < t->profile_count; i++) {
        take_profile(&t->profiles[i], json_at(profiles, i));
        t->oldest_wait_ms = MAX_OF(t->oldest_wait_ms, t->profiles[i].oldest_wait_ms);
    }
    t->away[0] = '\0';
    return true;
}

void top_set_away(struct top *t, const char *why)
{
    str_copy_cut(t->away, sizeof(t->away), why);
}

/* --- boxes --- */

static bool take_box(struct top_box *b, const struct json *o)
{
    const char *box_id = show_str(o, "box_id");
    const char *sandbox_id = show_str(o, "sandbox_id");

    *b = (struct top_box){.age_s = number(o, "age_s", -1),
                          .idle_s = number(o, "idle_s", -1),
                          .generation = show_u64(o, "generation"),
                          .has_owner = !str_is_empty(sandbox_id),
                          .use.cpu_percent = -1,
                          .use.io_per_s = -1};
    take(o, "state", b->state, sizeof(b->state));
    take(o, "profile", b->profile, sizeof(b->profile));
    take(o, "user_id", b->user, sizeof(b->user));
    take(o, "thread_id", b->thread, sizeof(b->thread));
    if (str_is_empty(box_id) && str_is_empty(sandbox_id))
        return false;
    if (b->idle_s < 0)
        b->idle_s = number(o, "parked_s", -1);
    str_copy_cut(b->key, sizeof(b->key), str_is_empty(box_id) ? sandbox_id : box_id);
    if (b->has_owner)
        str_copy_cut(b->name, sizeof(b->name), sandbox_id);
    else
        (void) snprintf(b->name, sizeof(b->name), "box:%.100s", box_id);
    b->can_be_asked = !str_is_empty(box_id) && strcmp(b->state, "starting") != 0 &&
                      strcmp(b->state, "deleting") != 0;
    b->is_leaking = flag(o, "leaking");
    if (b->is_leaking)
        str_copy_cut(b->state, sizeof(b->state), "leaking");
    if (flag(o, "paused"))
        (void) snprintf(b->state, sizeof(b->state), "%.8s paused", show_str(o, "state"));
    return true;
}

void top_begin_boxes(struct top *t)
{
    if (t->coming == NULL)
        t->coming = xcalloc(TOP_BOXES_MAX, sizeof(*t->coming));
    t->coming_count = 0;
    t->has_more = false;
}

bool top_take_boxes(struct top *t, const struct json *page, char *cursor)
{
    const struct json *boxes = json_get(page, "sandboxes");
    struct json_walk w = {.at = NULL};
    const struct json *box;

    cursor[0] = '\0';
    if (!json_is_arr(boxes))
        return false;
    while ((box = json_next(boxes, &w)) != NULL) {
        if (t->coming_count == TOP_BOXES_MAX) {
            t->has_more = true;
            return true;
        }
        if (!take_box(&t->coming[t->coming_count], box))
            return false;
        t->coming_count++;
    }
    if (json_len(boxes) > 0)
        take(page, "next_cursor", cursor, 128);
    if (t->coming_count == TOP_BOXES_MAX && cursor[0] != '\0') {
        t->has_more = true;
        cursor[0] = '\0';
    }
    return true;
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const struct top_box *) a)->key, ((const struct top_box *) b)->key);
}

static struct top_box *find(struct top_box *boxes, size_t n, const char *key)
{
    struct top_box wanted;

    if (boxes == NULL)
        return NULL;
    str_copy_cut(wanted.key, sizeof(wanted.key), key);
    return bsearch(&wanted, boxes, n, sizeof(*boxes), compare_keys);
}

void top_end_boxes(struct top *t)
{
    struct top_box *old = t->boxes;
    size_t old_count = t->box_count;

    if (t->coming == NULL)
        return;
    qsort(t->coming, t->coming_count, sizeof(*t->coming), compare_keys);
    for (size_t i = 0; i < t->coming_count; i++) {
        const struct top_box *before = find(old, old_count, t->coming[i].key);

        if (before != NULL)
            t->coming[i].use = before->use;
    }
    t->boxes = t->coming;
    t->box_count = t->coming_count;
    t->coming = old;
    t->coming_count = 0;
    for (unsigned i = 0; i < t->largest_count; i++) {
        struct top_box *b = find(t->boxes, t->box_count, t->largest[i].key);

        if (b != NULL)
            b->disk = (struct top_count){.is_known = true, .n = t->largest[i].bytes};
    }
}

/* --- what a box uses --- */

static double rate(struct top_count before, struct top_count now, uint64_t ms)
{
    if (!before.is_known || !now.is_known || now.n < before.n || ms == 0)
        return -1;
    return (double) (now.n - before.n) * 1000 / (double) ms;
}

void top_take_use(struct top_box *b, const struct json *box, uint64_t now_ms)
{
    const struct json *stats = json_get(box, "stats");
    struct top_use before = b->use;
    struct top_count read = count(stats, "disk_read_bytes");
    struct top_count written = count(stats, "disk_write_bytes");
    uint64_t ms = before.asked_ms > 0 && now_ms > before.asked_ms ? now_ms - before.asked_ms : 0;

    b->use = (struct top_use){.asked_ms = MAX_OF(now_ms, 1U),
                              .cpu_ms = count(stats, "cpu_ms"),
                              .memory = count(stats, "memory_bytes")};
    b->use.io.is_known = read.is_known && written.is_known;
    b->use.io.n = read.n + written.n;
    b->use.cpu_percent = rate(before.cpu_ms, b->use.cpu_ms, ms);
    if (b->use.cpu_percent >= 0)
        b->use.cpu_percent /= 10; /* milliseconds in a second, as percent */
    b->use.io_per_s = rate(before.io, b->use.io, ms);
}
