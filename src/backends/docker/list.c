/* list.c - list and discover: what the engine runs for us, the containers in one call, their owners in another. What is
 * in the table is kept up with it, and what has ended without our doing is removed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/docker/capturing.h"
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
        docker_hoard_add(b);
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

/* The wall clock may have been set back since: the next owner comes after those there are all the same. */
static void note_order(struct docker *d, const char *name)
{
    const char *dot = strrchr(name, '.');
    uint64_t order = 0;

    if (dot != NULL && str_parse_hex64(dot + 1, &order) && order < UINT64_MAX / 2)
        d->bound_count = MAX_OF(d->bound_count, order);
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
    note_order(l->docker, name);
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
        if (docker_read_entry(l->docker, json_at(list, i), &l->found[l->count]))
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

/* --- list and discover --- */

struct listing {
    struct docker_list list;
    struct docker *docker;
    struct op *op;
    union {
        struct backend_list *list;
        struct backend_discover *discover;
    } for_;
    bool is_discover;
};

static void take(struct listing *l, const struct backend_box *box, bool is_paused)
{
    struct backend_list *r = l->for_.list;

    if (l->is_discover) {
        struct backend_discover *x = l->for_.discover;

        if (strcmp(box->labels.sandbox_id, x->sandbox_id) != 0 ||
            (box->is_foreign && (x->is_found || is_paused || str_is_empty(box->url))))
            return;
        x->is_found = true;
        x->want_probe = box->is_foreign;
        x->box = *box;
        x->box.is_frozen = is_paused;
        return;
    }
    if (r->boxes == NULL)
        r->boxes = xcalloc(l->list.count, sizeof(r->boxes[0]));
    r->boxes[r->count] = *box;
    r->boxes[r->count].is_frozen = is_paused;
    r->count++;
}

static void on_listed(struct op *op)
{
    struct listing *l = container_of(op, struct listing, list.op);
    struct docker *d = l->docker;

    for (size_t i = 0; op->result == SP_OK && i < l->list.count; i++) {
        const struct backend_box *box = &l->list.found[i].box;
        const struct docker_box *b = docker_box_find(d, box->labels.box_id);

        if (b != NULL && b->entry.state == BOX_RUNNING && strcmp(b->container, box->ref) == 0)
            take(l, box, l->list.found[i].is_paused);
    }
    if (op->result == SP_OK && !l->is_discover) {
        docker_copies_sweep(d);
        docker_snapshots_collect(d);
    }
    closing_finish(&d->closing, l->op, op->result, &op->err);
    docker_list_fini(&l->list);
    free(l);
}

static void start(struct docker *d, struct listing *l, struct op *op)
{
    l->docker = d;
    l->op = op;
    docker_list_start(d, &l->list, RT_NEVER, on_listed);
}

static void on_list_cancel(struct op *op)
{
    struct listing *l = container_of(op, struct backend_list, op)->priv;

    op_cancel(&l->list.op);
}

void docker_list_boxes(struct backend *backend, struct backend_list *r, uint64_t deadline_ns,
                       void (*on_done)(struct op *))
{
    struct docker *d = docker_of(backend);
    struct listing *l = xcalloc(1, sizeof(*l));

    op_begin(&r->op, &d->loop->rt, &d->closing.ops, deadline_ns, on_list_cancel, on_done);
    r->boxes = NULL;
    r->count = 0;
    r->priv = l;
    l->for_.list = r;
    start(d, l, &r->op);
}

static void on_discover_cancel(struct op *op)
{
    struct listing *l = container_of(op, struct backend_discover, op)->priv;

    op_cancel(&l->list.op);
}

void docker_discover(struct backend *backend, struct backend_discover *r, uint64_t deadline_ns,
                     void (*on_done)(struct op *))
{
    struct docker *d = docker_of(backend);
    struct listing *l = xcalloc(1, sizeof(*l));

    op_begin(&r->op, &d->loop->rt, &d->closing.ops, deadline_ns, on_discover_cancel, on_done);
    r->is_found = false;
    r->want_probe = false;
    r->priv = l;
    l->for_.discover = r;
    l->is_discover = true;
    start(d, l, &r->op);
}
