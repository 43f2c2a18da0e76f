/* foreign.c - containers that another process started under a name of ours: `adopt_prefix`. Their box id is
 * the beginning of the container's, so that it is the same for every daemon and after every restart, and
 * whose they are is known to the store alone: they carry no labels, and their name stays as it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/docker/internal.h"
#include "base/mem.h"
#include "base/str.h"

/* One per profile with a prefix. */
struct adoption {
    struct list_node link;
    char profile[CONFIG_NAME_MAX + 1];
    char prefix[CONFIG_NAME_MAX + 1];
    char url_host[CONFIG_NAME_MAX + 1];
    uint64_t port;
};

bool docker_is_foreign(const struct backend_box *box)
{
    return box->labels.box_id != 0 && docker_short_id(box->ref) == box->labels.box_id;
}

static struct adoption *find_profile(struct docker *d, const char *name)
{
    for (struct list_node *n = list_first(&d->adoptions); n != NULL;
         n = list_next(&d->adoptions, n)) {
        struct adoption *a = container_of(n, struct adoption, link);

        if (strcmp(a->profile, name) == 0)
            return a;
    }
    return NULL;
}

void docker_adopt_prepare(struct docker *d, const struct config_profile *p)
{
    struct adoption *a = find_profile(d, p->name);

    if (a == NULL && str_is_empty(p->docker.adopt_prefix))
        return;
    if (a == NULL) {
        a = xcalloc(1, sizeof(*a));
        str_copy_cut(a->profile, sizeof(a->profile), p->name);
        list_push_back(&d->adoptions, &a->link);
    }
    if (str_is_empty(p->docker.adopt_prefix)) {
        list_remove(&d->adoptions, &a->link);
        free(a);
        return;
    }
    str_copy_cut(a->prefix, sizeof(a->prefix), p->docker.adopt_prefix);
    str_copy_cut(a->url_host, sizeof(a->url_host), p->docker.url_host);
    a->port = p->docker.port;
}

void docker_adopt_free(struct docker *d)
{
    while (!list_is_empty(&d->adoptions))
        free(container_of(list_pop_front(&d->adoptions), struct adoption, link));
}

/* The profile whose prefix, a dash and an id this name is. */
static const struct adoption *find_name(const struct docker *d, const char *name)
{
    for (struct list_node *n = list_first(&d->adoptions); n != NULL;
         n = list_next(&d->adoptions, n)) {
        const struct adoption *a = container_of(n, const struct adoption, link);
        size_t len = strlen(a->prefix);

        if (strncmp(name, a->prefix, len) == 0 && name[len] == '-' &&
            str_is_name(name + len + 1, BACKEND_LABEL_MAX, "_.-"))
            return a;
    }
    return NULL;
}

/* Labels of any sandpool: then it is ours by other rules, or another's. */
static bool has_owner(const struct json *labels)
{
    return json_get(labels, LABEL("instance")) != NULL || json_get(labels, LABEL("box")) != NULL;
}

static void take_port(const struct adoption *a, const struct json *ports, struct docker_found *f)
{
    for (size_t i = 0; i < json_len(ports); i++) {
        uint64_t inside = 0;
        uint64_t outside = 0;

        if (json_u64(json_get(json_at(ports, i), "PrivatePort"), &inside) && inside == a->port &&
            json_get(json_at(ports, i), "PublicPort") != NULL &&
            json_u64(json_get(json_at(ports, i), "PublicPort"), &outside))
            (void) snprintf(f->box.url, sizeof(f->box.url), "http://%s:%u", a->url_host,
                            (unsigned) outside);
    }
}

bool docker_is_adopted(struct docker *d, uint64_t box_id, const char *name)
{
    const struct docker_box *known = docker_box_find(d, box_id);

    /* one that is known may have been given another name */
    return (known != NULL && known->is_foreign) || find_name(d, name + (name[0] == '/')) != NULL;
}

bool docker_read_foreign(struct docker *d, const struct json *entry, struct docker_found *ret)
{
    const char *id = json_str(json_get(entry, "Id"));
    const char *name = json_str(json_at(json_get(entry, "Names"), 0));
    const char *state = json_str(json_get(entry, "State"));
    const struct adoption *a;

    memset(ret, 0, sizeof(*ret));
    if (id == NULL || name == NULL || state == NULL || has_owner(json_get(entry, "Labels")) ||
        !str_copy(ret->box.ref, DOCKER_CONTAINER_MAX + 1, id))
        return false;
    name += name[0] == '/';
    if (!docker_is_adopted(d, docker_short_id(id), name))
        return false;
    a = find_name(d, name);
    ret->box.labels.box_id = docker_short_id(id);
    ret->box.is_foreign = true;
    ret->is_paused = strcmp(state, "paused") == 0;
    ret->is_running = ret->is_paused || strcmp(state, "running") == 0;
    str_copy_cut(ret->name, sizeof(ret->name), name);
    if (a == NULL)
        return true;
    str_copy_cut(ret->box.labels.profile, sizeof(ret->box.labels.profile), a->profile);
    str_copy_cut(ret->box.labels.sandbox_id, sizeof(ret->box.labels.sandbox_id),
                 name + strlen(a->prefix) + 1);
    take_port(a, json_get(entry, "Ports"), ret);
    return true;
}

static bool is_found(const struct docker_list *l, uint64_t id)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->found[i].box.is_foreign && l->found[i].box.labels.box_id == id)
            return true;
    return false;
}

/* A list shows only those that run. For one that nobody had claimed there is nothing left to do. */
void docker_foreign_keep_up(struct docker_list *l)
{
    struct docker *d = l->docker;
    struct list_node *next;

    for (struct list_node *n = list_first(&d->boxes.all); n != NULL; n = next) {
        struct docker_box *b = container_of(n, struct docker_box, entry.link);

        next = list_next(&d->boxes.all, n);
        if (!b->is_foreign || b->entry.since_ns >= l->started_ns || is_found(l, b->entry.id))
            continue;
        if (b->entry.state == BOX_RUNNING)
            docker_box_died(b, "its container has ended");
        else if (b->entry.state == BOX_DEAD && list_is_empty(&b->entry.removers) &&
                 list_is_empty(&b->entry.joiners))
            docker_box_drop(b);
    }
}
