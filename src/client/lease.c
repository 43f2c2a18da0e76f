/* lease.c - acquire and release with typed arguments, for programs that call them in a loop. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "client/internal.h"

enum { REQUEST_MAX = 1024 * 1024 };

static void put_str(struct json_out *o, const char *key, const char *v)
{
    if (v != NULL)
        json_put_str(o, key, v);
}

static void put_extras(struct json_out *o, const struct sp_acquire *a)
{
    if (a->env_count > 0) {
        json_begin_obj(o, "envs");
        for (size_t i = 0; i < a->env_count; i++)
            json_put_str(o, a->envs[i].name, a->envs[i].value);
        json_end(o);
    }
    if (a->mount_count > 0) {
        json_begin_arr(o, "mounts");
        for (size_t i = 0; i < a->mount_count; i++) {
            json_begin_obj(o, NULL);
            json_put_str(o, "host_path", a->mounts[i].host_path);
            json_put_str(o, "container_path", a->mounts[i].container_path);
            json_put_bool(o, "read_only", a->mounts[i].is_read_only);
            json_end(o);
        }
        json_end(o);
    }
    if (a->memory > 0 || a->cpus > 0 || a->pids > 0) {
        json_begin_obj(o, "limits");
        if (a->memory > 0)
            json_put_u64(o, "memory", a->memory);
        if (a->cpus > 0)
            json_put_num(o, "cpus", a->cpus);
        if (a->pids > 0)
            json_put_u64(o, "pids", a->pids);
        json_end(o);
    }
}

static void encode_acquire(const struct sp_acquire *a, struct buf *out)
{
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    put_str(&o, "thread_id", a->thread_id);
    put_str(&o, "user_id", a->user_id);
    put_str(&o, "profile", a->profile);
    put_str(&o, "sandbox_id", a->sandbox_id);
    put_str(&o, "request_id", a->request_id);
    if (a->has_wait)
        json_put_u64(&o, "wait_ms", a->wait_ms);
    if (a->ttl_s > 0)
        json_put_u64(&o, "ttl_s", a->ttl_s);
    if (a->idle_timeout_s > 0)
        json_put_u64(&o, "idle_timeout_s", a->idle_timeout_s);
    if (a->metadata_json != NULL)
        json_put_raw(&o, "metadata", a->metadata_json);
    put_extras(&o, a);
    json_end(&o);
    json_out_finish(&o, out);
}

/* A null or absent member is "". */
static bool take_str(const struct json *obj, const char *key, char *dst, size_t cap)
{
    const char *s = json_str(json_get(obj, key));

    return str_copy(dst, cap, s != NULL ? s : "");
}

static int decode_lease(const char *text, struct sp_lease *ret, struct sp_failure *f)
{
    struct json_doc *doc = json_parse(text, strlen(text), CLIENT_BODY_MAX, NULL);
    const struct json *root = json_root(doc);
    bool is_good;

    memset(ret, 0, sizeof(*ret));
    is_good = json_u64(json_get(root, "generation"), &ret->generation) &&
              take_str(root, "sandbox_id", ret->sandbox_id, sizeof(ret->sandbox_id)) &&
              !str_is_empty(ret->sandbox_id) &&
              take_str(root, "sandbox_url", ret->sandbox_url, sizeof(ret->sandbox_url)) &&
              take_str(root, "token", ret->token, sizeof(ret->token)) &&
              take_str(root, "source", ret->source, sizeof(ret->source)) &&
              take_str(root, "state", ret->state, sizeof(ret->state));
    (void) json_doc_free(doc);
    if (!is_good)
        return client_fail(f, SP_PROTOCOL, "the daemon's answer is not a lease");
    return SP_OK;
}

int sp_acquire(struct sp_client *c, const struct sp_acquire *a, struct sp_lease *ret,
               struct sp_failure *failure)
{
    AUTO_FREE char *answer = NULL;
    uint64_t timeout_ms = c->timeout_ms;
    struct buf body;
    int r;

    buf_init(&body, REQUEST_MAX);
    encode_acquire(a, &body);
    if (buf_failed(&body)) {
        buf_fini(&body);
        return client_fail(failure, SP_TOO_BIG, "the request is too large");
    }
    if (a->has_wait)
        c->timeout_ms += MIN_OF(a->wait_ms, (uint64_t) 24 * 60 * 60 * 1000);
    r = sp_call(c, "POST", "/v1/acquire", buf_str(&body), &answer, failure);
    c->timeout_ms = timeout_ms;
    buf_fini(&body);
    return r == SP_OK ? decode_lease(answer, ret, failure) : r;
}

int sp_release(struct sp_client *c, const char *sandbox_id, uint64_t generation, bool want_destroy,
               struct sp_failure *failure)
{
    AUTO_FREE char *answer = NULL;
    struct json_out o;
    struct buf target;
    struct buf body;
    int r;

    if (!str_is_name(sandbox_id, sizeof(((struct sp_lease *) NULL)->sandbox_id), "._:-"))
        return client_fail(failure, SP_NOT_FOUND, "'%.64s' is not an id", sandbox_id);
    buf_init(&target, 256);
    buf_init(&body, 256);
    buf_printf(&target, "/v1/sandboxes/%s/release", sandbox_id);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    if (generation > 0)
        json_put_u64(&o, "generation", generation);
    if (want_destroy) {
        json_put_bool(&o, "destroy", true);
        json_put_bool(&o, "quick", true); /* its report is not for us */
    }
    json_end(&o);
    json_out_finish(&o, &body);
    r = sp_call(c, "POST", buf_str(&target), buf_str(&body), &answer, failure);
    buf_fini(&target);
    buf_fini(&body);
    return r;
}
