/* main.c - sandpool-helper: what needs root, for boxes of this machine and for Docker's. One step per process: it reads a plan,
 * does it, prints one JSON object. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdpass.h"
#include "base/file.h"
#include "helper/base.h"
#include "helper/box_dir.h"
#include "helper/capture.h"
#include "helper/cgroup.h"
#include "helper/connector.h"
#include "helper/container_disk.h"
#include "helper/egress.h"
#include "helper/flatten.h"
#include "helper/freezer.h"
#include "helper/gather.h"
#include "helper/keep.h"
#include "helper/mount_in.h"
#include "helper/pack.h"
#include "helper/pack_image.h"
#include "helper/plan.h"
#include "helper/plan_read.h"
#include "helper/reclaim.h"
#include "helper/relay.h"
#include "helper/remove.h"
#include "helper/repack.h"
#include "helper/rootfs.h"
#include "helper/socket_guard.h"
#include "helper/start.h"
#include "helper/unpack.h"
#include "helper/user_ns.h"
#include "sandpool/version.h"

#define CLEANUP_S 30

static const char usage_text[] =
    "usage: sandpool-helper run|mount|egress|disk|remove|capture|keep|flatten|gather|pack|image|unpack|repack|load|freeze|reclaim|relay|base < PLAN\n"
    "\n"
    "Makes, changes and removes one box for sandpoold: reads a plan (JSON) from standard\n"
    "input and prints a JSON object.\n"
    "\n"
    "  run      make a box and start it; descriptor 3 is its listening socket\n"
    "  mount    attach directories of the host to a running box\n"
    "  egress   change what a running box may reach\n"
    "  remove   end a box and leave nothing of it\n"
    "  capture  copy the disk of a running box\n"
    "  keep     make a snapshot of the disk of a durable box that has ended\n"
    "  disk     limit what a container writes to some of its directories\n"
    "  flatten  make the layers of a snapshot one\n"
    "  pack     write a snapshot to descriptor 3, as one file\n"
    "  image    write a snapshot to descriptor 3, as a container image\n"
    "  unpack   make a snapshot of such a file, from descriptor 3\n"
    "  repack   make a file or an image of what an engine saves of one\n"
    "  load     make an archive for an engine of such a file\n"
    "  gather   put the files of a container together, for an image of it\n"
    "  freeze   let a box stand still, or go on\n"
    "  reclaim  give memory of a box that stands still back to the machine\n"
    "  relay    start what serves the socket of a box that Docker or Podman makes\n"
    "  base     make the base that boxes on the host's own programs share\n"
    "\n"
    "  --version  print the version\n"
    "  --help     this text\n";

struct outcome {
    struct err err;
    struct proc_tail tail; /* what others wrote about the failure */
    struct buf answer;
};

/* --- run --- */

/* Of each process: what the kernel gave by default before 5.16. Pages of files that boxes share are charged to the box
 * that read them first, and whoever locks them keeps them there. */
#define LOCKED_MAX (64UL * 1024)

/* Of everything that is started from here on. */
static int set_limits(const struct plan *p, struct err *err)
{
    struct rlimit none = {0, 0};
    struct rlimit files = {p->max_files, p->max_files};
    struct rlimit locked;

    if (getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_max > LOCKED_MAX) {
        locked = (struct rlimit){LOCKED_MAX, LOCKED_MAX};
        (void) setrlimit(RLIMIT_MEMLOCK, &locked); /* lowering cannot fail */
    }
    if (p->max_files == 0)
        return SP_OK;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0 || setrlimit(RLIMIT_CORE, &none) != 0)
        return err_sys(err, SP_IO, errno, "limit open files to %llu",
                       (unsigned long long) p->max_files);
    return SP_OK;
}

/* The relay starts while the box's files are made, and outside of the mount namespace they are made in. */
static int start_all(const struct plan *p, struct box_dir *d, struct guard *g, struct egress *e,
                     unsigned *ret_unmapped, int *ret_pid, struct outcome *o)
{
    struct relay_process relay;
    const struct relay_place at = {.dir = p->dir, .id = p->id_base, .want_local = true};
    int rc = relay_begin(&at, START_LISTEN_FD, d->lock, &relay, &o->err);

    (void) close(START_LISTEN_FD); /* the relay has it */
    if (rc == SP_OK)
        rc = guard_start(p, d, g, &o->err);
    if (rc == SP_OK)
        rc = egress_begin(p, d, e, &o->err);
    if (rc == SP_OK)
        rc = rootfs_make(p, d, ret_unmapped, &o->err);
    if (rc == SP_OK)
        rc = user_ns_place(p, &o->err);
    if (rc == SP_OK)
        rc = guard_listen(p, g, &o->err);
    if (rc == SP_OK)
        rc = egress_set_up(p, e, &o->err);
    if (rc == SP_OK)
        rc = set_limits(p, &o->err);
    if (rc == SP_OK && start_is_stopped())
        rc = err_set(&o->err, SP_CANCELLED, "stopped by a signal");
    if (rc == SP_OK)
        rc = start_box(p, d, &relay, e, ret_pid, &o->tail, &o->err);
    if (rc == SP_OK)
        rc = guard_serve(p, d, g, &o->err);
    if (relay.report >= 0)
        (void) close(relay.report); /* it ends: nobody takes its channel */
    return rc;
}

static int make_box(const struct plan *p, struct box_dir *d, struct guard *g, struct egress *e,
                    struct outcome *o)
{
    struct json_out out;
    unsigned unmapped = 0;
    int pid = 0;
    int rc;

    if ((rc = box_dir_write(d, "box.json", p->record, &o->err)) != SP_OK ||
        (rc = box_dir_write(d, "config.json", p->spec, &o->err)) != SP_OK ||
        (rc = start_all(p, d, g, e, &unmapped, &pid, o)) != SP_OK ||
        (rc = p->is_durable ? keep_sync(p, d, &o->err) : SP_OK) != SP_OK)
        return rc;
    json_out_init(&out);
    json_begin_obj(&out, NULL);
    json_put_i64(&out, "pid", pid);
    json_put_u64(&out, "unmapped", unmapped);
    json_end(&out);
    json_out_finish(&out, &o->answer);
    return SP_OK;
}

/* What root can do and an ordinary user cannot, reported before anything is made. */
static int check_rootless(const struct plan *p, struct err *err)
{
    if (p->disk != 0)
        return err_set(err, SP_UNSUPPORTED,
                       "a disk with a limit needs root: an ordinary user has no loop devices");
    if (p->id_base != 0)
        return err_set(err, SP_INVALID_FIELD,
                       "plan: 'id_base' must be 0 for an ordinary user: ids are those of a user "
                       "namespace of its own");
    return SP_OK;
}

static int check_listening(int fd, struct err *err)
{
    int is_listening = 0;
    socklen_t len = sizeof(is_listening);

    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len) != 0 || !is_listening)
        return err_set(err, SP_BAD_REQUEST, "descriptor %d is not a listening socket", fd);
    return SP_OK;
}

static int check_run(const struct plan *p, struct err *err)
{
    int rc = check_listening(START_LISTEN_FD, err);

    if (rc != SP_OK)
        return rc;
    return geteuid() == 0 ? SP_OK : check_rootless(p, err);
}

static int do_run(const char *text, size_t len, struct plan *p, struct outcome *o)
{
    struct remove_report report = {0};
    struct guard guard = GUARD_NONE;
    struct egress egress = EGRESS_NONE;
    struct box_dir d;
    struct err left;
    AUTO_CLOSE int host = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    bool is_leftover = false;
    int rc = plan_read_run(p, text, len, &o->err);

    if (rc != SP_OK || (rc = check_run(p, &o->err)) != SP_OK ||
        (rc = user_ns_enter(p->id_count, &o->err)) != SP_OK ||
        (rc = start_watch_parent(0, &o->err)) != SP_OK ||
        (rc = box_dir_make(p->dir, &d, &is_leftover, &o->err)) != SP_OK)
        return rc;
    if (is_leftover)
        rc = remove_leftover(p, &d, &report, &o->err);
    if (rc == SP_OK)
        rc = make_box(p, &d, &guard, &egress, o);
    egress_close(&egress);
    guard_close(&guard);
    box_dir_close(&d); /* the relay has the lock by now, or nobody shall have it */
    if (rc != SP_OK) {
        (void) alarm(CLEANUP_S);
        (void) setns(host, CLONE_NEWNS); /* our mounts go; at worst they go with us */
        if (remove_box(p, &report, &left) != SP_OK) {
            proc_tail_add(&o->tail, "; not cleaned up: ", 18);
            proc_tail_add(&o->tail, left.msg, strlen(left.msg));
        }
    }
    return rc;
}

/* --- the other verbs --- */

static void put_count(struct json_out *o, const char *key, unsigned n, bool is_known)
{
    if (is_known)
        json_put_u64(o, key, n);
    else
        json_put_null(o, key);
}

static int do_remove(const char *text, size_t len, struct plan *p, struct outcome *o)
{
    struct remove_report r = {0};
    struct json_out out;
    int rc = plan_read_remove(p, text, len, &o->err);

    if (rc != SP_OK || (rc = user_ns_enter(0, &o->err)) != SP_OK ||
        (rc = remove_box(p, &r, &o->err)) != SP_OK)
        return rc;
    json_out_init(&out);
    json_begin_obj(&out, NULL);
    json_put_bool(&out, "was_running", r.was_running);
    put_count(&out, "processes", r.processes, r.is_counted);
    put_count(&out, "mounts", r.mounts, r.mounts > 0 || !r.was_running);
    json_put_u64(&out, "layers", r.layers);
    json_put_u64(&out, "cgroups", r.cgroups);
    json_put_u64(&out, "files", r.tree.files);
    json_put_u64(&out, "bytes", r.tree.bytes);
    json_end(&out);
    json_out_finish(&out, &o->answer);
    return SP_OK;
}

static int do_freeze(const char *text, size_t len, struct plan *p, struct outcome *o)
{
    int rc = plan_read_freeze(p, text, len, &o->err);

    if (rc == SP_OK)
        rc = freezer_set(p->cgroup, p->is_frozen, &o->err);
    if (rc == SP_OK)
        buf_puts(&o->answer, "{}");
    return rc;
}

static int do_relay(const char *text, size_t len, struct plan *p, struct outcome *o)
{
    AUTO_CLOSE int listen = fdpass_receive(START_LISTEN_FD);
    AUTO_CLOSE int leash = fdpass_receive(START_LISTEN_FD);
    AUTO_CLOSE int channel = -1;
    struct relay_process relay;
    struct json_out out;
    int rc = plan_read_relay(p, text, len, &o->err);

    if (rc != SP_OK || (rc = check_listening(listen, &o->err)) != SP_OK ||
        (rc = leash < 0 ? err_sys(&o->err, SP_BAD_REQUEST, errno, "the leash") : SP_OK) != SP_OK ||
        (rc = relay_begin(&(struct relay_place){.dir = p->dir, .id = p->id_base}, listen, leash,
                          &relay, &o->err)) != SP_OK ||
        (rc = relay_await(&relay, &channel, &o->err)) != SP_OK)
        return rc;
    if (p->cgroup != NULL)
        cgroup_place(p->cgroup, (int) relay.pid);
    if (!fdpass_send(START_LISTEN_FD, channel))
        return err_sys(&o->err, SP_IO, errno, "give the channel back"); /* the relay ends with us */
    json_out_init(&out);
    json_begin_obj(&out, NULL);
    json_put_i64(&out, "pid", relay.pid);
    json_end(&out);
    json_out_finish(&out, &o->answer);
    return SP_OK;
}

static int do_base(const char *text, size_t len, struct plan *p, struct outcome *o)
{
    int rc = plan_read_base(p, text, len, &o->err);

    if (rc == SP_OK)
        rc = user_ns_enter(0, &o->err);
    return rc == SP_OK ? base_make(p, &o->answer, &o->err) : rc;
}

static const struct verb {
    const char *name;
    /* One of the first four. */
    int (*run)(const char *text, size_t len, struct plan *p, struct outcome *o);
    int (*work)(const struct plan *p, struct buf *answer, struct err *err);
    int (*alter)(struct plan *p, struct buf *answer,
                 struct err *err); /* the same, and fills it in */
    int (*move)(const struct plan *p, int fd, struct buf *answer,
                struct err *err); /* descriptor 3 */
    int (*read)(struct plan *ret, const char *text, size_t len, struct err *err);
    const char *needs_root; /* why; NULL: it says so itself */
    bool is_cleaning;       /* it undoes its work when the parent dies; others die with it */
} verbs[] = {
    {.name = "run", .run = do_run, .is_cleaning = true},
    {.name = "remove", .run = do_remove},
    {.name = "freeze", .run = do_freeze},
    {.name = "reclaim", .read = plan_read_reclaim, .work = reclaim_memory, .is_cleaning = true},
    {.name = "relay", .run = do_relay},
    {.name = "base", .run = do_base},
    {.name = "mount",
     .read = plan_read_mount,
     .alter = mount_in,
     .needs_root = "mounts into a running box need root"},
    {.name = "disk",
     .read = plan_read_disk,
     .alter = container_disk,
     .needs_root = "a disk with a limit needs root"},
    {.name = "capture",
     .read = plan_read_capture,
     .work = capture_disk,
     .needs_root = "snapshots need root: they are made of the box's disk",
     .is_cleaning = true},
    {.name = "gather",
     .read = plan_read_gather,
     .alter = gather_files,
     .needs_root = "the files of the engine need root"},
    {.name = "egress", .read = plan_read_egress, .work = egress_change},
    {.name = "flatten", .read = plan_read_flatten, .work = flatten_layers, .is_cleaning = true},
    {.name = "keep", .read = plan_read_keep, .work = keep_disk},
    {.name = "pack", .read = plan_read_pack, .move = pack_snapshot},
    {.name = "image", .read = plan_read_image, .move = pack_image},
    {.name = "unpack", .read = plan_read_unpack, .move = unpack_snapshot, .is_cleaning = true},
    {.name = "repack", .read = plan_read_repack, .move = repack_image},
    {.name = "load", .read = plan_read_load, .move = load_image},
};

/* --- the process --- */

static int read_plan(struct buf *ret, struct err *err)
{
    int sys = file_read_rest(0, ret);

    if (sys == EFBIG)
        return err_set(err, SP_TOO_BIG, "the plan is longer than %u bytes", PLAN_TEXT_MAX);
    return sys == 0 ? SP_OK : err_sys(err, SP_IO, sys, "read the plan");
}

static int exit_status(int rc)
{
    if (rc == SP_OK)
        return 0;
    if (rc == SP_LOCKED)
        return HELPER_EXIT_RUNNING;
    if (rc == SP_FORBIDDEN)
        return HELPER_EXIT_REFUSED;
    if (rc == SP_NOT_FOUND)
        return HELPER_EXIT_INVALID;
    if (rc == SP_UNSUPPORTED)
        return HELPER_EXIT_UNABLE;
    if (rc == ERR_TAKEN)
        return HELPER_EXIT_TAKEN;
    if (rc == SP_PROTOCOL)
        return HELPER_EXIT_DAMAGED;
    if (rc == SP_SPEC_CONFLICT)
        return HELPER_EXIT_BASE;
    if (rc == SP_BODY_TOO_LARGE)
        return HELPER_EXIT_LARGE;
    if (rc == SP_PROGRAM_NOT_EXECUTABLE)
        return HELPER_EXIT_UNFIT;
    return start_was_killed() ? HELPER_EXIT_KILLED : HELPER_EXIT_FAILED;
}

/* Only what was given on purpose is open, and the parent's end is ours. */
static int settle_in(const struct verb *verb, pid_t parent, struct err *err)
{
    bool has_socket = verb->move != NULL || verb->run == do_run || verb->run == do_relay;

    (void) umask(022);
    (void) close_range(has_socket ? START_LISTEN_FD + 1u : 3u, ~0u, 0); /* best effort */
    if (has_socket)
        (void) fcntl(START_LISTEN_FD, F_SETFD, FD_CLOEXEC); /* may be missing: found out later */
    (void) signal(SIGPIPE, SIG_IGN);                        /* cannot fail for this signal */
    if (verb->is_cleaning)
        return start_watch_parent(parent, err);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return err_sys(err, SP_IO, errno, "watch the parent");
    if (getppid() != parent)
        return err_set(err, SP_CANCELLED, "the parent is gone");
    return SP_OK;
}

static int do_verb(const struct verb *verb, const struct buf *text, struct plan *p,
                   struct outcome *o)
{
    int rc;

    if (verb->run != NULL)
        return verb->run(buf_str(text), text->len, p, o);
    rc = verb->read(p, buf_str(text), text->len, &o->err);
    if (rc == SP_OK && verb->needs_root != NULL && geteuid() != 0)
        rc = err_set(&o->err, SP_UNSUPPORTED, "%s", verb->needs_root);
    if (rc != SP_OK)
        return rc;
    if (verb->alter != NULL)
        return verb->alter(p, &o->answer, &o->err);
    return verb->move != NULL ? verb->move(p, START_LISTEN_FD, &o->answer, &o->err)
                              : verb->work(p, &o->answer, &o->err);
}

static int perform(const struct verb *verb, pid_t parent)
{
    struct outcome o = {0};
    struct plan plan = {0};
    struct buf text;
    int rc;

    buf_init(&text, PLAN_TEXT_MAX);
    buf_init(&o.answer, 1024 * 1024);
    rc = settle_in(verb, parent, &o.err);
    if (rc == SP_OK)
        rc = read_plan(&text, &o.err);
    if (rc == SP_OK)
        rc = do_verb(verb, &text, &plan, &o);
    if (rc == SP_OK)
        (void) printf("%s\n", buf_str(&o.answer));
    else if (o.tail.len > 0)
        (void) fprintf(stderr, "%s: %s\n", o.err.msg, o.tail.text);
    else
        (void) fprintf(stderr, "%s\n", o.err.msg);
    plan_fini(&plan);
    buf_fini(&text);
    buf_fini(&o.answer);
    return exit_status(rc);
}

/* Processes beside a box, started by ourselves only: see relay.h, connector.h. They do not return while
 * all is well. False: none of them. */
static bool run_beside(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "relay") == 0)
        relay_run(argv[3]);
    else if (argc == 5 && strcmp(argv[1], "connect") == 0)
        connector_run(argv[3], argv[4]);
    else if (argc == 5 && strcmp(argv[1], "resolver") == 0)
        resolver_run(argv[3], argv[4]);
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    pid_t parent = getppid();

    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return puts("sandpool-helper " SANDPOOL_VERSION) < 0;
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return fputs(usage_text, stdout) < 0;
    if (argc >= 4 && run_beside(argc, argv))
        _exit(HELPER_EXIT_FAILED);                    /* the connections it still has end with it */
    if (argc == 5 && strcmp(argv[1], "guard") == 0) { /* likewise: see socket_guard.h */
        guard_run(argv[3], argv[4]);
        return 0;
    }
    for (size_t i = 0; argc == 2 && i < ARRAY_LEN(verbs); i++) {
        if (strcmp(argv[1], verbs[i].name) == 0)
            return perform(&verbs[i], parent);
    }
    (void) fputs(usage_text, stderr);
    return HELPER_EXIT_USAGE;
}
