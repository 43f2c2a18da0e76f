/* list.c - what the engine runs for us: the containers in one call, their owners in another. What is in
 * the table is kept up with it, and what has ended without our doing is removed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/docker/internal.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"

enum { LABEL_TEXT_MAX = BACKEND_LABEL_MAX + 32 };

void docker_list_fini(struct docker_list *l)
{
    free(l->found);
    l->found = NULL;
    l->count = 0;
    call_fini(&l->call);
}

static void end(struct docker_list *l, int rc, const struct err *err)
{
    closing_finish(&l->docker->closing, &l->op, rc, err);
}

/* --- one container --- */

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

static bool read_entry(const struct docker *d, const struct json *entry, struct docker_found *ret)
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

/* --- keeping up --- */

static void sweep(struct docker *d, const struct docker_found *f)
{
    struct docker_box *b = docker_box_find(d, f->box.labels.box_id);

    log_info("docker.leftover", LF_HEX("box", f->box.labels.box_id));
    if (b == NULL)
        b = docker_box_add(d, f->box.labels.box_id, BOX_DEAD);
    str_copy_cut(b->container, sizeof(b->container), f->box.ref);
    str_copy_cut(b->owner, sizeof(b->owner), f->owner);
    b->was_never_made = false;
    docker_remove_box(b);
}

static void keep_up(struct docker_list *l, const struct docker_found *f)
{
    struct docker *d = l->docker;
    struct docker_box *b = docker_box_find(d, f->box.labels.box_id);
    bool is_new = b == NULL;

    if (b != NULL && b->entry.state == BOX_RUNNING && b->entry.since_ns < l->started_ns &&
        !f->is_running)
        docker_box_died(b, "its container has ended");
    if (f->is_running && b == NULL) {
        b = docker_box_add(d, f->box.labels.box_id, BOX_RUNNING);
        b->is_foreign = f->box.is_foreign;
        str_copy_cut(b->container, sizeof(b->container), f->box.ref);
    }
    if (f->is_running && b->entry.state == BOX_RUNNING) {
        str_copy_cut(b->prefix, sizeof(b->prefix), f->prefix);
        str_copy_cut(b->owner, sizeof(b->owner), f->owner);
        if (is_new || b->entry.since_ns < l->started_ns)
            docker_box_pause(b, f->is_paused);
    }
    if (!f->is_running && !d->closing.is_closing && !f->box.is_foreign &&
        (b == NULL || b->entry.state == BOX_DEAD))
        sweep(d, f);
}

/* --- owners --- */

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct docker_found *) a)->box.labels.box_id;
    uint64_t y = ((const struct docker_found *) b)->box.labels.box_id;

    return x < y ? -1 : x > y;
}

static struct docker_found *find(struct docker_list *l, uint64_t id)
{
    struct docker_found key;

    key.box.labels.box_id = id;
    return l->count == 0 ? NULL : bsearch(&key, l->found, l->count, sizeof(key), by_id);
}

static void swap_owner(struct docker_box *b, const char *name)
{
    if (!str_is_empty(b->owner))
        docker_remove_volume(b->docker, b->owner);
    str_copy_cut(b->owner, sizeof(b->owner), name);
}

/* Of several owners of one box the last counts; the names end in their order. */
static void take_owner(struct docker_list *l, const struct json *volume)
{
    const char *name = json_str(json_get(volume, "Name"));
    const struct json *labels = json_get(volume, "Labels");
    struct backend_labels owner;
    struct docker_found *f;
    struct docker_box *b;

    if (name == NULL || !docker_get_labels(labels, &owner) ||
        strcmp(owner.instance, l->docker->instance) != 0)
        return;
    f = find(l, owner.box_id);
    b = docker_box_find(l->docker, owner.box_id);
    if (f == NULL && b == NULL) {
        docker_remove_volume(l->docker, name);
        return;
    }
    if (b != NULL && (b->entry.state == BOX_DEAD || b->entry.state == BOX_REMOVING) &&
        strcmp(b->owner, name) < 0) /* of a bind without an answer: it goes with the box */
        swap_owner(b, name);
    if (f == NULL)
        return;
    if (strcmp(f->owner, name) > 0) {
        docker_remove_volume(l->docker, name);
        return;
    }
    if (!str_is_empty(f->owner))
        docker_remove_volume(l->docker, f->owner);
    str_copy_cut(f->owner, sizeof(f->owner), name);
    docker_get_owner(labels, &f->box.labels);
}

/* --- the end of a listing --- */

static void resolve_doubts(struct docker_list *l);

static void on_inspected(struct op *op)
{
    struct docker_list *l = container_of(op, struct docker_list, call.op);
    struct docker_found *f = &l->found[l->doubted];
    struct docker *d = l->docker;
    struct json_doc *doc = NULL;
    struct err err;
    int rc = docker_call_json(&l->call, &doc, &err);

    if (rc == SP_NOT_FOUND)
        f->is_running = false;
    else if (rc == SP_OK)
        docker_read_state(json_get(json_root(doc), "State"), f);
    (void) json_doc_free(doc);
    if (rc != SP_OK && rc != SP_NOT_FOUND) {
        end(l, rc, &err);
        return;
    }
    /* Not when another end was reported meanwhile: it may be this one's, after the engine's answer. */
    if (f->is_running && l->deaths == d->ended.count)
        docker_ended_remove(d, f->box.ref);
    resolve_doubts(l);
}

static void resolve_doubts(struct docker_list *l)
{
    struct docker *d = l->docker;
    const struct docker_found *f = NULL;

    if (l->op.state != OP_RUNNING) {
        end(l, SP_CANCELLED, NULL);
        return;
    }
    for (size_t i = 0; f == NULL && i < l->count; i++)
        if (l->found[i].is_running && docker_ended_has(d, l->found[i].box.ref))
            f = &l->found[i];
    if (f != NULL) {
        l->doubted = (size_t) (f - l->found);
        l->deaths = d->ended.count;
        docker_call_init(d, &l->call, "GET");
        buf_printf(&l->call.path, "/containers/%s/json", f->box.ref);
        docker_call_start(&l->call, RT_NEVER, on_inspected);
        return;
    }
    for (size_t i = 0; l->only == 0 && i < l->count; i++)
        keep_up(l, &l->found[i]);
    if (l->only == 0) {
        docker_foreign_keep_up(l);
        docker_relay_keep_up(d);
    }
    end(l, SP_OK, NULL);
}

/* --- containers of others --- */

static int take_foreign(struct docker_list *l, const struct json *list, struct err *err)
{
    size_t count = l->count + json_len(list);
    struct docker_found *found;

    if (!json_is_arr(list))
        return err_set(err, SP_PROTOCOL, "the engine's answer is not a list of containers");
    if (count == 0)
        return SP_OK;
    found = try_realloc(l->found, count * sizeof(l->found[0]));
    if (found == NULL)
        return err_set(err, SP_NO_MEMORY, "no memory for a list of containers");
    l->found = found;
    for (size_t i = 0; i < json_len(list); i++)
        if (docker_read_foreign(l->docker, json_at(list, i), &l->found[l->count]))
            l->count++;
    return SP_OK;
}

static void on_foreign(struct op *op)
{
    struct docker_list *l = container_of(op, struct docker_list, call.op);
    struct json_doc *doc = NULL;
    struct err err;
    int rc = docker_call_json(&l->call, &doc, &err);

    if (rc == SP_OK)
        rc = take_foreign(l, json_root(doc), &err);
    (void) json_doc_free(doc);
    if (rc == SP_OK)
        resolve_doubts(l);
    else
        end(l, rc, &err);
}

/* All that run: names change, and the engine would go through all of them anyway. */
static void ask_foreign(struct docker_list *l)
{
    docker_call_init(l->docker, &l->call, "GET");
    buf_puts(&l->call.path, "/containers/json");
    docker_call_start(&l->call, RT_NEVER, on_foreign);
}

static void on_volumes(struct op *op)
{
    struct docker_list *l = container_of(op, struct docker_list, call.op);
    struct json_doc *doc = NULL;
    const struct json *volumes;
    struct err err;
    int rc = docker_call_json(&l->call, &doc, &err);

    if (rc != SP_OK) {
        end(l, rc, &err);
        return;
    }
    volumes = json_get(json_root(doc), "Volumes"); /* null when there are none */
    for (size_t i = 0; i < json_len(volumes); i++)
        take_owner(l, json_at(volumes, i));
    (void) json_doc_free(doc);
    if (l->op.state == OP_RUNNING && l->docker->watch.is_wide)
        ask_foreign(l);
    else
        resolve_doubts(l);
}

static void put_labels(struct docker_list *l, const char *more)
{
    char instance[LABEL_TEXT_MAX];
    const char *labels[] = {instance, more, NULL};

    (void) snprintf(instance, sizeof(instance), LABEL("instance") "=%s", l->docker->instance);
    docker_call_put_filter(&l->call, labels);
}

static void ask_volumes(struct docker_list *l)
{
    docker_call_init(l->docker, &l->call, "GET");
    buf_puts(&l->call.path, "/volumes?");
    put_labels(l, LABEL("box"));
    docker_call_start(&l->call, RT_NEVER, on_volumes);
}

/* --- containers --- */

static int take_containers(struct docker_list *l, const struct json *list, struct err *err)
{
    size_t count = json_len(list);

    if (!json_is_arr(list))
        return err_set(err, SP_PROTOCOL, "the engine's answer is not a list of containers");
    if (count == 0)
        return SP_OK;
    l->found = try_realloc(NULL, count * sizeof(l->found[0]));
    if (l->found == NULL)
        return err_set(err, SP_NO_MEMORY, "no memory for a list of containers");
    for (size_t i = 0; i < count; i++)
        if (read_entry(l->docker, json_at(list, i), &l->found[l->count]))
            l->count++;
    qsort(l->found, l->count, sizeof(l->found[0]), by_id);
    return SP_OK;
}

static void on_containers(struct op *op)
{
    struct docker_list *l = container_of(op, struct docker_list, call.op);
    struct json_doc *doc = NULL;
    struct err err;
    int rc = docker_call_json(&l->call, &doc, &err);

    FAULT_POINT("docker.after_list");
    if (rc == SP_OK)
        rc = take_containers(l, json_root(doc), &err);
    (void) json_doc_free(doc);
    if (rc != SP_OK)
        end(l, rc, &err);
    else if (l->op.state == OP_RUNNING && l->only == 0)
        ask_volumes(l);
    else
        resolve_doubts(l);
}

static void ask_containers(struct docker_list *l)
{
    char box[LABEL_TEXT_MAX];
    char hex[17];

    l->started_ns = rt_now(&l->docker->loop->rt);
    docker_call_init(l->docker, &l->call, "GET");
    buf_puts(&l->call.path, "/containers/json?all=1&");
    str_hex64(hex, l->only);
    (void) snprintf(box, sizeof(box), LABEL("box") "=%s", hex);
    put_labels(l, l->only != 0 ? box : NULL);
    docker_call_start(&l->call, RT_NEVER, on_containers);
}

static void on_cancel(struct op *op)
{
    op_cancel(&container_of(op, struct docker_list, op)->call.op);
}

void docker_list_start(struct docker *d, struct docker_list *l, uint64_t deadline_ns,
                       void (*on_done)(struct op *))
{
    op_begin(&l->op, &d->loop->rt, &d->closing.inner, deadline_ns, on_cancel, on_done);
    l->docker = d;
    ask_containers(l);
}
