/* modes.c - pause, resume and drain: the pool as a whole, or one profile. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "dialects/native/internal.h"
#include "front/body.h"

enum { MESSAGE_MAX = POOL_REASON_MAX };

static void on_later_gone(void *ctx)
{
    struct api_later *l = ctx;

    l->ex = NULL; /* the work continues; its end frees the memory */
}

struct api_later *api_answer_later(struct http_exchange *ex)
{
    struct api_later *l = xcalloc(1, sizeof(*l));

    l->ex = ex;
    l->api = api_of(ex);
    http_set_ctx(ex, l, on_later_gone);
    return l;
}

void api_put_mode(struct json_out *o, enum pool_mode mode, const char *message)
{
    json_put_str(o, "mode", pool_mode_name(mode));
    json_put_str(o, "message", str_is_empty(message) ? NULL : message);
}

/* The profiles that are not served, whatever the mode of the pool is. */
static void put_profiles(struct json_out *o, struct api *api, unsigned count)
{
    const struct pool *pool = engine_pool(api->engine);

    json_begin_arr(o, "profiles");
    for (unsigned i = 0; i < count; i++) {
        const char *message;
        enum pool_mode mode = pool_profile_mode(pool, i, &message);

        if (mode == POOL_RUNNING || pool_profile(pool, i)->is_retired)
            continue;
        json_begin_obj(o, NULL);
        json_put_str(o, "name", pool_profile(pool, i)->name);
        api_put_mode(o, mode, message);
        json_end(o);
    }
    json_end(o);
}

static void reply_mode(struct http_exchange *ex, struct api *api)
{
    struct pool_stats stats;
    struct json_out o;

    pool_get_stats(engine_pool(api->engine), &stats);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    api_put_mode(&o, stats.mode, stats.mode_text);
    put_profiles(&o, api, stats.profile_count);
    json_begin_obj(&o, "by_state");
    api_put_counts(&o, stats.by_state);
    json_end(&o);
    json_end(&o);
    http_reply_json(ex, 200, &o);
}

static void on_mode_stored(void *ctx, int result)
{
    struct api_later *l = ctx;

    if (l->ex != NULL && result == SP_OK)
        reply_mode(l->ex, l->api);
    else if (l->ex != NULL)
        http_reply_error(l->ex, SP_STORE_UNAVAILABLE,
                         "the mode is set, but a restart may forget it: the store is down", 0);
    free(l);
}

struct mode_request {
    const char *profile; /* NULL: the pool */
    const char *message; /* NULL: a text of ours */
    bool want_parked_gone;
};

static int check_message(const char *message, struct err *err)
{
    for (const char *c = message; c != NULL && *c != '\0'; c++) {
        if ((unsigned char) *c < ' ' || *c == 0x7f)
            return err_set(err, SP_INVALID_FIELD, "'message' may have no control characters");
    }
    return SP_OK;
}

static int fill_event(struct api *api, const struct mode_request *r, struct pool_event *ev,
                      struct err *err)
{
    int index = 0;

    if (r->profile != NULL) {
        index = config_find_profile(engine_config(api->engine), r->profile) != NULL
                    ? pool_profile_index(engine_pool(api->engine), r->profile)
                    : -1;
        if (index < 0)
            return err_set(err, SP_NOT_FOUND, "there is no profile '%.64s'", r->profile);
    }
    ev->u.mode.is_profile = r->profile != NULL;
    ev->u.mode.profile = (unsigned) index;
    ev->u.mode.want_parked_gone = r->want_parked_gone;
    if (r->message != NULL)
        str_copy_cut(ev->u.mode.text, sizeof(ev->u.mode.text), r->message);
    return SP_OK;
}

static void set_mode(struct http_exchange *ex, enum pool_mode mode,
                     const struct front_field *fields)
{
    struct api *api = api_of(ex);
    struct pool_event ev = {.kind = POOL_EV_MODE, .u.mode.mode = mode};
    struct mode_request request = {.profile = NULL};
    struct json_doc *doc = api_parse_body(ex);
    struct err err;
    int r;

    if (doc == NULL)
        return;
    r = front_decode_strict(json_root(doc), fields, &request, &err);
    if (r == SP_OK)
        r = check_message(request.message, &err);
    if (r == SP_OK)
        r = fill_event(api, &request, &ev, &err);
    (void) json_doc_free(doc);
    if (r != SP_OK) {
        http_reply_err(ex, &err);
        return;
    }
    engine_post(api->engine, &ev);
    engine_sync(api->engine, on_mode_stored, api_answer_later(ex));
}

#define PROFILE                                                              \
    {                                                                        \
        "profile", FRONT_TEXT, .at = offsetof(struct mode_request, profile), \
                               .max = CONFIG_NAME_MAX                        \
    }
#define MESSAGE                                                                                 \
    {                                                                                           \
        "message", FRONT_TEXT, .at = offsetof(struct mode_request, message), .max = MESSAGE_MAX \
    }

void api_pause(struct http_exchange *ex)
{
    static const struct front_field fields[] = {PROFILE, MESSAGE, {.name = NULL}};

    set_mode(ex, POOL_PAUSED, fields);
}

void api_resume(struct http_exchange *ex)
{
    static const struct front_field fields[] = {PROFILE, {.name = NULL}};

    set_mode(ex, POOL_RUNNING, fields);
}

void api_drain(struct http_exchange *ex)
{
    static const struct front_field fields[] = {
        PROFILE,
        MESSAGE,
        {"evict_parked", FRONT_FLAG, .at = offsetof(struct mode_request, want_parked_gone)},
        {.name = NULL}};

    set_mode(ex, POOL_DRAINING, fields);
}
