/* snapshots.c - the snapshots of the backends, which outlive the daemon and the machine; and what must be true of hibernated
 * boxes: files that are in a snapshot come back to their owner, and to nobody else. */
#include "backend/snapshot.h"

#include <string.h>

#include "base/str.h"
#include "deeds.h"
#include "pool/expiry.h"
#include "walk.h"

static struct walk_snapshot *find(uint64_t id)
{
    for (size_t i = 0; i < WALK_SNAPSHOTS; i++)
        if (walk.snapshots[i].is_used && walk.snapshots[i].info.id == id)
            return &walk.snapshots[i];
    return NULL;
}

static struct walk_promise *promise_of(const char *sandbox_id)
{
    for (size_t i = 0; i < WALK_SNAPSHOTS; i++)
        if (strcmp(walk.promises[i].sandbox_id, sandbox_id) == 0)
            return &walk.promises[i];
    return NULL;
}

/* --- what the backends do --- */

static void do_capture(struct deed *d, bool is_done, bool is_reported UNUSED)
{
    const struct backend_capture *r = container_of(d->op, struct backend_capture, op);
    size_t i = 0;

    if (d->box == NULL || !d->box->is_running)
        d->code = ERR_BOX_DEAD;
    if (!is_done || d->code != SP_BACKEND_FAILED)
        return;
    while (i < WALK_SNAPSHOTS && walk.snapshots[i].is_used)
        i++;
    if (i == WALK_SNAPSHOTS)
        walk_fail("too many snapshots: they are not deleted");
    walk.snapshots[i] = (struct walk_snapshot){
        .is_used = true, .info = r->snapshot, .backend = d->backend->index, .files = d->box->files};
    if (d->box->files == 0) /* a box of its name that the daemon did not make */
        snapshots_waive(r->snapshot.sandbox_id);
    walk_say("snapshot %016llx of box %016llx, id %s", (unsigned long long) r->snapshot.id,
             (unsigned long long) d->box->labels.box_id, r->snapshot.sandbox_id);
}

void walk_snapshot_capture(struct backend *base, struct backend_capture *r, uint64_t deadline_ns,
                           void (*on_done)(struct op *))
{
    struct walk_backend *b = container_of(base, struct walk_backend, base);
    struct deed *d = deed_start(b, &r->op, deadline_ns, on_done, do_capture);

    if (walk.is_frozen)
        return;
    d->box = boxes_find(r->box.labels.box_id);
    if (d->box != NULL && d->box->stands_still && d->box->is_running)
        walk_fail("a snapshot is made of a box that is paused");
    deed_plan(d, 5, 900);
}

static void do_list(struct deed *d, bool is_done, bool is_reported)
{
    struct backend_snapshots *r = container_of(d->op, struct backend_snapshots, op);

    for (size_t i = 0; i < WALK_SNAPSHOTS && is_done && is_reported; i++)
        if (walk.snapshots[i].is_used && walk.snapshots[i].backend == d->backend->index)
            *backend_snapshots_add(r) = walk.snapshots[i].info;
}

void walk_snapshot_list(struct backend *base, struct backend_snapshots *r, uint64_t deadline_ns,
                        void (*on_done)(struct op *))
{
    struct walk_backend *b = container_of(base, struct walk_backend, base);

    deed_plan(deed_start(b, &r->op, deadline_ns, on_done, do_list), 0, 200);
}

static void do_drop(struct deed *d, bool is_done, bool is_reported UNUSED)
{
    struct walk_snapshot *s = find(container_of(d->op, struct backend_drop, op)->id);

    if (is_done && s != NULL)
        s->is_used = false;
}

/* A box may have been captured twice. */
static bool is_kept(uint64_t files)
{
    for (size_t i = 0; i < WALK_SNAPSHOTS; i++)
        if (walk.snapshots[i].is_used && !walk.snapshots[i].is_leaving &&
            walk.snapshots[i].files == files)
            return true;
    return false;
}

/* Its thread has a box with them: the lease was committed, though a daemon that was killed did not get to know. */
static bool is_leased(const struct walk_promise *p)
{
    for (size_t i = 0; i < walk.box_count; i++) {
        const struct walk_box *b = &walk.boxes[i];
        const struct walk_row *row = disk_row(b->labels.box_id);

        if (b->is_running && b->files == p->files && row != NULL &&
            strcmp(row->state, "leased") == 0 && strcmp(row->sandbox_id, p->sandbox_id) == 0)
            return true;
    }
    return false;
}

/* More than the share of its principal, which has a newer one: the oldest goes, and never for somebody else's. What is being made
 * at this moment counts, too. */
static bool is_over_share(const struct walk_snapshot *s)
{
    uint64_t own = 0;
    uint64_t all = 0;

    for (size_t i = 0; i < WALK_SNAPSHOTS; i++) {
        const struct walk_snapshot *other = &walk.snapshots[i];

        if (!other->is_used || other->is_leaving || !other->info.is_hibernated)
            continue;
        all++;
        own += other->info.principal == s->info.principal ? 1 : 0;
    }
    if (own == 0)
        return false;
    own += POOL_HIBERNATES_MAX;
    all += POOL_HIBERNATES_MAX;
    return own * 100 >=
           (own + walk.hibernated_max - MIN_OF(all, walk.hibernated_max)) * walk.share_percent;
}

static bool is_bound(const struct walk_box *b)
{
    const struct pool_box *bound =
        pool_find_sandbox(engine_pool(walk.engine), b->labels.sandbox_id);

    return bound != NULL && bound->id.v == b->labels.box_id;
}

/* A box of its thread was made from it, and has its variables no more than it had. They are nowhere else. */
static bool is_needed_for_envs(const struct walk_snapshot *s)
{
    uint64_t envs = sides_of(s->info.id);

    for (size_t i = 0; i < WALK_SNAPSHOTS; i++) {
        const struct walk_snapshot *other = &walk.snapshots[i];

        if (other->is_used && !other->is_leaving && sides_of(other->info.id) == envs)
            return false;
    }
    for (size_t i = 0; i < walk.box_count && envs != 0; i++) {
        const struct walk_box *b = &walk.boxes[i];

        if (b->is_running && b->wants_envs && b->files == envs &&
            (backends_late(b->backend) & BACKEND_LATE_ENVS) != 0 && is_bound(b))
            return true;
    }
    return false;
}

/* Deleted while no box has its files: its owner wants that, or a newer one was made. */
void walk_snapshot_drop(struct backend *base, struct backend_drop *r, uint64_t deadline_ns,
                        void (*on_done)(struct op *))
{
    struct walk_backend *b = container_of(base, struct walk_backend, base);
    struct deed *d = deed_start(b, &r->op, deadline_ns, on_done, do_drop);
    struct walk_snapshot *s = find(r->id);
    struct walk_promise *p = s != NULL ? promise_of(s->info.sandbox_id) : NULL;

    if (walk.is_frozen)
        return;
    if (s == NULL) {
        deed_plan(d, 0, 200);
        return;
    }
    walk_say("snapshot %016llx is deleted", (unsigned long long) s->info.id);
    s->is_leaving = true;
    if (s->info.is_hibernated && !snapshots_is_waived(s->info.sandbox_id) && is_needed_for_envs(s))
        walk_fail("the variables of a hibernated box are deleted, and its box does not have them");
    if (p != NULL && p->is_made && p->files == s->files && is_leased(p))
        p->is_made = false;
    if (p != NULL && p->is_made && p->files == s->files && !p->is_waived && is_over_share(s)) {
        p->is_waived = true;
        walk.not_kept++;
    }
    if (p != NULL && p->is_made && p->files == s->files && !p->is_waived && !is_kept(p->files))
        walk_fail("the files of a hibernated box are deleted, and nobody wanted that");
    deed_plan(d, 0, 200);
}

/* --- what must be true --- */

void snapshots_waive(const char *sandbox_id)
{
    struct walk_promise *p = promise_of(sandbox_id);

    if (p != NULL)
        p->is_waived = true;
}

bool snapshots_is_waived(const char *sandbox_id)
{
    const struct walk_promise *p = promise_of(sandbox_id);

    return p != NULL && p->is_waived;
}

bool snapshots_judge_create(const struct backend_create *r, struct walk_box *box)
{
    uint64_t id = 0;
    const struct walk_snapshot *s;

    box->files = ++walk.files;
    if (r->extras == NULL || r->extras->snapshot == NULL)
        return true;
    if (!str_parse_hex64(r->extras->snapshot, &id))
        walk_fail("a snapshot has a bad name");
    s = find(id);
    if (s == NULL)
        return false; /* deleted meanwhile */
    if (s->info.is_hibernated && (s->info.principal != r->labels.principal ||
                                  strcmp(s->info.sandbox_id, r->labels.sandbox_id) != 0))
        walk_fail("somebody else gets a hibernated box");
    if (s->info.generation >= r->labels.generation)
        walk_fail("a hibernated box comes back with an old generation");
    box->files = s->files;
    box->wants_envs = s->info.is_hibernated && sides_of(id) != 0;
    walk.restores++;
    return true;
}

static void hibernated(const struct pool_box *box)
{
    const struct walk_box *real = boxes_find(box->id.v);
    struct walk_promise *p = promise_of(box->sandbox_id);
    bool is_there = false;

    for (size_t i = 0; i < WALK_SNAPSHOTS && p == NULL; i++)
        if (str_is_empty(walk.promises[i].sandbox_id))
            p = &walk.promises[i];
    if (p == NULL)
        walk_fail("too many hibernated boxes for the tables");
    for (size_t i = 0; i < WALK_SNAPSHOTS; i++)
        is_there = is_there || (walk.snapshots[i].is_used && real != NULL &&
                                walk.snapshots[i].files == real->files);
    if (real == NULL || !is_there) {
        if (box->made_with == 0)
            walk_fail("a box is given up as hibernated, and there is no snapshot of it");
        return; /* made from one that was deleted meanwhile */
    }
    str_copy_cut(p->sandbox_id, sizeof(p->sandbox_id), box->sandbox_id);
    /* Nobody has taken a box that was made from what its owner did not want any more. */
    p->is_waived = p->is_waived && p->files == real->files;
    p->files = real->files;
    p->is_made = true;
    walk.hibernated++;
}

/* Somebody asked for it when the engine had it in its list: it is not always possible to get that at the start. */
static bool was_known(const char *sandbox_id)
{
    for (struct list_node *n = list_first(&walk.requests); n != NULL;
         n = list_next(&walk.requests, n)) {
        const struct walk_request *r = container_of(n, struct walk_request, link);

        if (r->kind == POOL_EV_ACQUIRE && r->was_hibernated &&
            strcmp(walk.clients[r->client].sandbox_id, sandbox_id) == 0)
            return true;
    }
    return false;
}

void snapshots_fact(const struct pool_fx *fx)
{
    const struct walk_box *real = boxes_find(fx->box.v);
    struct walk_promise *p;

    if (fx->u.event.fact == POOL_FACT_DOOMED && fx->u.event.end == POOL_END_HIBERNATED)
        hibernated(&fx->snapshot);
    if (fx->u.event.fact == POOL_FACT_ADOPTED && real != NULL && real->files == 0)
        snapshots_waive(
            fx->snapshot.sandbox_id); /* a box of its name that the daemon did not make */
    if (fx->u.event.fact != POOL_FACT_LEASED)
        return;
    p = promise_of(fx->snapshot.sandbox_id);
    if (p == NULL || !p->is_made)
        return;
    if (real != NULL && real->files == p->files)
        p->is_made = false;
    else if (!p->is_waived && was_known(fx->snapshot.sandbox_id) &&
             (real == NULL || real->files != 0)) /* else one of its name that ran already */
        walk_fail("a thread gets a box without the files that it had");
    else
        p->is_waived = true; /* it has a newer box */
}
