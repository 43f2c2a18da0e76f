/* world.c - the simulated machine. All its state is here and in memory; nothing waits and nothing
 * is deferred, so that the same world serves tests with a fake clock and a process of its own. */
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rand.h"

enum { BUCKETS = 16384 };

#define FORGET_NS (10 * NS_PER_S)

void world_init(struct world *w, struct rt *rt, size_t max,
                void (*on_died)(void *ctx, uint64_t box_id, const char *reason), void *ctx)
{
    memset(w, 0, sizeof(*w));
    w->rt = rt;
    w->max = max;
    w->on_died = on_died;
    w->ctx = ctx;
    map_init(&w->by_id, MIN_OF(max, (size_t) BUCKETS));
    map_init(&w->by_sandbox, MIN_OF(max, (size_t) BUCKETS));
}

static void free_box(struct world_box *box)
{
    world_updates_free(box->updates);
    free(box->texts);
    free(box);
}

void world_fini(struct world *w)
{
    for (size_t i = 0; i < w->slot_count; i++)
        if (w->slots[i] != NULL)
            free_box(w->slots[i]);
    free(w->slots);
    free(w->free_slots);
    map_fini(&w->by_id);
    map_fini(&w->by_sandbox);
    memset(w, 0, sizeof(*w));
}

/* --- texts --- */

const char *world_box_text(const struct world_box *box, enum world_text which)
{
    const char *s = box->texts;

    for (int i = 0; i < (int) which; i++)
        s += strlen(s) + 1;
    return s;
}

void world_box_spec(const struct world_box *box, struct world_spec *ret)
{
    const char *s = box->texts;

    ret->box_id = box->box_id;
    ret->spec_hash = box->spec_hash;
    ret->generation = box->generation;
    ret->principal = box->principal;
    for (int i = 0; i < WORLD_TEXT_COUNT; i++) {
        ret->text[i] = s;
        s += strlen(s) + 1;
    }
}

static char *pack_texts(const struct world_spec *spec)
{
    size_t len = 0;
    char *texts;
    char *at;

    for (int i = 0; i < WORLD_TEXT_COUNT; i++)
        len += (spec->text[i] != NULL ? strlen(spec->text[i]) : 0) + 1;
    texts = xcalloc(1, len);
    at = texts;
    for (int i = 0; i < WORLD_TEXT_COUNT; i++) {
        size_t n = spec->text[i] != NULL ? strlen(spec->text[i]) : 0;

        if (n > 0)
            memcpy(at, spec->text[i], n);
        at += n + 1;
    }
    return texts;
}

/* --- looking up --- */

static bool is_box_id(const struct map_node *node, const void *key)
{
    const uint64_t *box_id = key;

    return container_of(node, const struct world_box, by_id)->box_id == *box_id;
}

struct world_box *world_find(const struct world *w, uint64_t box_id)
{
    struct map_node *n = map_find(&w->by_id, hash_u64(box_id), is_box_id, &box_id);

    return n != NULL ? container_of(n, struct world_box, by_id) : NULL;
}

struct sandbox_key {
    const char *instance;
    const char *sandbox_id;
};

static bool is_sandbox(const struct map_node *node, const void *arg)
{
    const struct sandbox_key *key = arg;
    const struct world_box *box = container_of(node, const struct world_box, by_sandbox);

    return strcmp(world_box_text(box, WORLD_SANDBOX_ID), key->sandbox_id) == 0 &&
           strcmp(world_box_text(box, WORLD_INSTANCE), key->instance) == 0;
}

struct world_box *world_find_sandbox(const struct world *w, const char *instance,
                                     const char *sandbox_id)
{
    const struct sandbox_key key = {instance, sandbox_id};
    uint64_t hash = hash_str(sandbox_id);
    struct world_box *best = NULL;

    /* A box that is on its way out may still carry the id: the newest is meant. */
    for (struct map_node *n = map_find(&w->by_sandbox, hash, is_sandbox, &key); n != NULL;
         n = map_find_next(n, is_sandbox, &key)) {
        struct world_box *box = container_of(n, struct world_box, by_sandbox);

        if (best == NULL || box->generation > best->generation)
            best = box;
    }
    return best;
}

struct world_box *world_next(const struct world *w, size_t *cursor)
{
    while (*cursor < w->slot_count) {
        struct world_box *box = w->slots[(*cursor)++];

        if (box != NULL)
            return box;
    }
    return NULL;
}

size_t world_count(const struct world *w)
{
    return w->by_id.len;
}

/* --- changing --- */

static size_t take_slot(struct world *w)
{
    if (w->free_count > 0)
        return w->free_slots[--w->free_count];
    if (w->slot_count == w->slot_cap) {
        w->slot_cap = w->slot_cap == 0 ? 64 : w->slot_cap * 2;
        w->slots = xrealloc(w->slots, w->slot_cap * sizeof(struct world_box *));
        w->free_slots = xrealloc(w->free_slots, w->slot_cap * sizeof(size_t));
    }
    return w->slot_count++;
}

static void set_labels(struct world *w, struct world_box *box, const struct world_spec *spec)
{
    char *texts = pack_texts(spec); /* first: the spec may point into the old ones */
    const char *sandbox_id;

    map_remove(&w->by_sandbox, &box->by_sandbox);
    free(box->texts);
    box->texts = texts;
    box->spec_hash = spec->spec_hash;
    box->generation = spec->generation;
    box->principal = spec->principal;
    sandbox_id = world_box_text(box, WORLD_SANDBOX_ID);
    if (sandbox_id[0] != '\0')
        map_insert(&w->by_sandbox, &box->by_sandbox, hash_str(sandbox_id));
}

static void add_box(struct world *w, const struct world_spec *spec, uint64_t ready_ns)
{
    struct world_box *box = xcalloc(1, sizeof(*box));

    box->box_id = spec->box_id;
    box->ready_ns = ready_ns;
    box->slot = take_slot(w);
    w->slots[box->slot] = box;
    map_insert(&w->by_id, &box->by_id, hash_u64(spec->box_id));
    set_labels(w, box, spec);
    w->stats.created++;
}

static bool remove_box(struct world *w, uint64_t box_id)
{
    struct world_box *box = world_find(w, box_id);

    if (box == NULL)
        return false;
    map_remove(&w->by_id, &box->by_id);
    map_remove(&w->by_sandbox, &box->by_sandbox);
    w->slots[box->slot] = NULL;
    w->free_slots[w->free_count++] = box->slot;
    free_box(box);
    return true;
}

static void forget(struct world *w, uint64_t box_id)
{
    size_t at = w->forgotten_next++ % WORLD_FORGOTTEN;

    w->forgotten[at].box_id = box_id;
    w->forgotten[at].until_ns = rt_after(rt_now(w->rt), FORGET_NS);
}

static bool is_forgotten(const struct world *w, uint64_t box_id)
{
    for (size_t i = 0; i < WORLD_FORGOTTEN; i++)
        if (w->forgotten[i].box_id == box_id && w->forgotten[i].until_ns > rt_now(w->rt))
            return true;
    return false;
}

int world_create(struct world *w, const struct world_spec *spec, const struct world_manners *m,
                 uint64_t *ret_answer_ns, bool *ret_is_new, struct err *err)
{
    struct rand draw;
    uint64_t took_ms;

    *ret_answer_ns = rt_now(w->rt);
    *ret_is_new = false;
    if (world_find(w, spec->box_id) != NULL)
        return SP_OK;
    if (is_forgotten(w, spec->box_id))
        return err_set(err, SP_BACKEND_FAILED, "the box was destroyed before it was made");
    if (world_count(w) >= w->max)
        return err_set(err, SP_TOO_BIG, "the simulated machine holds %zu boxes, no more", w->max);

    /* The draw depends on the box and on how many were drawn before: a second try may succeed. */
    rand_seed(&draw, m->seed + hash_u64(spec->box_id) + w->draws++);
    took_ms = m->create_ms + rand_below(&draw, m->create_jitter_ms + 1);
    *ret_answer_ns = rt_after(rt_now(w->rt), took_ms * NS_PER_MS);
    if (rand_below(&draw, 100) < m->fail_percent) {
        w->stats.failed++;
        return err_set(err, SP_BACKEND_FAILED, "the simulated machine failed to make a box");
    }
    add_box(w, spec, rt_after(*ret_answer_ns, m->ready_ms * NS_PER_MS));
    *ret_is_new = true;
    if (rand_below(&draw, 100) < m->hang_percent) {
        w->stats.hung++;
        *ret_answer_ns = RT_NEVER;
    }
    return SP_OK;
}

bool world_destroy(struct world *w, uint64_t box_id)
{
    if (!remove_box(w, box_id)) {
        forget(w, box_id);
        return false;
    }
    w->stats.destroyed++;
    return true;
}

bool world_kill(struct world *w, uint64_t box_id, const char *reason)
{
    if (!remove_box(w, box_id))
        return false;
    w->stats.killed++;
    if (w->on_died != NULL)
        w->on_died(w->ctx, box_id, reason);
    return true;
}

int world_bind(struct world *w, const struct world_spec *labels, struct err *err)
{
    struct world_box *box = world_find(w, labels->box_id);
    struct world_spec merged = *labels;

    if (box == NULL)
        return err_set(err, SP_NOT_FOUND, "no such box");
    merged.text[WORLD_INSTANCE] = world_box_text(box, WORLD_INSTANCE);
    merged.text[WORLD_TOKEN] = world_box_text(box, WORLD_TOKEN);
    set_labels(w, box, &merged);
    return SP_OK;
}
