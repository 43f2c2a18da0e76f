/* label.c - what engine objects carry, so that reconciliation never guesses. Numbers are hex: JSON and
 * people cut large ones. */
#include <string.h>

#include "backends/docker/internal.h"
#include "base/str.h"

void docker_put_owner(struct json_out *j, const struct backend_labels *l)
{
    json_put_str(j, LABEL("sandbox_id"), l->sandbox_id);
    json_put_str(j, LABEL("user"), l->user);
    json_put_str(j, LABEL("thread"), l->thread);
    json_put_hex64(j, LABEL("generation"), l->generation);
    json_put_hex64(j, LABEL("principal"), l->principal);
}

void docker_put_labels(struct json_out *j, const struct backend_labels *l)
{
    json_put_str(j, LABEL("instance"), l->instance);
    json_put_hex64(j, LABEL("box"), l->box_id);
    json_put_str(j, LABEL("profile"), l->profile);
    json_put_hex64(j, LABEL("spec"), l->spec_hash);
    docker_put_owner(j, l);
}

const char *docker_label(const struct json *labels, const char *name)
{
    const char *text = json_str(json_get(labels, name));

    return text != NULL ? text : "";
}

static uint64_t get_hex(const struct json *labels, const char *name)
{
    uint64_t v = 0;

    return str_parse_hex64(docker_label(labels, name), &v) ? v : 0;
}

void docker_get_owner(const struct json *labels, struct backend_labels *ret)
{
    str_copy_cut(ret->sandbox_id, sizeof(ret->sandbox_id),
                 docker_label(labels, LABEL("sandbox_id")));
    str_copy_cut(ret->user, sizeof(ret->user), docker_label(labels, LABEL("user")));
    str_copy_cut(ret->thread, sizeof(ret->thread), docker_label(labels, LABEL("thread")));
    ret->generation = get_hex(labels, LABEL("generation"));
    ret->principal = get_hex(labels, LABEL("principal"));
}

bool docker_get_labels(const struct json *labels, struct backend_labels *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->box_id = get_hex(labels, LABEL("box"));
    ret->spec_hash = get_hex(labels, LABEL("spec"));
    docker_get_owner(labels, ret);
    return ret->box_id != 0 &&
           str_copy(ret->instance, sizeof(ret->instance),
                    docker_label(labels, LABEL("instance"))) &&
           str_copy(ret->profile, sizeof(ret->profile), docker_label(labels, LABEL("profile")));
}
