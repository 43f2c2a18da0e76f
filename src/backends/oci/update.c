/* update.c - late binding: limits into the control group, mounts by sandpool-helper, environment by the
 * agent, in this order. The first that fails ends it. */
#include "backend/update.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/oci/internal.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "helper/plan.h"

enum { CPU_PERIOD_US = 100000, PLAN_MAX = 64 * 1024 };

struct oci_updating {
    struct updating common;
    struct work work;
    struct oci_helper helper;
    struct oci *oci;
    struct oci_found found;
    enum oci_flavour flavour;
    char cgroup[OCI_GROUP_MAX];
};

static struct oci_updating *own_of(struct updating *u)
{
    return container_of(u, struct oci_updating, common);
}

static void fini(struct updating *u)
{
    struct oci_updating *own = own_of(u);

    oci_found_drop(&own->found);
    oci_helper_fini(&own->helper);
}

/* --- mounts --- */

static void on_mounted(struct op *op)
{
    struct oci_updating *own = container_of(op, struct oci_updating, helper.op);
    struct err err = op->err;
    int rc = op->result;

    if (rc != SP_OK && own->helper.exit_code > 0)
        rc = err.code = helper_code(own->helper.exit_code);
    updating_next(&own->common, rc, &err);
}

static void mount_all(struct updating *u)
{
    struct oci_updating *own = own_of(u);
    const struct backend_update *r = u->request;
    const struct oci_box *b = oci_box_find(own->oci, own->found.id);
    bool is_root = r->profile != NULL && strcmp(r->profile->user, "root") == 0;
    struct err err;

    if (b == NULL || b->entry.state != BOX_RUNNING) {
        updating_next(u, ERR_BOX_DEAD, NULL);
        return;
    }
    if (b->runtime != NULL && b->runtime->flavour == OCI_RUNSC) {
        updating_next(u, err_set(&err, SP_UNSUPPORTED, "runsc cannot mount into a running box"),
                      &err);
        return;
    }
    buf_init(&own->helper.plan, PLAN_MAX);
    oci_plan_mount(own->oci, b, own->found.record.id_base, is_root ? 0 : OCI_USER_ID, &r->extras,
                   &own->helper.plan);
    own->helper.verb = "mount";
    own->helper.pass_fd = -1;
    u->at_work = &own->helper.op;
    oci_helper_start(own->oci, &own->helper, RT_NEVER, on_mounted);
}

/* --- limits --- */

static int write_limit(const struct oci_updating *u, const char *v1, const char *v2,
                       const char *text, bool is_optional, struct err *err)
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
static int limit_memory(const struct oci_updating *u, uint64_t bytes, struct err *err)
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

static int limit_cpus(const struct oci_updating *u, uint64_t milli, struct err *err)
{
    unsigned long long quota = milli * (CPU_PERIOD_US / 1000);
    char text[48];

    if (u->oci->is_cgroup_v2)
        (void) snprintf(text, sizeof(text), "%llu %d", quota, CPU_PERIOD_US);
    else
        (void) snprintf(text, sizeof(text), "%llu", quota);
    return write_limit(u, "cpu/cpu.cfs_quota_us", "cpu.max", text, false, err);
}

static int limit_pids(const struct oci_updating *u, uint64_t count, struct err *err)
{
    char text[32];

    (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) count);
    return write_limit(u, "pids/pids.max", "pids.max", text, false, err);
}

/* Also looks whether it runs, and where. */
static int run_limits(struct work *w, struct err *err)
{
    struct oci_updating *own = container_of(w, struct oci_updating, work);
    const struct backend_extras *x = &own->common.request->extras;
    int rc = oci_look(own->oci->boxes_dir, own->found.id, &own->found, err);

    if (rc != SP_OK)
        return rc;
    if (!own->found.is_running || own->found.is_unsettled || !own->found.has_record)
        return err_set(err, ERR_BOX_DEAD, "the box does not run");
    if (x->memory > 0)
        rc = limit_memory(own, x->memory, err);
    if (rc == SP_OK && x->cpus > 0)
        rc = limit_cpus(own, x->cpus, err);
    if (rc == SP_OK && x->pids > 0)
        rc = limit_pids(own, oci_pids(own->flavour, x->pids), err);
    return rc;
}

static void on_limits(struct op *op)
{
    struct oci_updating *own = container_of(op, struct oci_updating, work.op);

    own->common.box = &own->found.record.box;
    updating_next(&own->common, op->result, &op->err);
}

static void set_limits(struct updating *u)
{
    struct oci_updating *own = own_of(u);

    own->work.run = run_limits;
    work_start(own->oci->loop, &own->work, &own->oci->closing.inner, RT_NEVER, on_limits);
}

static int check_rootless(const struct oci *o, const struct backend_extras *x, struct err *err)
{
    if (!o->is_rootless)
        return SP_OK;
    if (!o->has_cgroups && (backend_extras_kinds(x) & BACKEND_LATE_LIMITS) != 0)
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
    static const struct updating_ops ops = {
        .limit = set_limits, .mount = mount_all, .fini = fini, .has_look = true};
    struct oci *o = oci_of(backend);
    const struct oci_box *b = oci_box_find(o, r->box.labels.box_id);
    struct oci_updating *own = xcalloc(1, sizeof(*own));
    struct err err;
    int rc = check_rootless(o, &r->extras, &err);

    own->oci = o;
    own->flavour = b != NULL && b->runtime != NULL ? b->runtime->flavour : OCI_RUNC;
    oci_found_init(&own->found);
    own->found.id = r->box.labels.box_id;
    oci_cgroup(o, own->found.id, own->cgroup, sizeof(own->cgroup));
    updating_begin(&own->common, &ops, r, &o->closing, o->http, deadline_ns, on_done);
    updating_next(&own->common, rc, &err);
}
