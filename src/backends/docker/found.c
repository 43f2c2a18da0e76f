/* found.c - a container as the engine shows it, in a list or by itself, as a box. */
#include <stdio.h>
#include <string.h>

#include "backends/docker/internal.h"
#include "base/str.h"

/* "{prefix}-{box id}" until it is bound. Without the volume that names the owner it must still not
 * pass for a blank box. */
static void take_name(struct docker_found *f)
{
    size_t len = strlen(f->prefix);
    char hex[17];

    str_hex64(hex, f->box.labels.box_id);
    if (!str_is_empty(f->box.labels.sandbox_id) || strncmp(f->name, f->prefix, len) != 0 ||
        f->name[len] != '-' || strcmp(f->name + len + 1, hex) == 0)
        return;
    str_copy_cut(f->box.labels.sandbox_id, sizeof(f->box.labels.sandbox_id), f->name + len + 1);
}

/* Labels, names and id: what list and inspect have in common. */
static bool take_labels(const struct docker *d, const struct json *labels, const char *id,
                        const char *name, struct docker_found *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (id == NULL || name == NULL || !docker_get_labels(labels, &ret->box.labels) ||
        strcmp(ret->box.labels.instance, d->instance) != 0)
        return false;
    str_copy_cut(ret->name, sizeof(ret->name), name[0] == '/' ? name + 1 : name);
    str_copy_cut(ret->prefix, sizeof(ret->prefix), docker_label(labels, LABEL("prefix")));
    str_copy_cut(ret->box.url, sizeof(ret->box.url), docker_label(labels, LABEL("url")));
    take_name(ret);
    return str_copy(ret->box.ref, DOCKER_CONTAINER_MAX + 1, id) &&
           str_copy(ret->box.token, sizeof(ret->box.token), docker_label(labels, LABEL("token")));
}

static void set_url(struct docker_found *f, const struct json *labels, uint64_t port)
{
    const char *host = docker_label(labels, LABEL("url_host"));

    (void) snprintf(f->box.url, sizeof(f->box.url), "http://%.100s:%llu",
                    str_is_empty(host) ? "127.0.0.1" : host, (unsigned long long) port);
}

void docker_read_state(const struct json *state, struct docker_found *f)
{
    f->is_paused = json_bool(json_get(state, "Paused"));
    f->is_running = f->is_paused || json_bool(json_get(state, "Running"));
}

/* Where there is no published port: its own address on the network its label names. Podman calls
 * its own first network by another name, so that of a container with one network needs none. */
static void take_address(struct docker_found *f, const struct json *labels,
                         const struct json *entry)
{
    const char *network = docker_label(labels, LABEL("network"));
    const struct json *networks = json_get(json_get(entry, "NetworkSettings"), "Networks");
    const struct json *one = json_get(networks, network);
    const char *address;
    const char *name;
    uint64_t port = 0;
    bool is_v6;

    if (str_is_empty(network) || !str_is_empty(f->box.url) ||
        !str_parse_u64(docker_label(labels, LABEL("port")), 1, 65535, &port))
        return;
    if (one == NULL && json_len(networks) == 1)
        (void) json_member(networks, 0, &name, &one); /* false: it stays NULL */
    address = json_str(json_get(one, "IPAddress"));
    is_v6 = address == NULL || str_is_empty(address);
    if (is_v6)
        address = json_str(json_get(one, "GlobalIPv6Address"));
    if (address != NULL && !str_is_empty(address))
        (void) snprintf(f->box.url, sizeof(f->box.url),
                        is_v6 ? "http://[%.60s]:%u" : "http://%.60s:%u", address, (unsigned) port);
}

int docker_read_inspect(const struct docker *d, const struct json *answer, struct docker_found *ret,
                        struct err *err)
{
    const struct json *labels = json_get(json_get(answer, "Config"), "Labels");
    char key[16];
    const struct json *ports = json_get(json_get(answer, "NetworkSettings"), "Ports");
    const char *host_port;
    uint64_t port;

    if (!take_labels(d, labels, json_str(json_get(answer, "Id")),
                     json_str(json_get(answer, "Name")), ret))
        return err_set(err, SP_NOT_FOUND, "the container is not ours");
    docker_read_state(json_get(answer, "State"), ret);
    (void) snprintf(key, sizeof(key), "%.5s/tcp", docker_label(labels, LABEL("port")));
    host_port = json_str(json_get(json_at(json_get(ports, key), 0), "HostPort"));
    if (str_is_empty(ret->box.url) && host_port != NULL &&
        str_parse_u64(host_port, 1, 65535, &port))
        set_url(ret, labels, port);
    take_address(ret, labels, answer);
    return SP_OK;
}

bool docker_read_entry(const struct docker *d, const struct json *entry, struct docker_found *ret)
{
    const struct json *labels = json_get(entry, "Labels");
    const struct json *ports = json_get(entry, "Ports");
    const char *state = json_str(json_get(entry, "State"));
    uint64_t want = 0;

    if (!take_labels(d, labels, json_str(json_get(entry, "Id")),
                     json_str(json_at(json_get(entry, "Names"), 0)), ret))
        return false;
    ret->is_paused = state != NULL && strcmp(state, "paused") == 0;
    ret->is_running = ret->is_paused || (state != NULL && strcmp(state, "running") == 0);
    if (docker_disk_is_unfinished(d, ret->box.labels.box_id))
        ret->is_running = false; /* it is removed */
    if (!str_is_empty(ret->box.url) ||
        !str_parse_u64(docker_label(labels, LABEL("port")), 1, 65535, &want))
        return true;
    take_address(ret, labels, entry);
    for (size_t i = 0; i < json_len(ports); i++) {
        uint64_t inside = 0;
        uint64_t outside = 0;

        if (json_u64(json_get(json_at(ports, i), "PrivatePort"), &inside) && inside == want &&
            json_get(json_at(ports, i), "PublicPort") != NULL &&
            json_u64(json_get(json_at(ports, i), "PublicPort"), &outside))
            set_url(ret, labels, outside);
    }
    return true;
}
