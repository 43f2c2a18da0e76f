/* examine.c - what `sandpool doctor` shows of this backend: what was found, what is missing and what
 * to do about it. Every usual runtime is tried with a real box. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "backends/oci/internal.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#define FILE_TABLE_LARGE (1ULL << 32) /* open files: more than any memory holds */

/* `priv` of the request. */
struct examining {
    struct waiter waiter;
    struct oci *oci;
    struct backend_exam *request;
    bool is_waiting;
};

static void report_rootless(struct backend_exam *r, const struct oci *o)
{
    backend_report(
        r, BACKEND_FINDING_OK, "rootless",
        "yes, as user %u. Boxes are separated by namespaces but share user ids: whoever breaks out "
        "of one has the others and all that this user has",
        (unsigned) geteuid());
    if (o->is_apparmor_strict)
        backend_report(
            r, BACKEND_FINDING_WARN, "user namespaces",
            "kernel.apparmor_restrict_unprivileged_userns is 1: boxes can be made only if an "
            "AppArmor profile allows `userns` to %.100s. Write one, or set it to 0",
            o->helper);
    if (o->has_cgroups)
        backend_report(r, BACKEND_FINDING_OK, "limits", "by control groups below %.200s",
                       o->group_top);
    else
        backend_report(r, BACKEND_FINDING_WARN, "limits",
                       "none: %.200s. limits.memory, cpus and pids have no effect",
                       o->no_groups.msg);
    backend_report(
        r, BACKEND_FINDING_WARN, "disk limits",
        "none: loop devices need root. limits.disk has no effect, a box can fill the disk of "
        "state_dir");
    if (o->id_count > 1)
        backend_report(r, BACKEND_FINDING_OK, "user ids", "%u, the same for all boxes",
                       o->id_count);
    else
        backend_report(r, BACKEND_FINDING_WARN, "user ids",
                       "1: commands run as the box's root, whatever `user` says. For more: %.220s",
                       o->one_id.msg);
    backend_report(
        r, BACKEND_FINDING_WARN, "late mounts",
        "none: mounts into a running box need root. Those of a profile can be used, but only "
        "read-only where they belong to this user");
}

static void report_root(struct backend_exam *r, const struct oci *o)
{
    backend_report(r, BACKEND_FINDING_OK, "user ids", "%u ranges of %d from %llu on", o->id_slots,
                   OCI_ID_COUNT, (unsigned long long) o->id_base);
    if (o->file_table < FILE_TABLE_LARGE)
        backend_report(
            r, BACKEND_FINDING_WARN, "open files",
            "the machine has %llu for everybody (fs.file-max): a box can take half of them, "
            "and its processes get fewer than usual. Where files are charged to control "
            "groups no limit is needed: sysctl fs.file-max=9223372036854775807",
            (unsigned long long) o->file_table);
    if (o->max_boxes * o->terminals > o->all_terminals)
        backend_report(
            r, BACKEND_FINDING_WARN, "terminals",
            "the machine has %llu for boxes (kernel.pty.max without kernel.pty.reserve), "
            "pool.max_boxes of %u each are more: sysctl kernel.pty.max=%llu",
            (unsigned long long) o->all_terminals, o->terminals,
            (unsigned long long) (o->max_boxes * o->terminals + 1024));
    if (o->has_loop)
        backend_report(r, BACKEND_FINDING_OK, "disk limits", "by loop devices");
    else
        backend_report(
            r, BACKEND_FINDING_WARN, "disk limits",
            "/dev/loop-control cannot be used: limits.disk has no effect, a box can fill the disk "
            "of state_dir. Load the kernel module `loop`");
}

/* What sockets send is cut out of blocks that are charged to nobody; a few bytes hold a whole one. */
static void report_fragments(struct backend_exam *r)
{
    char value[2];

    if (file_read_start(AT_FDCWD, "/proc/sys/net/core/high_order_alloc_disable", value,
                        sizeof(value)) != 1)
        return; /* before Linux 5.14 */
    if (value[0] == '0')
        backend_report(
            r, BACKEND_FINDING_WARN, "memory of sockets",
            "a box can hold many times its memory by blocks of 32 KB that the kernel charges to "
            "nobody. Make them 4 KB: sysctl net.core.high_order_alloc_disable=1, for good with "
            "the line net.core.high_order_alloc_disable = 1 in /etc/sysctl.d/60-sandpool.conf. "
            "`sockets: unix` in a profile closes it");
    else
        backend_report(r, BACKEND_FINDING_OK, "memory of sockets",
                       "in blocks of 4 KB (net.core.high_order_alloc_disable)");
}

static void report_machine(struct backend_exam *r, const struct oci *o)
{
    struct utsname name;

    if (uname(&name) == 0)
        backend_report(r, BACKEND_FINDING_OK, "kernel", "%.64s %.64s, %u processors", name.release,
                       name.machine, o->host_cpus);
    backend_report(r, BACKEND_FINDING_OK, "control groups", "%s",
                   o->is_cgroup_v2 ? "version 2" : "version 1 (or hybrid)");
    if (o->is_rootless)
        report_rootless(r, o);
    else
        report_root(r, o);
    report_fragments(r);
    kernel_watch_report(&o->kernel_watch, r, "oci.kernel_memory",
                        o->has_cgroups ? NULL : "without control groups nobody counts them");
    if (o->has_cgroups)
        reclaims_report(r);
    if (str_is_empty(o->allow))
        backend_report(r, BACKEND_FINDING_OK, "mounts", "none allowed (mounts.allow is empty)");
    else
        backend_report(r, BACKEND_FINDING_OK, "mounts", "from below %.200s", o->allow);
}

static void report_tool(struct backend_exam *r, const char *subject, const char *name,
                        const char *what_for)
{
    char path[OCI_PATH_MAX];

    if (oci_find_program(name, path, sizeof(path)))
        backend_report(r, BACKEND_FINDING_OK, subject, "%.200s", path);
    else
        backend_report(r, BACKEND_FINDING_WARN, subject, "%s is not installed: %s", name, what_for);
}

/* A trial needs the base. Without it nobody knows what the runtimes are like. */
static bool is_untried(const struct oci_runtime *r)
{
    char path[OCI_PATH_MAX];

    return r->trial != OCI_WORKS && r->trial != OCI_FAILED &&
           (r->name[0] == '/' ? access(r->name, X_OK) == 0
                              : oci_find_program(r->name, path, sizeof(path)));
}

static void report_runtimes(struct backend_exam *r, struct oci *o)
{
    bool has_untried = false;
    bool has_one = false;

    for (unsigned i = 0; i < o->runtime_count; i++) {
        const struct oci_runtime *one = &o->runtimes[i];
        char subject[48];

        (void) snprintf(subject, sizeof(subject), "runtime %.36s", one->name);
        if (one->trial == OCI_WORKS) {
            backend_report(
                r, BACKEND_FINDING_OK, subject, "%.200s made a box%s%s", one->path,
                has_one ? "" : "; used where a profile does not say",
                one->flavour != OCI_RUNSC ? "" : "; one that exceeds its memory ends as a whole");
            has_one = true;
        } else if (one->trial == OCI_FAILED) {
            backend_report(r, BACKEND_FINDING_WARN, subject, "%.60s cannot be used: %.240s",
                           one->path, one->why.msg);
        } else if (is_untried(one)) {
            has_untried = true;
            backend_report(r, BACKEND_FINDING_WARN, subject, "not tried yet");
        } else {
            backend_report(r, BACKEND_FINDING_WARN, subject, "not installed");
        }
    }
    if (!has_one && has_untried)
        backend_report(r, BACKEND_FINDING_FAIL, "runtime",
                       "none could be tried: see `rootfs host`");
    else if (!has_one)
        backend_report(r, BACKEND_FINDING_FAIL, "runtime",
                       "none works. Install one: apt-get install %s",
                       o->is_cgroup_v2 ? "crun (or runc)" : "runc");
}

/* As whoever opens it: slirp4netns does so as we are; pasta, when it has become the owner of the box. */
static bool is_tun_usable(const struct oci *o)
{
    struct stat st;

    if (access("/dev/net/tun", R_OK | W_OK) != 0 || stat("/dev/net/tun", &st) != 0)
        return false;
    return !str_is_empty(o->slirp) || (st.st_mode & 0006) == 0006;
}

static void report_nat(struct backend_exam *r, const struct oci *o)
{
    if (str_is_empty(o->slirp) && str_is_empty(o->pasta))
        backend_report(r, BACKEND_FINDING_WARN, "network nat",
                       "%s: profiles with `network: nat` cannot be used",
                       o->is_rootless
                           ? "slirp4netns is not installed (install the package slirp4netns)"
                           : "neither slirp4netns nor pasta is installed (install the package "
                             "slirp4netns or passt)");
    else if (!is_tun_usable(o))
        backend_report(
            r, BACKEND_FINDING_WARN, "network nat",
            "/dev/net/tun cannot be opened by %s: profiles with `network: nat` cannot be used. "
            "Load the kernel module `tun` and give the device mode 0666",
            str_is_empty(o->slirp) ? "pasta, which runs as the owner of the box" : "this user");
    else
        backend_report(r, BACKEND_FINDING_OK, "network nat", "%.200s",
                       !str_is_empty(o->slirp) ? o->slirp : o->pasta);
    if (str_is_empty(o->nft) || str_is_empty(o->slirp))
        backend_report(r, BACKEND_FINDING_WARN, "network.allow",
                       "%s is not installed (install the package %s): profiles with "
                       "`network.allow` cannot be used",
                       str_is_empty(o->nft) ? "nft" : "slirp4netns",
                       str_is_empty(o->nft) ? "nftables" : "slirp4netns");
}

static void report_all(struct examining *x)
{
    struct backend_exam *r = x->request;
    struct oci *o = x->oci;
    struct err err;

    report_runtimes(r, o);
    report_machine(r, o);
    if (oci_base_ready(o, &err) == SP_OK)
        backend_report(r, BACKEND_FINDING_OK, "rootfs host", "%.200s", o->base_dir);
    else
        backend_report(r, BACKEND_FINDING_FAIL, "rootfs host", "%.240s", err.msg);
    backend_report(r, BACKEND_FINDING_OK, "agent", "%.200s", o->agent);
    backend_report(r, BACKEND_FINDING_OK, "helper", "%.200s", o->helper);
    report_tool(r, "image: skopeo", "skopeo", "profiles with an `image` cannot be used");
    report_tool(r, "image: umoci", "umoci", "profiles with an `image` cannot be used");
    report_nat(r, o);
    if (o->foreign_count > 0)
        backend_report(r, BACKEND_FINDING_WARN, "boxes of another instance",
                       "%zu of instance '%.40s' are in the state directory: " OCI_FOREIGN_HINT,
                       o->foreign_count, o->foreign_instance);
    r->priv = NULL;
    closing_finish(&o->closing, &r->op, SP_OK, NULL);
    free(x);
}

/* Goes on when everything that is tried has been tried. */
static void go_on(struct waiter *w)
{
    struct examining *x = container_of(w, struct examining, waiter);
    struct oci *o = x->oci;
    struct oci_runtime *unused;
    struct err err;
    bool is_trying = oci_base_ready(o, &err) == ERR_NOT_READY;

    x->is_waiting = false;
    for (unsigned i = 0; i < o->runtime_count && !is_trying; i++)
        is_trying = oci_runtime_for(o, o->runtimes[i].name, &unused, &err) == ERR_NOT_READY;
    if (is_trying && x->request->op.state == OP_RUNNING) {
        x->is_waiting = true;
        list_push_back(&o->waiters, &w->link);
        return;
    }
    report_all(x);
}

static void on_cancel(struct op *op)
{
    struct backend_exam *r = container_of(op, struct backend_exam, op);
    struct examining *x = r->priv;

    if (!x->is_waiting)
        return;
    list_remove(&x->oci->waiters, &x->waiter.link);
    r->priv = NULL;
    closing_finish(&x->oci->closing, op, SP_CANCELLED, NULL);
    free(x);
}

void oci_examine(struct backend *backend, struct backend_exam *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *))
{
    struct oci *o = oci_of(backend);
    struct examining *x = xcalloc(1, sizeof(*x));

    op_begin(&r->op, &o->loop->rt, &o->closing.ops, deadline_ns, on_cancel, on_done);
    x->oci = o;
    x->request = r;
    x->waiter.resume = go_on;
    r->priv = x;
    go_on(&x->waiter);
}
