/* fork.c - POST /v1/sandboxes/{id}/fork: boxes with the files of one that runs. One snapshot is made of it, each box is an
 * acquire of its own from that snapshot, and one answer has the result of each. Boxes of an answer that cannot be
 * delivered are undone, as those of an acquire. The snapshot is nobody's and goes when the last result is there. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rand.h"
#include "base/str.h"
#include "dialects/native/internal.h"
#include "front/body.h"
#include "front/deliver.h"

enum { FORK_MAX = 100, METADATA_MAX = 4096, RESULT_MAX = 64 * 1024 };

struct fork;

/* One box of it. */
struct branch {
    struct front_delivery delivery; /* its `ex` is NULL: the fork answers for all */
    struct fork *fork;
    char thread[POOL_OWNER_MAX + 1]; /* "": none */
    struct buf text;                 /* its result as JSON; empty: it still waits */
    struct pool_fx failure;          /* u.reply.code is SP_OK when there is a box */
};

struct fork {
    struct engine_capture capture;
    struct http_exchange *ex; /* NULL: the caller has gone */
    struct api *api;
    struct api_caller caller;
    struct pool_acquire acquire; /* what is the same for all */
    struct backend_extras *extras;
    char *metadata; /* NULL: none */
    uint64_t started_ns;
    uint64_t wait_ms;
    bool has_envs;  /* of the request, else those of the source */
    size_t waiting; /* branches without a result, and one more while they are begun */
    size_t count;
    struct branch branches[];
};

static void fork_free(struct fork *f)
{
    for (size_t i = 0; i < f->count; i++) {
        buf_fini(&f->branches[i].text);
        free(f->branches[i].delivery.call.extras); /* NULL once the engine owns it */
    }
    free(f->extras);
    free(f->metadata);
    free(f);
}

/* --- the end --- */

static void on_dropped(void *ctx, int code, const char *reason)
{
    (void) ctx;
    if (code != SP_OK)
        log_warn("fork.snapshot_left", LF_STR("reason", reason),
                 LF_STR("hint", "it is deleted at the next start"));
}

static void drop_snapshot(struct fork *f)
{
    struct engine *e = f->api->engine;
    struct engine_snapshot *s = engine_snapshot_find(e, f->capture.request.snapshot.id);

    if (s != NULL)
        engine_snapshot_drop(e, s, on_dropped, NULL);
}

static void undo(struct fork *f)
{
    for (size_t i = 0; i < f->count; i++)
        front_undo(&f->branches[i].delivery, false);
}

static void on_taken(void *ctx, int result)
{
    struct fork *f = ctx;

    if (result != SP_OK)
        undo(f);
    fork_free(f);
}

/* The first of them when there is no box at all; else NULL. */
static const struct pool_fx *failure_of_all(const struct fork *f)
{
    for (size_t i = 0; i < f->count; i++) {
        if (f->branches[i].failure.u.reply.code == SP_OK)
            return NULL;
    }
    return &f->branches[0].failure;
}

static void reply_branches(struct fork *f)
{
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_begin_arr(&o, "sandboxes");
    for (size_t i = 0; i < f->count; i++)
        json_put_raw(&o, NULL, buf_str(&f->branches[i].text));
    json_end(&o);
    json_end(&o);
    http_reply_json(f->ex, 200, &o);
}

/* A token may have been taken away meanwhile. */
static bool is_still_allowed(struct fork *f)
{
    struct api_caller now;

    return api_identify(f->ex, &now) && now.principal == f->caller.principal &&
           (now.is_operator || !f->caller.is_operator);
}

static void finish(struct fork *f)
{
    const struct pool_fx *failure = failure_of_all(f);

    drop_snapshot(f);
    http_on_taken(f->ex, on_taken, f);
    if (!is_still_allowed(f)) {
        undo(f);
        http_reply_error(f->ex, SP_UNAUTHORIZED, "the token was taken away during the fork", 0);
    } else if (failure != NULL) {
        api_reply_failure(f->ex, failure);
    } else {
        reply_branches(f);
    }
}

/* One result more, or all are begun. */
static void settle(struct fork *f)
{
    f->waiting--;
    if (f->waiting == 0)
        finish(f);
}

/* One that leaves the line may bring a box to the next: what came is undone last. */
static void abandon(struct fork *f)
{
    for (size_t i = 0; i < f->count; i++)
        front_forget(&f->branches[i].delivery);
    undo(f);
    drop_snapshot(f);
    fork_free(f);
}

static void on_gone(void *ctx)
{
    struct fork *f = ctx;

    f->ex = NULL;
    if (f->waiting > 0)
        abandon(f); /* else on_captured() sees it */
}

/* --- the boxes --- */

static void put_result(struct branch *b, const struct pool_fx *fx)
{
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    if (fx->u.reply.code == SP_OK)
        api_put_lease(&o, b->fork->api, &b->fork->caller, fx, b->fork->started_ns);
    else
        api_put_failure(&o, fx, b->fork->caller.is_operator);
    json_end(&o);
    json_out_finish(&o, &b->text);
}

static void on_reply(struct front_delivery *d, const struct pool_fx *fx)
{
    struct branch *b = container_of(d, struct branch, delivery);

    b->failure = *fx;
    put_result(b, fx);
    settle(b->fork);
}

static void on_end(struct front_delivery *d)
{
    (void) d; /* all go together */
}

static void set_identity(const struct branch *b, struct pool_acquire *ret)
{
    uint64_t random_id;

    str_copy_cut(ret->thread, sizeof(ret->thread), b->thread);
    if (!str_is_empty(b->thread)) {
        api_sandbox_id(ret->user, b->thread, ret->sandbox_id);
    } else {
        rand_secure(&random_id, sizeof(random_id));
        str_hex64(ret->sandbox_id, random_id);
    }
}

static void start_branch(struct fork *f, struct branch *b, const struct backend_extras *extras)
{
    static const struct front_delivery_ops ops = {.on_reply = on_reply, .on_end = on_end};
    struct pool_event ev = {.kind = POOL_EV_ACQUIRE, .u.acquire = f->acquire};
    struct engine_call *call = &b->delivery.call;

    set_identity(b, &ev.u.acquire);
    call->extras = backend_extras_copy(extras);
    call->deadline_ns = ev.u.acquire.deadline_ns;
    call->may_exceed = f->caller.is_operator;
    call->metadata = f->metadata;
    str_copy_cut(call->sandbox_id, sizeof(call->sandbox_id), ev.u.acquire.sandbox_id);
    front_begin(&b->delivery, f->api->engine, NULL, &ops);
    front_ask(&b->delivery, &ev);
}

static void start_branches(struct fork *f)
{
    struct rt *rt = engine_rt(f->api->engine);
    const struct engine_snapshot *known =
        engine_snapshot_find(f->api->engine, f->capture.request.snapshot.id);
    struct backend_extras extras = {0};
    char hex[17];

    if (f->extras != NULL)
        extras = *f->extras;
    if (known != NULL && known->envs != NULL && !f->has_envs) {
        extras.envs = known->envs->envs;
        extras.env_count = known->envs->env_count;
    }
    str_hex64(hex, f->capture.request.snapshot.id);
    extras.snapshot = hex;
    rt_refresh(rt);
    f->acquire.deadline_ns = rt_after(rt_now(rt), f->wait_ms * NS_PER_MS);
    f->waiting = f->count + 1;
    for (size_t i = 0; i < f->count; i++)
        start_branch(f, &f->branches[i], &extras);
    settle(f);
}

/* --- the snapshot --- */

/* The index of the profile, which a reload may have taken away. */
static int find_profile(const struct fork *f, const char *name, unsigned *ret, struct err *err)
{
    struct engine *e = f->api->engine;
    int index = pool_profile_index(engine_pool(e), name);

    if (index < 0 || config_find_profile(engine_config(e), name) == NULL)
        return err_set(err, SP_INVALID_FIELD, "there is no profile '%s' any more", name);
    *ret = (unsigned) index;
    return SP_OK;
}

static int check_made(struct fork *f, struct err *err)
{
    const struct snapshot *s = &f->capture.request.snapshot;
    const struct engine_snapshot *known = engine_snapshot_find(f->api->engine, s->id);

    if (find_profile(f, s->profile, &f->acquire.profile, err) != SP_OK)
        return err->code;
    if (known == NULL || !engine_snapshot_fits(f->api->engine, known, f->acquire.profile))
        return err_set(err, SP_INVALID_FIELD, "profile '%s' has another backend now", s->profile);
    if (!is_still_allowed(f))
        return err_set(err, SP_UNAUTHORIZED, "the token was taken away during the fork");
    return f->extras == NULL
               ? SP_OK
               : api_check_extras(f->api, &f->caller, f->extras, f->acquire.profile, err);
}

static void on_captured(struct engine_capture *capture, int code, const char *reason)
{
    struct fork *f = container_of(capture, struct fork, capture);
    struct err err = {0};

    if (f->ex != NULL && code == SP_OK && check_made(f, &err) == SP_OK) {
        start_branches(f);
        return;
    }
    if (f->ex != NULL && code != SP_OK)
        api_snapshot_refuse(f->ex, code, reason);
    else if (f->ex != NULL)
        http_reply_err(f->ex, &err);
    drop_snapshot(f);
    fork_free(f);
}

/* --- the request --- */

struct request_body {
    const char *user; /* NULL: that of the source */
    uint64_t count;   /* 0: as many as `threads` has, or one */
    uint64_t wait_ms;
    uint64_t ttl_s;
    uint64_t idle_s;
    const struct json *threads;
    const struct json *metadata;
    struct api_members members;
};

#define AT(member) .at = offsetof(struct request_body, member)

static int decode_body(const struct config *c, const struct json *body, struct request_body *ret,
                       struct err *err)
{
    const struct front_field fields[] = {
        {"count", FRONT_NUMBER, AT(count), .min = 1, .max = FORK_MAX},
        {"threads", FRONT_LIST, AT(threads), .max = FORK_MAX},
        {"user_id", FRONT_NAME, AT(user), .max = POOL_OWNER_MAX, .extra = API_USER_EXTRA},
        {"wait_ms", FRONT_NUMBER, AT(wait_ms), .max = c->pool.max_wait_ms},
        {"ttl_s", FRONT_NUMBER, AT(ttl_s), .min = 1, .max = API_TTL_MAX_S},
        {"idle_timeout_s", FRONT_NUMBER, AT(idle_s), .min = 1, .max = API_TTL_MAX_S},
        {"metadata", FRONT_OBJECT, AT(metadata)},
        {"envs", FRONT_OBJECT, AT(members.envs)},
        {.name = NULL}};
    size_t names;

    *ret = (struct request_body){.wait_ms = c->pool.default_wait_ms};
    if (front_decode_strict(body, fields, ret, err) != SP_OK)
        return err->code;
    names = ret->threads != NULL ? json_len(ret->threads) : 0;
    if (ret->threads != NULL && (names == 0 || (ret->count != 0 && ret->count != names)))
        return err_set(err, SP_INVALID_FIELD, "'threads' must have one name for each box");
    if (ret->count == 0)
        ret->count = names > 0 ? names : 1;
    return SP_OK;
}

/* A token that is bound to one box gets no others; one that is bound to a user makes them for that user. */
static int check_bounds(const struct api_caller *caller, const char *user, struct err *err)
{
    const struct engine_bounds *b = &caller->who.bounds;

    if (!caller->who.has_bounds ||
        (str_is_empty(b->sandbox_id) && (str_is_empty(b->user) || strcmp(b->user, user) == 0)))
        return SP_OK;
    return err_set(err, SP_FORBIDDEN, "this token is bound to another user, or to one sandbox");
}

static int set_threads(struct fork *f, const struct json *threads, struct err *err)
{
    for (size_t i = 0; threads != NULL && i < f->count; i++) {
        const char *name = json_str(json_at(threads, i));

        if (name == NULL || !str_is_name(name, POOL_OWNER_MAX, API_THREAD_EXTRA))
            return err_set(err, SP_INVALID_FIELD,
                           "'threads' must be names: 1 to %d letters, digits, '_', '.', '-'",
                           POOL_OWNER_MAX);
        for (size_t k = 0; k < i; k++) {
            if (strcmp(f->branches[k].thread, name) == 0)
                return err_set(err, SP_INVALID_FIELD, "'threads' has '%.64s' twice", name);
        }
        str_copy_cut(f->branches[i].thread, sizeof(f->branches[i].thread), name);
    }
    return SP_OK;
}

/* That of the source when the request has none. */
static int set_metadata(struct fork *f, const struct json *metadata, const struct pool_box *source,
                        struct err *err)
{
    const char *own = engine_metadata(f->api->engine, source->id);
    struct buf text;

    if (metadata == NULL) {
        f->metadata = own != NULL ? xstrdup(own) : NULL;
        return SP_OK;
    }
    buf_init(&text, METADATA_MAX);
    json_print(metadata, &text);
    if (buf_failed(&text)) {
        buf_fini(&text);
        return err_set(err, SP_INVALID_FIELD, "'metadata' is longer than %d bytes", METADATA_MAX);
    }
    f->metadata = buf_take(&text, NULL);
    return SP_OK;
}

static int fill(struct fork *f, const struct request_body *b, const struct pool_box *source,
                struct err *err)
{
    const struct pool *pool = engine_pool(f->api->engine);
    struct pool_acquire *a = &f->acquire;
    int r = find_profile(f, pool_profile(pool, source->profile)->name, &a->profile, err);

    str_copy_cut(a->user, sizeof(a->user), b->user != NULL ? b->user : source->user);
    a->is_profile_named = true;
    a->ttl_ns = b->ttl_s * NS_PER_S;
    a->idle_ns = b->idle_s * NS_PER_S;
    a->principal = f->caller.principal;
    a->is_operator = f->caller.is_operator;
    f->wait_ms = b->wait_ms;
    f->has_envs = b->members.envs != NULL;
    if (r == SP_OK)
        r = check_bounds(&f->caller, a->user, err);
    if (r == SP_OK)
        r = set_threads(f, b->threads, err);
    if (r == SP_OK)
        r = set_metadata(f, b->metadata, source, err);
    if (r == SP_OK)
        r = api_decode_extras(f->api, &f->caller, &b->members, a->profile, &f->extras, err);
    return r;
}

static struct fork *fork_new(struct api *api, const struct api_caller *caller, size_t count)
{
    struct fork *f = xcalloc(1, sizeof(*f) + count * sizeof(f->branches[0]));

    f->api = api;
    f->caller = *caller;
    f->count = count;
    f->capture.request.snapshot.is_temporary = true;
    f->capture.on_done = on_captured;
    for (size_t i = 0; i < count; i++) {
        f->branches[i].fork = f;
        buf_init(&f->branches[i].text, RESULT_MAX);
    }
    return f;
}

void api_fork(struct http_exchange *ex)
{
    struct api *api = api_of(ex);
    const struct pool_box *source;
    struct api_caller caller;
    struct request_body b;
    struct json_doc *doc;
    struct fork *f = NULL;
    struct err err;
    int r;

    (void) api_identify(ex, &caller); /* the guard has let it in */
    source = api_find_leased(ex, &caller);
    if (source != NULL && api_wake(ex, source, api_fork))
        return;
    doc = source != NULL ? api_parse_body(ex) : NULL;
    if (doc == NULL)
        return;
    r = decode_body(engine_config(api->engine), json_root(doc), &b, &err);
    if (r == SP_OK) {
        f = fork_new(api, &caller, (size_t) b.count);
        r = fill(f, &b, source, &err);
    }
    (void) json_doc_free(doc);
    if (r != SP_OK) {
        http_reply_err(ex, &err);
        if (f != NULL)
            fork_free(f);
        return;
    }
    f->ex = ex;
    f->started_ns = rt_now(engine_rt(api->engine));
    http_set_ctx(ex, f, on_gone);
    engine_capture_start(api->engine, &f->capture, source->id);
}
