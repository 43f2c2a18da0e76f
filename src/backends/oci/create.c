/* create.c - one box from nothing: a runtime, a base, a socket, then sandpool-helper does it. The steps
 * wait for each other through oci_wake(); whatever fails or is cancelled after sandpool-helper was
 * started is removed again before the caller is notified. */
#include <fcntl.h>
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
    MAKING_WAITS, /* for another box of its id, a runtime, a base or an image */
    MAKING_RUNS,  /* sandpool-helper */
    MAKING_LOOKS, /* at what it has made, or what was there: to its end, whoever leaves */
    MAKING_UNDOES,
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
    struct list *waits_in;     /* where `waiter` is linked */
    char rootfs[OCI_PATH_MAX]; /* of the image */
    char **image_env;
    struct oci_record record;
    struct oci_helper helper;
    struct work look;
    struct oci_found found;
    struct remover undo;
    int listen_fd;
    struct err err; /* why it is being undone */
    int result;
};

/* The end for everybody who waits for this box. */
static void finish(struct making *m, int rc, const struct err *err)
{
    struct oci *o = m->oci;
    struct backend_create *r = m->request;
    struct oci_box *b = m->box;
    struct list joined;

    if (m->listen_fd >= 0)
        (void) close(m->listen_fd); /* the box has its own */
    if (rc == SP_OK)
        r->box = m->record.box;
    oci_env_free(m->image_env);
    oci_helper_fini(&m->helper);
    r->priv = NULL;
    closing_finish(&o->closing, &r->op, rc, err);
    free(m); /* `err` may be in it */
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
                      const char *report UNUSED)
{
    struct making *m = container_of(w, struct making, undo);

    m->box = NULL; /* gone, or dead and handled by the next look */
    finish(m, m->result, &m->err);
}

/* Joiners begin anew when it is gone: what failed for us may work for them. */
static void undo(struct making *m, int rc, const struct err *err)
{
    struct oci_box *b = m->box;
    struct list joined;

    m->step = MAKING_UNDOES;
    m->result = rc;
    m->err = *err;
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
        rc = oci_box_watch(m->box, &m->found, &err);
    oci_found_drop(&m->found);
    if (rc != SP_OK && m->box != NULL)
        undo(m, rc, &err);
    else
        finish(m, rc, &err);
}

static void start_look(struct making *m)
{
    m->step = MAKING_LOOKS;
    m->found.id = m->request->labels.box_id;
    m->look.run = run_look;
    work_start(m->oci->loop, &m->look, &m->oci->closing.inner, RT_NEVER, on_seen);
}

static void on_run(struct op *op)
{
    struct making *m = container_of(op, struct making, helper.op);

    FAULT_POINT("oci.after_run");
    if (op->result == SP_OK || m->helper.exit_code == HELPER_EXIT_RUNNING)
        start_look(m);
    else {
        if (m->trial != NULL) /* which says nothing about it */
            m->trial->was_killed = m->helper.exit_code == HELPER_EXIT_KILLED ||
                                   (op->result == SP_BACKEND_FAILED && m->helper.exit_code < 0);
        undo(m, op->result, &op->err);
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

static int prepare(struct making *m, const struct oci_runtime *runtime, struct err *err)
{
    struct backend_create *r = m->request;
    struct backend_box *box = &m->record.box;
    uint32_t id_base;

    box->labels = r->labels;
    str_copy_cut(box->labels.instance, sizeof(box->labels.instance),
                 m->trial == NULL ? m->oci->instance : "");
    str_copy_cut(box->token, sizeof(box->token), r->token);
    str_hex64(box->ref, r->labels.box_id);
    str_copy_cut(m->record.runtime, sizeof(m->record.runtime), runtime->path);
    if (m->box->id_slot == UINT32_MAX) {
        if (!oci_take_ids(m->box, &id_base))
            return err_set(err, SP_BACKEND_FAILED, "all ranges of user ids are taken");
        m->record.id_base = id_base;
    }
    return listen_for(m, err);
}

static void run(struct making *m, struct oci_runtime *runtime, const char *lower)
{
    struct oci *o = m->oci;
    struct oci_run_plan plan = {.profile = m->request->profile,
                                .runtime = runtime,
                                .record = &m->record,
                                .lower = lower,
                                .slot = 0};
    struct err err;
    int rc = prepare(m, runtime, &err);

    if (rc != SP_OK) {
        finish(m, rc, &err);
        return;
    }
    m->box->runtime = runtime;
    plan.slot = m->box->id_slot;
    plan.image_env = (const char *const *) (uintptr_t) m->image_env;
    buf_init(&m->helper.plan, CHILD_OUTPUT_MAX * 4);
    oci_plan_run(o, &plan, &m->helper.plan);
    m->helper.verb = "run";
    m->helper.pass_fd = m->listen_fd;
    m->step = MAKING_RUNS;
    FAULT_POINT("oci.before_run");
    oci_helper_start(o, &m->helper, RT_NEVER, on_run); /* our own deadline cancels it */
}

static void wait_in(struct making *m, struct list *where)
{
    m->step = MAKING_WAITS;
    m->waits_in = where;
    list_push_back(where, &m->waiter.link);
}

/* From the start or from where it had to wait. */
static void begin(struct making *m)
{
    const struct config_profile *p = m->request->profile;
    const char *lower = p->rootfs;
    struct oci_runtime *runtime = NULL;
    struct err err;
    int rc = SP_OK;

    if (p->network == CONFIG_NETWORK_NAT && str_is_empty(m->oci->slirp) &&
        str_is_empty(m->oci->pasta)) {
        rc = err_set(&err, SP_BACKEND_UNAVAILABLE,
                     m->oci->is_rootless
                         ? "`network: nat` needs slirp4netns, which is not installed: install the "
                           "package slirp4netns"
                         : "`network: nat` needs slirp4netns or pasta, and neither is installed: "
                           "install the package slirp4netns or passt");
        finish(m, rc, &err);
        return;
    }
    if (m->trial != NULL)
        runtime = m->trial;
    else
        rc = oci_runtime_for(m->oci, p->runtime, &runtime, &err);
    if (rc == SP_OK && runtime->flavour == OCI_RUNSC && p->network != CONFIG_NETWORK_NONE)
        rc = err_set(&err, SP_BACKEND_UNAVAILABLE,
                     "boxes by runsc have no network so far: only `network: none` works");
    if (rc == SP_OK && runtime->flavour == OCI_RUNSC && m->oci->is_rootless)
        rc =
            err_set(&err, SP_BACKEND_UNAVAILABLE, "boxes by runsc need a daemon that runs as root");
    if (rc == SP_OK && !str_is_empty(p->image)) {
        rc = oci_pull(m->oci, p, m->rootfs, &m->image_env, &err);
        lower = m->rootfs;
    } else if (rc == SP_OK && strcmp(p->rootfs, "host") == 0) {
        rc = oci_base_ready(m->oci, &err);
        lower = m->oci->base_dir;
    }
    if (rc == SP_OK)
        run(m, runtime, lower);
    else if (rc == ERR_NOT_READY)
        wait_in(m, &m->oci->waiters);
    else
        finish(m, rc, &err);
}

/* --- who comes first --- */

static void enter(struct making *m);

static void resume(struct waiter *w)
{
    struct making *m = container_of(w, struct making, waiter);

    if (m->request->op.state == OP_CANCELING)
        finish(m, SP_CANCELLED, NULL);
    else if (m->box != NULL)
        begin(m);
    else
        enter(m);
}

/* A box of this id may exist, be made or be removed right now. */
static void enter(struct making *m)
{
    struct oci *o = m->oci;
    struct oci_box *b = oci_box_find(o, m->request->labels.box_id);

    if (b == NULL) {
        m->box = oci_box_add(o, m->request->labels.box_id, BOX_MAKING);
        begin(m);
        return;
    }
    switch (b->entry.state) {
    case BOX_RUNNING:
        start_look(m);
        return;
    case BOX_MAKING:
        wait_in(m, &b->entry.joiners);
        return;
    case BOX_DEAD:
        wait_in(m, &o->waiters);
        oci_remove_box(b);
        return;
    case BOX_REMOVING:
        wait_in(m, &o->waiters);
        return;
    case BOX_STATE_COUNT:
        break;
    }
    assert(false && "no such state");
}

static void on_cancel(struct op *op)
{
    struct backend_create *r = container_of(op, struct backend_create, op);
    struct making *m = r->priv;

    switch (m->step) {
    case MAKING_WAITS:
        if (list_is_linked(&m->waiter.link)) { /* else it is being resumed, and will notice */
            list_remove(m->waits_in, &m->waiter.link);
            finish(m, SP_CANCELLED, NULL);
        }
        return;
    case MAKING_RUNS:
        if (op_is_active(&m->helper.op)) /* else its end is under way */
            op_cancel(&m->helper.op);
        return;
    case MAKING_LOOKS:
    case MAKING_UNDOES:
        return;
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
    enter(m);
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
