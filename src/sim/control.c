/* control.c - the machine's own API on the Unix socket: make, find, list, bind, destroy and kill
 * boxes. A caller that hangs up takes nothing back: what it asked for is done anyway. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "sandpool/version.h"
#include "sim/machine.h"

enum { BODY_MAX = 16 * 1024, DESTROY_MS_MAX = 600000 };

void machine_box_url(const struct machine *m, uint64_t box_id, char *dst)
{
    char hex[17];

    str_hex64(hex, box_id);
    (void) snprintf(dst, WIRE_URL_MAX + 1, "http://127.0.0.1:%d/b/%s", m->port, hex);
}

struct world_box *machine_find_box(struct http_exchange *ex)
{
    struct machine *m = http_server_ctx(ex);
    char instance[WORLD_TEXT_MAX + 1];
    uint64_t box_id;
    struct world_box *box = NULL;

    if (str_parse_hex64(http_path_param(ex, "id"), &box_id))
        box = world_find(&m->world, box_id);
    if (box != NULL && http_query(ex, "instance", instance, sizeof(instance)) &&
        strcmp(instance, world_box_text(box, WORLD_INSTANCE)) != 0)
        box = NULL;
    if (box == NULL)
        http_reply_error(ex, SP_NOT_FOUND, "no such box", 0);
    return box;
}

static void put_box(struct json_out *o, const struct machine *m, const struct world_box *box)
{
    char url[WIRE_URL_MAX + 1];
    struct world_spec spec;

    machine_box_url(m, box->box_id, url);
    world_box_spec(box, &spec);
    json_begin_obj(o, NULL);
    wire_put_box(o, &spec, url);
    if (box->updates != NULL) {
        json_begin_arr(o, "updates");
        for (unsigned i = 0; i < box->updates->count; i++)
            json_put_raw(o, NULL, box->updates->texts[i]);
        json_end(o);
    }
    json_end(o);
}

static void reply_box(struct http_exchange *ex, int status, const struct world_box *box)
{
    struct json_out o;

    json_out_init(&o);
    put_box(&o, http_server_ctx(ex), box);
    http_reply_json(ex, status, &o);
}

/* NULL when the answer has been sent. */
static struct json_doc *parse_body(struct http_exchange *ex)
{
    struct err err;
    size_t len;
    const char *body = http_body(ex, &len); /* no longer than its route allows */
    struct json_doc *doc = json_parse(body, len, WIRE_UPDATE_MAX, &err);

    if (doc == NULL)
        http_reply_err(ex, &err);
    return doc;
}

/* --- answers that take their time --- */

struct pending {
    struct rt_timer due;
    struct machine *machine;
    struct http_exchange *ex;
    uint64_t box_id;
    char *text;     /* of an update */
    struct err err; /* code SP_OK: it goes well */
};

static void pending_drop(struct pending *p)
{
    rt_timer_cancel(&p->machine->loop.rt, &p->due);
    free(p->text);
    free(p);
}

static struct pending *pending_add(struct http_exchange *ex, uint64_t box_id, uint64_t at_ns,
                                   void (*fire)(struct rt_timer *), void (*on_gone)(void *))
{
    struct pending *p = xcalloc(1, sizeof(*p));

    p->machine = http_server_ctx(ex);
    p->ex = ex;
    p->box_id = box_id;
    http_set_ctx(ex, p, on_gone);
    rt_timer_set(&p->machine->loop.rt, &p->due, at_ns, fire);
    return p;
}

static void reply_created(struct http_exchange *ex, uint64_t box_id, const struct err *err)
{
    struct machine *m = http_server_ctx(ex);
    const struct world_box *box = world_find(&m->world, box_id);

    if (err->code != SP_OK)
        http_reply_err(ex, err);
    else if (box == NULL)
        http_reply_error(ex, SP_BACKEND_FAILED, "the box was destroyed while it was made", 0);
    else
        reply_box(ex, 201, box);
}

static void on_create_due(struct rt_timer *timer)
{
    struct pending *p = container_of(timer, struct pending, due);
    const struct pending was = *p;

    pending_drop(p);
    reply_created(was.ex, was.box_id, &was.err);
}

static void on_create_gone(void *ctx)
{
    pending_drop(ctx);
}

/* What a box has from birth comes first among what was done to it. */
static void write_down(struct machine *m, uint64_t box_id, const struct json *extras)
{
    struct buf text;
    struct err err;

    buf_init(&text, WIRE_UPDATE_MAX);
    json_print(extras, &text);
    if (world_update_begin(&m->world, box_id, &err) == SP_OK)
        world_update_end(&m->world, box_id, buf_str(&text));
    buf_fini(&text);
}

static void create_box(struct http_exchange *ex, const struct json *body)
{
    struct machine *m = http_server_ctx(ex);
    const struct json *extras = NULL;
    const char *error = "";
    struct world_manners manners;
    struct wire_box box;
    struct err err = {0};
    uint64_t at_ns;
    bool is_new;

    if (wire_get_box(body, &box, &err) != SP_OK ||
        wire_get_manners(body, &manners, &err) != SP_OK ||
        json_field_obj(body, "extras", &extras, &err) != SP_OK ||
        json_field_str(body, "error", 64, &error, &err) != SP_OK) {
        http_reply_err(ex, &err);
        return;
    }
    if (!str_is_empty(error)) {
        http_reply_error(ex, sp_error_from_name(error), "the simulated machine was asked to fail",
                         0);
        return;
    }
    if (json_get(body, "box_id") == NULL) {
        http_reply_error(ex, SP_INVALID_FIELD, "'box_id' is missing", 0);
        return;
    }
    rt_refresh(&m->loop.rt); /* the loop may have slept until this request came */
    if (world_create(&m->world, &box.spec, &manners, &at_ns, &is_new, &err) == SP_OK) {
        err.code = SP_OK;
        if (is_new && extras != NULL)
            write_down(m, box.spec.box_id, extras);
    }
    if (at_ns <= rt_now(&m->loop.rt)) {
        reply_created(ex, box.spec.box_id, &err);
        return;
    }
    pending_add(ex, box.spec.box_id, at_ns, on_create_due, on_create_gone)->err = err;
}

static void handle_create(struct http_exchange *ex)
{
    struct json_doc *doc = parse_body(ex);

    if (doc != NULL)
        create_box(ex, json_root(doc));
    (void) json_doc_free(doc);
}

static void reply_destroyed(struct http_exchange *ex, bool is_removed)
{
    if (is_removed)
        http_reply(ex, 204, NULL, NULL, 0);
    else
        http_reply_error(ex, SP_NOT_FOUND, "no such box", 0);
}

static void on_destroy_due(struct rt_timer *timer)
{
    struct pending *p = container_of(timer, struct pending, due);
    const struct pending was = *p;

    pending_drop(p);
    reply_destroyed(was.ex, world_destroy(&was.machine->world, was.box_id));
}

static void on_destroy_gone(void *ctx)
{
    struct pending *p = ctx;

    (void) world_destroy(&p->machine->world, p->box_id); /* absent is as good */
    pending_drop(p);
}

static void handle_destroy(struct http_exchange *ex)
{
    struct machine *m = http_server_ctx(ex);
    char text[24];
    uint64_t destroy_ms = 0;
    uint64_t box_id;

    if (http_query(ex, "destroy_ms", text, sizeof(text)) &&
        !str_parse_u64(text, 0, DESTROY_MS_MAX, &destroy_ms)) {
        http_reply_error(ex, SP_INVALID_FIELD, "'destroy_ms' must be at most 600000", 0);
        return;
    }
    if (!str_parse_hex64(http_path_param(ex, "id"), &box_id)) {
        http_reply_error(ex, SP_NOT_FOUND, "no such box", 0);
        return;
    }
    rt_refresh(&m->loop.rt);
    /* A create that was overtaken by this call must not leave a box behind, so the world is asked as well. */
    if (world_find(&m->world, box_id) == NULL)
        reply_destroyed(ex, world_destroy(&m->world, box_id));
    else if (machine_find_box(ex) == NULL)
        return;
    else if (destroy_ms == 0)
        reply_destroyed(ex, world_destroy(&m->world, box_id));
    else
        (void) pending_add(ex, box_id, rt_after(rt_now(&m->loop.rt), destroy_ms * NS_PER_MS),
                           on_destroy_due, on_destroy_gone);
}

static void end_update(const struct pending *p)
{
    world_update_end(&p->machine->world, p->box_id, p->err.code == SP_OK ? p->text : NULL);
}

static void on_update_due(struct rt_timer *timer)
{
    struct pending *p = container_of(timer, struct pending, due);
    struct http_exchange *ex = p->ex;
    struct err err = p->err;

    end_update(p);
    pending_drop(p);
    if (err.code != SP_OK)
        http_reply_err(ex, &err);
    else
        http_reply(ex, 204, NULL, NULL, 0);
}

static void on_update_gone(void *ctx)
{
    struct pending *p = ctx;

    (void) err_set(&p->err, SP_CANCELLED, "the caller has gone");
    end_update(p);
    pending_drop(p);
}

static void update_box(struct http_exchange *ex, const struct json *body)
{
    struct machine *m = http_server_ctx(ex);
    const struct world_box *box = machine_find_box(ex);
    const struct json *extras = NULL;
    const char *error = "";
    uint64_t ms = 0;
    struct pending *p;
    struct buf text;
    struct err err;

    if (box == NULL)
        return;
    if (json_field_u64(body, "update_ms", 0, WIRE_UPDATE_MS_MAX, &ms, &err) != SP_OK ||
        json_field_str(body, "error", 64, &error, &err) != SP_OK ||
        json_field_obj(body, "extras", &extras, &err) != SP_OK ||
        world_update_begin(&m->world, box->box_id, &err) != SP_OK) {
        http_reply_err(ex, &err);
        return;
    }
    rt_refresh(&m->loop.rt);
    p = pending_add(ex, box->box_id, rt_after(rt_now(&m->loop.rt), ms * NS_PER_MS), on_update_due,
                    on_update_gone);
    p->err.code = SP_OK;
    if (!str_is_empty(error))
        (void) err_set(&p->err, sp_error_from_name(error),
                       "the simulated machine was asked to fail");
    buf_init(&text, WIRE_UPDATE_MAX);
    if (extras != NULL)
        json_print(extras, &text);
    p->text = buf_take(&text, NULL);
}

static void handle_update(struct http_exchange *ex)
{
    struct json_doc *doc = parse_body(ex);

    if (doc != NULL)
        update_box(ex, json_root(doc));
    (void) json_doc_free(doc);
}

/* --- answers at once --- */

static void handle_get(struct http_exchange *ex)
{
    const struct world_box *box = machine_find_box(ex);

    if (box != NULL)
        reply_box(ex, 200, box);
}

static void list_sandbox(struct http_exchange *ex, struct json_out *o, const char *sandbox_id)
{
    struct machine *m = http_server_ctx(ex);
    char instance[WORLD_TEXT_MAX + 1];
    const struct world_box *box;

    (void) http_query(ex, "instance", instance, sizeof(instance)); /* "" when absent */
    box = world_find_sandbox(&m->world, instance, sandbox_id);
    if (box != NULL)
        put_box(o, m, box);
}

/* GET /boxes?cursor= in pages, or ?instance=&sandbox_id= for one. "cursor" is null at the end. */
static void handle_list(struct http_exchange *ex)
{
    struct machine *m = http_server_ctx(ex);
    char text[WORLD_TEXT_MAX + 1];
    const struct world_box *box = NULL;
    uint64_t from = 0;
    size_t cursor;
    struct json_out o;

    if (http_query(ex, "cursor", text, sizeof(text)) &&
        !str_parse_u64(text, 0, WORLD_BOXES_MAX, &from)) {
        http_reply_error(ex, SP_INVALID_FIELD, "'cursor' must come from the last answer", 0);
        return;
    }
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_begin_arr(&o, "boxes");
    cursor = (size_t) from;
    if (http_query(ex, "sandbox_id", text, sizeof(text))) {
        list_sandbox(ex, &o, text);
    } else if (from > 0 || !machine_take_fault(&m->hide_lists)) {
        for (size_t n = 0; n < WIRE_PAGE; n++) {
            box = world_next(&m->world, &cursor);
            if (box == NULL)
                break;
            put_box(&o, m, box);
        }
    }
    json_end(&o);
    if (box != NULL)
        json_put_u64(&o, "cursor", cursor);
    else
        json_put_null(&o, "cursor");
    json_end(&o);
    http_reply_json(ex, 200, &o);
}

static void bind_box(struct http_exchange *ex, const struct json *body)
{
    struct machine *m = http_server_ctx(ex);
    struct world_box *box = machine_find_box(ex);
    struct wire_box labels;
    struct err err;

    if (box == NULL)
        return;
    if (wire_get_box(body, &labels, &err) != SP_OK) {
        http_reply_err(ex, &err);
        return;
    }
    if (machine_take_fault(&m->fail_binds)) {
        http_reply_error(ex, SP_BACKEND_FAILED, "the simulated machine was asked to fail", 0);
        return;
    }
    labels.spec.box_id = box->box_id;
    if (world_bind(&m->world, &labels.spec, &err) != SP_OK)
        http_reply_err(ex, &err);
    else
        reply_box(ex, 200, box);
}

static void handle_bind(struct http_exchange *ex)
{
    struct json_doc *doc = parse_body(ex);

    if (doc != NULL)
        bind_box(ex, json_root(doc));
    (void) json_doc_free(doc);
}

static void handle_kill(struct http_exchange *ex)
{
    struct machine *m = http_server_ctx(ex);
    const struct world_box *box = machine_find_box(ex);

    if (box != NULL)
        reply_destroyed(ex, world_kill(&m->world, box->box_id, "killed by hand"));
}

static void handle_watch(struct http_exchange *ex)
{
    struct machine *m = http_server_ctx(ex);

    deaths_watch(&m->deaths, ex);
}

static void handle_health(struct http_exchange *ex)
{
    static const char body[] = "{\"status\":\"ok\",\"version\":\"" SANDPOOL_VERSION "\"}";

    http_reply(ex, 200, "application/json", body, strlen(body));
}

static void handle_stats(struct http_exchange *ex)
{
    struct machine *m = http_server_ctx(ex);
    const struct world_stats *s = &m->world.stats;
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_u64(&o, "boxes", world_count(&m->world));
    json_put_u64(&o, "created", s->created);
    json_put_u64(&o, "failed", s->failed);
    json_put_u64(&o, "hung", s->hung);
    json_put_u64(&o, "destroyed", s->destroyed);
    json_put_u64(&o, "killed", s->killed);
    json_put_u64(&o, "watching", m->deaths.waiting.len);
    json_put_i64(&o, "port", m->port);
    json_end(&o);
    http_reply_json(ex, 200, &o);
}

const struct http_route control_routes[] = {
    {HTTP_METHOD_POST, "/boxes", handle_create, 0, WIRE_UPDATE_MAX, "make a box, once per box_id"},
    {HTTP_METHOD_GET, "/boxes", handle_list, 0, 0, "all boxes in pages, or one by sandbox_id"},
    {HTTP_METHOD_GET, "/boxes/{id}", handle_get, 0, 0, "one box"},
    {HTTP_METHOD_DELETE, "/boxes/{id}", handle_destroy, 0, 0, "destroy a box"},
    {HTTP_METHOD_POST, "/boxes/{id}/bind", handle_bind, 0, BODY_MAX, "give a box new labels"},
    {HTTP_METHOD_POST, "/boxes/{id}/update", handle_update, 0, WIRE_UPDATE_MAX,
     "bind something to a box that runs"},
    {HTTP_METHOD_POST, "/boxes/{id}/kill", handle_kill, 0, BODY_MAX, "a box dies by itself"},
    {HTTP_METHOD_POST, "/faults", machine_handle_faults, 0, BODY_MAX, "what goes wrong next"},
    {HTTP_METHOD_GET, "/watch", handle_watch, 0, 0, "wait for deaths"},
    {HTTP_METHOD_GET, "/healthz", handle_health, HTTP_OPEN, 0, "the machine is up"},
    {HTTP_METHOD_GET, "/stats", handle_stats, 0, 0, "what it did so far"},
    {.pattern = NULL},
};
