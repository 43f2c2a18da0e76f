/* capture.c - a snapshot of a running box: sandpool-helper copies its disk into a directory that does not count yet, the
 * record is written into it, and one rename makes it a snapshot. Whatever goes wrong, the box goes on. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/oci/internal.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "helper/plan.h"

enum { PLAN_MAX = 16 * 1024 };

#define THAW_NS (30 * NS_PER_S)

enum capture_step {
    CAPTURE_LOOKS,  /* which box it is, and what it was made from */
    CAPTURE_WAITS,  /* until what it was made from has fewer layers */
    CAPTURE_COPIES, /* sandpool-helper */
    CAPTURE_SEALS,  /* it becomes a snapshot */
    CAPTURE_THAWS,  /* after a failure: whoever froze the box may have been killed */
    CAPTURE_ENDS,
    CAPTURE_STEP_COUNT
};

/* `priv` of the request. */
struct capturing {
    struct oci *oci;
    struct backend_capture *request;
    enum capture_step step;
    struct oci_found found;
    struct waiter waiter;
    struct work look;
    struct work seal;
    struct oci_helper helper;
    struct oci_helper thaw;
    struct err err;
    int result;
};

static void tick(struct capturing *c);

static void go(struct capturing *c, enum capture_step step)
{
    c->step = step;
    tick(c);
}

static void fail(struct capturing *c, int rc, const struct err *err, enum capture_step step)
{
    c->result = rc;
    c->err = *err;
    go(c, step);
}

void oci_snapshot_discard(const struct oci *o, uint64_t id)
{
    char dir[OCI_PATH_MAX + 64];
    char disk[OCI_PATH_MAX + 64];

    oci_snapshot_path(o, id, true, NULL, dir, sizeof(dir));
    oci_snapshot_path(o, id, true, "disk", disk, sizeof(disk));
    (void) unlink(disk);
    (void) rmdir(dir);
}

static void end(struct capturing *c)
{
    struct oci *o = c->oci;
    struct backend_capture *r = c->request;

    if (c->result == SP_OK) {
        oci_snapshot_add(o, &r->snapshot, c->found.record.id_base);
        /* what it lies on may have been flattened since weigh() */
        r->snapshot.layers = oci_snapshot_depth(o, oci_snapshot_find_any(o, r->snapshot.id));
    } else {
        oci_snapshot_discard(o, r->snapshot.id);
    }
    oci_found_drop(&c->found);
    oci_helper_fini(&c->helper);
    oci_helper_fini(&c->thaw);
    r->priv = NULL;
    closing_finish(&o->closing, &r->op, c->result, &c->err);
    free(c);
}

/* --- which box --- */

static int run_look(struct work *w, struct err *err)
{
    struct capturing *c = container_of(w, struct capturing, look);
    char dir[OCI_PATH_MAX + 64];
    int rc = oci_look(c->oci->boxes_dir, c->found.id, &c->found, err);

    if (rc != SP_OK)
        return rc;
    if (!c->found.is_running || c->found.is_unsettled || !c->found.has_record)
        return err_set(err, ERR_BOX_DEAD, "the box does not run");
    oci_snapshot_path(c->oci, c->request->snapshot.id, true, NULL, dir, sizeof(dir));
    return file_make_dir(dir, err);
}

static void on_flattened(struct waiter *w);

/* A box on as many layers as there can be waits for the flattening that is under way. */
static void weigh(struct capturing *c)
{
    struct oci *o = c->oci;
    struct snapshot *s = &c->request->snapshot;
    const struct oci_snapshot *parent;
    struct err err;

    s->parent = c->found.record.snapshot;
    parent = oci_snapshot_find_any(o, s->parent);
    if (s->parent != 0 && parent == NULL) {
        fail(c,
             err_set(&err, SP_BACKEND_FAILED, "the snapshot that the box was made from is missing"),
             &err, CAPTURE_ENDS);
        return;
    }
    s->layers = parent != NULL ? oci_snapshot_depth(o, parent) + 1 : 1;
    if (s->layers > OCI_LAYERS_MAX)
        oci_flatten_next(o);
    if (s->layers > OCI_LAYERS_MAX && o->snapshots.flattening != NULL) {
        c->waiter.resume = on_flattened;
        list_push_back(&o->snapshots.captures, &c->waiter.link);
        c->step = CAPTURE_WAITS;
        return;
    }
    if (s->layers > OCI_LAYERS_MAX) {
        (void) err_set(
            &err, SP_UNSUPPORTED,
            "the box is built on %d snapshots, one on the other, which could not be made "
            "one: %.120s",
            OCI_LAYERS_MAX, o->snapshots.flat_trouble);
        fail(c, err.code, &err, CAPTURE_ENDS);
        return;
    }
    go(c, CAPTURE_COPIES);
}

static void on_flattened(struct waiter *w)
{
    struct capturing *c = container_of(w, struct capturing, waiter);
    struct err err;

    if (c->request->op.state == OP_CANCELING)
        fail(c, err_set(&err, SP_CANCELLED, "cancelled"), &err, CAPTURE_ENDS);
    else
        weigh(c);
}

static void on_looked(struct op *op)
{
    struct capturing *c = container_of(op, struct capturing, look.op);

    if (op->result != SP_OK)
        fail(c, op->result, &op->err, CAPTURE_ENDS);
    else
        weigh(c);
}

/* --- the copy --- */

static void on_copied(struct op *op)
{
    struct capturing *c = container_of(op, struct capturing, helper.op);
    struct snapshot *s = &c->request->snapshot;
    const struct json *answer = op->result == SP_OK ? json_root(c->helper.answer) : NULL;
    const char *digest = answer != NULL ? json_str(json_get(answer, "digest")) : NULL;
    uint64_t frozen_ms = 0;
    struct err err = op->err;
    int rc = op->result;

    FAULT_POINT("snapshot.copied");
    if (rc == SP_OK && (digest == NULL || !str_copy(s->digest, sizeof(s->digest), digest) ||
                        !json_u64(json_get(answer, "size"), &s->size) ||
                        !json_u64(json_get(answer, "frozen_ms"), &frozen_ms)))
        rc = err_set(&err, SP_PROTOCOL, "sandpool-helper capture gave no answer");
    if (rc != SP_OK) {
        if (c->helper.exit_code == HELPER_EXIT_UNABLE)
            rc = err.code = SP_UNSUPPORTED;
        fail(c, rc, &err, CAPTURE_THAWS);
        return;
    }
    c->request->frozen_ns = frozen_ms * NS_PER_MS;
    go(c, CAPTURE_SEALS);
}

static void copy(struct capturing *c)
{
    struct oci *o = c->oci;
    char path[OCI_PATH_MAX + 64];
    char cgroup[OCI_GROUP_MAX];
    struct json_out j;

    buf_init(&c->helper.plan, PLAN_MAX);
    json_out_init(&j);
    json_begin_obj(&j, NULL);
    oci_box_dir(o, c->found.id, path, sizeof(path));
    json_put_str(&j, "dir", path);
    oci_snapshot_path(o, c->request->snapshot.id, true, "disk", path, sizeof(path));
    json_put_str(&j, "to", path);
    json_put_str(&j, "stage", o->stage);
    oci_cgroup(o, c->found.id, cgroup, sizeof(cgroup));
    json_put_str(&j, "cgroup", cgroup);
    json_end(&j);
    json_out_finish(&j, &c->helper.plan);
    c->helper.verb = "capture";
    c->helper.pass_fd = -1;
    oci_helper_start(o, &c->helper, RT_NEVER, on_copied); /* our own deadline cancels it */
}

/* --- it is whole --- */

int oci_snapshot_seal(const struct oci *o, const struct snapshot *s, uint64_t id_base,
                      struct err *err)
{
    char from[OCI_PATH_MAX + 64];
    char to[OCI_PATH_MAX + 64];
    int rc;

    oci_snapshot_path(o, s->id, true, NULL, from, sizeof(from));
    oci_snapshot_path(o, s->id, false, NULL, to, sizeof(to));
    if ((rc = oci_snapshot_write(from, s, id_base, false, err)) != SP_OK)
        return rc;
    FAULT_POINT("snapshot.recorded");
    if (rename(from, to) != 0)
        return err_sys(err, SP_IO, errno, "rename '%.150s'", from);
    FAULT_POINT("snapshot.made");
    return oci_sync_dir(o->snapshots.dir, err);
}

static int run_seal(struct work *w, struct err *err)
{
    struct capturing *c = container_of(w, struct capturing, seal);

    return oci_snapshot_seal(c->oci, &c->request->snapshot, c->found.record.id_base, err);
}

static void on_sealed(struct op *op)
{
    struct capturing *c = container_of(op, struct capturing, seal.op);

    if (op->result != SP_OK)
        fail(c, op->result, &op->err, CAPTURE_ENDS); /* the box goes on already */
    else
        go(c, CAPTURE_ENDS);
}

/* --- it goes on --- */

static void on_thawed(struct op *op)
{
    struct capturing *c = container_of(op, struct capturing, thaw.op);

    if (op->result != SP_OK)
        log_error("oci.thaw_failed", LF_HEX("box", c->found.id), LF_STR("reason", op->err.msg));
    go(c, CAPTURE_ENDS);
}

static void tick(struct capturing *c)
{
    switch (c->step) {
    case CAPTURE_LOOKS:
        c->look.run = run_look;
        work_start(c->oci->loop, &c->look, &c->oci->closing.inner, RT_NEVER, on_looked);
        return;
    case CAPTURE_COPIES:
        copy(c);
        return;
    case CAPTURE_SEALS:
        c->seal.run = run_seal;
        work_start(c->oci->loop, &c->seal, &c->oci->closing.inner, RT_NEVER, on_sealed);
        return;
    case CAPTURE_THAWS:
        oci_freeze_start(c->oci, &c->thaw, c->found.id, false,
                         rt_after(rt_now(&c->oci->loop->rt), THAW_NS), on_thawed);
        return;
    case CAPTURE_ENDS:
        end(c);
        return;
    case CAPTURE_WAITS:
    case CAPTURE_STEP_COUNT:
        break;
    }
    assert(false && "no such step");
}

static void on_cancel(struct op *op)
{
    struct backend_capture *r = container_of(op, struct backend_capture, op);
    struct capturing *c = r->priv;

    if (c->step == CAPTURE_WAITS) {
        list_remove(&c->oci->snapshots.captures, &c->waiter.link);
        on_flattened(&c->waiter);
    } else if (c->step == CAPTURE_COPIES && op_is_active(&c->helper.op)) {
        op_cancel(&c->helper.op); /* the other steps are short, and end by themselves */
    }
}

void oci_capture(struct backend *backend, struct backend_capture *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *))
{
    struct oci *o = oci_of(backend);
    struct capturing *c = xcalloc(1, sizeof(*c));
    struct err err;

    op_begin(&r->op, &o->loop->rt, &o->closing.ops, deadline_ns, on_cancel, on_done);
    c->oci = o;
    c->request = r;
    oci_found_init(&c->found);
    c->found.id = r->box.labels.box_id;
    r->priv = c;
    if (o->is_rootless || !o->has_loop || !o->has_cgroups)
        fail(c,
             err_set(
                 &err, SP_UNSUPPORTED,
                 "snapshots need a daemon that runs as root, with loop devices and control groups"),
             &err, CAPTURE_ENDS);
    else
        go(c, CAPTURE_LOOKS);
}
