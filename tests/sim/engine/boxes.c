/* boxes.c - the boxes as they really are: they appear, die, hang, are restarted, and work, whether
 * the daemon runs or not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "walk.h"

/* Appears although nobody waits for it any more. */
struct coming {
    struct list_node link;
    struct rt_timer timer;
    size_t box;
};

struct walk_box *boxes_find(uint64_t id)
{
    for (size_t i = walk.box_count; i > 0; i--)
        if (walk.boxes[i - 1].labels.box_id == id)
            return &walk.boxes[i - 1];
    return NULL;
}

struct walk_box *boxes_add(unsigned backend)
{
    struct walk_box *b = &walk.boxes[walk.box_count];

    if (walk.box_count == WALK_BOXES)
        walk_fail("the walk makes too many boxes for its tables");
    walk.box_count++;
    memset(b, 0, sizeof(*b));
    b->backend = backend;
    (void) snprintf(b->ref, sizeof(b->ref), "ref-%zu", walk.box_count);
    (void) snprintf(b->url, sizeof(b->url), "http://box-%zu", walk.box_count);
    b->has_no_agent = walk_one_in(6);
    return b;
}

void boxes_put_life(const struct walk_box *b, char ret[BACKEND_LIFE_MAX + 1])
{
    (void) snprintf(ret, BACKEND_LIFE_MAX + 1, "life-%u", b->life);
}

void boxes_put(const struct walk_box *b, struct backend_box *ret)
{
    *ret = (struct backend_box){.labels = b->labels, .is_frozen = b->stands_still};
    str_copy_cut(ret->url, sizeof(ret->url), b->url);
    str_copy_cut(ret->ref, sizeof(ret->ref), b->ref);
    str_copy_cut(ret->token, sizeof(ret->token), b->token);
}

void boxes_appear(struct walk_box *b)
{
    struct box_id id = {b->labels.box_id};
    const struct pool_box *known =
        walk.engine != NULL ? pool_find_box(engine_pool(walk.engine), id) : NULL;

    if (b->is_unwanted && walk_one_in(2))
        return;
    walk_say("box %016llx runs", (unsigned long long) b->labels.box_id);
    b->is_running = true;
    b->ready_ns = walk_now() + (walk_chance(5) ? 60 * NS_PER_S : walk_ms(0, 900));
    b->is_exempt |= known == NULL || known->state != POOL_CREATING || walk.is_closing;
    walk.is_dirty = true;
}

static void on_coming(struct rt_timer *timer)
{
    struct coming *c = container_of(timer, struct coming, timer);

    boxes_appear(&walk.boxes[c->box]);
    list_remove(&walk.comings, &c->link);
    free(c);
}

void boxes_appear_later(struct walk_box *b, uint64_t delay_ns)
{
    struct coming *c = xcalloc(1, sizeof(*c));

    c->box = (size_t) (b - walk.boxes);
    b->is_exempt = true;
    list_push_back(&walk.comings, &c->link);
    rt_timer_set(&walk.rt, &c->timer, walk_now() + delay_ns, on_coming);
}

void boxes_fini(void)
{
    while (!list_is_empty(&walk.comings)) {
        struct coming *c = container_of(list_pop_front(&walk.comings), struct coming, link);

        rt_timer_cancel(&walk.rt, &c->timer);
        free(c);
    }
}

/* --- what happens to them --- */

static struct walk_box *any_running(void)
{
    size_t from = walk.box_count > 0 ? rand_below(&walk.rand, walk.box_count) : 0;

    for (size_t i = 0; i < walk.box_count; i++) {
        struct walk_box *b = &walk.boxes[(from + i) % walk.box_count];

        if (b->is_running)
            return b;
    }
    return NULL;
}

static void add_orphan(void)
{
    struct walk_box *b = boxes_add((unsigned) rand_below(&walk.rand, 3));
    const struct walk_client *c = &walk.clients[rand_below(&walk.rand, WALK_THREADS)];

    b->labels.box_id = rand_next(&walk.rand);
    b->is_running = true;
    b->is_exempt = true;
    str_copy_cut(b->labels.instance, sizeof(b->labels.instance), "walk");
    str_copy_cut(b->labels.profile, sizeof(b->labels.profile),
                 walk_one_in(4) ? "nobody-knows-it" : "default");
    (void) snprintf(b->token, sizeof(b->token), "orphan-%zu", walk.box_count);
    if (walk_one_in(2))
        return;
    str_copy_cut(b->labels.sandbox_id, sizeof(b->labels.sandbox_id), c->sandbox_id);
    str_copy_cut(b->labels.user, sizeof(b->labels.user), c->user);
    str_copy_cut(b->labels.thread, sizeof(b->labels.thread), c->thread);
    str_copy_cut(b->owner, sizeof(b->owner), c->sandbox_id);
    b->labels.generation = c->generation + rand_below(&walk.rand, 3);
    b->labels.principal = callers_principal(c) + (walk_one_in(4) ? 1 : 0);
    b->seen_by = b->labels.principal;
}

static void start_work(struct walk_box *b)
{
    b->is_at_work = !b->is_at_work;
    b->worked_ns = walk_now();
}

void boxes_disturb(void)
{
    struct walk_box *b = any_running();
    uint64_t dice = rand_below(&walk.rand, 100);

    if (b == NULL || dice < 6) {
        add_orphan();
    } else if (dice < 35) {
        walk_say("box %016llx dies", (unsigned long long) b->labels.box_id);
        b->is_running = false;
        backends_report_death(b);
    } else if (dice < 50) {
        b->is_stopped = !b->is_stopped;
    } else if (dice < 60) {
        walk_say("box %016llx is started again", (unsigned long long) b->labels.box_id);
        b->life++;
    } else {
        start_work(b);
    }
    walk.is_dirty = true;
}

void boxes_calm(void)
{
    for (size_t i = 0; i < walk.box_count; i++) {
        struct walk_box *b = &walk.boxes[i];

        b->is_stopped = false;
        b->worked_ns = b->is_at_work ? walk_now() : b->worked_ns;
        b->is_at_work = false;
        b->ready_ns = MIN_OF(b->ready_ns, walk_now() + NS_PER_S);
    }
}

/* The wall clock is what the daemon last noted of it; nothing else is kept. */
static void reboot_clock(void)
{
    const char *noted = disk_meta("clock");
    const char *skew = strrchr(noted, ' ');
    uint64_t skew_ms = 0;
    char text[160];

    if (skew == NULL)
        return;
    if (!str_parse_hex64(skew + 1, &skew_ms))
        walk_fail("what the wall clock was set by cannot be read");
    (void) snprintf(text, sizeof(text), WALK_OTHER_START "%s", strchr(noted, ' '));
    disk_set_meta("clock", text);
    walk.loop.rt.wall_offset_ms = walk.rt.wall_offset_ms + (int64_t) skew_ms;
}

/* The machine has restarted: its boxes are gone. */
void boxes_reboot(void)
{
    walk_say("--- the machine restarts");
    disk_set_meta("boot_id", WALK_OTHER_START);
    reboot_clock();
    for (size_t i = 0; i < walk.box_count; i++)
        if (backends_is_local(walk.boxes[i].backend))
            walk.boxes[i].is_running = false;
}

void boxes_forget_life(void)
{
    for (size_t i = 0; i < walk.box_count; i++) {
        walk.boxes[i].is_reported = false;
        walk.boxes[i].lease_epoch = 0;
        walk.boxes[i].shown_epoch = 0;
        walk.boxes[i].held_epoch = 0;
    }
}
