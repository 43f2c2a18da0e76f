/* body.c - what the engine is told of a new container. Hardened unless the profile says otherwise: no
 * new privileges, no capabilities but those that root of an ordinary image needs for files and ids, the
 * engine's own seccomp list, limits, no swap beyond the memory. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "docker/internal.h"

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
    const char *words[12] = {DOCKER_AGENT_DIR "/agent", "--detach-stdio"};
    size_t n = 2;

    if (p->profile->agent == CONFIG_AGENT_IMAGE)
        return; /* its own */
    if (p->hand_dir != NULL) {
        words[n++] = "--fd-from";
        words[n++] = DOCKER_HAND_DIR "/socket";
    } else {
        words[n++] = "--listen";
        words[n++] = "0.0.0.0";
    }
    if (p->work_dir[0] == '/') {
        words[n++] = "--workdir";
        words[n++] = p->work_dir;
    }
    put_strings(j, "Entrypoint", words);
    json_begin_arr(j, "Cmd"); /* the image's would be arguments */
    json_end(j);
}

static void put_env(struct json_out *j, const struct docker_plan *p)
{
    const struct config_map *env = &p->profile->env;
    struct buf text;

    buf_init(&text, DOCKER_BODY_MAX);
    json_begin_arr(j, "Env");
    for (unsigned i = 0; i < env->count; i++) {
        buf_reset(&text);
        buf_printf(&text, "%s=%s", env->pairs[i].key, env->pairs[i].value);
        json_put_str(j, NULL, buf_str(&text));
    }
    buf_reset(&text);
    buf_printf(&text, "%s=%s",
               p->profile->agent == CONFIG_AGENT_IMAGE ? "SANDBOX_API_KEY" : "SANDPOOL_AGENT_TOKEN",
               p->token);
    json_put_str(j, NULL, buf_str(&text));
    json_end(j);
    buf_fini(&text);
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

/* "/here:/there", "/here:/there:ro"; the configuration has checked the form and mounts.allow. */
static void put_profile_mount(struct json_out *j, const char *text, size_t len)
{
    char entry[CONFIG_TEXT_MAX + 1];
    char *to;
    char *how;

    if (!str_copy_n(entry, sizeof(entry), text, len))
        return;
    to = strchr(entry, ':');
    if (to == NULL)
        return;
    *to++ = '\0';
    how = strchr(to, ':');
    if (how != NULL)
        *how++ = '\0';
    put_bind(j, entry, to, how != NULL && strcmp(how, "ro") == 0);
}

static void put_mounts(struct json_out *j, const struct docker_plan *p)
{
    const char *list = p->profile->mounts;

    json_begin_arr(j, "Mounts");
    if (p->agent != NULL)
        put_bind(j, p->agent, DOCKER_AGENT_DIR "/agent", true);
    if (p->hand_dir != NULL)
        put_bind(j, p->hand_dir, DOCKER_HAND_DIR, true);
    while (*list != '\0') {
        size_t len = strcspn(list, ",");

        put_profile_mount(j, list, len);
        list += list[len] == ',' ? len + 1 : len;
    }
    json_end(j);
}

static void put_network(struct json_out *j, const struct docker_plan *p)
{
    char port[16];

    if (p->profile->network == CONFIG_NETWORK_NONE)
        json_put_str(j, "NetworkMode", "none");
    else if (p->profile->network == CONFIG_NETWORK_HOST)
        json_put_str(j, "NetworkMode", "host");
    else
        json_put_str(j, "NetworkMode", p->profile->docker.network);
    if (p->hand_dir != NULL)
        return;
    (void) snprintf(port, sizeof(port), "%u/tcp", docker_port(p->profile));
    json_begin_obj(j, "PortBindings");
    json_begin_arr(j, port);
    json_begin_obj(j, NULL);
    json_put_str(j, "HostIp", p->profile->docker.bind_host);
    json_put_str(j, "HostPort", ""); /* the engine chooses */
    json_end(j);
    json_end(j);
    json_end(j);
}

static void put_limits(struct json_out *j, const struct config_profile *c)
{
    if (c->limits.memory > 0) {
        json_put_u64(j, "Memory", c->limits.memory);
        json_put_u64(j, "MemorySwap", c->limits.memory); /* both together: no swap */
    }
    if (c->limits.cpus > 0)
        json_put_u64(j, "NanoCpus", c->limits.cpus * 1000000);
    if (c->limits.pids > 0)
        json_put_u64(j, "PidsLimit", c->limits.pids);
}

static void put_host_config(struct json_out *j, const struct docker_plan *p)
{
    static const char *const all[] = {"ALL", NULL};
    static const char *const few[] = {"CHOWN",  "DAC_OVERRIDE", "FOWNER", "FSETID",
                                      "SETGID", "SETUID",       "KILL",   NULL};
    static const char *const security[] = {"no-new-privileges", NULL};

    json_begin_obj(j, "HostConfig");
    put_strings(j, "CapDrop", all);
    put_strings(j, "CapAdd", few);
    put_strings(j, "SecurityOpt", security);
    put_network(j, p);
    put_limits(j, p->profile);
    put_mounts(j, p);
    if (!str_is_empty(p->profile->runtime))
        json_put_str(j, "Runtime", p->profile->runtime);
    json_end(j);
}

static void put_labels(struct json_out *j, const struct docker_plan *p)
{
    char text[64];

    json_begin_obj(j, "Labels");
    docker_put_labels(j, p->labels);
    json_put_str(j, LABEL("prefix"), p->profile->docker.container_prefix);
    json_put_str(j, LABEL("token"), p->token);
    if (p->hand_dir != NULL)
        (void) snprintf(text, sizeof(text), "http://127.0.0.1:%u", p->hand_port);
    else /* the engine chooses the port when it starts the container */
        (void) snprintf(text, sizeof(text), "%u", docker_port(p->profile));
    json_put_str(j, p->hand_dir != NULL ? LABEL("url") : LABEL("port"), text);
    if (p->hand_dir == NULL)
        json_put_str(j, LABEL("url_host"), p->profile->docker.url_host);
    json_end(j);
}

void docker_put_body(const struct docker_plan *p, struct buf *out)
{
    struct json_out j;
    char hex[17];
    char port[16];

    json_out_init(&j);
    json_begin_obj(&j, NULL);
    json_put_str(&j, "Image", p->profile->image);
    str_hex64(hex, p->labels->box_id);
    if (p->profile->network != CONFIG_NETWORK_HOST)
        json_put_str(&j, "Hostname", hex);
    if (!str_is_empty(p->profile->docker.user))
        json_put_str(&j, "User", p->profile->docker.user);
    put_command(&j, p);
    put_env(&j, p);
    put_labels(&j, p);
    if (p->hand_dir == NULL) {
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
