/* lease.c - what an owner does with its box: release, renew, destroy. All three wait for the pool's
 * reply, which follows its commit. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "dialects/native/internal.h"
#include "front/body.h"
#include "front/deed.h"

struct lease_call {
    struct list_node link; /* in api->destroys, when it waits for the end of `box` */
    struct box_id box;
    struct engine_call call;
    struct api *api;
    struct http_exchange *ex;
    struct api_caller caller;
    const char *verb;
    bool want_report;
};

static void call_free(struct lease_call *c)
{
    list_remove(&c->api->destroys, &c->link);
    free(c);
}

static void on_gone(void *ctx)
{
    struct lease_call *c = ctx;

    engine_call_abandon(c->api->engine, &c->call);
    call_free(c);
}

/* The backend has failed to destroy it for now. */
static bool is_under_way(const struct lease_call *c, const struct pool_fx *fx)
{
    return c->want_report && fx->snapshot.state == POOL_DESTROYING;
}

static void put_outcome(struct lease_call *c, const struct pool_fx *fx, struct json_out *o)
{
    struct pool_box box = fx->snapshot;

    if (c->want_report && !is_under_way(c, fx))
        box.state = POOL_FREE; /* it is gone; only its row may still be there */
    api_put_box(o, c->api, &c->caller, &box);
    if (c->want_report && is_under_way(c, fx))
        engine_put_no_report("recorded: the backend has not destroyed it yet, and is asked again "
                             "until it has, also after a restart",
                             o);
    else if (c->want_report)
        engine_put_report(c->api->engine, box.id, o);
}

static void on_reply(struct engine_call *call, const struct pool_fx *fx)
{
    struct lease_call *c = container_of(call, struct lease_call, call);
    struct json_out o;

    if (fx->u.reply.code == SP_OK)
        front_note_deed(c->api->engine, c->ex, fx->snapshot.id, c->verb);
    if (fx->u.reply.code != SP_OK) {
        api_reply_spent(c->ex, fx, call);
    } else {
        json_out_init(&o);
        json_begin_obj(&o, NULL);
        put_outcome(c, fx, &o);
        json_end(&o);
        http_reply_json(c->ex, is_under_way(c, fx) ? 202 : 200, &o);
    }
    call_free(c);
}

void api_end_destroys(struct api *api)
{
    struct list_node *next;

    for (struct list_node *n = list_first(&api->destroys); n != NULL; n = next) {
        struct lease_call *c = container_of(n, struct lease_call, link);
        const struct pool_box *box = pool_find_box(engine_pool(api->engine), c->box);
        struct pool_fx fx = {.kind = POOL_FX_REPLY};

        next = list_next(&api->destroys, n);
        if (box == NULL || box->state != POOL_DESTROYING)
            continue; /* not recorded yet, or over: its answer is on its way */
        fx.snapshot = *box;
        engine_call_abandon(api->engine, &c->call);
        on_reply(&c->call, &fx);
    }
}

static void note_destroy(struct lease_call *c, const struct pool_event *ev)
{
    const struct pool *pool = engine_pool(c->api->engine);
    const struct pool_box *box = ev->box.v != 0 ? pool_find_box(pool, ev->box)
                                                : pool_find_sandbox(pool, ev->u.on.sandbox_id);

    if (box == NULL)
        return;
    c->box = box->id;
    list_push_back(&c->api->destroys, &c->link);
}

static void start(struct http_exchange *ex, struct pool_event *ev, bool want_report)
{
    struct lease_call *c = xcalloc(1, sizeof(*c));

    c->api = api_of(ex);
    c->ex = ex;
    c->want_report = want_report;
    c->verb = ev->kind == POOL_EV_RENEW     ? "renew"
              : ev->kind == POOL_EV_RELEASE ? "release"
                                            : "destroy";
    c->call.on_reply = on_reply;
    (void) api_identify(ex, &c->caller); /* always set: the guard has accepted the caller */
    ev->u.on.principal = c->caller.principal;
    ev->u.on.is_operator = c->caller.is_operator;
    http_set_ctx(ex, c, on_gone);
    if (want_report)
        note_destroy(c, ev);
    engine_call_start(c->api->engine, &c->call, ev);
}

struct request_body {
    uint64_t generation;
    uint64_t ttl_s;
    bool want_destroy;
    bool is_quick;
};

#define GENERATION                                                                             \
    {                                                                                          \
        "generation", FRONT_NUMBER, .at = offsetof(struct request_body, generation), .min = 1, \
                                    .max = INT64_MAX                                           \
    }

/* Answers and returns false if the request is not valid. */
static bool decode(struct http_exchange *ex, const struct front_field *fields,
                   struct pool_event *ev)
{
    struct request_body b = {0};
    struct json_doc *doc;
    struct err err;
    int r;

    if (!api_path_id(ex, ev->u.on.sandbox_id, &ev->box))
        return false;
    doc = api_parse_body(ex);
    if (doc == NULL)
        return false;
    r = front_decode_strict(json_root(doc), fields, &b, &err);
    ev->u.on.generation = b.generation;
    ev->u.on.want_destroy = b.want_destroy;
    ev->u.on.is_quick = b.is_quick;
    ev->u.on.ttl_ns = b.ttl_s * NS_PER_S;
    (void) json_doc_free(doc);
    if (r != SP_OK)
        http_reply_err(ex, &err);
    return r == SP_OK;
}

void api_release(struct http_exchange *ex)
{
    static const struct front_field fields[] = {
        GENERATION,
        {"destroy", FRONT_FLAG, .at = offsetof(struct request_body, want_destroy)},
        {"quick", FRONT_FLAG, .at = offsetof(struct request_body, is_quick)},
        {.name = NULL}};
    struct pool_event ev = {.kind = POOL_EV_RELEASE};

    if (decode(ex, fields, &ev))
        start(ex, &ev, ev.u.on.want_destroy && !ev.u.on.is_quick);
}

void api_renew(struct http_exchange *ex)
{
    static const struct front_field fields[] = {GENERATION,
                                                {"ttl_s", FRONT_NUMBER,
                                                 .at = offsetof(struct request_body, ttl_s),
                                                 .min = 1, .max = API_TTL_MAX_S},
                                                {.name = NULL}};
    struct pool_event ev = {.kind = POOL_EV_RENEW};

    if (decode(ex, fields, &ev))
        start(ex, &ev, false);
}

void api_destroy(struct http_exchange *ex)
{
    struct pool_event ev = {.kind = POOL_EV_DESTROY};
    char generation[24];
    char quick[8];

    if (!api_path_id(ex, ev.u.on.sandbox_id, &ev.box))
        return;
    if (http_query(ex, "generation", generation, sizeof(generation)) &&
        !str_parse_u64(generation, 1, INT64_MAX, &ev.u.on.generation)) {
        http_reply_error(ex, SP_INVALID_FIELD, "'generation' must be a whole number from 1", 0);
        return;
    }
    ev.u.on.is_quick = http_query(ex, "quick", quick, sizeof(quick)) && strcmp(quick, "1") == 0;
    start(ex, &ev, !ev.u.on.is_quick);
}
