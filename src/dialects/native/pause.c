/* pause.c - a box stands still until the next call that needs it: pause, resume, and the way of such a call. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "dialects/native/internal.h"
#include "engine/pauses.h"
#include "front/body.h"
#include "front/deed.h"
#include "front/wake.h"

static void refuse_wake(struct http_exchange *ex, int code, const char *reason)
{
    char text[240];

    (void) snprintf(text, sizeof(text), "the sandbox is paused and cannot go on: %s", reason);
    http_reply_error(ex, code, text, 0);
}

bool api_wake(struct http_exchange *ex, const struct pool_box *box,
              void (*handle)(struct http_exchange *ex))
{
    return front_wake(ex, api_of(ex)->engine, box, handle, refuse_wake);
}

struct pause_call {
    struct engine_call call;
    struct engine_wake wake;
    struct api *api;
    struct http_exchange *ex; /* NULL: the caller has gone */
    struct api_caller caller;
    struct box_id box;
    bool is_syncing; /* engine_sync() comes back in any case */
};

static void reply_box(struct pause_call *c)
{
    const struct pool_box *box = pool_find_box(engine_pool(c->api->engine), c->box);
    struct json_out o;

    if (box == NULL) {
        http_reply_error(c->ex, SP_SANDBOX_LOST, "the sandbox ended meanwhile", 0);
        return;
    }
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    api_put_box(&o, c->api, &c->caller, box);
    json_end(&o);
    http_reply_json(c->ex, 200, &o);
}

/* --- pause --- */

static void on_pause_gone(void *ctx)
{
    struct pause_call *c = ctx;

    engine_call_abandon(c->api->engine, &c->call);
    if (c->wake.engine != NULL)
        engine_wake_cancel(&c->wake);
    free(c);
}

static void on_still(struct engine_wake *w, int code, const char *reason)
{
    struct pause_call *c = container_of(w, struct pause_call, wake);

    if (code == SP_OK)
        reply_box(c);
    else
        http_reply_error(c->ex, code, reason, 0);
    free(c);
}

static void on_paused(struct engine_call *call, const struct pool_fx *fx)
{
    struct pause_call *c = container_of(call, struct pause_call, call);

    if (fx->u.reply.code != SP_OK) {
        api_reply_failure(c->ex, fx);
        free(c);
        return;
    }
    c->box = fx->box;
    front_note_deed(c->api->engine, c->ex, c->box, "pause");
    c->wake.on_done = on_still;
    engine_pause_wait(c->api->engine, &c->wake, c->box);
}

/* The box of the path, if the caller may see it; NULL: the pool has the right answer, or none. */
static const struct pool_box *find(struct http_exchange *ex, const struct pool_event *ev)
{
    const struct pool *pool = engine_pool(api_of(ex)->engine);

    return ev->box.v != 0 ? pool_find_box(pool, ev->box)
                          : api_find_shown(pool, ev->u.on.sandbox_id);
}

/* Answers and returns false if the request is not valid. */
static bool decode(struct http_exchange *ex, struct pool_event *ev)
{
    static const struct front_field fields[] = {
        {"generation", FRONT_NUMBER, .at = 0, .min = 1, .max = INT64_MAX}, {.name = NULL}};
    struct json_doc *doc;
    struct err err;
    int r;

    if (!api_path_id(ex, ev->u.on.sandbox_id, &ev->box))
        return false;
    doc = api_parse_body(ex);
    if (doc == NULL)
        return false;
    r = front_decode_strict(json_root(doc), fields, &ev->u.on.generation, &err);
    (void) json_doc_free(doc);
    if (r != SP_OK)
        http_reply_err(ex, &err);
    return r == SP_OK;
}

static struct pause_call *call_new(struct http_exchange *ex)
{
    struct pause_call *c = xcalloc(1, sizeof(*c));

    c->api = api_of(ex);
    c->ex = ex;
    (void) api_identify(ex, &c->caller); /* always set: the guard has accepted the caller */
    return c;
}

static bool may_use(const struct api_caller *caller, const struct pool_box *box)
{
    return caller->is_operator || caller->principal == box->principal;
}

void api_box_pause(struct http_exchange *ex)
{
    struct pool_event ev = {.kind = POOL_EV_PAUSE};
    const struct pool_box *box;
    struct pause_call *c;

    if (!decode(ex, &ev))
        return;
    c = call_new(ex);
    box = find(ex, &ev);
    if (box != NULL && may_use(&c->caller, box) && !engine_can_pause(c->api->engine, box)) {
        http_reply_error(ex, SP_UNSUPPORTED, "boxes of this backend cannot be paused", 0);
        free(c);
        return;
    }
    c->call.on_reply = on_paused;
    ev.u.on.principal = c->caller.principal;
    ev.u.on.is_operator = c->caller.is_operator;
    http_set_ctx(ex, c, on_pause_gone);
    engine_call_start(c->api->engine, &c->call, &ev);
}

/* --- resume --- */

static void on_resume_gone(void *ctx)
{
    struct pause_call *c = ctx;

    c->ex = NULL;
    if (c->is_syncing)
        return;
    engine_wake_cancel(&c->wake);
    free(c);
}

/* After a crash the box is what its row says. */
static void on_synced(void *ctx, int result)
{
    struct pause_call *c = ctx;

    (void) result; /* it runs; the row is written when the store can be */
    if (c->ex != NULL)
        reply_box(c);
    free(c);
}

static void on_resumed(struct engine_wake *w, int code, const char *reason)
{
    struct pause_call *c = container_of(w, struct pause_call, wake);

    if (code != SP_OK) {
        refuse_wake(c->ex, code, reason);
        free(c);
        return;
    }
    c->is_syncing = true;
    engine_sync(c->api->engine, on_synced, c);
}

/* NULL: it has been answered. */
static const struct pool_box *find_resumable(struct http_exchange *ex,
                                             const struct api_caller *caller,
                                             const struct pool_event *ev)
{
    const struct pool_box *box = find(ex, ev);

    if (box == NULL || !may_use(caller, box)) {
        api_reply_absent(ex, caller, ev->u.on.sandbox_id);
        return NULL;
    }
    if (ev->u.on.generation != 0 && ev->u.on.generation != box->generation) {
        http_reply_error(ex, SP_STALE_GENERATION, sp_error_info(SP_STALE_GENERATION)->text, 0);
        return NULL;
    }
    if (box->end != POOL_END_NONE) {
        api_reply_lost(ex, box->end);
        return NULL;
    }
    if (pool_is_shown(box))
        return box;
    http_reply_error(ex, SP_NOT_LEASED, "the sandbox is neither leased nor parked", 0);
    return NULL;
}

void api_box_resume(struct http_exchange *ex)
{
    struct pool_event ev = {0};
    const struct pool_box *box;
    struct pause_call *c;

    if (!decode(ex, &ev))
        return;
    c = call_new(ex);
    box = find_resumable(ex, &c->caller, &ev);
    if (box == NULL) {
        free(c);
        return;
    }
    c->box = box->id;
    c->wake.on_done = on_resumed;
    http_set_ctx(ex, c, on_resume_gone);
    engine_wake_start(c->api->engine, &c->wake, c->box);
}
