/* setup.c - what the backend needs before the first box: its directories, its two programs, a place
 * to build file systems in, and the base of `rootfs: host`. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "backends/oci/internal.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#define TERMINALS_MIN 16U /* of a box, however many boxes there are */

struct base_job {
    struct oci_helper helper;
    struct oci *oci;
};

/* --- the base --- */

static bool take_extra_binds(struct oci *o, const struct json *list)
{
    o->extra_bind_count = 0;
    for (size_t i = 0; list != NULL && i < json_len(list); i++) {
        const char *path = json_str(json_at(list, i));

        if (path == NULL || o->extra_bind_count == ARRAY_LEN(o->extra_binds) ||
            !str_copy(o->extra_binds[o->extra_bind_count], sizeof(o->extra_binds[0]), path))
            return false;
        o->extra_bind_count++;
    }
    return true;
}

static void on_base(struct op *op)
{
    struct base_job *job = container_of(op, struct base_job, helper.op);
    struct oci *o = job->oci;
    const struct json *answer = op->result == SP_OK ? json_root(job->helper.answer) : NULL;
    const char *digest = json_str(json_get(answer, "digest"));

    if (op->result != SP_OK)
        o->base_err = op->err;
    else if (digest == NULL || !take_extra_binds(o, json_get(answer, "extra_binds")))
        (void) err_set(&o->base_err, SP_PROTOCOL, "sandpool-helper base gave no answer");
    else
        (void) snprintf(o->base_dir, sizeof(o->base_dir), "%.440s/base/%.64s", o->dir, digest);
    oci_helper_fini(&job->helper);
    free(job);
    oci_wake(o);
    o->is_base_asked = !str_is_empty(o->base_dir); /* a failure is tried again by the next box */
    closing_settle(&o->closing);
}

static void start_base(struct oci *o)
{
    struct base_job *job = xcalloc(1, sizeof(*job));
    char dir[OCI_PATH_MAX + 8];
    struct json_out j;

    o->is_base_asked = true;
    o->base_err = (struct err){0};
    job->oci = o;
    job->helper.verb = "base";
    job->helper.pass_fd = -1;
    (void) snprintf(dir, sizeof(dir), "%s/base", o->dir);
    buf_init(&job->helper.plan, OCI_RECORD_MAX);
    json_out_init(&j);
    json_begin_obj(&j, NULL);
    json_put_str(&j, "dir", dir);
    json_put_str(&j, "user", "user");
    json_put_u64(&j, "user_id", OCI_USER_ID);
    json_end(&j);
    json_out_finish(&j, &job->helper.plan);
    oci_helper_start(o, &job->helper, rt_after(rt_now(&o->loop->rt), OCI_REMOVE_NS), on_base);
}

int oci_base_ready(struct oci *o, struct err *err)
{
    if (!str_is_empty(o->base_dir))
        return SP_OK;
    if (o->is_base_asked && o->base_err.code != SP_OK) {
        *err = o->base_err;
        return err_wrap(err, "the base of `rootfs: host`");
    }
    if (!o->is_base_asked)
        start_base(o);
    return ERR_NOT_READY;
}

/* --- the rest --- */

static int find_program(const char *configured, const char *name, char *dst, size_t cap,
                        struct err *err)
{
    if (!backend_program(configured, name, dst, cap))
        return err_sys(err, SP_IO, errno, "/proc/self/exe");
    if (access(dst, X_OK) != 0)
        return err_sys(err, SP_CONFIG, errno,
                       "'%.120s' is needed (it is built and installed with the daemon)", dst);
    return SP_OK;
}

/* Covered by a private tmpfs while a box is made, so it must not lead to anything that is needed
 * then. */
static int find_stage(struct oci *o, struct err *err)
{
    static const char *const places[] = {"/mnt", "/media", "/srv", "/opt"};
    const char *const needed[] = {o->dir, o->agent, o->helper};

    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        size_t len = strlen(places[i]);
        bool is_free = access(places[i], F_OK) == 0;

        for (size_t k = 0; k < ARRAY_LEN(needed); k++)
            if (strncmp(needed[k], places[i], len) == 0 && needed[k][len] == '/')
                is_free = false;
        if (is_free) {
            str_copy_cut(o->stage, sizeof(o->stage), places[i]);
            return SP_OK;
        }
    }
    return err_set(err, SP_CONFIG,
                   "one of /mnt, /media, /srv and /opt must exist and hold "
                   "nothing of sandpool");
}

static int take_ids(struct oci *o, const struct config *c, const char *state_dir, struct err *err)
{
    struct oci_living living = {0};
    int rc = SP_OK;

    if (!o->is_rootless) {
        oci_living_read(&living, c->oci.id_base);
        rc = oci_claim_ids(state_dir, c->oci.id_base, c->pool.max_boxes, &living, &o->id_base,
                           &o->id_slots, err);
    }
    o->id_used = xcalloc(o->id_slots / 8 + 1, 1);
    o->id_lived = xcalloc(o->id_slots / 8 + 1, 1);
    oci_avoid_living(o, &living);
    oci_living_fini(&living);
    return rc;
}

/* Not when some are off, or not ours (a container, a slice): a box cannot be tied to those. */
static bool has_all_cpus(unsigned count)
{
    cpu_set_t ours;

    if (sched_getaffinity(0, sizeof(ours), &ours) != 0)
        return false;
    for (unsigned i = 0; i < count; i++)
        if (i >= CPU_SETSIZE || !CPU_ISSET(i, &ours))
            return false;
    return true;
}

/* With 1 a process that changes its ids can be traced. The agent does so to act as the box's user,
 * and root of the box could then take its listening socket, which is in the host's network. */
static int check_dumpable(struct err *err)
{
    char value[2];

    if (file_read_start(AT_FDCWD, "/proc/sys/fs/suid_dumpable", value, sizeof(value)) == 1 &&
        value[0] == '1')
        return err_set(err, SP_CONFIG,
                       "fs.suid_dumpable is 1, which makes boxes unsafe: set it to 0 or 2 "
                       "(sysctl fs.suid_dumpable=2)");
    return SP_OK;
}

static uint64_t read_number(const char *path)
{
    FILE *f = fopen(path, "re");
    unsigned long long count = 0;

    if (f != NULL) {
        if (fscanf(f, "%llu", &count) != 1)
            count = 0;
        (void) fclose(f); /* only read */
    }
    return count;
}

/* The machine has a number of terminals for everybody but its own first mount of them (kernel.pty.reserve): each box gets
 * a share, so that all boxes together cannot take more. */
static void find_terminals(struct oci *o, uint64_t boxes)
{
    uint64_t all = read_number("/proc/sys/kernel/pty/max");
    uint64_t reserve = read_number("/proc/sys/kernel/pty/reserve");

    o->max_boxes = MAX_OF(boxes, 1);
    o->all_terminals = all > reserve ? all - reserve : 0;
    o->terminals = (unsigned) MIN_OF(MAX_OF(o->all_terminals / o->max_boxes, TERMINALS_MIN),
                                     CONFIG_TERMINALS_MAX);
}

/* "../devices/pci0000:00/.../block/vda" is a disk on the bus "pci0000:00". */
static void add_disk_bus(struct oci *o, const char *link)
{
    static const char prefix[] = "../devices/";
    char *bus = o->disk_buses[o->disk_bus_count];
    size_t len;

    if (strncmp(link, prefix, sizeof(prefix) - 1) != 0)
        return;
    link += sizeof(prefix) - 1;
    len = strcspn(link, "/");
    if (len >= OCI_BUS_LEN || (len == 7 && memcmp(link, "virtual", len) == 0))
        return; /* those have a place of their own, which is hidden always */
    memcpy(bus, link, len);
    bus[len] = '\0';
    for (unsigned i = 0; i < o->disk_bus_count; i++) {
        if (strcmp(o->disk_buses[i], bus) == 0)
            return;
    }
    o->disk_bus_count++;
}

/* Once: a disk that comes later is nearly always on a bus that has one already. */
static void find_disk_buses(struct oci *o)
{
    DIR *dir = opendir("/sys/block");
    const struct dirent *e;
    char link[512];

    while (dir != NULL && o->disk_bus_count < ARRAY_LEN(o->disk_buses) &&
           (e = readdir(dir)) != NULL) {
        ssize_t len = readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1);

        link[MAX_OF(len, 0)] = '\0';
        add_disk_bus(o, link);
    }
    if (dir != NULL)
        (void) closedir(dir); /* only read */
}

int oci_setup(struct oci *o, const struct backend_env *env, struct err *err)
{
    struct statfs fs;
    struct rlimit files;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    AUTO_FREE char *state_dir = realpath(env->state_dir, NULL);
    int rc;

    o->id_count = OCI_ID_COUNT;
    o->has_cgroups = true;
    rc = check_dumpable(err);
    if (rc == SP_OK && geteuid() != 0)
        rc = oci_rootless_setup(o, err);
    if (rc != SP_OK)
        return rc;
    if (state_dir == NULL)
        return err_sys(err, SP_IO, errno, "state_dir '%.160s'", env->state_dir);
    (void) snprintf(o->dir, sizeof(o->dir), "%.400s/oci", state_dir);
    (void) snprintf(o->boxes_dir, sizeof(o->boxes_dir), "%.400s/oci/boxes", state_dir);
    rc = file_make_dir(o->dir, err);
    if (rc == SP_OK)
        rc = file_make_dir(o->boxes_dir, err);
    if (rc == SP_OK)
        rc = find_program(env->config->agent.path, "sandpool-agent", o->agent, sizeof(o->agent),
                          err);
    if (rc == SP_OK)
        rc = find_program(env->config->helper.path, "sandpool-helper", o->helper, sizeof(o->helper),
                          err);
    if (rc == SP_OK)
        rc = find_stage(o, err);
    if (rc == SP_OK)
        rc = take_ids(o, env->config, state_dir, err);
    if (rc != SP_OK)
        return rc;
    str_copy_cut(o->allow, sizeof(o->allow), env->config->mounts.allow);
    o->host_cpus = cpus > 0 ? (unsigned) cpus : 1;
    o->has_cpuset = has_all_cpus(o->host_cpus);
    find_disk_buses(o);
    o->is_cgroup_v2 = statfs("/sys/fs/cgroup", &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
    o->max_files = getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_max : 0;
    /* Systems with systemd have no limit here: there the memory that files take is the limit. */
    o->file_table = read_number("/proc/sys/fs/file-max");
    find_terminals(o, env->config->pool.max_boxes);
    o->has_syncookies = access("/proc/sys/net/ipv4/tcp_syncookies", F_OK) == 0;
    o->has_ipv6 = access("/proc/sys/net/ipv6/conf/default/disable_ipv6", F_OK) == 0;
    o->has_swap_limit =
        access(o->is_cgroup_v2 ? "/sys/fs/cgroup/init.scope/memory.swap.max"
                               : "/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes",
               F_OK) == 0;
    o->has_loop = !o->is_rootless && access("/dev/loop-control", R_OK | W_OK) == 0;
    oci_runtimes_init(o);
    if (o->is_rootless) /* it gives up the right to enter a namespace of its own user's first */
        str_copy_cut(o->pasta, sizeof(o->pasta), "");
    start_base(o);
    return SP_OK;
}
