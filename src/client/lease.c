/* lease.c - acquire and release with typed arguments, for programs that call them in a loop. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "client/internal.h"

enum { REQUEST_MAX = 1024 * 1024 };

static void put_str(struct json_out *o, const char *key, const char *v)
{
    if (v != NULL)
        json_put_str(o, key, v);
}

void client_put_pairs(struct json_out *o, const char *key, const struct sp_env *pairs, size_t count)
{
    if (count == 0)
        return;
    json_begin_obj(o, key);
    for (size_t i = 0; i < count; i++)
        json_put_str(o, pairs[i].name, pairs[i].value);
    json_end(o);
}

void client_put_times(struct json_out *o, bool has_wait, uint64_t wait_ms, uint64_t ttl_s,
                      uint64_t idle_timeout_s)
{
    if (has_wait)
        json_put_u64(o, "wait_ms", wait_ms);
    if (ttl_s > 0)
        json_put_u64(o, "ttl_s", ttl_s);
    if (idle_timeout_s > 0)
        json_put_u64(o, "idle_timeout_s", idle_timeout_s);
}

static void put_extras(struct json_out *o, const struct sp_acquire *a)
{
    client_put_pairs(o, "envs", a->envs, a->env_count);
    client_put_pairs(o, "labels", a->labels, a->label_count);
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
    put_str(&o, "snapshot_id", a->snapshot_id);
    put_str(&o, "network", a->network);
    client_put_times(&o, a->has_wait, a->wait_ms, a->ttl_s, a->idle_timeout_s);
    if (a->metadata_json != NULL)
        json_put_raw(&o, "metadata", a->metadata_json);
    put_extras(&o, a);
    json_end(&o);
    json_out_finish(&o, out);
}

bool client_read_lease(const struct json *o, struct sp_lease *ret)
{
    memset(ret, 0, sizeof(*ret));
    return json_u64(json_get(o, "generation"), &ret->generation) &&
           client_take(o, "sandbox_id", ret->sandbox_id, sizeof(ret->sandbox_id)) &&
           !str_is_empty(ret->sandbox_id) &&
           client_take(o, "box_id", ret->box_id, sizeof(ret->box_id)) &&
           client_take(o, "sandbox_url", ret->sandbox_url, sizeof(ret->sandbox_url)) &&
           client_take(o, "token", ret->token, sizeof(ret->token)) &&
           client_take(o, "source", ret->source, sizeof(ret->source)) &&
           client_take(o, "state", ret->state, sizeof(ret->state));
}

int sp_acquire(struct sp_client *c, const struct sp_acquire *a, struct sp_lease *ret,
               struct sp_failure *failure)
{
    uint64_t timeout_ms = c->timeout_ms;
    struct json_doc *doc = NULL;
    struct buf target;
    struct buf body;
    int r;

    buf_init(&target, CLIENT_TARGET_MAX);
    buf_init(&body, REQUEST_MAX);
    buf_puts(&target, "/v1/acquire");
    encode_acquire(a, &body);
    if (a->has_wait)
        c->timeout_ms += MIN_OF(a->wait_ms, (uint64_t) 24 * 60 * 60 * 1000);
    r = client_ask(c, "POST", &target, &body, &doc, failure);
    c->timeout_ms = timeout_ms;
    if (r == SP_OK && !client_read_lease(json_root(doc), ret))
        r = client_fail(failure, SP_PROTOCOL, "the daemon's answer is not a lease");
    (void) json_doc_free(doc);
    return r;
}

int sp_release(struct sp_client *c, const char *id, uint64_t generation, bool want_destroy,
               struct sp_failure *failure)
{
    struct json_doc *doc = NULL;
    struct json_out o;
    struct buf target;
    struct buf body;
    int r;

    buf_init(&target, CLIENT_TARGET_MAX);
    buf_init(&body, 256);
    client_put_id(&target, id);
    buf_puts(&target, "/release");
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
    r = client_ask(c, "POST", &target, &body, &doc, failure);
    (void) json_doc_free(doc);
    return r;
}
