/* update.c - late binding: limits into the control group, mounts by sandpool-helper, environment by the
 * agent, in this order. The first that fails ends it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/oci/internal.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/agent_env.h"
#include "helper/plan.h"

enum { CPU_PERIOD_US = 100000, PLAN_MAX = 64 * 1024 };

/* `priv` of the request. */
struct updating {
    struct work work;
    struct oci_helper helper;
    struct agent_env env;
    struct oci *oci;
    struct backend_update *request;
    struct oci_found found;
    enum oci_flavour flavour;
    char cgroup[OCI_GROUP_MAX];
};

static void finish(struct updating *u, int rc, const struct err *err)
{
    struct oci *o = u->oci;
    struct backend_update *r = u->request;

    oci_found_drop(&u->found);
    oci_helper_fini(&u->helper);
    agent_env_fini(&u->env);
    r->priv = NULL;
    closing_finish(&o->closing, &r->op, rc, err);
    free(u); /* last: err may be in it */
}

/* --- environment --- */

static void on_env_set(struct op *op)
{
    struct updating *u = container_of(op, struct updating, env.request.op);
    struct err err;
    int rc = agent_env_result(&u->env, &err);

    finish(u, rc, &err);
}

static void set_env(struct updating *u)
{
    const struct backend_extras *x = &u->request->extras;

    if (x->env_count == 0)
        finish(u, SP_OK, NULL);
    else if (u->request->op.state == OP_CANCELING) /* nobody would end the call any more */
        finish(u, SP_CANCELLED, NULL);
    else /* our own deadline cancels it */
        agent_env_start(u->oci->http, &u->env, &u->found.record.box, x, RT_NEVER, on_env_set);
}

/* --- mounts --- */

static void on_mounted(struct op *op)
{
    struct updating *u = container_of(op, struct updating, helper.op);
    struct err err = op->err;

    if (op->result == SP_OK) {
        set_env(u);
        return;
    }
    err.code = u->helper.exit_code > 0 ? helper_code(u->helper.exit_code) : op->result;
    finish(u, err.code, &err);
}

static void mount_all(struct updating *u)
{
    const struct backend_update *r = u->request;
    const struct oci_box *b = oci_box_find(u->oci, u->found.id);
    bool is_root = r->profile != NULL && strcmp(r->profile->user, "root") == 0;
    struct err err;

    if (r->extras.mount_count == 0) {
        set_env(u);
        return;
    }
    if (b == NULL || b->entry.state != BOX_RUNNING) {
        finish(u, err_set(&err, ERR_BOX_DEAD, "the box does not run"), &err);
        return;
    }
    if (b->runtime != NULL && b->runtime->flavour == OCI_RUNSC) {
        finish(u, err_set(&err, SP_UNSUPPORTED, "runsc cannot mount into a running box"), &err);
        return;
    }
    buf_init(&u->helper.plan, PLAN_MAX);
    oci_plan_mount(u->oci, b, u->found.record.id_base, is_root ? 0 : OCI_USER_ID, &r->extras,
                   &u->helper.plan);
    u->helper.verb = "mount";
    u->helper.pass_fd = -1;
    oci_helper_start(u->oci, &u->helper, RT_NEVER, on_mounted); /* our own deadline cancels it */
}

/* --- limits --- */

static int write_limit(const struct updating *u, const char *v1, const char *v2, const char *text,
                       bool is_optional, struct err *err)
{
    char path[OCI_PATH_MAX];
    AUTO_CLOSE int fd = -1;

    if (u->oci->is_cgroup_v2)
        (void) snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", u->cgroup, v2);
    else
        (void) snprintf(path, sizeof(path), "/sys/fs/cgroup/%.*s%s/%s", (int) strcspn(v1, "/"), v1,
                        u->cgroup, strchr(v1, '/') + 1);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, text, strlen(text)) == (ssize_t) strlen(text))
        return SP_OK;
    if (is_optional)
        return SP_OK;
    return err_sys(err, SP_BACKEND_FAILED, errno, "limit '%.160s'", path);
}

/* Raising and lowering need opposite orders; what a first try refuses a second one takes. */
static int limit_memory(const struct updating *u, uint64_t bytes, struct err *err)
{
    static const char with_swap[] = "memory/memory.memsw.limit_in_bytes";
    char text[32];

    (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) bytes);
    if (u->oci->is_cgroup_v2) {
        (void) write_limit(u, "", "memory.swap.max", "0", true, err); /* as for a new box */
        return write_limit(u, "", "memory.max", text, false, err);
    }
    (void) write_limit(u, with_swap, "", text, true, err);
    if (write_limit(u, "memory/memory.limit_in_bytes", "", text, false, err) != SP_OK)
        return err->code;
    (void) write_limit(u, "memory/memory.kmem.tcp.limit_in_bytes", "", text, true, err);
    return write_limit(u, with_swap, "", text, true, err);
}

static int limit_cpus(const struct updating *u, uint64_t milli, struct err *err)
{
    unsigned long long quota = milli * (CPU_PERIOD_US / 1000);
    char text[48];

    if (u->oci->is_cgroup_v2)
        (void) snprintf(text, sizeof(text), "%llu %d", quota, CPU_PERIOD_US);
    else
        (void) snprintf(text, sizeof(text), "%llu", quota);
    return write_limit(u, "cpu/cpu.cfs_quota_us", "cpu.max", text, false, err);
}

static int limit_pids(const struct updating *u, uint64_t count, struct err *err)
{
    char text[32];

    (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) count);
    return write_limit(u, "pids/pids.max", "pids.max", text, false, err);
}

static int run_limits(struct work *w, struct err *err)
{
    struct updating *u = container_of(w, struct updating, work);
    const struct backend_extras *x = &u->request->extras;
    int rc = oci_look(u->oci->boxes_dir, u->found.id, &u->found, err);

    if (rc != SP_OK)
        return rc;
    if (!u->found.is_running || u->found.is_unsettled || !u->found.has_record)
        return err_set(err, ERR_BOX_DEAD, "the box does not run");
    if (x->memory > 0)
        rc = limit_memory(u, x->memory, err);
    if (rc == SP_OK && x->cpus > 0)
        rc = limit_cpus(u, x->cpus, err);
    if (rc == SP_OK && x->pids > 0)
        rc = limit_pids(u, oci_pids(u->flavour, x->pids), err);
    return rc;
}

static void on_limits(struct op *op)
{
    struct updating *u = container_of(op, struct updating, work.op);

    if (op->result != SP_OK)
        finish(u, op->result, &op->err);
    else if (u->request->op.state == OP_CANCELING)
        finish(u, SP_CANCELLED, NULL);
    else
        mount_all(u);
}

static void on_cancel(struct op *op)
{
    struct updating *u = container_of(op, struct backend_update, op)->priv;

    if (op_is_active(&u->helper.op))
        op_cancel(&u->helper.op);
    else if (op_is_active(&u->env.request.op))
        op_cancel(&u->env.request.op);
}

static int check_rootless(const struct oci *o, const struct backend_extras *x, struct err *err)
{
    if (!o->has_cgroups && (x->memory > 0 || x->cpus > 0 || x->pids > 0))
        return err_set(err, SP_UNSUPPORTED,
                       "limits need control groups, and the daemon does not run as root");
    if (x->mount_count > 0)
        return err_set(err, SP_UNSUPPORTED,
                       "mounts into a running box need root, and the daemon does not run as root");
    return SP_OK;
}

void oci_update(struct backend *backend, struct backend_update *r, uint64_t deadline_ns,
                void (*on_done)(struct op *))
{
    struct oci *o = oci_of(backend);
    const struct oci_box *b = oci_box_find(o, r->box.labels.box_id);
    struct updating *u = xcalloc(1, sizeof(*u));
    struct err err;

    op_begin(&r->op, &o->loop->rt, &o->closing.ops, deadline_ns, on_cancel, on_done);
    u->oci = o;
    u->request = r;
    u->flavour = b != NULL && b->runtime != NULL ? b->runtime->flavour : OCI_RUNC;
    oci_found_init(&u->found);
    u->found.id = r->box.labels.box_id;
    oci_cgroup(o, u->found.id, u->cgroup, sizeof(u->cgroup));
    u->work.run = run_limits;
    r->priv = u;
    if (o->is_rootless && check_rootless(o, &r->extras, &err) != SP_OK) {
        finish(u, err.code, &err);
        return;
    }
    work_start(o->loop, &u->work, &o->closing.inner, RT_NEVER, on_limits);
}
