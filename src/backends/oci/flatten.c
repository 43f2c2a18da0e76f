/* flatten.c - a snapshot on many others becomes one that lies on none: sandpool-helper merges its layers into a file beside it, one
 * rename puts that in the place of its own, and its record says that nothing below it is needed any more. Between the two
 * nothing is wrong: on what it was made of the new file shows the same. Boxes that run keep what they have mounted.
 *
 * One at a time. What is chosen is not the last of a chain but the one in its middle, so that the copy serves all above. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/oci/internal.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"
#include "helper/plan.h"

enum {
    PLAN_MAX = 64 * 1024,
    MOVED_PART = 256,
};

struct oci_flattening {
    struct oci *oci;
    struct oci_snapshot *of; /* held: it stays */
    struct oci_helper helper;
    struct work seal;
    struct snapshot info; /* for the record */
    uint64_t id_base;
    uint64_t size;
    uint64_t held[OCI_LAYERS_MAX];
    unsigned held_count;
    bool is_waiting; /* until its record is not written by others */
};

/* --- which --- */

/* What lies above the one that is in line waits for it. */
void oci_flatten_weigh(struct oci *o, struct oci_snapshot *e)
{
    bool is_needed = oci_snapshot_depth(o, e) == OCI_LAYERS_FLAT && !e->is_solid && !e->is_leaving;

    if (!is_needed)
        list_remove(&o->snapshots.deep, &e->deep_link);
    else if (!list_is_linked(&e->deep_link))
        list_push_back(&o->snapshots.deep, &e->deep_link);
}

static struct oci_snapshot *choose(struct oci *o)
{
    struct list_node *n = list_first(&o->snapshots.deep);

    return n != NULL ? container_of(n, struct oci_snapshot, deep_link) : NULL;
}

/* --- those above it lie on fewer --- */

static void note_moved(struct oci *o, struct oci_snapshot *e)
{
    if (!list_is_linked(&e->moved_link))
        list_push_back(&o->snapshots.moved, &e->moved_link);
}

static void report(struct oci *o, const struct oci_snapshot *e)
{
    if (!e->info.is_deleted && o->events->on_snapshot != NULL)
        o->events->on_snapshot(o->events->ctx, e->info.id, e->info.size, oci_snapshot_depth(o, e));
}

static void on_moved_timer(struct rt_timer *timer);

/* Thousands can lie on one: others have the loop in between. */
static void report_part(struct oci *o)
{
    struct list *moved = &o->snapshots.moved;

    for (unsigned left = MOVED_PART; left > 0 && !list_is_empty(moved); left--) {
        struct oci_snapshot *e =
            container_of(list_pop_front(moved), struct oci_snapshot, moved_link);

        for (struct list_node *n = list_first(&e->above); n != NULL; n = list_next(&e->above, n))
            note_moved(o, container_of(n, struct oci_snapshot, above_link));
        oci_flatten_weigh(o, e);
        report(o, e);
    }
    if (!list_is_empty(moved))
        rt_timer_set(&o->loop->rt, &o->snapshots.moved_timer,
                     rt_after(rt_now(&o->loop->rt), NS_PER_MS), on_moved_timer);
}

static void on_moved_timer(struct rt_timer *timer)
{
    struct oci *o = container_of(timer, struct oci, snapshots.moved_timer);

    report_part(o);
    oci_flatten_next(o);
}

/* --- the end --- */

static void end(struct oci_flattening *f, int rc, const struct err *err)
{
    struct oci *o = f->oci;
    struct oci_snapshot *e = f->of;
    struct list woken;

    o->snapshots.flattening = NULL;
    str_copy_cut(o->snapshots.flat_trouble, sizeof(o->snapshots.flat_trouble),
                 rc == SP_OK ? "" : err->msg);
    if (rc == SP_OK) {
        log_info("oci.snapshot_flattened", LF_HEX("snapshot", e->info.id),
                 LF_U64("layers", f->held_count), LF_U64("bytes", e->info.size));
        note_moved(o, e);
        report_part(o);
    } else if (rc != SP_CANCELLED) {
        log_warn("oci.snapshot_not_flattened", LF_HEX("snapshot", e->info.id),
                 LF_STR("reason", err->msg));
        e->is_solid = true; /* until the next start: what is full or broken stays so for a while */
    }
    oci_flatten_weigh(o, e);
    oci_snapshot_release(o, f->held, f->held_count);
    oci_snapshot_drop_late(o, e);
    oci_helper_fini(&f->helper);
    free(f);
    list_move(&o->snapshots.captures, &woken);
    waiter_resume_all(&woken);
    closing_settle(&o->closing);
    oci_flatten_next(o);
}

/* --- it takes its place --- */

static int run_seal(struct work *w, struct err *err)
{
    const struct oci_flattening *f = container_of(w, struct oci_flattening, seal);
    char dir[OCI_PATH_MAX + 64];
    char from[OCI_PATH_MAX + 64];
    char to[OCI_PATH_MAX + 64];
    int rc;

    oci_snapshot_path(f->oci, f->info.id, false, NULL, dir, sizeof(dir));
    oci_snapshot_path(f->oci, f->info.id, false, "flat", from, sizeof(from));
    oci_snapshot_path(f->oci, f->info.id, false, "disk", to, sizeof(to));
    if (rename(from, to) != 0)
        return err_sys(err, SP_IO, errno, "rename '%.150s'", from);
    if ((rc = oci_sync_dir(dir, err)) != SP_OK)
        return rc;
    FAULT_POINT("snapshot.swapped");
    rc = oci_snapshot_write(dir, &f->info, f->id_base, true, err);
    FAULT_POINT("snapshot.merged");
    return rc;
}

static void on_sealed(struct op *op)
{
    struct oci_flattening *f = container_of(op, struct oci_flattening, seal.op);
    struct oci_snapshot *e = f->of;

    e->is_written = false;
    if (op->result == SP_OK) {
        e->info.size = f->size;
        oci_snapshot_detach(f->oci, e);
    }
    end(f, op->result, &op->err);
}

static void seal(struct oci_flattening *f)
{
    f->is_waiting = f->of->is_leaving;
    if (f->is_waiting)
        return;
    f->of->is_written = true;
    f->info = f->of->info;
    f->info.size = f->size;
    f->id_base = f->of->id_base;
    f->seal.run = run_seal;
    work_start(f->oci->loop, &f->seal, &f->oci->closing.inner, RT_NEVER, on_sealed);
}

void oci_flatten_resume(struct oci *o)
{
    struct oci_flattening *f = o->snapshots.flattening;

    if (f != NULL && f->is_waiting)
        seal(f);
    else if (f == NULL)
        oci_flatten_next(o);
}

/* --- the work --- */

static void on_merged(struct op *op)
{
    struct oci_flattening *f = container_of(op, struct oci_flattening, helper.op);
    const struct json *answer = op->result == SP_OK ? json_root(f->helper.answer) : NULL;
    struct err err = op->err;
    int rc = op->result;

    FAULT_POINT("snapshot.flattened");
    if (rc == SP_OK && !json_u64(json_get(answer, "size"), &f->size))
        rc = err_set(&err, SP_PROTOCOL, "sandpool-helper flatten gave no answer");
    if (rc == SP_OK && f->oci->closing.is_closing)
        rc = err_set(&err, SP_CANCELLED, "the daemon is stopping");
    if (rc != SP_OK)
        end(f, rc, &err);
    else
        seal(f);
}

void oci_flatten_next(struct oci *o)
{
    struct oci_flattening *f;
    struct oci_snapshot *e;
    char path[OCI_PATH_MAX + 64];
    struct json_out j;

    if (o->snapshots.flattening != NULL || o->closing.is_closing || (e = choose(o)) == NULL)
        return;
    f = xcalloc(1, sizeof(*f));
    f->oci = o;
    f->of = e;
    f->held_count = oci_snapshot_hold(o, e->info.id, f->held);
    o->snapshots.flattening = f;
    buf_init(&f->helper.plan, PLAN_MAX);
    json_out_init(&j);
    json_begin_obj(&j, NULL);
    oci_snapshot_put_layers(o, e->info.id, &j);
    oci_snapshot_path(o, e->info.id, false, "flat", path, sizeof(path));
    json_put_str(&j, "to", path);
    json_put_str(&j, "stage", o->stage);
    json_put_u64(&j, "id_base", e->id_base);
    json_put_u64(&j, "reserve", o->snapshots.reserve);
    json_end(&j);
    json_out_finish(&j, &f->helper.plan);
    f->helper.verb = "flatten";
    f->helper.pass_fd = -1;
    oci_helper_start(o, &f->helper, RT_NEVER, on_merged);
}

void oci_flatten_cancel(struct oci *o)
{
    struct oci_flattening *f = o->snapshots.flattening;

    rt_timer_cancel(&o->loop->rt, &o->snapshots.moved_timer);
    if (f != NULL && op_is_active(&f->helper.op))
        op_cancel(&f->helper.op);
}
