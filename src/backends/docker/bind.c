/* bind.c - the owner of a box, recorded in the engine: a volume whose labels name the owner, then the
 * container's name. Binds of one box go one after the other: a later owner must not be overwritten
 * by an earlier one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/docker/internal.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"

enum { SANDBOX_NAME_MAX = 128 };

enum binding_step {
    BINDING_WAITS, /* for an earlier bind of the box */
    BINDING_LOOKS, /* only when the container is not known */
    BINDING_OWNS,
    BINDING_RENAMES,
    BINDING_ENDS,
    BINDING_STEP_COUNT
};

/* `priv` of the request, which may leave before this ends. */
struct binding {
    enum binding_step step;
    int result;
    struct err err;
    struct list_node link;
    struct docker *docker;
    struct backend_bind *request; /* NULL: it has left */
    struct backend_labels labels;
    struct call call;
    struct docker_list look;
    char container[DOCKER_CONTAINER_MAX + 1];
    char prefix[CONFIG_NAME_MAX + 1];
    char old_owner[DOCKER_NAME_MAX + 1];
    char owner[DOCKER_NAME_MAX + 1];
    bool is_second; /* its own name was taken */
};

static void begin(struct binding *b);
static void tick(struct binding *b);

static void go(struct binding *b, enum binding_step step)
{
    b->step = step;
    tick(b);
}

static void go_end(struct binding *b, int rc, const struct err *err)
{
    b->result = rc;
    if (rc != SP_OK)
        b->err = *err;
    go(b, BINDING_ENDS);
}

static void answer(struct binding *b, int rc, const struct err *err)
{
    struct backend_bind *r = b->request;

    if (r == NULL)
        return;
    r->priv = NULL;
    b->request = NULL;
    closing_finish(&b->docker->closing, &r->op, rc, err);
}

static bool is_same_box(const struct binding *a, const struct binding *b)
{
    return a->labels.box_id == b->labels.box_id;
}

static void end(struct binding *b)
{
    struct docker *d = b->docker;
    int rc = b->result;
    struct docker_box *box = docker_box_find(d, b->labels.box_id);
    struct binding *next = NULL;

    if (rc == SP_OK && box != NULL)
        str_copy_cut(box->owner, sizeof(box->owner), b->owner);
    if (rc == SP_OK && box != NULL && !str_is_empty(b->old_owner))
        docker_remove_volume(d, b->old_owner);
    if ((rc == SP_NOT_FOUND || box == NULL) && !str_is_empty(b->owner))
        docker_remove_volume(d, b->owner);
    else if (rc != SP_OK && !str_is_empty(b->owner))
        docker_look_later(d); /* the volume may be there all the same */
    answer(b, rc, &b->err);
    for (struct list_node *n = list_first(&d->bindings); n != NULL && next == NULL;
         n = list_next(&d->bindings, n)) {
        struct binding *other = container_of(n, struct binding, link);

        if (other != b && is_same_box(other, b))
            next = other;
    }
    list_remove(&d->bindings, &b->link);
    call_fini(&b->call);
    docker_list_fini(&b->look);
    free(b);
    if (next != NULL)
        begin(next);
    closing_settle(&d->closing);
}

/* --- the name --- */

/* What may stand in a name; any other id is shown as a digest of it. */
static void print_name(const struct binding *b, char *dst, size_t cap)
{
    const char *id = b->labels.sandbox_id;
    char digest_hex[17];
    char hex[17];
    int len;

    if (!str_is_name(id, SANDBOX_NAME_MAX, "_.-")) {
        unsigned char digest[32];
        struct sha256 s;

        sha256_init(&s);
        sha256_add(&s, id, strlen(id));
        sha256_end(&s, digest);
        str_hex(digest_hex, digest, 8);
        id = digest_hex;
    }
    str_hex64(hex, b->labels.box_id);
    len = snprintf(dst, cap, "%s-%s", b->prefix, id);
    if (b->is_second)
        (void) snprintf(dst + len, cap - (size_t) len, ".%s", hex);
}

static void on_renamed(struct op *op)
{
    struct binding *b = container_of(op, struct binding, call.op);
    struct err err;
    int rc = docker_call_result(&b->call, &err);

    FAULT_POINT("docker.after_bind");
    if (op->result == SP_OK && (b->call.http.status == 409 || b->call.http.status == 400)) {
        if (!b->is_second) { /* of somebody else: we do without, the owner is in the labels */
            log_warn("docker.name_taken", LF_HEX("box", b->labels.box_id),
                     LF_STR("reason", err.msg));
            b->is_second = true;
            go(b, BINDING_RENAMES);
            return;
        }
        rc = SP_OK; /* it has this name already */
    }
    go_end(b, rc, &err);
}

static void rename_container(struct binding *b)
{
    char name[DOCKER_NAME_MAX + 1];

    print_name(b, name, sizeof(name));
    docker_call_init(b->docker, &b->call, "POST");
    buf_printf(&b->call.path, "/containers/%s/rename?name=%s", b->container, name);
    docker_call_start(&b->call, RT_NEVER, on_renamed);
}

/* --- the owner --- */

static void on_owner(struct op *op)
{
    struct binding *b = container_of(op, struct binding, call.op);
    struct err err;
    int rc = docker_call_result(&b->call, &err);

    FAULT_POINT("docker.after_owner");
    if (rc != SP_OK)
        go_end(b, rc == SP_NOT_FOUND ? SP_BACKEND_FAILED : rc, &err);
    else
        go(b, BINDING_RENAMES);
}

static void put_owner(struct binding *b)
{
    struct docker *d = b->docker;
    uint64_t wall_ms = rt_wall_ms(&d->loop->rt);
    struct json_out j;
    char order[17];
    char hex[17];

    d->bound_count = MAX_OF(d->bound_count + 1, wall_ms);
    str_hex64(hex, b->labels.box_id);
    str_hex64(order, d->bound_count);
    (void) snprintf(b->owner, sizeof(b->owner), "%s-%s.%s", b->prefix, hex, order);
    docker_call_init(d, &b->call, "POST");
    buf_puts(&b->call.path, "/volumes/create");
    json_out_init(&j);
    json_begin_obj(&j, NULL);
    json_put_str(&j, "Name", b->owner);
    json_begin_obj(&j, "Labels");
    docker_put_labels(&j, &b->labels);
    json_end(&j);
    json_end(&j);
    json_out_finish(&j, &b->call.body);
    docker_call_start(&b->call, RT_NEVER, on_owner);
}

static void on_looked(struct op *op)
{
    struct binding *b = container_of(op, struct binding, look.op);
    struct err err = op->err;
    int rc = op->result;

    if (rc == SP_OK && (b->look.count == 0 || !b->look.found[0].is_running))
        rc = err_set(&err, SP_NOT_FOUND, "the box to bind is not there");
    if (rc != SP_OK) {
        go_end(b, rc, &err);
        return;
    }
    str_copy_cut(b->container, sizeof(b->container), b->look.found[0].box.ref);
    str_copy_cut(b->prefix, sizeof(b->prefix), b->look.found[0].prefix);
    go(b, BINDING_OWNS);
}

static void look(struct binding *b)
{
    b->look.only = b->labels.box_id;
    docker_list_start(b->docker, &b->look, RT_NEVER, on_looked);
}

/* --- the steps --- */

static void tick(struct binding *b)
{
    switch (b->step) {
    case BINDING_LOOKS:
        look(b);
        return;
    case BINDING_OWNS:
        put_owner(b);
        return;
    case BINDING_RENAMES:
        rename_container(b);
        return;
    case BINDING_ENDS:
        end(b);
        return;
    case BINDING_WAITS: /* begin() ends this one */
    case BINDING_STEP_COUNT:
        break;
    }
    assert(false && "no such step");
}

static void begin(struct binding *b)
{
    const struct docker_box *box = docker_box_find(b->docker, b->labels.box_id);

    FAULT_POINT("docker.before_bind");
    if (box == NULL || str_is_empty(box->container)) {
        go(b, BINDING_LOOKS);
        return;
    }
    str_copy_cut(b->container, sizeof(b->container), box->container);
    str_copy_cut(b->prefix, sizeof(b->prefix), box->prefix);
    str_copy_cut(b->old_owner, sizeof(b->old_owner), box->owner);
    go(b, BINDING_OWNS);
}

static void on_cancel(struct op *op)
{
    struct binding *b = container_of(op, struct backend_bind, op)->priv;
    struct docker *d = b->docker;

    answer(b, SP_CANCELLED, NULL); /* the call that the engine has goes on to its end */
    if (b->step != BINDING_WAITS)
        return;
    list_remove(&d->bindings, &b->link);
    free(b);
}

void docker_bind(struct backend *backend, struct backend_bind *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *))
{
    struct docker *d = docker_of(backend);
    struct binding *b = xcalloc(1, sizeof(*b));
    bool is_first = true;

    op_begin(&r->op, &d->loop->rt, &d->closing.ops, deadline_ns, on_cancel, on_done);
    if (docker_is_foreign(&r->box)) { /* whoever made it finds it by its name */
        free(b);
        closing_finish(&d->closing, &r->op, SP_OK, NULL);
        return;
    }
    b->docker = d;
    b->request = r;
    b->labels = r->box.labels;
    str_copy_cut(b->labels.instance, sizeof(b->labels.instance), d->instance);
    r->priv = b;
    for (struct list_node *n = list_first(&d->bindings); n != NULL; n = list_next(&d->bindings, n))
        is_first = is_first && !is_same_box(container_of(n, struct binding, link), b);
    list_push_back(&d->bindings, &b->link);
    if (is_first)
        begin(b);
}
