/* acquire.c - POST /v1/acquire. The promise is made by the pool after its commit; if the answer
 * cannot be handed to the caller whole, the box is parked for its thread or destroyed. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/str.h"
#include "dialects/native/internal.h"
#include "front/deliver.h"

enum { METADATA_MAX = 4096 };

enum { REQUESTS_EXPECTED = 256 };

struct acquire {
    struct front_delivery delivery;
    struct api *api;
    struct api_caller caller;
    uint64_t started_ns;
    char *metadata;
    struct map_node by_request;
    char request_id[POOL_ID_MAX + 1]; /* its caller's name of it; "": none */
};

static const char *const fields[] = {
    "thread_id", "user_id",  "profile", "sandbox_id", "wait_ms",     "ttl_s",      "idle_timeout_s",
    "envs",      "metadata", "mounts",  "limits",     "snapshot_id", "request_id", NULL};

/* --- by the caller's own name of it --- */

struct request_key {
    const char *id;
    uint64_t principal;
};

static bool is_request(const struct map_node *node, const void *key)
{
    const struct acquire *a = container_of(node, const struct acquire, by_request);
    const struct request_key *k = key;

    return a->caller.principal == k->principal && strcmp(a->request_id, k->id) == 0;
}

static uint64_t request_hash(const char *id, uint64_t principal)
{
    return hash_u64(hash_str(id) ^ principal);
}

static void request_note(struct acquire *a)
{
    struct map *m = &a->api->requests;

    if (str_is_empty(a->request_id))
        return;
    if (m->buckets == NULL)
        map_init(m, REQUESTS_EXPECTED);
    map_insert(m, &a->by_request, request_hash(a->request_id, a->caller.principal));
}

static void request_forget(struct acquire *a)
{
    struct map *m = &a->api->requests;

    if (!a->by_request.is_linked)
        return;
    map_remove(m, &a->by_request);
    if (m->len == 0)
        map_fini(m);
}

bool api_find_request(const struct api *api, const char *request_id, uint64_t principal,
                      char ret[POOL_ID_MAX + 1])
{
    struct request_key key = {request_id, principal};
    struct map_node *n =
        api->requests.buckets == NULL
            ? NULL
            : map_find(&api->requests, request_hash(request_id, principal), is_request, &key);

    if (n == NULL)
        return false;
    str_copy_cut(ret, POOL_ID_MAX + 1,
                 container_of(n, struct acquire, by_request)->delivery.call.sandbox_id);
    return true;
}

static void acquire_free(struct acquire *a)
{
    request_forget(a);
    free(a->metadata);
    free(a->delivery.call.extras); /* NULL when the engine has taken it */
    free(a);
}

static int check_name(const char *field, const char *value, size_t max, const char *extra,
                      struct err *err)
{
    if (str_is_name(value, max, extra))
        return SP_OK;
    return err_set(err, SP_INVALID_FIELD,
                   "'%s' must be 1 to %zu characters from letters, digits and '%s'", field, max,
                   extra);
}

/* Fills in who the box is for; the public id follows from it unless the caller names one. */
static int decode_identity(const struct json *body, struct pool_acquire *ret, struct err *err)
{
    const char *user = "default";
    const char *thread = "";
    const char *id = "";
    uint64_t random_id;
    int r = json_field_str(body, "user_id", POOL_OWNER_MAX, &user, err);

    if (r == SP_OK)
        r = check_name("user_id", user, POOL_OWNER_MAX, API_USER_EXTRA, err);
    if (r == SP_OK)
        r = json_field_str(body, "thread_id", POOL_OWNER_MAX, &thread, err);
    if (r == SP_OK && !str_is_empty(thread))
        r = check_name("thread_id", thread, POOL_OWNER_MAX, API_THREAD_EXTRA, err);
    if (r == SP_OK)
        r = json_field_str(body, "sandbox_id", POOL_ID_MAX, &id, err);
    if (r == SP_OK && !str_is_empty(id))
        r = check_name("sandbox_id", id, POOL_ID_MAX, "_-", err);
    if (r != SP_OK)
        return r;
    if (!str_is_empty(id) && str_is_empty(thread))
        thread = id; /* an id of the caller's own is its thread */
    str_copy_cut(ret->user, sizeof(ret->user), user);
    str_copy_cut(ret->thread, sizeof(ret->thread), thread);
    if (!str_is_empty(id)) {
        str_copy_cut(ret->sandbox_id, sizeof(ret->sandbox_id), id);
    } else if (!str_is_empty(thread)) {
        api_sandbox_id(user, thread, ret->sandbox_id);
    } else {
        rand_secure(&random_id, sizeof(random_id));
        str_hex64(ret->sandbox_id, random_id);
    }
    return SP_OK;
}

static int decode_profile(struct api *api, const struct json *body, struct pool_acquire *ret,
                          struct err *err)
{
    const char *name = NULL;
    int r = json_field_str(body, "profile", POOL_NAME_MAX, &name, err);
    int index;

    if (r != SP_OK)
        return r;
    ret->is_profile_named = name != NULL;
    if (name == NULL)
        name = "default";
    index = pool_profile_index(engine_pool(api->engine), name);
    if (index < 0 || config_find_profile(engine_config(api->engine), name) == NULL)
        return err_set(err, SP_INVALID_FIELD, "there is no profile '%s'", name);
    ret->profile = (unsigned) index;
    return SP_OK;
}

static int decode_times(struct api *api, const struct json *body, struct pool_acquire *ret,
                        struct err *err)
{
    const struct config *c = engine_config(api->engine);
    struct rt *rt = engine_rt(api->engine);
    uint64_t wait_ms = c->pool.default_wait_ms;
    uint64_t ttl_s = 0;
    uint64_t idle_s = 0;
    int r = json_field_u64(body, "wait_ms", 0, c->pool.max_wait_ms, &wait_ms, err);

    if (r == SP_OK)
        r = json_field_u64(body, "ttl_s", 1, API_TTL_MAX_S, &ttl_s, err);
    if (r == SP_OK)
        r = json_field_u64(body, "idle_timeout_s", 1, API_TTL_MAX_S, &idle_s, err);
    if (r != SP_OK)
        return r;
    rt_refresh(rt);
    ret->deadline_ns = rt_after(rt_now(rt), wait_ms * NS_PER_MS);
    ret->ttl_ns = ttl_s * NS_PER_S;
    ret->idle_ns = idle_s * NS_PER_S;
    return SP_OK;
}

static int decode_request_id(const struct json *body, struct acquire *a, struct err *err)
{
    const char *id = "";
    int r = json_field_str(body, "request_id", POOL_ID_MAX, &id, err);

    if (r == SP_OK && !str_is_empty(id))
        r = check_name("request_id", id, POOL_ID_MAX, "_-", err);
    if (r == SP_OK)
        str_copy_cut(a->request_id, sizeof(a->request_id), id);
    return r;
}

static int decode_metadata(const struct json *body, struct acquire *a, struct err *err)
{
    const struct json *snapshot = json_get(body, "snapshot_id");
    const struct json *metadata = NULL;
    struct buf text;
    int r;

    if (snapshot != NULL && !json_is_null(snapshot))
        return err_set(err, SP_UNSUPPORTED, "the backend cannot apply 'snapshot_id'");
    r = json_field_obj(body, "metadata", &metadata, err);
    if (r != SP_OK || metadata == NULL)
        return r;
    buf_init(&text, METADATA_MAX);
    json_print(metadata, &text);
    if (buf_failed(&text)) {
        buf_fini(&text);
        return err_set(err, SP_INVALID_FIELD, "'metadata' is longer than %d bytes", METADATA_MAX);
    }
    a->metadata = buf_take(&text, NULL);
    return SP_OK;
}

static void reply_lease(struct acquire *a, const struct pool_fx *fx)
{
    const struct rt *rt = engine_rt(a->api->engine);
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "source", pool_source_name(fx->u.reply.source));
    api_put_box(&o, a->api, &a->caller, &fx->snapshot);
    json_begin_obj(&o, "timings_ms");
    json_put_num(&o, "queued", (double) (fx->u.reply.queued_ns / NS_PER_US) / 1000);
    json_put_num(&o, "total", (double) ((rt_now(rt) - a->started_ns) / NS_PER_US) / 1000);
    json_end(&o);
    json_end(&o);
    http_reply_json(a->delivery.ex, 200, &o);
}

static void reply_failure(struct acquire *a, const struct pool_fx *fx)
{
    bool was_served = fx->u.reply.source != POOL_SRC_NONE;

    /* There was a box; what could not be done to it is said by the backend's own words. */
    if (was_served && fx->u.reply.code != SP_SANDBOX_LOST && !str_is_empty(fx->reason))
        http_reply_error(a->delivery.ex, fx->u.reply.code, fx->reason, 0);
    else
        api_reply_failure(a->delivery.ex, fx);
}

static void on_reply(struct front_delivery *d, const struct pool_fx *fx)
{
    struct acquire *a = container_of(d, struct acquire, delivery);

    front_answer(d);
    if (fx->u.reply.code != SP_OK)
        reply_failure(a, fx);
    else
        reply_lease(a, fx);
}

static void on_end(struct front_delivery *d)
{
    acquire_free(container_of(d, struct acquire, delivery));
}

/* The profile of the box it will get, as far as that is known: the engine looks again at the box. */
static unsigned likely_profile(const struct acquire *a, const struct pool_acquire *acquire)
{
    const struct pool_box *box =
        pool_find_sandbox(engine_pool(a->api->engine), acquire->sandbox_id);

    if (box == NULL || acquire->is_profile_named ||
        (box->principal != a->caller.principal && !a->caller.is_operator))
        return acquire->profile;
    return box->profile;
}

static int decode(struct acquire *a, const struct json *body, struct pool_acquire *ret,
                  struct err *err)
{
    int r = json_only_fields(body, fields, err);

    if (r == SP_OK)
        r = decode_identity(body, ret, err);
    if (r == SP_OK)
        r = decode_profile(a->api, body, ret, err);
    if (r == SP_OK)
        r = decode_times(a->api, body, ret, err);
    if (r == SP_OK)
        r = decode_request_id(body, a, err);
    if (r == SP_OK)
        r = decode_metadata(body, a, err);
    if (r == SP_OK)
        r = api_decode_extras(a->api, &a->caller, body, likely_profile(a, ret),
                              &a->delivery.call.extras, err);
    return r;
}

static void start(struct acquire *a, struct http_exchange *ex, struct pool_event *ev)
{
    static const struct front_delivery_ops ops = {.on_reply = on_reply, .on_end = on_end};
    struct engine_call *call = &a->delivery.call;

    a->started_ns = rt_now(engine_rt(a->api->engine));
    ev->u.acquire.principal = a->caller.principal;
    ev->u.acquire.is_operator = a->caller.is_operator;
    call->deadline_ns = ev->u.acquire.deadline_ns;
    call->may_exceed = a->caller.is_operator;
    call->metadata = a->metadata;
    str_copy_cut(call->sandbox_id, sizeof(call->sandbox_id), ev->u.acquire.sandbox_id);
    request_note(a);
    front_begin(&a->delivery, a->api->engine, ex, &ops);
    front_ask(&a->delivery, ev);
}

void api_acquire(struct http_exchange *ex)
{
    struct json_doc *doc = api_parse_body(ex);
    struct acquire *a;
    struct pool_event ev = {.kind = POOL_EV_ACQUIRE};
    struct err err;

    if (doc == NULL)
        return;
    a = xcalloc(1, sizeof(*a));
    a->api = api_of(ex);
    (void) api_identify(ex, &a->caller); /* the guard has let it in */
    if (decode(a, json_root(doc), &ev.u.acquire, &err) != SP_OK) {
        http_reply_err(ex, &err);
        acquire_free(a);
        (void) json_doc_free(doc);
        return;
    }
    (void) json_doc_free(doc);
    start(a, ex, &ev);
}
