/* body.c - the request for a new container. Hardened unless the profile says otherwise: no
 * new privileges, few capabilities, the engine's own seccomp list, which the agent narrows, limits, no
 * swap beyond the memory. */
#include <stdio.h>
#include <string.h>

#include "backends/docker/internal.h"
#include "base/str.h"

enum { MASKED_CPUS = 128 }; /* the engine's machine may be another one: its number is not known */

unsigned docker_port(const struct config_profile *p)
{
    return p->agent == CONFIG_AGENT_IMAGE ? (unsigned) p->docker.port : DOCKER_PORT;
}

static void put_strings(struct json_out *j, const char *key, const char *const *words)
{
    json_begin_arr(j, key);
    for (; *words != NULL; words++)
        json_put_str(j, NULL, *words);
    json_end(j);
}

static void put_command(struct json_out *j, const struct docker_plan *p)
{
    /* The engine's list lets a container take what all of the machine share. */
    const char *words[12] = {DOCKER_AGENT_DIR "/agent", "--detach-stdio", "--refuse-programs"};
    char grace[24];
    size_t n = 3;

    if (p->profile->agent == CONFIG_AGENT_IMAGE)
        return; /* its own */
    if (p->relay_dir != NULL) {
        words[n++] = "--channel-from";
        words[n++] = DOCKER_CHANNEL_DIR "/socket";
    } else {
        words[n++] = "--listen";
        words[n++] = "0.0.0.0";
    }
    if (p->work_dir[0] == '/') {
        words[n++] = "--workdir";
        words[n++] = p->work_dir;
    }
    if (p->profile->docker.stop_grace_s > 0) {
        (void) snprintf(grace, sizeof(grace), "%llu",
                        (unsigned long long) p->profile->docker.stop_grace_s);
        words[n++] = "--stop-grace";
        words[n++] = grace;
    }
    put_strings(j, "Entrypoint", words);
    json_begin_arr(j, "Cmd"); /* the image's would be arguments */
    json_end(j);
}

static void put_variable(struct json_out *j, const char *name, const char *value)
{
    struct buf text;

    buf_init(&text, DOCKER_BODY_MAX);
    buf_printf(&text, "%s=%s", name, value);
    json_put_str(j, NULL, buf_str(&text));
    buf_fini(&text);
}

static bool has_env(const struct backend_extras *x, const char *name)
{
    for (size_t i = 0; x != NULL && i < x->env_count; i++)
        if (strcmp(x->envs[i].name, name) == 0)
            return true;
    return false;
}

/* The caller's go before the profile's; the token is nobody's to choose. */
static void put_env(struct json_out *j, const struct docker_plan *p)
{
    const struct config_map *env = &p->profile->env;
    const struct backend_extras *x = p->extras;
    const char *token =
        p->profile->agent == CONFIG_AGENT_IMAGE ? "SANDBOX_API_KEY" : "SANDPOOL_AGENT_TOKEN";

    json_begin_arr(j, "Env");
    for (unsigned i = 0; i < env->count; i++)
        if (!has_env(x, env->pairs[i].key))
            put_variable(j, env->pairs[i].key, env->pairs[i].value);
    for (size_t i = 0; x != NULL && i < x->env_count; i++)
        if (strcmp(x->envs[i].name, token) != 0)
            put_variable(j, x->envs[i].name, x->envs[i].value);
    put_variable(j, token, p->token);
    json_end(j);
}

static void put_bind(struct json_out *j, const char *from, const char *to, bool is_read_only)
{
    json_begin_obj(j, NULL);
    json_put_str(j, "Type", "bind");
    json_put_str(j, "Source", from);
    json_put_str(j, "Target", to);
    json_put_bool(j, "ReadOnly", is_read_only);
    json_end(j);
}

static bool has_mount(const struct backend_extras *x, const char *box_path)
{
    for (size_t i = 0; x != NULL && i < x->mount_count; i++)
        if (strcmp(x->mounts[i].box_path, box_path) == 0)
            return true;
    return false;
}

static void put_volume(struct json_out *j, const struct config_volume *v)
{
    json_begin_obj(j, NULL);
    json_put_str(j, "Type", "volume");
    json_put_str(j, "Source", v->name);
    json_put_str(j, "Target", v->box_path);
    json_put_bool(j, "ReadOnly", v->is_read_only);
    json_end(j);
}

static void put_mounts(struct json_out *j, const struct docker_plan *p)
{
    const struct backend_extras *x = p->extras;
    struct config_volume volume;
    struct config_mount m;
    char word[CONFIG_TEXT_MAX + 1];

    json_begin_arr(j, "Mounts");
    if (p->agent != NULL)
        put_bind(j, p->agent, DOCKER_AGENT_DIR "/agent", true);
    if (p->relay_dir != NULL)
        put_bind(j, p->relay_dir, DOCKER_CHANNEL_DIR, true);
    for (const char *list = p->profile->mounts; config_mount_next(&list, &m);) {
        if (!m.is_template && !has_mount(x, m.box_path)) /* the caller's go before it */
            put_bind(j, m.host_path, m.box_path, m.is_read_only);
    }
    for (const char *list = p->profile->docker.volumes;
         config_list_next(&list, word, sizeof(word));) {
        if (config_volume_problem(word, &volume) == NULL && !has_mount(x, volume.box_path))
            put_volume(j, &volume);
    }
    for (size_t i = 0; x != NULL && i < x->mount_count; i++)
        put_bind(j, x->mounts[i].host_path, x->mounts[i].box_path, x->mounts[i].is_read_only);
    json_end(j);
}

/* Engines differ in what they add by themselves, so all is said. */
static void put_tmpfs(struct json_out *j, const struct config_map *tmpfs)
{
    struct buf options;
    char word[CONFIG_PATH_MAX + 1];

    if (tmpfs->count == 0)
        return;
    buf_init(&options, 4 * CONFIG_PATH_MAX);
    json_begin_obj(j, "Tmpfs");
    for (unsigned i = 0; i < tmpfs->count; i++) {
        const char *list = tmpfs->pairs[i].value;
        bool has_exec = false;

        buf_reset(&options);
        buf_puts(&options, "nosuid,nodev");
        while (config_list_next(&list, word, sizeof(word))) {
            uint64_t size = 0;

            has_exec = has_exec || strcmp(word, "exec") == 0;
            if (strncmp(word, "size=", 5) == 0 && str_parse_size(word + 5, &size))
                buf_printf(&options, ",size=%llu", (unsigned long long) size);
            else
                buf_printf(&options, ",%s", word);
        }
        if (!has_exec)
            buf_puts(&options, ",noexec");
        json_put_str(j, tmpfs->pairs[i].key, buf_str(&options));
    }
    json_end(j);
    buf_fini(&options);
}

/* "all", a number, or ids, with "device=" before them or not. */
static void put_gpus(struct json_out *j, const char *gpus)
{
    static const char *const gpu[] = {"gpu", NULL};
    char word[CONFIG_PATH_MAX + 1];
    uint64_t count = 0;

    if (str_is_empty(gpus))
        return;
    json_begin_arr(j, "DeviceRequests");
    json_begin_obj(j, NULL);
    json_put_str(j, "Driver", "");
    if (strcmp(gpus, "all") == 0) {
        json_put_i64(j, "Count", -1);
    } else if (str_parse_u64(gpus, 1, UINT32_MAX, &count)) {
        json_put_u64(j, "Count", count);
    } else {
        gpus += strncmp(gpus, "device=", 7) == 0 ? 7 : 0;
        json_begin_arr(j, "DeviceIDs");
        while (config_list_next(&gpus, word, sizeof(word)))
            json_put_str(j, NULL, word);
        json_end(j);
    }
    json_begin_arr(j, "Capabilities");
    put_strings(j, NULL, gpu);
    json_end(j);
    json_end(j);
    json_end(j);
}

/* A port to publish: not where the agent is handed its socket, nor where boxes are called at their
 * own address. */
static bool has_port(const struct docker_plan *p)
{
    return p->relay_dir == NULL && p->profile->docker.reach == CONFIG_REACH_PORT;
}

static void put_network(struct json_out *j, const struct docker_plan *p)
{
    const char *bind = p->profile->docker.bind_host;
    char port[16];

    if (p->profile->network.mode == CONFIG_NETWORK_NONE)
        json_put_str(j, "NetworkMode", "none");
    else if (p->profile->network.mode == CONFIG_NETWORK_HOST)
        json_put_str(j, "NetworkMode", "host");
    else
        json_put_str(j, "NetworkMode", p->profile->docker.network);
    if (!has_port(p))
        return;
    (void) snprintf(port, sizeof(port), "%u/tcp", docker_port(p->profile));
    json_begin_obj(j, "PortBindings");
    json_begin_arr(j, port);
    json_begin_obj(j, NULL);
    /* Podman's packet filter would wait for calls to this very address. */
    json_put_str(j, "HostIp", p->is_podman && strcmp(bind, "0.0.0.0") == 0 ? "" : bind);
    json_put_str(j, "HostPort", ""); /* the engine chooses */
    json_end(j);
    json_end(j);
    json_end(j);
}

static uint64_t limit(uint64_t of_caller, uint64_t of_profile)
{
    return of_caller > 0 ? of_caller : of_profile;
}

static void put_limits(struct json_out *j, const struct docker_plan *p)
{
    const struct backend_extras none = {0};
    const struct backend_extras *x = p->extras != NULL ? p->extras : &none;
    uint64_t memory = limit(x->memory, p->profile->limits.memory);
    uint64_t cpus = limit(x->cpus, p->profile->limits.cpus);
    uint64_t pids = limit(x->pids, p->profile->limits.pids);

    if (memory > 0) {
        json_put_u64(j, "Memory", memory);
        json_put_u64(j, "MemorySwap", memory); /* both together: no swap */
    }
    if (cpus > 0)
        json_put_u64(j, "NanoCpus", cpus * 1000000);
    if (pids > 0)
        json_put_u64(j, "PidsLimit", pids);
}

/* "", "root" and "0", with or without a group. */
static bool is_root(const struct docker_plan *p)
{
    const char *user = p->profile->docker.user;
    size_t len;

    if (str_is_empty(user))
        user = p->image_user;
    len = strcspn(user, ":");
    return len == 0 || (len == 1 && user[0] == '0') || (len == 4 && strncmp(user, "root", 4) == 0);
}

/* What root of an ordinary image needs for files and ids; our agent also ends processes of others.
 * Any other user gets none: it could not use them, or, with Podman, would have them in effect. */
static void put_capabilities(struct json_out *j, const struct docker_plan *p)
{
    static const char *const all[] = {"ALL", NULL};
    static const char *const few[] = {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"};
    char word[CONFIG_TEXT_MAX + 1];

    put_strings(j, "CapDrop", all);
    json_begin_arr(j, "CapAdd");
    for (size_t i = 0; i < ARRAY_LEN(few) && is_root(p); i++)
        json_put_str(j, NULL, few[i]);
    if (p->profile->agent == CONFIG_AGENT_INJECT && is_root(p))
        json_put_str(j, NULL, "KILL");
    for (const char *list = p->profile->docker.cap_add;
         config_list_next(&list, word, sizeof(word));)
        json_put_str(j, NULL, word);
    json_end(j);
}

/* /proc/locks keeps everybody on the machine from locking files while it is read. Podman adds to what it hides by itself;
 * for Docker a list of ours stands instead of its own, so it has all of that, too: heat shows what the neighbours
 * compute. What does not exist is skipped. */
static void put_hidden(struct json_out *j, const struct docker_plan *p)
{
    static const char *const security[] = {"no-new-privileges", NULL};
    static const char *const more[] = {"no-new-privileges", "mask=/proc/locks", NULL};
    static const char *const masked[] = {
        "/proc/acpi",       "/proc/asound",      "/proc/interrupts",
        "/proc/kcore",      "/proc/keys",        "/proc/latency_stats",
        "/proc/locks",      "/proc/sched_debug", "/proc/scsi",
        "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap",
        "/sys/firmware",
    };
    char path[64];

    put_strings(j, "SecurityOpt", p->is_podman ? more : security);
    if (p->is_podman)
        return;
    json_begin_arr(j, "MaskedPaths");
    for (size_t i = 0; i < ARRAY_LEN(masked); i++)
        json_put_str(j, NULL, masked[i]);
    for (unsigned i = 0; i < MASKED_CPUS; i++) {
        (void) snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/thermal_throttle", i);
        json_put_str(j, NULL, path);
    }
    json_end(j);
}

static void put_host_config(struct json_out *j, const struct docker_plan *p)
{
    const struct config_profile *c = p->profile;

    json_begin_obj(j, "HostConfig");
    put_capabilities(j, p);
    put_hidden(j, p);
    put_network(j, p);
    put_limits(j, p);
    put_mounts(j, p);
    put_tmpfs(j, &c->docker.tmpfs);
    put_gpus(j, c->docker.gpus);
    if (p->disk == DOCKER_DISK_ENGINE) {
        char size[24];

        (void) snprintf(size, sizeof(size), "%llu", (unsigned long long) c->limits.disk);
        json_begin_obj(j, "StorageOpt");
        json_put_str(j, "size", size);
        json_end(j);
    }
    if (c->docker.shm_size > 0)
        json_put_u64(j, "ShmSize", c->docker.shm_size);
    if (!str_is_empty(c->runtime))
        json_put_str(j, "Runtime", c->runtime);
    json_end(j);
}

static void put_labels(struct json_out *j, const struct docker_plan *p)
{
    char text[64];

    json_begin_obj(j, "Labels");
    docker_put_labels(j, p->labels);
    json_put_str(j, LABEL("prefix"), p->profile->docker.container_prefix);
    json_put_str(j, LABEL("token"), p->token);
    if (p->extras != NULL && p->extras->snapshot != NULL && !p->is_rebased)
        json_put_str(j, LABEL("made_from"), p->extras->snapshot);
    if (p->disk == DOCKER_DISK_PLACES)
        json_put_str(j, LABEL("disk"), "places");
    if (p->relay_dir != NULL)
        (void) snprintf(text, sizeof(text), "http://127.0.0.1:%u", p->relay_port);
    else /* the engine chooses the port when it starts the container */
        (void) snprintf(text, sizeof(text), "%u", docker_port(p->profile));
    json_put_str(j, p->relay_dir != NULL ? LABEL("url") : LABEL("port"), text);
    if (p->relay_dir == NULL)
        json_put_str(j, has_port(p) ? LABEL("url_host") : LABEL("network"),
                     has_port(p) ? p->profile->docker.url_host : p->profile->docker.network);
    json_end(j);
}

void docker_put_body(const struct docker_plan *p, struct buf *out)
{
    struct json_out j;
    char hex[17];
    char port[16];

    json_out_init(&j);
    json_begin_obj(&j, NULL);
    json_put_str(&j, "Image", p->image);
    str_hex64(hex, p->labels->box_id);
    if (p->profile->network.mode != CONFIG_NETWORK_HOST)
        json_put_str(&j, "Hostname", hex);
    if (!str_is_empty(p->profile->docker.user))
        json_put_str(&j, "User", p->profile->docker.user);
    put_command(&j, p);
    put_env(&j, p);
    put_labels(&j, p);
    if (has_port(p)) {
        (void) snprintf(port, sizeof(port), "%u/tcp", docker_port(p->profile));
        json_begin_obj(&j, "ExposedPorts");
        json_begin_obj(&j, port);
        json_end(&j);
        json_end(&j);
    }
    put_host_config(&j, p);
    json_end(&j);
    json_out_finish(&j, out);
}
