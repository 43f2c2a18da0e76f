/* create.c - one box from nothing: a runtime, a base, a socket, then sandpool-helper does it. The steps
 * wait for each other through oci_wake(); whatever fails or is cancelled after sandpool-helper was
 * started is removed again before the caller is notified. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/oci/internal.h"
#include "base/cleanup.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"
#include "helper/plan.h"
#include "loop/listen.h"

enum making_step {
    MAKING_ENTERS,
    MAKING_CHOOSES, /* its runtime and its lower file system */
    MAKING_WAITS,   /* for another box of its id, a runtime, a base or an image */
    MAKING_RUNS,    /* sandpool-helper */
    MAKING_LOOKS,   /* at what it has made, or what was there: to its end, whoever leaves */
    MAKING_UNDOES,
    MAKING_ENDS,
    MAKING_STEP_COUNT
};

/* `priv` of the request. */
struct making {
    struct oci *oci;
    struct backend_create *request;
    struct oci_box *box;       /* NULL: another create makes it, or it exists */
    struct oci_runtime *trial; /* NULL: the profile decides */
    enum making_step step;
    struct waiter waiter;
    struct list *waits_in; /* where `waiter` is linked */
    struct oci_runtime *runtime;
    const char *lower;
    char rootfs[OCI_PATH_MAX]; /* of the image */
    char **image_env;
    struct oci_record record;
    struct oci_helper helper;
    struct work look;
    struct oci_found found;
    struct remover undo;
    int listen_fd;
    struct err err; /* why nothing came of it */
    int result;
    uint64_t layers[OCI_LAYERS_MAX]; /* of the snapshot, held until the box has them */
    unsigned layer_count;
};

static void tick(struct making *m);

static void go(struct making *m, enum making_step step)
{
    m->step = step;
    tick(m);
}

static void note(struct making *m, int rc, const struct err *err)
{
    m->result = rc;
    if (rc != SP_OK)
        m->err = *err;
}

static void go_end(struct making *m, int rc, const struct err *err)
{
    note(m, rc, err);
    go(m, MAKING_ENDS);
}

static void go_cancelled(struct making *m)
{
    struct err err;

    go_end(m, err_set(&err, SP_CANCELLED, "%s", err_text(SP_CANCELLED)), &err);
}

static void go_undo(struct making *m, int rc, const struct err *err)
{
    note(m, rc, err);
    go(m, MAKING_UNDOES);
}

/* The end for everybody who waits for this box. */
static void end(struct making *m)
{
    struct oci *o = m->oci;
    struct backend_create *r = m->request;
    struct oci_box *b = m->box;
    int rc = m->result;
    struct list joined;

    if (m->listen_fd >= 0)
        (void) close(m->listen_fd); /* the box has its own */
    if (rc == SP_OK)
        r->box = m->record.box;
    oci_env_free(m->image_env);
    oci_helper_fini(&m->helper);
    oci_snapshot_release(o, m->layers, m->layer_count);
    r->priv = NULL;
    closing_finish(&o->closing, &r->op, rc, &m->err);
    free(m);
    if (b == NULL)
        return;
    list_move(&b->entry.joiners, &joined);
    if (rc != SP_OK && list_is_empty(&b->entry.removers))
        oci_box_drop(b);
    else if (!list_is_empty(&b->entry.removers)) {
        boxes_set(&b->entry, BOX_DEAD);
        oci_remove_box(b);
    }
    waiter_resume_all(&joined);
}

/* --- undoing --- */

static void on_undone(struct remover *w, int rc UNUSED, const struct err *err UNUSED,
                      const struct backend_released *released UNUSED)
{
    struct making *m = container_of(w, struct making, undo);

    m->box = NULL; /* gone, or dead and handled by the next look */
    go(m, MAKING_ENDS);
}

/* Joiners begin anew when it is gone: what failed for us may work for them. */
static void undo(struct making *m)
{
    struct oci_box *b = m->box;
    struct list joined;

    m->undo.on_removed = on_undone;
    list_push_back(&b->entry.removers, &m->undo.link);
    boxes_set(&b->entry, BOX_DEAD);
    list_move(&b->entry.joiners, &joined);
    oci_remove_box(b);
    waiter_resume_all(&joined);
}

/* --- it runs --- */

/* Version 1 counts what sockets hold apart from other memory, and runtimes do not limit it. */
static void limit_sockets(const struct making *m)
{
    char path[OCI_PATH_MAX];
    char cgroup[OCI_GROUP_MAX];
    AUTO_CLOSE int fd = -1;

    oci_cgroup(m->oci, m->found.id, cgroup, sizeof(cgroup));
    (void) snprintf(path, sizeof(path), "/sys/fs/cgroup/memory%s/memory.kmem.tcp.limit_in_bytes",
                    cgroup);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        (void) dprintf(fd, "%llu", (unsigned long long) m->request->profile->limits.memory);
    /* Kernels without this limit count it with the rest, or not at all: nothing to be done. */
}

static int run_look(struct work *w, struct err *err)
{
    struct making *m = container_of(w, struct making, look);

    if (m->box != NULL && !m->oci->is_cgroup_v2 && m->request->profile->limits.memory > 0)
        limit_sockets(m);
    return oci_look(m->oci->boxes_dir, m->found.id, &m->found, err);
}

static void on_seen(struct op *op)
{
    struct making *m = container_of(op, struct making, look.op);
    struct err err = op->err;
    int rc = op->result;

    if (rc == SP_OK && (!m->found.is_running || m->found.is_unsettled))
        rc = err_set(&err, SP_BACKEND_FAILED, "the box ended at once");
    if (rc == SP_OK && !m->found.has_record)
        rc = err_set(&err, SP_BACKEND_FAILED, "the box has no record");
    if (rc == SP_OK)
        m->record = m->found.record;
    if (rc == SP_OK && m->box != NULL)
        m->box->is_durable = m->record.is_durable;
    if (rc == SP_OK && m->box != NULL)
        rc = oci_box_watch(m->box, &m->found, &err);
    oci_found_drop(&m->found);
    if (rc != SP_OK && m->box != NULL)
        go_undo(m, rc, &err);
    else
        go_end(m, rc, &err);
}

static void look(struct making *m)
{
    m->found.id = m->request->labels.box_id;
    m->look.run = run_look;
    work_start(m->oci->loop, &m->look, &m->oci->closing.inner, RT_NEVER, on_seen);
}

/* However often it is tried. */
static int explain_unfit(const struct making *m, struct err *err)
{
    if (m->record.snapshot != 0)
        (void) err_wrap(err, "no box can be made of snapshot %016" PRIx64, m->record.snapshot);
    return err->code = SP_INVALID_FIELD;
}

static void on_run(struct op *op)
{
    struct making *m = container_of(op, struct making, helper.op);
    struct err err = op->err;
    int rc = op->result;

    FAULT_POINT("oci.after_run");
    if (op->result == SP_OK || m->helper.exit_code == HELPER_EXIT_RUNNING)
        go(m, MAKING_LOOKS);
    else {
        if (m->trial != NULL) /* which says nothing about it */
            m->trial->was_killed = m->helper.exit_code == HELPER_EXIT_KILLED ||
                                   (op->result == SP_BACKEND_FAILED && m->helper.exit_code < 0);
        if (m->helper.exit_code == HELPER_EXIT_UNFIT)
            rc = explain_unfit(m, &err);
        go_undo(m, rc, &err);
    }
}

/* --- starting it --- */

/* On the host's loopback, served by a relay outside the box: it needs no network to be reached. */
static int listen_for(struct making *m, struct err *err)
{
    unsigned port;
    int rc = listen_loopback(&m->listen_fd, &port, err);

    if (rc != SP_OK)
        return err_wrap(err, "socket of the box");
    (void) snprintf(m->record.box.url, sizeof(m->record.box.url), "http://127.0.0.1:%u", port);
    return SP_OK;
}

static int prepare(struct making *m, struct err *err)
{
    struct backend_create *r = m->request;
    struct backend_box *box = &m->record.box;
    uint32_t id_base;

    box->labels = r->labels;
    str_copy_cut(box->labels.instance, sizeof(box->labels.instance),
                 m->trial == NULL ? m->oci->instance : "");
    str_copy_cut(box->token, sizeof(box->token), r->token);
    str_hex64(box->ref, r->labels.box_id);
    str_copy_cut(m->record.runtime, sizeof(m->record.runtime), m->runtime->path);
    m->record.is_durable = r->profile->durable && m->trial == NULL;
    if (m->record.is_durable && !m->oci->has_loop)
        return err_set(err, SP_BACKEND_UNAVAILABLE,
                       "`durable: true` needs a daemon that runs as root, with loop devices");
    if (m->box->id_slot == UINT32_MAX) {
        if (!oci_take_ids(m->box, &id_base))
            return err_set(err, SP_BACKEND_FAILED, "all ranges of user ids are taken");
        m->record.id_base = id_base;
    }
    return listen_for(m, err);
}

/* Held until the box is dropped. */
static int take_snapshot(struct making *m, struct err *err)
{
    const struct backend_extras *x = m->request->extras;
    uint64_t id;

    if (x == NULL || x->snapshot == NULL)
        return SP_OK;
    if (!str_parse_hex64(x->snapshot, &id) || oci_snapshot_find(m->oci, id) == NULL)
        return err_set(err, SP_BACKEND_FAILED, "there is no snapshot '%.32s' any more",
                       x->snapshot);
    if (oci_snapshot_depth(m->oci, oci_snapshot_find(m->oci, id)) > OCI_LAYERS_MAX) {
        oci_flatten_next(m->oci);
        return err_set(err, SP_BACKEND_FAILED,
                       "the snapshot has more than %d layers, which are being made one",
                       OCI_LAYERS_MAX);
    }
    oci_snapshot_use(m->oci, id);
    m->box->snapshot = id;
    m->record.snapshot = id;
    m->layer_count = oci_snapshot_hold(m->oci, id, m->layers);
    return SP_OK;
}

static void run(struct making *m)
{
    struct oci *o = m->oci;
    struct oci_run_plan plan = {.profile = m->request->profile,
                                .runtime = m->runtime,
                                .record = &m->record,
                                .lower = m->lower,
                                .slot = 0,
                                .oci = o};
    struct err err;
    int rc = prepare(m, &err);

    if (rc == SP_OK)
        rc = take_snapshot(m, &err);
    if (rc != SP_OK) {
        go_end(m, rc, &err);
        return;
    }
    m->box->runtime = m->runtime;
    plan.slot = m->box->id_slot;
    plan.image_env = (const char *const *) (uintptr_t) m->image_env;
    buf_init(&m->helper.plan, CHILD_OUTPUT_MAX * 4);
    oci_plan_run(o, &plan, &m->helper.plan);
    m->helper.verb = "run";
    m->helper.pass_fd = m->listen_fd;
    FAULT_POINT("oci.before_run");
    oci_helper_start(o, &m->helper, RT_NEVER, on_run); /* our own deadline cancels it */
}

static void go_wait(struct making *m, struct list *where)
{
    m->waits_in = where;
    go(m, MAKING_WAITS);
}

/* From the start or from where it had to wait. */
static void choose(struct making *m)
{
    const struct config_profile *p = m->request->profile;
    const char *missing = oci_network_missing(m->oci, p);
    struct oci_runtime *runtime = NULL;
    struct err err;
    int rc = SP_OK;

    if (missing != NULL) {
        rc = err_set(&err, SP_BACKEND_UNAVAILABLE, "%s", missing);
        go_end(m, rc, &err);
        return;
    }
    if (m->trial != NULL)
        runtime = m->trial;
    else
        rc = oci_runtime_for(m->oci, p->runtime, &runtime, &err);
    if (rc == SP_OK && runtime->flavour == OCI_RUNSC && p->network.mode != CONFIG_NETWORK_NONE)
        rc = err_set(&err, SP_BACKEND_UNAVAILABLE,
                     "boxes by runsc have no network so far: only `network: none` works");
    if (rc == SP_OK && runtime->flavour == OCI_RUNSC && m->oci->is_rootless)
        rc =
            err_set(&err, SP_BACKEND_UNAVAILABLE, "boxes by runsc need a daemon that runs as root");
    if (rc == SP_OK && runtime->flavour == OCI_RUNSC && m->record.is_durable)
        rc = err_set(&err, SP_BACKEND_UNAVAILABLE, "`durable: true` does not work with runsc");
    if (rc == SP_OK)
        rc = oci_lower(m->oci, p, m->rootfs, &m->image_env, &m->lower, &err);
    m->runtime = runtime;
    if (rc == SP_OK)
        go(m, MAKING_RUNS);
    else if (rc == ERR_NOT_READY)
        go_wait(m, &m->oci->waiters);
    else
        go_end(m, rc, &err);
}

/* --- who comes first --- */

static void resume(struct waiter *w)
{
    struct making *m = container_of(w, struct making, waiter);

    if (m->request->op.state == OP_CANCELING)
        go_cancelled(m);
    else if (m->box != NULL)
        go(m, MAKING_CHOOSES);
    else
        go(m, MAKING_ENTERS);
}

/* A box of this id may exist, be made or be removed right now. */
static void enter(struct making *m)
{
    struct oci *o = m->oci;
    struct oci_box *b = oci_box_find(o, m->request->labels.box_id);

    if (b == NULL) {
        m->box = oci_box_add(o, m->request->labels.box_id, BOX_MAKING);
        go(m, MAKING_CHOOSES);
        return;
    }
    switch (b->entry.state) {
    case BOX_RUNNING:
        go(m, MAKING_LOOKS);
        return;
    case BOX_MAKING:
        go_wait(m, &b->entry.joiners);
        return;
    case BOX_DEAD:
        go_wait(m, &o->waiters);
        oci_remove_box(b);
        return;
    case BOX_REMOVING:
        go_wait(m, &o->waiters);
        return;
    case BOX_STATE_COUNT:
        break;
    }
    assert(false && "no such state");
}

/* --- the steps --- */

static void tick(struct making *m)
{
    switch (m->step) {
    case MAKING_ENTERS:
        enter(m);
        return;
    case MAKING_CHOOSES:
        choose(m);
        return;
    case MAKING_WAITS:
        list_push_back(m->waits_in, &m->waiter.link);
        return;
    case MAKING_RUNS:
        run(m);
        return;
    case MAKING_LOOKS:
        look(m);
        return;
    case MAKING_UNDOES:
        undo(m);
        return;
    case MAKING_ENDS:
        end(m);
        return;
    case MAKING_STEP_COUNT:
        break;
    }
    assert(false && "no such step");
}

static void on_cancel(struct op *op)
{
    struct backend_create *r = container_of(op, struct backend_create, op);
    struct making *m = r->priv;

    switch (m->step) {
    case MAKING_WAITS:
        if (list_is_linked(&m->waiter.link)) { /* else it is being resumed, and will notice */
            list_remove(m->waits_in, &m->waiter.link);
            go_cancelled(m);
        }
        return;
    case MAKING_RUNS:
        if (op_is_active(&m->helper.op)) /* else its end is under way */
            op_cancel(&m->helper.op);
        return;
    case MAKING_LOOKS:
    case MAKING_UNDOES:
        return;
    case MAKING_ENTERS: /* over as soon as begun, and so are the next two */
    case MAKING_CHOOSES:
    case MAKING_ENDS:
    case MAKING_STEP_COUNT:
        break;
    }
    assert(false && "no such step");
}

static void start(struct oci *o, struct backend_create *r, struct oci_runtime *trial,
                  uint64_t deadline_ns, void (*on_done)(struct op *))
{
    struct making *m = xcalloc(1, sizeof(*m));

    op_begin(&r->op, &o->loop->rt, &o->closing.ops, deadline_ns, on_cancel, on_done);
    m->oci = o;
    m->request = r;
    m->trial = trial;
    m->listen_fd = -1;
    oci_found_init(&m->found);
    m->waiter.resume = resume;
    r->priv = m;
    go(m, MAKING_ENTERS);
}

void oci_create(struct backend *backend, struct backend_create *r, uint64_t deadline_ns,
                void (*on_done)(struct op *))
{
    start(oci_of(backend), r, NULL, deadline_ns, on_done);
}

void oci_create_trial(struct oci *o, struct backend_create *r, struct oci_runtime *runtime,
                      uint64_t deadline_ns, void (*on_done)(struct op *))
{
    start(o, r, runtime, deadline_ns, on_done);
}
