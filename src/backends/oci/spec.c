/* spec.c - writes config.json (OCI runtime specification 1.0.2) for one box. Everything a box may
 * do is decided here and in seccomp.c. */
#include "backends/oci/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/oci/env.h"
#include "backends/oci/seccomp.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#define FILES_MAX 65536U
#define CPU_PERIOD_US 100000U
#define CPU_QUOTA_MIN_US 1000U /* the kernel takes no less */
/* Boxes go before the daemon when the machine itself has no memory left. Lowering it again would
 * need a capability, so it is never below zero. */
#define OOM_SCORE_ADJ 500
#define GID_TTY 5
/* A socket can hold this much of what is charged to nobody: its queue of errors, as large as the receive
 * buffer (212,992 by the kernel's default; of TCP the last of TCP_RMEM), and a packet that is not sent. */
#define SOCKET_COST (512U << 10)
#define SOCKETS_MIN 128U
#define SOCKETS_MAX 4096U
#define TCP_RMEM "4096 131072 425984"

/* A list that ends with NULL. */
#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static void put_list(struct json_out *o, const char *key, const char *const *items)
{
    json_begin_arr(o, key);
    for (; *items != NULL; items++)
        json_put_str(o, NULL, *items);
    json_end(o);
}

/* --- process --- */

static void put_env(struct json_out *o, const struct oci_spec *s)
{
    const struct config_map *own = &s->profile->env;
    struct oci_env e = {0};

    oci_env_begin(&e, s->profile->user, s->image_env);
    for (unsigned i = 0; i < own->count; i++)
        oci_env_set(&e, own->pairs[i].key, own->pairs[i].value);
    oci_env_set(&e, "SANDPOOL_AGENT_TOKEN", s->token);
    oci_env_put(&e, "env", o);
}

/* What root of a box needs to act for its user and to install packages; nothing about the network,
 * the kernel or other users' processes. Not inherited through exec by another user. */
static void put_capabilities(struct json_out *o)
{
    static const char *const kept[] = {
        "CAP_CHOWN",  "CAP_DAC_OVERRIDE", "CAP_FOWNER",  "CAP_FSETID",           "CAP_KILL",
        "CAP_SETGID", "CAP_SETUID",       "CAP_SETFCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT",
        NULL};

    json_begin_obj(o, "capabilities");
    put_list(o, "bounding", kept);
    put_list(o, "permitted", kept);
    put_list(o, "effective", kept);
    put_list(o, "inheritable", LIST(NULL));
    put_list(o, "ambient", LIST(NULL));
    json_end(o);
}

static void put_rlimit(struct json_out *o, const char *type, uint64_t value)
{
    json_begin_obj(o, NULL);
    json_put_str(o, "type", type);
    json_put_u64(o, "hard", value);
    json_put_u64(o, "soft", value);
    json_end(o);
}

uint64_t oci_spec_files(const struct oci_spec *s)
{
    return s->max_files == 0 ? FILES_MAX : MIN_OF(s->max_files, FILES_MAX);
}

uint64_t oci_spec_sockets(const struct oci_spec *s)
{
    uint64_t memory = s->profile->limits.memory;
    uint64_t share = memory != 0 ? memory / SOCKET_COST : SOCKETS_MAX;

    /* In the host's network the sockets are the host's; Unix sockets are charged to the box. */
    if (s->guard == NULL || s->profile->network.mode == CONFIG_NETWORK_HOST ||
        s->profile->sockets == CONFIG_SOCKETS_UNIX)
        return 0;
    return MIN_OF(MAX_OF(share, SOCKETS_MIN), SOCKETS_MAX);
}

static void put_process(struct json_out *o, const struct oci_spec *s)
{
    json_begin_obj(o, "process");
    json_put_bool(o, "terminal", false);
    json_begin_obj(o, "user");
    json_put_u64(o, "uid", 0);
    json_put_u64(o, "gid", 0);
    json_end(o);
    json_begin_arr(o, "args");
    json_put_str(o, NULL, OCI_AGENT_PATH);
    for (const char *const *arg = s->agent_args; *arg != NULL; arg++)
        json_put_str(o, NULL, *arg);
    json_end(o);
    put_env(o, s);
    json_put_str(o, "cwd", "/");
    put_capabilities(o);
    json_put_bool(o, "noNewPrivileges", true);
    /* In a user namespace that is not the runtime's own it needs CAP_SYS_RESOURCE to set them, which
     * root lacks in many a container. They are inherited then. */
    if (s->user_ns == NULL) {
        json_begin_arr(o, "rlimits");
        put_rlimit(o, "RLIMIT_NOFILE", oci_spec_files(s));
        put_rlimit(o, "RLIMIT_CORE", 0);
        json_end(o);
    }
    json_put_i64(o, "oomScoreAdj", OOM_SCORE_ADJ);
    json_end(o);
}

/* --- mounts --- */

static void put_mount(struct json_out *o, const char *to, const char *type,
                      const char *const *options)
{
    json_begin_obj(o, NULL);
    json_put_str(o, "destination", to);
    json_put_str(o, "type", type);
    json_put_str(o, "source", type);
    put_list(o, "options", options);
    json_end(o);
}

/* /tmp and /run are not here: they lie on the box's disk, within its limit. */
static void put_mounts(struct json_out *o, const struct oci_spec *s)
{
    bool is_tty_mapped = s->id_count > GID_TTY;
    char terminals[24];

    (void) snprintf(terminals, sizeof(terminals), "max=%u",
                    (unsigned) MIN_OF(s->terminals == 0 ? CONFIG_TERMINALS_MAX : s->terminals,
                                      s->profile->terminals)); /* fits by its size */
    json_begin_arr(o, "mounts");
    put_mount(o, "/proc", "proc", LIST("nosuid", "noexec", "nodev"));
    put_mount(o, "/dev", "tmpfs",
              LIST("nosuid", "strictatime", "mode=755", "size=64k", "nr_inodes=4096"));
    /* Without a maximum one box could take the terminals of the whole machine. Without the mount /dev/ptmx leads
     * nowhere. */
    if (s->profile->terminals > 0)
        put_mount(o, "/dev/pts", "devpts",
                  LIST("nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", terminals,
                       is_tty_mapped ? "gid=5" : NULL));
    put_mount(o, "/dev/shm", "tmpfs",
              LIST("nosuid", "noexec", "nodev", "mode=1777", "size=64m", "nr_inodes=16384"));
    put_mount(o, "/dev/mqueue", "mqueue", LIST("nosuid", "noexec", "nodev"));
    /* The kernel shows /sys only to the owner of the network namespace. */
    if (s->profile->network.mode == CONFIG_NETWORK_HOST && (s->has_user_ns || s->is_rootless))
        put_mount(o, "/sys", "tmpfs",
                  LIST("nosuid", "noexec", "nodev", "ro", "mode=755", "size=4k"));
    else
        put_mount(o, "/sys", "sysfs", LIST("nosuid", "noexec", "nodev", "ro"));
    /* The agent reads from it whether a command died for want of memory. */
    if (s->has_cgroups)
        put_mount(o, "/sys/fs/cgroup", "cgroup",
                  LIST("nosuid", "noexec", "nodev", "relatime", "ro"));
    json_end(o);
}

/* --- linux --- */

static void put_namespace_at(struct json_out *o, const char *type, const char *path)
{
    json_begin_obj(o, NULL);
    json_put_str(o, "type", type);
    if (path != NULL)
        json_put_str(o, "path", path);
    json_end(o);
}

static void put_namespace(struct json_out *o, const char *type)
{
    put_namespace_at(o, type, NULL);
}

static void put_namespaces(struct json_out *o, const struct oci_spec *s)
{
    json_begin_arr(o, "namespaces");
    put_namespace(o, "pid");
    put_namespace(o, "ipc");
    put_namespace(o, "uts");
    put_namespace(o, "mount");
    put_namespace(o, "cgroup");
    if (s->profile->network.mode != CONFIG_NETWORK_HOST)
        put_namespace(o, "network");
    if (s->has_user_ns)
        put_namespace_at(o, "user", s->user_ns);
    json_end(o);
}

static void put_mapping(struct json_out *o, const char *key, const struct oci_spec *s)
{
    json_begin_arr(o, key);
    json_begin_obj(o, NULL);
    json_put_u64(o, "containerID", 0);
    json_put_u64(o, "hostID", s->id_base);
    json_put_u64(o, "size", s->id_count);
    json_end(o);
    json_end(o);
}

/* Processors of the box, "" for all. They begin at another one for each box and go round. */
static void format_cpus(const struct oci_spec *s, char *dst, size_t cap)
{
    uint64_t count = (s->profile->limits.cpus + 999) / 1000;
    unsigned first;
    unsigned last;

    dst[0] = '\0';
    if (!s->has_cpuset || count == 0 || count >= s->host_cpus)
        return;
    first = s->first_cpu % s->host_cpus;
    last = first + (unsigned) count - 1;
    if (last < s->host_cpus)
        (void) snprintf(dst, cap, "%u-%u", first, last);
    else
        (void) snprintf(dst, cap, "0-%u,%u-%u", last - s->host_cpus, first, s->host_cpus - 1);
}

static void put_cpu(struct json_out *o, const struct oci_spec *s)
{
    uint64_t quota = s->profile->limits.cpus * (CPU_PERIOD_US / 1000);
    char cpus[64];

    json_begin_obj(o, "cpu");
    json_put_u64(o, "quota", MAX_OF(quota, CPU_QUOTA_MIN_US));
    json_put_u64(o, "period", CPU_PERIOD_US);
    format_cpus(s, cpus, sizeof(cpus));
    /* In version 1 a group begins with no processors at all. runc and crun give our own group, the
     * parent of the box's, some first; runsc does not and then fails. */
    if (!str_is_empty(cpus) && (s->has_user_ns || s->is_cgroup_v2))
        json_put_str(o, "cpus", cpus);
    json_end(o);
}

static void put_resources(struct json_out *o, const struct oci_spec *s)
{
    json_begin_obj(o, "resources");
    /* None; the runtime adds the harmless ones (null, zero, random, tty, ptmx). */
    json_begin_arr(o, "devices");
    json_begin_obj(o, NULL);
    json_put_bool(o, "allow", false);
    json_put_str(o, "access", "rwm");
    json_end(o);
    json_end(o);
    if (s->profile->limits.memory > 0) {
        json_begin_obj(o, "memory");
        json_put_u64(o, "limit", s->profile->limits.memory);
        /* Memory and swap together: so swap gives nothing on top. */
        if (s->has_swap_limit)
            json_put_u64(o, "swap", s->profile->limits.memory);
        json_end(o);
    }
    if (s->profile->limits.cpus > 0)
        put_cpu(o, s);
    if (s->profile->limits.pids > 0) {
        json_begin_obj(o, "pids");
        json_put_u64(o, "limit", s->profile->limits.pids);
        json_end(o);
    }
    json_end(o);
}

/* These show or reach the machine and its other tenants. A path that does not exist is skipped. */
static void put_masked_paths(struct json_out *o, const struct oci_spec *s)
{
    static const char *const masked[] = {
        "/proc/acpi",
        "/proc/asound",
        "/proc/diskstats", /* of the disks of all boxes, as several below */
        "/proc/fs",
        "/proc/interrupts",
        "/proc/kcore",
        "/proc/keys",
        "/proc/key-users",
        "/proc/kmsg",
        "/proc/latency_stats",
        "/proc/locks", /* while it is read, nobody on the machine locks a file */
        "/proc/mdstat",
        "/proc/partitions",
        "/proc/pressure", /* a write makes the kernel watch the load of the whole machine */
        "/proc/sched_debug",
        "/proc/scsi",
        "/proc/swaps",
        "/proc/timer_list",
        "/proc/timer_stats",
        "/sys/block",
        "/sys/class/block",
        "/sys/dev/block",
        "/sys/devices/virtual/bdi",
        "/sys/devices/virtual/block",
        "/sys/devices/virtual/powercap",
        "/sys/firmware",
        "/sys/fs/bpf",
        "/sys/fs/btrfs",
        "/sys/fs/ext4",
        "/sys/fs/f2fs",
        "/sys/fs/fuse",
        "/sys/fs/pstore",
        "/sys/fs/xfs",
        "/sys/kernel/debug",
        "/sys/kernel/irq", /* counts, as /proc/interrupts */
        "/sys/kernel/security",
        "/sys/kernel/tracing",
    };
    char path[96];

    json_begin_arr(o, "maskedPaths");
    for (size_t i = 0; i < ARRAY_LEN(masked); i++)
        json_put_str(o, NULL, masked[i]);
    /* Heat shows what the neighbours compute. */
    for (unsigned i = 0; i < s->host_cpus; i++) {
        (void) snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/thermal_throttle", i);
        json_put_str(o, NULL, path);
    }
    /* Each disk has counters of its own there, which show what the neighbours read and write. */
    for (unsigned i = 0; i < s->disk_bus_count; i++) {
        (void) snprintf(path, sizeof(path), "/sys/devices/%s", s->disk_buses[i]);
        json_put_str(o, NULL, path);
    }
    json_end(o);
}

/* Runtimes mount control groups of version 1 around a tmpfs that stays writable, and one of them
 * shows through its read-only form groups that are not; so all of them by name. */
static void put_readonly_paths(struct json_out *o, const struct oci_spec *s)
{
    static const char *const always[] = {"/proc/bus", "/proc/irq", "/proc/sys",
                                         "/proc/sysrq-trigger"};
    static const char *const groups[] = {
        "",
        "/blkio",
        "/cpu",
        "/cpu,cpuacct",
        "/cpuacct",
        "/cpuset",
        "/devices",
        "/freezer",
        "/hugetlb",
        "/memory",
        "/misc",
        "/net_cls",
        "/net_cls,net_prio",
        "/net_prio",
        "/perf_event",
        "/pids",
        "/rdma",
        "/systemd",
        "/unified",
    };
    char path[64];

    json_begin_arr(o, "readonlyPaths");
    for (size_t i = 0; i < ARRAY_LEN(always); i++)
        json_put_str(o, NULL, always[i]);
    for (size_t i = 0; i < ARRAY_LEN(groups) && s->has_cgroups && !s->is_cgroup_v2; i++) {
        (void) snprintf(path, sizeof(path), "/sys/fs/cgroup%s", groups[i]); /* fits by its size */
        json_put_str(o, NULL, path);
    }
    json_end(o);
}

/* For the box's own network: what would make sockets past the count (fast open, cookies), or keep memory that is
 * charged to nobody beyond the count: large buffers of connections that are not accepted, and the ends
 * of those that are over. And IPv6 of a link, where the box could fill the machine's table of neighbours. */
static void put_sysctl(struct json_out *o, const struct oci_spec *s)
{
    bool has_link = s->profile->network.mode == CONFIG_NETWORK_NAT;

    if (oci_spec_sockets(s) == 0 && !has_link)
        return;
    json_begin_obj(o, "sysctl");
    if (oci_spec_sockets(s) != 0) {
        json_put_str(o, "net.ipv4.tcp_fastopen", "0");
        if (s->has_syncookies)
            json_put_str(o, "net.ipv4.tcp_syncookies", "0");
        json_put_str(o, "net.ipv4.tcp_rmem", TCP_RMEM);
        json_put_str(o, "net.ipv4.tcp_max_tw_buckets", "4096");
    }
    if (has_link && s->has_ipv6) /* of a link that comes later; the loopback keeps ::1 */
        json_put_str(o, "net.ipv6.conf.default.disable_ipv6", "1");
    json_end(o);
}

static void put_linux(struct json_out *o, const struct oci_spec *s)
{
    json_begin_obj(o, "linux");
    put_namespaces(o, s);
    if (s->has_user_ns) {
        put_mapping(o, "uidMappings", s);
        put_mapping(o, "gidMappings", s);
    }
    if (s->has_cgroups && !s->is_in_group)
        json_put_str(o, "cgroupsPath", s->cgroup);
    if (s->has_cgroups && !s->is_rootless) /* else they are set by sandpool-helper */
        put_resources(o, s);
    json_put_str(o, "rootfsPropagation", "rprivate");
    put_masked_paths(o, s);
    put_readonly_paths(o, s);
    put_sysctl(o, s);
    oci_seccomp_put(o, "seccomp", s->guard,
                    s->profile->sockets == CONFIG_SOCKETS_UNIX ? OCI_SOCKETS_UNIX
                    : oci_spec_sockets(s) != 0                 ? OCI_SOCKETS_COUNTED
                                                               : OCI_SOCKETS_ANY);
    json_end(o);
}

void oci_spec_print(const struct oci_spec *s, struct buf *out)
{
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "ociVersion", "1.0.2");
    put_process(&o, s);
    json_begin_obj(&o, "root");
    json_put_str(&o, "path", s->rootfs);
    json_put_bool(&o, "readonly", false);
    json_end(&o);
    json_put_str(&o, "hostname", s->hostname);
    put_mounts(&o, s);
    put_linux(&o, s);
    json_end(&o);
    json_out_finish(&o, out);
}
