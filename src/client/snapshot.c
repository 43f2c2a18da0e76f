/* snapshot.c - files of sandboxes that are kept, and copies of a sandbox. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "client/internal.h"
#include "sandpool/sandbox.h"

enum {
    REQUEST_MAX = 1024 * 1024,
    COPY_MS = 10 * 60 * 1000, /* a large disk is copied */
};

static int fail_snapshot(struct sp_failure *f)
{
    return client_fail(f, SP_PROTOCOL, "the daemon's answer is not a snapshot");
}

static bool read_snapshot(const struct json *o, struct sp_snapshot *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (!json_u64(json_get(o, "layers"), &ret->layers))
        ret->layers = 0;
    return json_u64(json_get(o, "size_bytes"), &ret->size_bytes) &&
           client_take(o, "snapshot_id", ret->snapshot_id, sizeof(ret->snapshot_id)) &&
           !str_is_empty(ret->snapshot_id) &&
           client_take(o, "name", ret->name, sizeof(ret->name)) &&
           client_take(o, "profile", ret->profile, sizeof(ret->profile)) &&
           client_take(o, "parent", ret->parent, sizeof(ret->parent)) &&
           client_take(o, "sandbox_id", ret->sandbox_id, sizeof(ret->sandbox_id)) &&
           client_take(o, "user_id", ret->user_id, sizeof(ret->user_id)) &&
           client_take(o, "thread_id", ret->thread_id, sizeof(ret->thread_id)) &&
           client_take(o, "created_at", ret->created_at, sizeof(ret->created_at)) &&
           client_take(o, "last_used_at", ret->last_used_at, sizeof(ret->last_used_at)) &&
           client_take(o, "digest", ret->digest, sizeof(ret->digest));
}

static int ask_snapshot(struct sp_client *c, const char *method, struct buf *target,
                        struct buf *body, struct sp_snapshot *ret, struct sp_failure *f)
{
    struct json_doc *doc = NULL;
    int r = client_ask(c, method, target, body, &doc, f);

    if (r == SP_OK && !read_snapshot(json_root(doc), ret))
        r = fail_snapshot(f);
    (void) json_doc_free(doc);
    return r;
}

int sp_snapshot_create(struct sp_client *c, const char *id, const char *name,
                       const char *metadata_json, struct sp_snapshot *ret,
                       struct sp_failure *failure)
{
    uint64_t timeout_ms = c->timeout_ms;
    struct json_out o;
    struct buf target;
    struct buf body;
    int r;

    buf_init(&target, CLIENT_TARGET_MAX);
    buf_init(&body, REQUEST_MAX);
    client_put_id(&target, id);
    buf_puts(&target, "/snapshots");
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    if (name != NULL)
        json_put_str(&o, "name", name);
    if (metadata_json != NULL)
        json_put_raw(&o, "metadata", metadata_json);
    json_end(&o);
    json_out_finish(&o, &body);
    c->timeout_ms = MAX_OF(timeout_ms, (uint64_t) COPY_MS);
    r = ask_snapshot(c, "POST", &target, &body, ret, failure);
    c->timeout_ms = timeout_ms;
    return r;
}

static int ask_known(struct sp_client *c, const char *method, const char *snapshot_id,
                     struct sp_snapshot *ret, struct sp_failure *f)
{
    struct buf target;

    buf_init(&target, CLIENT_TARGET_MAX);
    buf_puts(&target, "/v1/snapshots/");
    buf_put_escaped(&target, snapshot_id);
    return ask_snapshot(c, method, &target, NULL, ret, f);
}

int sp_snapshot_get(struct sp_client *c, const char *snapshot_id, struct sp_snapshot *ret,
                    struct sp_failure *failure)
{
    return ask_known(c, "GET", snapshot_id, ret, failure);
}

int sp_snapshot_delete(struct sp_client *c, const char *snapshot_id, struct sp_failure *failure)
{
    struct sp_snapshot s;

    return ask_known(c, "DELETE", snapshot_id, &s, failure);
}

struct listing {
    bool (*on_snapshot)(void *ctx, const struct sp_snapshot *s);
    void *ctx;
    bool is_bad;
};

static bool on_item(void *ctx, const struct json *item)
{
    struct listing *l = ctx;
    struct sp_snapshot s;

    l->is_bad = !read_snapshot(item, &s);
    return !l->is_bad && l->on_snapshot(l->ctx, &s);
}

int sp_snapshot_list(struct sp_client *c,
                     bool (*on_snapshot)(void *ctx, const struct sp_snapshot *s), void *ctx,
                     struct sp_failure *failure)
{
    struct listing l = {.on_snapshot = on_snapshot, .ctx = ctx};
    int r = client_walk(c, "/v1/snapshots", "snapshots", "next", "after", on_item, &l, failure);

    return r == SP_OK && l.is_bad ? fail_snapshot(failure) : r;
}

/* --- copies --- */

static void put_fork(const struct sp_fork *f, struct buf *out)
{
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_u64(&o, "count", f->count);
    if (f->threads != NULL) {
        json_begin_arr(&o, "threads");
        for (size_t i = 0; i < f->count; i++)
            json_put_str(&o, NULL, f->threads[i]);
        json_end(&o);
    }
    if (f->user_id != NULL)
        json_put_str(&o, "user_id", f->user_id);
    client_put_times(&o, f->has_wait, f->wait_ms, f->ttl_s, f->idle_timeout_s);
    if (f->metadata_json != NULL)
        json_put_raw(&o, "metadata", f->metadata_json);
    client_put_pairs(&o, "envs", f->envs, f->env_count);
    json_end(&o);
    json_out_finish(&o, out);
}

static bool read_branch(const struct json *o, struct sp_branch *ret)
{
    const struct json *error = json_get(o, "error");

    memset(ret, 0, sizeof(*ret));
    if (error == NULL)
        return client_read_lease(o, &ret->lease);
    client_read_error(error, &ret->failure);
    return ret->failure.code != SP_OK;
}

int sp_fork(struct sp_client *c, const char *id, const struct sp_fork *f, struct sp_branch *ret,
            struct sp_failure *failure)
{
    uint64_t timeout_ms = c->timeout_ms;
    struct json_doc *doc = NULL;
    struct json_walk walk = {0};
    const struct json *list;
    struct buf target;
    struct buf body;
    bool is_good;
    int r;

    if (f->count == 0)
        return client_fail(failure, SP_INVALID_FIELD, "'count' must be at least 1");
    buf_init(&target, CLIENT_TARGET_MAX);
    buf_init(&body, REQUEST_MAX);
    client_put_id(&target, id);
    buf_puts(&target, "/fork");
    put_fork(f, &body);
    c->timeout_ms = MAX_OF(timeout_ms, (uint64_t) COPY_MS) + (f->has_wait ? f->wait_ms : 0);
    r = client_ask(c, "POST", &target, &body, &doc, failure);
    c->timeout_ms = timeout_ms;
    if (r != SP_OK)
        return r;
    list = json_get(json_root(doc), "sandboxes");
    is_good = json_is_arr(list) && json_len(list) == f->count;
    for (size_t i = 0; i < f->count && is_good; i++)
        is_good = read_branch(json_next(list, &walk), &ret[i]);
    (void) json_doc_free(doc);
    return is_good ? SP_OK : client_fail(failure, SP_PROTOCOL, "the daemon's answer is no fork");
}
