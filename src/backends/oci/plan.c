/* plan.c - the plan for sandpool-helper, as JSON; the fields are explained in helper/plan.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/oci/internal.h"
#include "base/mem.h"
#include "base/str.h"
#include "helper/plan.h"

#define CPU_PERIOD_US 100000U
#define CPU_QUOTA_MIN_US 1000U /* the kernel takes no less */
#define GVISOR_THREADS 16U     /* for one process of the box; about 12 were seen */
#define GVISOR_THREADS_OWN 128U
#define FILES_MIN 1024U /* programs expect as many */
#define NAT_NETWORK \
    "10.0.2.0/25" /* slirp4netns takes no smaller one: neighbours count for the machine */
#define NAT_RESOLVER "10.0.2.3" /* slirp4netns' own; pasta gets it as an option */

/* The order is the order of the arguments; ends with NULL. */
static void put_strings(struct json_out *j, const char *key, const char *const *words)
{
    json_begin_arr(j, key);
    for (; *words != NULL; words++)
        json_put_str(j, NULL, *words);
    json_end(j);
}

void oci_box_dir(const struct oci *o, uint64_t id, char *dst, size_t cap)
{
    char hex[17];

    str_hex64(hex, id);
    (void) snprintf(dst, cap, "%s/%s", o->boxes_dir, hex);
}

void oci_cgroup(const struct oci *o, uint64_t id, char *dst, size_t cap)
{
    char hex[17];

    str_hex64(hex, id);
    (void) snprintf(dst, cap, "%s/sandpool-%s/%s", o->group_top, o->instance, hex);
}

void oci_state_root(const struct oci *o, enum oci_flavour flavour, char *dst, size_t cap)
{
    static const char *const names[] = {"runc", "crun", "runsc"};

    static_assert(ARRAY_LEN(names) == OCI_FLAVOUR_COUNT, "a name for each");
    (void) snprintf(dst, cap, "%s/run-%s", o->dir, names[flavour]);
}

/* --root of the runtime. Others keep a directory for each box there; runsc keeps files, and so gets
 * one for itself. */
static void command_root(const struct oci *o, enum oci_flavour flavour, const char *hex, char *dst,
                         size_t cap)
{
    size_t len;

    oci_state_root(o, flavour, dst, cap);
    len = strlen(dst);
    if (flavour == OCI_RUNSC)
        (void) snprintf(dst + len, cap - len, "/%s", hex);
}

static void put_run_command(struct json_out *j, const struct oci *o, const struct oci_run_plan *p,
                            const char *dir, const char *hex)
{
    const struct oci_runtime *r = p->runtime;
    char root[OCI_PATH_MAX + 64];
    char pid_file[OCI_PATH_MAX + 64];
    const char *const usual[] = {
        r->path,  "--root",   root, "run", "--detach", "--preserve-fds", "1", "--pid-file",
        pid_file, "--bundle", dir,  hex,   NULL};
    const char *const crun_rootless[] = {r->path,
                                         "--cgroup-manager=disabled",
                                         "--root",
                                         root,
                                         "run",
                                         "--detach",
                                         "--preserve-fds",
                                         "1",
                                         "--pid-file",
                                         pid_file,
                                         "--bundle",
                                         dir,
                                         hex,
                                         NULL};
    const char *const gvisor[] = {r->path,
                                  "--root",
                                  root,
                                  "--platform=ptrace",
                                  "--network=none",
                                  "--ignore-cgroups",
                                  "--host-uds=create",
                                  "run",
                                  "--detach",
                                  "--pid-file",
                                  pid_file,
                                  "--bundle",
                                  dir,
                                  hex,
                                  NULL};

    command_root(o, r->flavour, hex, root, sizeof(root));
    (void) snprintf(pid_file, sizeof(pid_file), "%s/pid", dir);
    if (r->flavour == OCI_CRUN && o->is_rootless)
        put_strings(j, "runtime", crun_rootless);
    else
        put_strings(j, "runtime", r->flavour == OCI_RUNSC ? gvisor : usual);
}

static void put_owned(struct json_out *j, const char *path, uint64_t id, uint64_t mode)
{
    json_begin_obj(j, NULL);
    json_put_str(j, "path", path);
    json_put_u64(j, "id", id);
    json_put_u64(j, "mode", mode);
    json_end(j);
}

static void put_bind(struct json_out *j, const char *from, const char *to, bool is_read_only)
{
    const struct backend_mount m = {
        .host_path = from, .box_path = to, .is_read_only = is_read_only};

    backend_mount_put(j, &m);
}

static void put_file(struct json_out *j, const char *path, const char *text)
{
    json_begin_obj(j, NULL);
    json_put_str(j, "path", path);
    json_put_str(j, "text", text);
    json_end(j);
}

static void put_profile_mounts(struct json_out *j, const char *list)
{
    struct config_mount m;

    json_begin_arr(j, "mounts");
    while (config_mount_next(&list, &m)) {
        if (!m.is_template) /* else it has no owner yet */
            put_bind(j, m.host_path, m.box_path, m.is_read_only);
    }
    json_end(j);
}

static void put_contents(struct json_out *j, const struct oci *o, const struct config_profile *p,
                         const char *hex)
{
    bool is_host = str_is_empty(p->image) && strcmp(p->rootfs, "host") == 0;
    char home[CONFIG_NAME_MAX + 8];
    char text[160];

    (void) snprintf(home, sizeof(home), "/home/%s", p->user);
    json_begin_arr(j, "owned");
    if (strcmp(p->user, "root") != 0)
        put_owned(j, home, OCI_USER_ID, 0755);
    put_owned(j, OCI_WORKSPACE, strcmp(p->user, "root") != 0 ? OCI_USER_ID : 0, 0755);
    put_owned(j, "/tmp", 0, 01777);
    put_owned(j, "/var/tmp", 0, 01777);
    json_end(j);

    json_begin_arr(j, "files");
    (void) snprintf(text, sizeof(text), "%s\n", hex);
    put_file(j, "/etc/hostname", text);
    (void) snprintf(text, sizeof(text), "127.0.0.1 localhost %s\n::1 localhost\n", hex);
    put_file(j, "/etc/hosts", text);
    if (p->network.mode == CONFIG_NETWORK_NAT)
        put_file(j, "/etc/resolv.conf",
                 config_egress(p) != NULL ? "nameserver " HELPER_RESOLVER "\n"
                                          : "nameserver " NAT_RESOLVER "\n");
    json_end(j);

    json_begin_arr(j, "binds");
    if (is_host)
        put_bind(j, "/usr", "/usr", true);
    for (unsigned i = 0; is_host && i < o->extra_bind_count; i++)
        put_bind(j, o->extra_binds[i], o->extra_binds[i], true);
    put_bind(j, o->agent, OCI_AGENT_PATH, true);
    if (p->network.mode == CONFIG_NETWORK_HOST && access("/etc/resolv.conf", R_OK) == 0)
        put_bind(j, "/etc/resolv.conf", "/etc/resolv.conf", true);
    json_end(j);
}

/* For each process, so that all processes of the box together can take half of the machine's table. */
static uint64_t max_files(const struct oci *o, const struct config_profile *p)
{
    uint64_t own = o->max_files != 0 ? o->max_files : UINT64_MAX;
    uint64_t share = p->limits.pids != 0 ? o->file_table / 2 / p->limits.pids : 0;

    return o->file_table == 0 ? o->max_files : MIN_OF(own, MAX_OF(share, FILES_MIN));
}

static void put_spec(struct json_out *j, const struct oci *o, const struct oci_run_plan *p,
                     const char *hex)
{
    /* With one id there is nobody to become, and trying is not allowed. */
    const char *const with_channel[] = {"--channel-fd",   "3",
                                        "--workdir",      OCI_WORKSPACE,
                                        "--detach-stdio", o->id_count > 1 ? "--user" : NULL,
                                        p->profile->user, NULL};
    const char *const with_socket[] = {
        "--unix",    OCI_AGENT_SOCKET, "--user",         p->profile->user,
        "--workdir", OCI_WORKSPACE,    "--detach-stdio", NULL};
    bool is_gvisor = p->runtime->flavour == OCI_RUNSC;
    char cgroup[OCI_GROUP_MAX];
    char guard[64];
    char user_ns[64];
    char rootfs[64];
    struct oci_spec spec = {.profile = p->profile,
                            .rootfs = rootfs,
                            .hostname = hex,
                            .token = p->record->box.token,
                            .cgroup = cgroup,
                            .id_base = (uint32_t) p->record->id_base,
                            /* the last is that of gVisor itself */
                            .id_count = is_gvisor ? o->id_count - 1 : o->id_count,
                            .host_cpus = o->host_cpus,
                            .disk_buses = o->disk_buses,
                            .disk_bus_count = o->disk_bus_count,
                            .has_cpuset = o->has_cpuset,
                            .first_cpu = p->slot,
                            .is_cgroup_v2 = o->is_cgroup_v2,
                            .has_syncookies = o->has_syncookies,
                            .terminals = o->terminals,
                            .max_files = max_files(o, p->profile),
                            .has_swap_limit = o->has_swap_limit,
                            .has_ipv6 = o->has_ipv6,
                            .has_cgroups = !is_gvisor && o->has_cgroups,
                            .is_in_group = o->is_rootless && p->runtime->flavour == OCI_CRUN,
                            .has_user_ns = !o->is_rootless,
                            .is_rootless = o->is_rootless,
                            .user_ns = is_gvisor || o->is_rootless ? NULL : user_ns,
                            .guard = is_gvisor ? NULL : guard,
                            .image_env = p->image_env,
                            .agent_args = is_gvisor ? with_socket : with_channel};
    struct buf text;

    oci_cgroup(o, p->record->box.labels.box_id, cgroup, sizeof(cgroup));
    (void) snprintf(rootfs, sizeof(rootfs), "%s/rootfs", o->stage);
    (void) snprintf(guard, sizeof(guard), "%s/guard.sock", o->stage);
    (void) snprintf(user_ns, sizeof(user_ns), "%s/user_ns", o->stage);
    if (spec.guard != NULL) {
        json_put_str(j, "guard", guard);
        json_put_u64(j, "sockets", oci_spec_sockets(&spec));
    }
    if (spec.user_ns != NULL) {
        json_put_str(j, "user_ns", user_ns);
        json_put_u64(j, "max_files", oci_spec_files(&spec));
    }
    buf_init(&text, CHILD_OUTPUT_MAX * 2);
    oci_spec_print(&spec, &text);
    json_put_str(j, "spec", buf_str(&text));
    buf_fini(&text);
}

/* Beside the box, in its network namespace; nothing of the host's loopback is shown. Both confine
 * themselves once they are in it. No IPv6, nor may the box have any (put_sysctl()): each address of a link is a neighbour, and
 * the machine has one table of them for all. pasta gives its rights up before it enters: as root it could not open the namespaces
 * of a box, as their owner it can. */
static void put_network(struct json_out *j, const struct oci *o, const struct config_profile *p)
{
    const char *const slirp[] = {o->slirp, "--configure", "--mtu=65520", ("--cidr=" NAT_NETWORK),
                                 "--disable-host-loopback", "--enable-sandbox", "--enable-seccomp",
                                 "--ready-fd={ready}", "{pid}", "tap0",
                                 /* of an ordinary user it is there already */
                                 o->is_rootless ? NULL : "--userns-path=/proc/{pid}/ns/user", NULL};
    const char *const pasta[] = {
        o->pasta,  "--foreground",  "--quiet",     "--ipv4-only", "--runas",
        "{owner}", "--config-net",  "--no-map-gw", "-t",          "none",
        "-u",      "none",          "-T",          "none",        "-U",
        "none",    "--dns-forward", NAT_RESOLVER,  "{pid}",       NULL};

    if (p->network.mode == CONFIG_NETWORK_NAT)
        put_strings(j, "network", !str_is_empty(o->slirp) ? slirp : pasta);
    if (config_egress(p) != NULL) {
        json_put_str(j, "egress", config_egress(p));
        json_put_str(j, "nft", o->nft);
    }
}

PRINTF_LIKE(3, 4)
static void put_limit(struct json_out *j, const char *file, const char *fmt, ...)
{
    char text[64];
    va_list args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    json_begin_obj(j, NULL);
    json_put_str(j, "file", file);
    json_put_str(j, "value", text);
    json_end(j);
}

/* gVisor's own threads count, too; without those that it needs it dies. */
uint64_t oci_pids(enum oci_flavour flavour, uint64_t pids)
{
    return flavour == OCI_RUNSC ? pids * GVISOR_THREADS + GVISOR_THREADS_OWN : pids;
}

/* For a runtime that leaves them to us. */
static void put_limits(struct json_out *j, const struct oci *o, const struct oci_run_plan *plan)
{
    const struct config_profile *p = plan->profile;
    unsigned long long memory = p->limits.memory;
    unsigned long long quota = MAX_OF(p->limits.cpus * (CPU_PERIOD_US / 1000), CPU_QUOTA_MIN_US);

    json_begin_arr(j, "limits");
    if (memory > 0)
        put_limit(j, o->is_cgroup_v2 ? "memory.max" : "memory.limit_in_bytes", "%llu", memory);
    if (memory > 0 && o->has_swap_limit)
        put_limit(j, o->is_cgroup_v2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes", "%llu",
                  o->is_cgroup_v2 ? 0 : memory);
    if (p->limits.cpus > 0 && o->is_cgroup_v2)
        put_limit(j, "cpu.max", "%llu %u", quota, CPU_PERIOD_US);
    if (p->limits.cpus > 0 && !o->is_cgroup_v2) {
        put_limit(j, "cpu.cfs_period_us", "%u", CPU_PERIOD_US);
        put_limit(j, "cpu.cfs_quota_us", "%llu", quota);
    }
    if (p->limits.pids > 0)
        put_limit(j, "pids.max", "%llu",
                  (unsigned long long) oci_pids(plan->runtime->flavour, p->limits.pids));
    json_end(j);
}

/* Also for a `run` that fails halfway: it removes what it made. */
static void put_removal(struct json_out *j, const struct oci *o, uint64_t id,
                        const struct oci_runtime *runtime)
{
    char root[OCI_PATH_MAX + 64];
    char state[OCI_PATH_MAX + 64];
    char cgroup[OCI_GROUP_MAX];
    char hex[17];
    size_t len;

    str_hex64(hex, id);
    oci_cgroup(o, id, cgroup, sizeof(cgroup));
    if (o->has_cgroups)
        json_put_str(j, "cgroup", cgroup);
    if (runtime != NULL) {
        const char *const command[] = {runtime->path, "--root", root, "delete",
                                       "--force",     hex,      NULL};

        command_root(o, runtime->flavour, hex, root, sizeof(root));
        oci_state_root(o, runtime->flavour, state, sizeof(state));
        len = strlen(state);
        (void) snprintf(state + len, sizeof(state) - len, "/%s", hex);
        /* runsc takes more than a second to find that all processes are gone, and has noted nothing
         * elsewhere. */
        if (runtime->flavour != OCI_RUNSC)
            put_strings(j, "delete", command);
        json_put_str(j, "runtime_state", state);
    }
}

static void plan_run(const struct oci *o, const struct oci_run_plan *p, struct buf *out)
{
    bool has_disk = o->has_loop && p->profile->limits.disk > 0;
    char dir[OCI_PATH_MAX + 32];
    char template[OCI_PATH_MAX + 64] = "";
    struct json_out j;
    struct buf record;
    char hex[17];

    str_hex64(hex, p->record->box.labels.box_id);
    oci_box_dir(o, p->record->box.labels.box_id, dir, sizeof(dir));
    if (has_disk)
        (void) snprintf(template, sizeof(template), "%s/disk-%llu%s.img", o->dir,
                        (unsigned long long) p->profile->limits.disk,
                        p->record->is_durable ? "-durable" : "");
    buf_init(&record, OCI_RECORD_MAX);
    oci_record_print(p->record, &record);

    json_out_init(&j);
    json_begin_obj(&j, NULL);
    json_put_str(&j, "dir", dir);
    json_put_str(&j, "record", buf_str(&record));
    put_spec(&j, o, p, hex);
    json_put_str(&j, "stage", o->stage);
    json_put_str(&j, "lower", p->lower);
    json_put_bool(&j, "map_lower", !o->is_rootless);
    if (p->record->snapshot != 0)
        oci_snapshot_put_layers(p->oci, p->record->snapshot, &j);
    json_put_u64(&j, "id_base", p->record->id_base);
    json_put_u64(&j, "id_count", o->id_count);
    json_put_u64(&j, "disk", has_disk ? p->profile->limits.disk : 0);
    json_put_str(&j, "disk_template", template);
    if (p->record->is_durable)
        json_put_bool(&j, "durable", true);
    put_contents(&j, o, p->profile, hex);
    put_profile_mounts(&j, p->profile->mounts);
    json_put_words(&j, "allow", o->allow);
    json_put_u64(&j, "user_id", strcmp(p->profile->user, "root") != 0 ? OCI_USER_ID : 0);
    put_run_command(&j, o, p, dir, hex);
    if (p->runtime->flavour == OCI_RUNSC)
        json_put_str(&j, "connect", OCI_AGENT_SOCKET);
    if (o->has_cgroups && (o->is_rootless || p->runtime->flavour == OCI_RUNSC))
        put_limits(&j, o, p);
    put_network(&j, o, p->profile);
    put_removal(&j, o, p->record->box.labels.box_id, p->runtime);
    json_end(&j);
    json_out_finish(&j, out);
    buf_fini(&record);
}

void oci_plan_run(const struct oci *o, const struct oci_run_plan *p, struct buf *out)
{
    struct oci_run_plan own = *p;
    struct config_profile *profile = xcalloc(1, sizeof(*profile));

    *profile = *p->profile;
    if (o->id_count == 1) /* nobody but root can be in the box */
        str_copy_cut(profile->user, sizeof(profile->user), "root");
    own.profile = profile;
    plan_run(o, &own, out);
    free(profile);
}

static void begin(struct json_out *j, const struct oci *o, uint64_t id)
{
    char dir[OCI_PATH_MAX + 32];

    oci_box_dir(o, id, dir, sizeof(dir));
    json_out_init(j);
    json_begin_obj(j, NULL);
    json_put_str(j, "dir", dir);
}

void oci_plan_remove(const struct oci *o, uint64_t id, const struct oci_runtime *runtime,
                     struct buf *out)
{
    struct json_out j;

    begin(&j, o, id);
    put_removal(&j, o, id, runtime);
    json_end(&j);
    json_out_finish(&j, out);
}

void oci_plan_egress(const struct oci *o, uint64_t id, const char *allow, struct buf *out)
{
    struct json_out j;

    begin(&j, o, id);
    json_put_str(&j, "egress", allow);
    json_put_str(&j, "nft", o->nft);
    json_end(&j);
    json_out_finish(&j, out);
}

void oci_plan_keep(const struct oci *o, uint64_t id, const struct oci_runtime *runtime,
                   const char *to, struct buf *out)
{
    struct json_out j;

    begin(&j, o, id);
    json_put_str(&j, "to", to);
    json_put_str(&j, "stage", o->stage);
    put_removal(&j, o, id, runtime);
    json_end(&j);
    json_out_finish(&j, out);
}

void oci_plan_mount(const struct oci *o, const struct oci_box *b, uint64_t id_base,
                    uint64_t user_id, const struct backend_extras *extras, struct buf *out)
{
    struct json_out j;

    begin(&j, o, b->entry.id);
    json_put_u64(&j, "pid", (uint64_t) b->pid);
    json_put_u64(&j, "id_base", id_base);
    json_put_u64(&j, "id_count", o->id_count);
    json_put_u64(&j, "user_id", user_id);
    json_begin_arr(&j, "mounts");
    for (size_t i = 0; i < extras->mount_count; i++)
        backend_mount_put(&j, &extras->mounts[i]);
    json_end(&j);
    json_put_words(&j, "allow", o->allow);
    json_end(&j);
    json_out_finish(&j, out);
}
