/* host.c - the `sim` backend as a client of sandpool-sim. Every operation is one request (a
 * list: one per page). No answer is never taken for "no such box": only sandpool-sim's own
 * not_found counts as that. */
#include "backends/sim/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "backends/sim/sim.h"
#include "base/mem.h"
#include "base/str.h"
#include "sim/wire.h"

static struct sim_host *host_of(struct backend *b)
{
    return container_of(b, struct sim_host, base);
}

/* --- open and close --- */

int sim_host_open(const struct backend_env *env, const struct config_profile *profile,
                  struct backend **ret, struct err *err)
{
    struct sim_host *h;

    if (strlen(profile->sim.socket) >= sizeof(((struct sockaddr_un *) NULL)->sun_path))
        return err_set(err, SP_CONFIG, "sim.socket is too long for a Unix socket: '%.120s'",
                       profile->sim.socket);
    h = xcalloc(1, sizeof(*h));
    h->base.ops = &sim_host_ops;
    h->rt = &env->loop->rt;
    h->http = env->http;
    h->events = env->events;
    str_copy_cut(h->instance, sizeof(h->instance), env->instance);
    str_copy_cut(h->socket, sizeof(h->socket), profile->sim.socket);
    list_init(&h->ops);
    sim_watch_start(h);
    *ret = &h->base;
    return SP_OK;
}

static void on_closed_task(struct rt_task *task)
{
    struct sim_host *h = container_of(task, struct sim_host, closed);
    void (*on_closed)(void *ctx) = h->on_closed;
    void *ctx = h->ctx;

    free(h);
    on_closed(ctx);
}

void sim_host_settle(struct sim_host *h)
{
    /* Deferred after the last completion, so every on_done() comes before on_closed(). */
    if (h->is_closing && list_is_empty(&h->ops) && !h->watch.is_asking)
        rt_defer(h->rt, &h->closed, on_closed_task);
}

static void host_close(struct backend *b, void (*on_closed)(void *ctx), void *ctx)
{
    struct sim_host *h = host_of(b);

    assert(!h->is_closing);
    h->on_closed = on_closed;
    h->ctx = ctx;
    h->is_closing = true;
    sim_watch_stop(h);
    op_cancel_all(&h->ops);
    sim_host_settle(h);
}

/* --- requests and answers in common --- */

static void put_box_path(struct sim_call *c, uint64_t box_id, const char *tail)
{
    char hex[17];

    str_hex64(hex, box_id);
    buf_printf(&c->url, "/boxes/%s%s?instance=", hex, tail);
    buf_put_escaped(&c->url, c->host->instance);
}

static int get_box(const struct json *obj, struct backend_box *ret, struct err *err)
{
    struct wire_box box;
    int rc = wire_get_box(obj, &box, err);

    if (rc != SP_OK)
        return err_wrap(err, "sandpool-sim's answer");
    if (!sim_box_from_spec(&box.spec, box.url, ret))
        return err_set(err, SP_PROTOCOL, "sandpool-sim's answer: a text is too long");
    return SP_OK;
}

/* --- create --- */

static void on_create_cancel(struct op *op)
{
    sim_call_cancel(container_of(op, struct backend_create, op)->priv);
}

static void on_created(struct sim_call *c)
{
    struct backend_create *r = container_of(c->op, struct backend_create, op);
    struct json_doc *doc;
    struct err err;
    int rc = sim_call_read(c, 201, &doc, &err);

    if (rc == SP_OK)
        rc = get_box(json_root(doc), &r->box, &err);
    (void) json_doc_free(doc);
    sim_call_end(c, rc, &err);
}

static void host_create(struct backend *b, struct backend_create *r, uint64_t deadline_ns,
                        void (*on_done)(struct op *))
{
    struct sim_call *c =
        sim_call_new(host_of(b), &r->op, deadline_ns, on_create_cancel, on_done, on_created);
    struct sim_update_manners update = {0};
    struct world_manners manners;
    struct world_spec spec;
    struct json_out o;

    r->priv = c;
    if (r->extras != NULL)
        sim_update_manners(r->extras, &update);
    sim_spec_from_labels(&r->labels, r->token, &spec);
    sim_manners_from_profile(r->profile, &manners);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    wire_put_box(&o, &spec, NULL);
    wire_put_manners(&o, &manners);
    if (r->extras != NULL)
        sim_put_extras(&o, "extras", r->extras);
    if (update.error != NULL)
        json_put_str(&o, "error", update.error);
    json_end(&o);
    json_out_finish(&o, &c->body);
    buf_puts(&c->url, "/boxes");
    sim_call_send(c, "POST");
}

/* --- destroy --- */

static void on_destroy_cancel(struct op *op)
{
    sim_call_cancel(container_of(op, struct backend_destroy, op)->priv);
}

static void on_destroyed(struct sim_call *c)
{
    struct backend_destroy *r = container_of(c->op, struct backend_destroy, op);
    struct json_doc *doc;
    struct err err;
    int rc = sim_call_read(c, 204, &doc, &err);

    (void) json_doc_free(doc);
    (void) snprintf(r->report, sizeof(r->report), "%s",
                    rc == SP_OK ? "the simulated box was removed" : "the box was not there");
    sim_call_end(c, rc == SP_NOT_FOUND ? SP_OK : rc, &err);
}

static void host_destroy(struct backend *b, struct backend_destroy *r, uint64_t deadline_ns,
                         void (*on_done)(struct op *))
{
    struct sim_call *c =
        sim_call_new(host_of(b), &r->op, deadline_ns, on_destroy_cancel, on_done, on_destroyed);

    r->priv = c;
    put_box_path(c, r->box.labels.box_id, "");
    if (r->profile != NULL)
        buf_printf(&c->url, "&destroy_ms=%llu", (unsigned long long) r->profile->sim.destroy_ms);
    sim_call_send(c, "DELETE");
}

/* --- is_alive --- */

static void on_check_cancel(struct op *op)
{
    sim_call_cancel(container_of(op, struct backend_check, op)->priv);
}

static void on_checked(struct sim_call *c)
{
    struct backend_check *r = container_of(c->op, struct backend_check, op);
    struct json_doc *doc;
    struct err err;
    int rc = sim_call_read(c, 200, &doc, &err);

    (void) json_doc_free(doc);
    r->verdict = rc == SP_OK ? BACKEND_ALIVE : rc == SP_NOT_FOUND ? BACKEND_DEAD : BACKEND_UNKNOWN;
    sim_call_end(c, rc == SP_NOT_FOUND ? SP_OK : rc, &err);
}

static void host_is_alive(struct backend *b, struct backend_check *r, uint64_t deadline_ns,
                          void (*on_done)(struct op *))
{
    struct sim_call *c =
        sim_call_new(host_of(b), &r->op, deadline_ns, on_check_cancel, on_done, on_checked);

    r->priv = c;
    r->verdict = BACKEND_UNKNOWN;
    put_box_path(c, r->box.labels.box_id, "");
    sim_call_send(c, "GET");
}

/* --- discover --- */

static void on_discover_cancel(struct op *op)
{
    sim_call_cancel(container_of(op, struct backend_discover, op)->priv);
}

static void on_discovered(struct sim_call *c)
{
    struct backend_discover *r = container_of(c->op, struct backend_discover, op);
    const struct json *boxes;
    struct json_doc *doc;
    struct err err;
    int rc = sim_call_read(c, 200, &doc, &err);

    boxes = doc != NULL ? json_get(json_root(doc), "boxes") : NULL;
    if (rc == SP_OK && !json_is_arr(boxes))
        rc = err_set(&err, SP_PROTOCOL, "sandpool-sim's answer has no boxes");
    if (rc == SP_OK && json_len(boxes) > 0) {
        rc = get_box(json_at(boxes, 0), &r->box, &err);
        r->is_found = rc == SP_OK && strcmp(r->box.labels.instance, c->host->instance) == 0;
    }
    (void) json_doc_free(doc);
    sim_call_end(c, rc, &err);
}

static void host_discover(struct backend *b, struct backend_discover *r, uint64_t deadline_ns,
                          void (*on_done)(struct op *))
{
    struct sim_call *c =
        sim_call_new(host_of(b), &r->op, deadline_ns, on_discover_cancel, on_done, on_discovered);

    r->priv = c;
    r->is_found = false;
    buf_puts(&c->url, "/boxes?instance=");
    buf_put_escaped(&c->url, c->host->instance);
    buf_puts(&c->url, "&sandbox_id=");
    buf_put_escaped(&c->url, r->sandbox_id);
    sim_call_send(c, "GET");
}

/* --- list --- */

static void on_list_cancel(struct op *op)
{
    sim_call_cancel(container_of(op, struct backend_list, op)->priv);
}

static int add_page(struct sim_call *c, struct backend_list *r, const struct json *boxes,
                    struct err *err)
{
    size_t count = json_len(boxes);

    if (!json_is_arr(boxes) || count > WIRE_PAGE || r->count + count > WORLD_BOXES_MAX)
        return err_set(err, SP_PROTOCOL, "sandpool-sim's answer is not a page of boxes");
    if (count == 0)
        return SP_OK;
    if (!backend_list_reserve(r, r->count + count))
        return err_set(err, SP_NO_MEMORY, "no memory for a list of boxes");
    for (size_t i = 0; i < count; i++) {
        struct backend_box *box = &r->boxes[r->count];
        int rc = get_box(json_at(boxes, i), box, err);

        if (rc != SP_OK)
            return rc;
        if (strcmp(box->labels.instance, c->host->instance) == 0)
            r->count++;
    }
    return SP_OK;
}

static void send_list(struct sim_call *c, uint64_t cursor)
{
    buf_reset(&c->url);
    buf_printf(&c->url, "http://localhost/boxes?cursor=%llu", (unsigned long long) cursor);
    sim_call_send(c, "GET");
}

static void on_page(struct sim_call *c)
{
    struct backend_list *r = container_of(c->op, struct backend_list, op);
    uint64_t cursor = 0;
    struct json_doc *doc;
    struct err err;
    int rc = sim_call_read(c, 200, &doc, &err);

    if (rc == SP_OK)
        rc = add_page(c, r, json_get(json_root(doc), "boxes"), &err);
    if (rc == SP_OK)
        rc = json_field_u64(json_root(doc), "cursor", 1, WORLD_BOXES_MAX, &cursor, &err);
    (void) json_doc_free(doc);
    if (rc == SP_OK && cursor > 0 && c->op->state == OP_RUNNING) {
        send_list(c, cursor);
        return;
    }
    if (rc == SP_OK && cursor > 0)
        rc = err_set(&err, SP_CANCELLED, "the list is not complete");
    if (rc != SP_OK)
        backend_list_fini(r);
    sim_call_end(c, rc, &err);
}

static void host_list(struct backend *b, struct backend_list *r, uint64_t deadline_ns,
                      void (*on_done)(struct op *))
{
    struct sim_call *c =
        sim_call_new(host_of(b), &r->op, deadline_ns, on_list_cancel, on_done, on_page);

    r->priv = c;
    r->boxes = NULL;
    r->count = 0;
    r->cap = 0;
    send_list(c, 0);
}

/* --- bind --- */

static void on_bind_cancel(struct op *op)
{
    sim_call_cancel(container_of(op, struct backend_bind, op)->priv);
}

static void on_bound(struct sim_call *c)
{
    struct json_doc *doc;
    struct err err;
    int rc = sim_call_read(c, 200, &doc, &err);

    (void) json_doc_free(doc);
    sim_call_end(c, rc, &err);
}

static void host_bind(struct backend *b, struct backend_bind *r, uint64_t deadline_ns,
                      void (*on_done)(struct op *))
{
    struct sim_call *c =
        sim_call_new(host_of(b), &r->op, deadline_ns, on_bind_cancel, on_done, on_bound);
    struct world_spec spec;
    struct json_out o;

    r->priv = c;
    sim_spec_from_labels(&r->box.labels, "", &spec);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    wire_put_box(&o, &spec, NULL);
    json_end(&o);
    json_out_finish(&o, &c->body);
    put_box_path(c, r->box.labels.box_id, "/bind");
    sim_call_send(c, "POST");
}

/* --- update --- */

static void on_update_cancel(struct op *op)
{
    sim_call_cancel(container_of(op, struct backend_update, op)->priv);
}

static void on_updated(struct sim_call *c)
{
    struct json_doc *doc;
    struct err err;
    int rc = sim_call_read(c, 204, &doc, &err);

    (void) json_doc_free(doc);
    sim_call_end(c, rc, &err);
}

static void host_update(struct backend *b, struct backend_update *r, uint64_t deadline_ns,
                        void (*on_done)(struct op *))
{
    struct sim_call *c =
        sim_call_new(host_of(b), &r->op, deadline_ns, on_update_cancel, on_done, on_updated);
    struct sim_update_manners manners;
    struct json_out o;

    r->priv = c;
    sim_update_manners(&r->extras, &manners);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_u64(&o, "update_ms", manners.update_ms);
    if (manners.error != NULL)
        json_put_str(&o, "error", manners.error);
    sim_put_extras(&o, "extras", &r->extras);
    json_end(&o);
    json_out_finish(&o, &c->body);
    put_box_path(c, r->box.labels.box_id, "/update");
    sim_call_send(c, "POST");
}

/* --- examine --- */

static void on_exam_cancel(struct op *op)
{
    sim_call_cancel(container_of(op, struct backend_exam, op)->priv);
}

static void on_examined(struct sim_call *c)
{
    struct backend_exam *r = container_of(c->op, struct backend_exam, op);
    struct json_doc *doc;
    struct err err;
    int rc = sim_call_read(c, 200, &doc, &err);

    (void) json_doc_free(doc);
    if (rc != SP_OK && c->op->state != OP_RUNNING) {
        sim_call_end(c, rc, &err);
        return;
    }
    if (rc == SP_OK)
        backend_report(r, BACKEND_FINDING_OK, "sandpool-sim", "answers at %s", c->host->socket);
    else
        backend_report(r, BACKEND_FINDING_FAIL, "sandpool-sim", "%s; start it with --socket",
                       err.msg);
    backend_report(r, BACKEND_FINDING_WARN, "simulated boxes",
                   "nothing runs in them: only for trying things out");
    sim_call_end(c, SP_OK, NULL);
}

static void host_examine(struct backend *b, struct backend_exam *r, uint64_t deadline_ns,
                         void (*on_done)(struct op *))
{
    struct sim_call *c =
        sim_call_new(host_of(b), &r->op, deadline_ns, on_exam_cancel, on_done, on_examined);

    r->priv = c;
    buf_puts(&c->url, "/healthz");
    sim_call_send(c, "GET");
}

const struct backend_ops sim_host_ops = {
    .name = CONFIG_BACKEND_SIM,
    .is_local = true,
    .is_watched = true,
    .can_discover = true,
    .can_bind = true,
    .late = BACKEND_LATE_ALL,
    .late_of = sim_late_of,
    .at_create = BACKEND_LATE_ALL,
    .open = sim_host_open,
    .close = host_close,
    .create = host_create,
    .destroy = host_destroy,
    .is_alive = host_is_alive,
    .discover = host_discover,
    .list = host_list,
    .bind = host_bind,
    .update = host_update,
    .examine = host_examine,
};
