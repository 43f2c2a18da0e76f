/* acquire.c - POST /v1/acquire. The pool grants the lease after its commit; if the complete answer
 * cannot be delivered to the caller, the box is parked for its thread or destroyed. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/str.h"
#include "dialects/native/internal.h"
#include "engine/hibernate.h"
#include "front/body.h"
#include "front/deliver.h"

enum { METADATA_MAX = 4096 };

enum { REQUESTS_EXPECTED = 256 };

struct acquire {
    struct front_delivery delivery;
    struct list_node link; /* api->acquires */
    struct api *api;
    struct api_caller caller;
    uint64_t started_ns;
    char *metadata;
    struct map_node by_request;
    char request_id[POOL_ID_MAX + 1]; /* the id that the caller gave this request; "": none */
    bool is_profile_named;
};

/* The decoded body; pointers point into its document. */
struct request_body {
    const char *user;
    const char *thread;
    const char *id;
    const char *profile; /* NULL: none is named */
    const char *request_id;
    uint64_t wait_ms;
    uint64_t ttl_s;
    uint64_t idle_s;
    const char *snapshot; /* NULL: none */
    const struct json *metadata;
    const char *network; /* NULL: any */
    const struct json *labels;
    struct api_members members;
};

/* --- acquires by the request id of their caller --- */

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
    list_remove(&a->api->acquires, &a->link);
    free(a->metadata);
    free(a->delivery.call.extras); /* NULL once the engine owns it */
    free(a);
}

/* Fills in who the box is for; the public id follows from it unless the caller names one. */
static void set_identity(const struct request_body *b, struct pool_acquire *ret)
{
    /* an id chosen by the caller is its thread */
    const char *thread = str_is_empty(b->thread) ? b->id : b->thread;
    uint64_t random_id;

    str_copy_cut(ret->user, sizeof(ret->user), b->user);
    str_copy_cut(ret->thread, sizeof(ret->thread), thread);
    if (!str_is_empty(b->id)) {
        str_copy_cut(ret->sandbox_id, sizeof(ret->sandbox_id), b->id);
    } else if (!str_is_empty(thread)) {
        api_sandbox_id(b->user, thread, ret->sandbox_id);
    } else {
        rand_secure(&random_id, sizeof(random_id));
        str_hex64(ret->sandbox_id, random_id);
    }
}

static int check_labels(const struct json *labels, struct err *err)
{
    const struct json *value;
    const char *name;

    if (json_len(labels) > CONFIG_MAP_MAX)
        return err_set(err, SP_INVALID_FIELD, "'labels' has more than %d names", CONFIG_MAP_MAX);
    for (size_t i = 0; labels != NULL && json_member(labels, i, &name, &value); i++) {
        if (json_str(value) == NULL)
            return err_set(err, SP_INVALID_FIELD, "'labels': the value of '%.60s' must be a text",
                           name);
    }
    return SP_OK;
}

static int set_profile(struct acquire *a, const struct request_body *b, struct pool_acquire *ret,
                       struct err *err)
{
    struct api_need n = {.network = b->network, .labels = b->labels};
    int r = check_labels(b->labels, err);

    if (r == SP_OK && json_len(b->members.limits) > 0)
        r = api_get_limits(b->members.limits, &n.extras, err);
    n.extras.env_count = json_len(b->members.envs);
    n.extras.mount_count = json_len(b->members.mounts);
    if (r == SP_OK)
        r = api_set_profile(a->api, &a->caller, b->profile, &n, ret, err);
    a->is_profile_named = ret->is_profile_named;
    return r;
}

static void set_times(struct api *api, const struct request_body *b, struct pool_acquire *ret)
{
    struct rt *rt = engine_rt(api->engine);

    rt_refresh(rt);
    ret->deadline_ns = rt_after(rt_now(rt), b->wait_ms * NS_PER_MS);
    ret->ttl_ns = b->ttl_s * NS_PER_S;
    ret->idle_ns = b->idle_s * NS_PER_S;
}

static int set_metadata(const struct request_body *b, struct acquire *a, struct err *err)
{
    struct buf text;

    if (b->metadata == NULL)
        return SP_OK;
    buf_init(&text, METADATA_MAX);
    json_print(b->metadata, &text);
    if (buf_failed(&text)) {
        buf_fini(&text);
        return err_set(err, SP_INVALID_FIELD, "'metadata' is longer than %d bytes", METADATA_MAX);
    }
    a->metadata = buf_take(&text, NULL);
    return SP_OK;
}

void api_put_lease(struct json_out *o, struct api *api, const struct api_caller *caller,
                   const struct pool_fx *fx, uint64_t started_ns)
{
    const struct rt *rt = engine_rt(api->engine);

    json_put_str(o, "source", pool_source_name(fx->u.reply.source));
    api_put_box(o, api, caller, &fx->snapshot);
    json_begin_obj(o, "timings_ms");
    json_put_num(o, "queued", (double) (fx->u.reply.queued_ns / NS_PER_US) / 1000);
    json_put_num(o, "total", (double) ((rt_now(rt) - started_ns) / NS_PER_US) / 1000);
    json_end(o);
}

static void reply_lease(struct acquire *a, const struct pool_fx *fx)
{
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    api_put_lease(&o, a->api, &a->caller, fx, a->started_ns);
    json_end(&o);
    http_reply_json(a->delivery.ex, 200, &o);
}

static void on_reply(struct front_delivery *d, const struct pool_fx *fx)
{
    struct acquire *a = container_of(d, struct acquire, delivery);

    front_answer(d);
    if (fx->u.reply.code != SP_OK)
        api_reply_spent(a->delivery.ex, fx, &d->call);
    else
        reply_lease(a, fx);
}

static void on_end(struct front_delivery *d)
{
    acquire_free(container_of(d, struct acquire, delivery));
}

/* The profile of the box it will get, as far as that is known: the engine looks again at the box. */
static unsigned likely_profile(const struct acquire *a, const char *sandbox_id, unsigned profile)
{
    const struct pool_box *box = pool_find_sandbox(engine_pool(a->api->engine), sandbox_id);

    if (box == NULL || a->is_profile_named ||
        (box->principal != a->caller.principal && !a->caller.is_operator))
        return profile;
    return box->profile;
}

#define AT(member) .at = offsetof(struct request_body, member)

static int decode_body(const struct config *c, const struct json *body, struct request_body *ret,
                       struct err *err)
{
    const struct front_field fields[] = {
        {"user_id", FRONT_NAME, AT(user), .max = POOL_OWNER_MAX, .extra = API_USER_EXTRA},
        {"thread_id", FRONT_NAME, AT(thread), .max = POOL_OWNER_MAX, .extra = API_THREAD_EXTRA,
         .may_be_empty = true},
        {"sandbox_id", FRONT_NAME, AT(id), .max = POOL_ID_MAX, .extra = "_-", .may_be_empty = true,
         .is_operand = true},
        {"profile", FRONT_TEXT, AT(profile), .max = POOL_NAME_MAX},
        {"wait_ms", FRONT_NUMBER, AT(wait_ms), .max = c->pool.max_wait_ms},
        {"ttl_s", FRONT_NUMBER, AT(ttl_s), .min = 1, .max = API_TTL_MAX_S},
        {"idle_timeout_s", FRONT_NUMBER, AT(idle_s), .min = 1, .max = API_TTL_MAX_S},
        {"request_id", FRONT_NAME, AT(request_id), .max = POOL_ID_MAX, .extra = "_-",
         .may_be_empty = true},
        {"snapshot_id", FRONT_TEXT, AT(snapshot), .max = BACKEND_ID_LEN},
        {"metadata", FRONT_OBJECT, AT(metadata)},
        {"network", FRONT_TEXT, AT(network), .max = POOL_NAME_MAX},
        {"labels", FRONT_OBJECT, AT(labels)},
        {"envs", FRONT_OBJECT, AT(members.envs)},
        {"limits", FRONT_OBJECT, AT(members.limits)},
        {"mounts", FRONT_LIST, AT(members.mounts)},
        {.name = NULL}};

    *ret = (struct request_body){
        .thread = "", .id = "", .request_id = "", .wait_ms = c->pool.default_wait_ms};
    return front_decode_strict(body, fields, ret, err);
}

/* --- from a snapshot --- */

/* Its profile, unless another one is named; its metadata, unless there are others. */
static int find_snapshot(struct acquire *a, struct request_body *b,
                         const struct engine_snapshot **ret, struct err *err)
{
    int r = api_find_snapshot(a->api, &a->caller, b->snapshot, ret, err);

    if (r != SP_OK)
        return r;
    if (b->profile == NULL)
        b->profile = (*ret)->info.profile;
    if (b->metadata == NULL && !str_is_empty((*ret)->info.metadata))
        a->metadata = xstrdup((*ret)->info.metadata);
    return SP_OK;
}

/* Its variables, unless there are others. */
static int add_snapshot(struct acquire *a, const struct engine_snapshot *s, bool has_envs,
                        unsigned profile, struct err *err)
{
    struct engine_call *call = &a->delivery.call;
    struct backend_extras extras = {0};
    char hex[17];

    if (!engine_snapshot_fits(a->api->engine, s, profile))
        return err_set(err, SP_INVALID_FIELD,
                       "the snapshot is of another backend than profile '%.64s'",
                       pool_profile(engine_pool(a->api->engine), profile)->name);
    if (call->extras != NULL)
        extras = *call->extras;
    str_hex64(hex, s->info.id);
    extras.snapshot = hex;
    if (!has_envs && s->envs != NULL) {
        extras.envs = s->envs->envs;
        extras.env_count = s->envs->env_count;
        call->are_envs_for_new = true;
    }
    engine_snapshot_used(a->api->engine, s->info.id);
    {
        struct backend_extras *all = backend_extras_copy(&extras);

        free(call->extras);
        call->extras = all;
    }
    return SP_OK;
}

/* --- a token that is bound to something --- */

/* What it is bound to is what it gets unless it asks for something else; of a sandbox also who has it. */
static void use_bounds(const struct acquire *a, struct request_body *b)
{
    const struct engine_bounds *bounds = &a->caller.who.bounds;
    const struct pool_box *box;

    if (!a->caller.who.has_bounds)
        return;
    if (!str_is_empty(bounds->sandbox_id) && str_is_empty(b->id) && str_is_empty(b->thread)) {
        b->id = bounds->sandbox_id;
        box = pool_find_sandbox(engine_pool(a->api->engine), b->id);
        if (box != NULL)
            b->thread = box->thread;
        if (box != NULL && b->user == NULL)
            b->user = box->user;
    }
    if (b->user == NULL && !str_is_empty(bounds->user))
        b->user = bounds->user;
    if (b->profile == NULL && !str_is_empty(bounds->profile))
        b->profile = bounds->profile;
}

/* Also when another box has the id by now. */
static int check_bounds(const struct acquire *a, const struct pool_acquire *want, struct err *err)
{
    struct engine *e = a->api->engine;
    const struct pool_box *box = pool_find_sandbox(engine_pool(e), want->sandbox_id);
    const struct engine_snapshot *s = engine_hibernated_find(e, want->sandbox_id);

    if (!a->caller.who.has_bounds)
        return SP_OK;
    if (api_covers(&a->caller, want->user, pool_profile(engine_pool(e), want->profile)->name,
                   want->sandbox_id) &&
        (box == NULL || api_covers_box(a->api, &a->caller, box)) &&
        (s == NULL || api_covers(&a->caller, s->info.user, s->info.profile, s->info.sandbox_id)))
        return SP_OK;
    return err_set(err, SP_FORBIDDEN,
                   "this token is bound to another user, profile or sandbox than the acquire "
                   "names");
}

static int decode(struct acquire *a, const struct json *body, struct pool_acquire *ret,
                  struct err *err)
{
    const struct engine_snapshot *snapshot = NULL;
    struct request_body b;
    int r = decode_body(engine_config(a->api->engine), body, &b, err);

    if (r == SP_OK)
        use_bounds(a, &b);
    if (b.user == NULL)
        b.user = "default";
    if (r == SP_OK && b.snapshot != NULL)
        r = find_snapshot(a, &b, &snapshot, err);
    if (r != SP_OK)
        return r;
    set_identity(&b, ret);
    set_times(a->api, &b, ret);
    str_copy_cut(a->request_id, sizeof(a->request_id), b.request_id);
    r = set_profile(a, &b, ret, err);
    if (r == SP_OK)
        r = check_bounds(a, ret, err);
    if (r == SP_OK)
        r = set_metadata(&b, a, err);
    if (r == SP_OK)
        r = api_decode_extras(a->api, &a->caller, &b.members,
                              likely_profile(a, ret->sandbox_id, ret->profile),
                              &a->delivery.call.extras, err);
    a->delivery.call.has_envs = b.members.envs != NULL;
    if (r == SP_OK && snapshot != NULL)
        r = add_snapshot(a, snapshot, b.members.envs != NULL, ret->profile, err);
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
    list_push_back(&a->api->acquires, &a->link);
    front_begin(&a->delivery, a->api->engine, ex, &ops);
    front_ask(&a->delivery, ev);
}

/* --- after a reload --- */

static int check_again(struct acquire *a, struct err *err)
{
    const struct engine_call *call = &a->delivery.call;
    struct api_caller now;

    if (!api_identify(a->delivery.ex, &now) || now.principal != a->caller.principal)
        return err_set(err, SP_UNAUTHORIZED, "the token was taken away while the acquire waited");
    if (a->caller.is_operator && !now.is_operator)
        return err_set(err, SP_FORBIDDEN,
                       "the caller is no operator any more: ask again, for what others may have");
    if (call->extras == NULL)
        return SP_OK;
    return api_check_extras(a->api, &now, call->extras,
                            likely_profile(a, call->sandbox_id, call->profile), err);
}

void api_check_waiting(struct api *api)
{
    struct err err;

    /* None leaves the list here: their ends come later, from the run queue. */
    for (struct list_node *n = list_first(&api->acquires); n != NULL;
         n = list_next(&api->acquires, n)) {
        struct acquire *a = container_of(n, struct acquire, link);

        if (a->delivery.state != FRONT_WAITING || a->delivery.ex == NULL ||
            check_again(a, &err) == SP_OK || !front_withdraw(&a->delivery))
            continue;
        front_answer(&a->delivery);
        http_reply_err(a->delivery.ex, &err);
    }
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
    (void) api_identify(ex, &a->caller); /* always set: the guard has accepted the caller */
    if (decode(a, json_root(doc), &ev.u.acquire, &err) != SP_OK) {
        http_reply_err(ex, &err);
        acquire_free(a);
        (void) json_doc_free(doc);
        return;
    }
    (void) json_doc_free(doc);
    start(a, ex, &ev);
}
