/* backends.c - the backends by name, in place of src/backends/registry.c: what an operation does,
 * and how it ends. It succeeds, fails, hangs until it is cancelled, or does its work in spite of a
 * cancel or of a failure that it reports. */
#include "backend/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "deeds.h"
#include "walk.h"

static struct walk_backend *of(struct backend *b)
{
    return container_of(b, struct walk_backend, base);
}

static struct walk_box *box_of(const struct backend_box *b)
{
    return boxes_find(b->labels.box_id);
}

/* --- create --- */

static void judge_create(const struct backend_create *r, unsigned backend)
{
    const struct walk_row *row = disk_row(r->labels.box_id);
    unsigned kinds = ~backends_late(backend);

    if (row == NULL || strcmp(row->state, "intent") != 0)
        walk_fail("a create without a committed intent");
    if (strcmp(row->sandbox_id, r->labels.sandbox_id) != 0 ||
        row->principal != r->labels.principal || strcmp(row->token, r->token) != 0)
        walk_fail("the intent does not say whom the box is for");
    if (boxes_find(r->labels.box_id) != NULL)
        walk_fail("one box is created twice");
    if (row->made_with != 0 &&
        (r->extras == NULL || backend_extras_hash(r->extras, kinds) != row->made_with))
        walk_fail("a box is made without what its caller asked for");
    if (row->made_with == 0 && r->extras != NULL)
        walk_fail("a box is made with what its row does not know");
}

static void do_create(struct deed *d, bool is_done, bool is_reported)
{
    struct backend_create *r = container_of(d->op, struct backend_create, op);
    struct walk_box *b = d->box;

    if (is_done && is_reported) {
        boxes_appear(b);
        b->is_reported = true;
        boxes_put(b, &r->box);
        r->box.is_ready = walk_one_in(4);
        if (r->box.is_ready)
            b->ready_ns = walk_now();
    } else if (is_done) {
        boxes_appear_later(b, walk_ms(0, 4000));
    }
}

static void op_create(struct backend *base, struct backend_create *r, uint64_t deadline_ns,
                      void (*on_done)(struct op *))
{
    struct walk_backend *b = of(base);
    struct deed *d = deed_start(b, &r->op, deadline_ns, on_done, do_create);
    struct walk_box *box;

    if (walk.is_frozen)
        return;
    judge_create(r, b->index);
    box = boxes_add(b->index);
    box->labels = r->labels;
    str_copy_cut(box->token, sizeof(box->token), r->token);
    box->is_special = !str_is_empty(r->labels.sandbox_id);
    str_copy_cut(box->owner, sizeof(box->owner), r->labels.sandbox_id);
    d->box = box;
    deed_plan(d, 1, 1500);
    if (!snapshots_judge_create(r, box)) {
        d->fate = FATE_FAIL;
        d->code = SP_INVALID_FIELD;
    }
}

/* --- destroy --- */

static const struct deed *update_of(const struct walk_box *b);
static bool is_freezing(const struct walk_box *b);

/* Without its row only if the store could not be written and the owner or an operator requested the
 * end. */
bool backends_may_destroy(uint64_t id)
{
    struct walk_row *row = disk_row(id);
    struct walk_box *b = boxes_find(id);
    struct pool_stats stats;
    bool is_excused;

    if (row == NULL && b == NULL) { /* its intent may still wait for its commit */
        disk_note_unrecorded(id);
        return true;
    }
    pool_get_stats(engine_pool(walk.engine), &stats);
    is_excused = !stats.is_store_up || (b != NULL && (b->is_unrecorded || b->has_failed)) ||
                 (row != NULL && (row->is_unrecorded || row->has_failed));
    if (b != NULL)
        b->is_unrecorded = is_excused;
    if (row != NULL)
        row->is_unrecorded = is_excused;
    return is_excused || row == NULL || strcmp(row->state, "deleting") == 0;
}

static void do_destroy(struct deed *d, bool is_done, bool is_reported)
{
    struct backend_destroy *r = container_of(d->op, struct backend_destroy, op);
    struct walk_box *b = box_of(&r->box);

    if (is_reported)
        str_copy_cut(r->released.text, sizeof(r->released.text), "all of it");
    if (!is_done || b == NULL)
        return;
    walk_say("box %016llx is destroyed", (unsigned long long) b->labels.box_id);
    b->is_running = false;
    b->is_unwanted = true;
    walk.is_dirty = true;
}

static void op_destroy(struct backend *base, struct backend_destroy *r, uint64_t deadline_ns,
                       void (*on_done)(struct op *))
{
    struct deed *d = deed_start(of(base), &r->op, deadline_ns, on_done, do_destroy);
    const struct walk_box *b = box_of(&r->box);

    if (walk.is_frozen)
        return;
    if (!backends_may_destroy(r->box.labels.box_id))
        walk_fail("a destroy without a committed `deleting`");
    if (b != NULL && b->backend != d->backend->index)
        walk_fail("a box is destroyed by the wrong backend");
    if (b != NULL && update_of(b) != NULL && update_of(b)->op->state == OP_RUNNING)
        walk_fail("a box is destroyed while it is changed, and nobody cancels that");
    if (b != NULL && is_freezing(b))
        walk_fail("a box is destroyed while it is frozen or thawed");
    d->box = box_of(&r->box);
    deed_plan(d, 1, 400);
}

/* --- questions --- */

static enum backend_verdict verdict_on(struct walk_box *b, bool is_watched)
{
    if (b == NULL || !b->is_running)
        return walk_one_in(3) ? BACKEND_DEAD : BACKEND_ABSENT;
    if (!is_watched && b->is_stopped && b->absent < 2 && walk_chance(30)) {
        b->absent++;
        b->doubt_ns = walk_now();
        return BACKEND_ABSENT;
    }
    b->absent = 0;
    return walk_chance(10) ? BACKEND_UNKNOWN : BACKEND_ALIVE;
}

static void do_check(struct deed *d, bool is_done, bool is_reported UNUSED)
{
    struct backend_check *r = container_of(d->op, struct backend_check, op);

    r->verdict =
        is_done ? verdict_on(box_of(&r->box), d->backend->base.ops->is_watched) : BACKEND_UNKNOWN;
    str_copy_cut(r->status, sizeof(r->status), walk_one_in(3) ? "simulated" : "");
}

static void op_is_alive(struct backend *base, struct backend_check *r, uint64_t deadline_ns,
                        void (*on_done)(struct op *))
{
    deed_plan(deed_start(of(base), &r->op, deadline_ns, on_done, do_check), 0, 200);
}

static void do_discover(struct deed *d, bool is_done, bool is_reported UNUSED)
{
    struct backend_discover *r = container_of(d->op, struct backend_discover, op);

    r->is_found = false;
    for (size_t i = 0; i < walk.box_count && is_done; i++) {
        const struct walk_box *b = &walk.boxes[i];

        if (!b->is_running || b->backend != d->backend->index ||
            strcmp(b->labels.sandbox_id, r->sandbox_id) != 0)
            continue;
        r->is_found = true;
        boxes_put(b, &r->box);
        r->want_probe = walk_one_in(2);
    }
}

static void op_discover(struct backend *base, struct backend_discover *r, uint64_t deadline_ns,
                        void (*on_done)(struct op *))
{
    deed_plan(deed_start(of(base), &r->op, deadline_ns, on_done, do_discover), 0, 200);
}

/* Percentage of the boxes that a listing leaves out although it looks clean. One of three in a row
 * is right: a box that is never shown and never answers may be given up. */
static unsigned wrong_listing(unsigned backend)
{
    if (!walk_chance(15) || walk.wrong_listings[backend] >= 2) {
        walk.wrong_listings[backend] = 0;
        return 0;
    }
    walk.wrong_listings[backend]++;
    return walk_one_in(2) ? 100 : 40;
}

static void do_list(struct deed *d, bool is_done, bool is_reported)
{
    struct backend_list *r = container_of(d->op, struct backend_list, op);
    unsigned hidden;

    if (!is_done || !is_reported)
        return;
    hidden = wrong_listing(d->backend->index);
    r->boxes = xcalloc(walk.box_count + 1, sizeof(*r->boxes));
    for (size_t i = 0; i < walk.box_count; i++) {
        const struct walk_box *b = &walk.boxes[i];
        bool is_hidden;

        /* Only boxes that ran when it was asked: the others are ignored anyway. */
        if (!b->is_running || b->backend != d->backend->index)
            continue;
        is_hidden = rand_below(&walk.rand, 100) < hidden;
        boxes_put(b, &r->boxes[r->count]);
        r->boxes[r->count].is_absent = is_hidden;
        r->count += !is_hidden || walk_one_in(2) ? 1 : 0;
    }
}

static void op_list(struct backend *base, struct backend_list *r, uint64_t deadline_ns,
                    void (*on_done)(struct op *))
{
    deed_plan(deed_start(of(base), &r->op, deadline_ns, on_done, do_list), 0, 300);
}

/* --- changes of a box that runs --- */

static void do_bind(struct deed *d, bool is_done, bool is_reported UNUSED)
{
    struct backend_bind *r = container_of(d->op, struct backend_bind, op);
    struct walk_box *b = box_of(&r->box);

    if (is_done && b != NULL)
        b->labels = r->box.labels;
}

static void op_bind(struct backend *base, struct backend_bind *r, uint64_t deadline_ns,
                    void (*on_done)(struct op *))
{
    deed_plan(deed_start(of(base), &r->op, deadline_ns, on_done, do_bind), 0, 300);
}

/* The number of the acquire in its extras; 0: there is none. */
static uint64_t mark_of(const struct backend_extras *x)
{
    uint64_t mark = x->memory > WALK_MARK ? x->memory - WALK_MARK : 0;

    for (size_t i = 0; i < x->env_count; i++)
        if (strcmp(x->envs[i].name, "MARK") == 0 &&
            !str_parse_u64(x->envs[i].value, 0, UINT64_MAX, &mark))
            walk_fail("a variable has changed on its way to the box");
    return mark;
}

static void do_update(struct deed *d, bool is_done, bool is_reported)
{
    struct backend_update *r = container_of(d->op, struct backend_update, op);
    struct walk_box *b = box_of(&r->box);

    if (b == NULL)
        return;
    if (is_done)
        b->mark = mark_of(&r->extras);
    if (is_done)
        sides_given(b, &r->extras);
    if (!b->is_running)
        d->code = ERR_BOX_DEAD;
    b->is_half = !is_done || !is_reported;
    walk.updates += is_done ? 1 : 0;
}

static const struct deed *update_of(const struct walk_box *b)
{
    const struct list *deeds = &walk.backends[b->backend]->deeds;

    for (const struct list_node *n = list_first(deeds); n != NULL; n = list_next(deeds, n)) {
        const struct deed *d = container_of(n, const struct deed, link);

        if (d->box == b && d->act == do_update)
            return d;
    }
    return NULL;
}

bool backends_is_updating(const struct walk_box *b)
{
    return update_of(b) != NULL;
}

/* The extras of a caller are secret: from now on nobody else may get the box. */
static void op_update(struct backend *base, struct backend_update *r, uint64_t deadline_ns,
                      void (*on_done)(struct op *))
{
    struct walk_backend *wb = of(base);
    struct deed *d = deed_start(wb, &r->op, deadline_ns, on_done, do_update);
    struct walk_box *b = box_of(&r->box);
    const struct walk_row *row = disk_row(r->box.labels.box_id);

    if (walk.is_frozen)
        return;
    if (row == NULL || row->generation != r->box.labels.generation ||
        strcmp(row->sandbox_id, r->box.labels.sandbox_id) != 0)
        walk_fail("a box is changed for a caller before its lease is committed");
    if (b == NULL || (!str_is_empty(b->owner) && strcmp(b->owner, row->sandbox_id) != 0))
        walk_fail("a box is changed for somebody else than its owner");
    if ((backend_extras_kinds(&r->extras) & ~backends_late(wb->index)) != 0)
        walk_fail("a backend is asked for what it cannot do");
    if (backends_is_updating(b))
        walk_fail("two updates of one box at the same time");
    str_copy_cut(b->owner, sizeof(b->owner), row->sandbox_id);
    d->box = b;
    deed_plan(d, 0, 1200);
}

static void do_freeze(struct deed *d, bool is_done, bool is_reported UNUSED)
{
    const struct backend_freeze *r = container_of(d->op, struct backend_freeze, op);

    if (!is_done || d->box == NULL)
        return;
    d->box->stands_still = r->is_frozen;
    walk.freezes += r->is_frozen ? 1 : 0;
}

static bool is_freezing(const struct walk_box *b)
{
    const struct list *deeds = &walk.backends[b->backend]->deeds;

    for (const struct list_node *n = list_first(deeds); n != NULL; n = list_next(deeds, n))
        if (container_of(n, const struct deed, link)->act == do_freeze &&
            container_of(n, const struct deed, link)->box == b)
            return true;
    return false;
}

static void op_freeze(struct backend *base, struct backend_freeze *r, uint64_t deadline_ns,
                      void (*on_done)(struct op *))
{
    struct walk_box *b = box_of(&r->box);
    const struct walk_row *row = disk_row(r->box.labels.box_id);
    struct deed *d;

    if (!walk.is_frozen && b != NULL && is_freezing(b))
        walk_fail("a box is frozen or thawed twice at the same time");
    d = deed_start(of(base), &r->op, deadline_ns, on_done, do_freeze);
    if (walk.is_frozen)
        return;
    if (r->is_frozen && (row == NULL || !row->is_paused))
        walk_fail("a box is frozen before its row says so");
    d->box = b;
    deed_plan(d, 0, 600);
}

/* --- the rest of the contract --- */

static void do_examine(struct deed *d, bool is_done UNUSED, bool is_reported UNUSED)
{
    backend_report(container_of(d->op, struct backend_exam, op), BACKEND_FINDING_OK, "walk",
                   "goes on");
}

static void op_examine(struct backend *base, struct backend_exam *r, uint64_t deadline_ns,
                       void (*on_done)(struct op *))
{
    deed_plan(deed_start(of(base), &r->op, deadline_ns, on_done, do_examine), 0, 300);
}

static bool op_trouble(struct backend *base, const struct config_profile *p UNUSED, char *dst,
                       size_t cap)
{
    if (base == NULL)
        walk_fail("a backend that was closed is asked for its trouble");
    str_copy_cut(dst, cap, "the walk has trouble");
    return walk_chance(10);
}

static void put_key(const struct config_profile *p, char *dst, size_t cap)
{
    str_copy_cut(dst, cap, p->backend);
}

#define COMMON                                                                              \
    .put_key = put_key, .open = deeds_open, .close = deeds_close, .create = op_create,      \
    .destroy = op_destroy, .is_alive = op_is_alive, .list = op_list, .trouble = op_trouble, \
    .examine = op_examine, .at_create = BACKEND_LATE_ALL

#define SNAPSHOTS \
    .capture = walk_snapshot_capture, .snapshots = walk_snapshot_list, .drop = walk_snapshot_drop

/* Like the backends oci, docker and remote, and one that only some configurations name. */
static const struct backend_ops all[WALK_BACKENDS] = {
    {COMMON, .name = "near", .is_local = true, .is_watched = true, .can_bind = true,
     .bind = op_bind, .freeze = op_freeze, .may_leave_frozen = true, .late = BACKEND_LATE_ALL,
     .update = op_update, SNAPSHOTS},
    {COMMON, .name = "next", .is_local = true, .is_watched = true, .can_bind = true,
     .can_discover = true, .bind = op_bind, .freeze = op_freeze, .may_leave_frozen = true,
     .discover = op_discover, .late = BACKEND_LATE_LIMITS, .update = op_update, SNAPSHOTS},
    {COMMON, .name = "far", .can_discover = true, .discover = op_discover,
     .late = BACKEND_LATE_ENVS, .update = op_update},
    {COMMON, .name = "new", .is_watched = true, .can_bind = true, .bind = op_bind},
};

const char *backends_name(unsigned backend)
{
    return all[backend].name;
}

bool backends_is_local(unsigned backend)
{
    return all[backend].is_local;
}

unsigned backends_late(unsigned backend)
{
    return all[backend].late;
}

unsigned backends_index(const struct config_profile *p)
{
    for (unsigned i = 0; i < WALK_BACKENDS; i++)
        if (strcmp(all[i].name, p->backend) == 0)
            return i;
    walk_fail("a backend of no name is opened");
}

const struct backend_ops *backends_ops(unsigned backend)
{
    return &all[backend];
}

const struct backend_ops *backend_by_name(const char *name)
{
    for (unsigned i = 0; i < WALK_BACKENDS; i++)
        if (strcmp(all[i].name, name) == 0)
            return &all[i];
    return NULL;
}

void backend_key(const struct config_profile *p, char *dst, size_t cap)
{
    put_key(p, dst, cap);
}
