/* sandbox.c - one sandbox, all of them, their leases. */
#include "sandpool/sandbox.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "client/internal.h"

enum { PAGE = 1000 };

bool client_take(const struct json *obj, const char *key, char *dst, size_t cap)
{
    const char *s = json_str(json_get(obj, key));

    return str_copy(dst, cap, s != NULL ? s : "");
}

void client_put_id(struct buf *target, const char *id)
{
    buf_puts(target, "/v1/sandboxes/");
    buf_put_escaped(target, id);
}

void client_put_query(struct buf *target, const char *key, const char *value)
{
    if (value == NULL)
        return;
    buf_putc(target, memchr(target->data, '?', target->len) == NULL ? '?' : '&');
    buf_printf(target, "%s=", key);
    buf_put_escaped(target, value);
}

void client_put_query_u64(struct buf *target, const char *key, uint64_t value)
{
    char text[24];

    (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) value);
    client_put_query(target, key, value > 0 ? text : NULL);
}

int client_ask(struct sp_client *c, const char *method, struct buf *target, struct buf *body,
               struct json_doc **ret, struct sp_failure *f)
{
    AUTO_FREE char *answer = NULL;
    int r;

    if (buf_failed(target) || (body != NULL && buf_failed(body)))
        r = client_fail(f, SP_TOO_BIG, "the request is too large");
    else
        r = sp_call(c, method, buf_str(target), body != NULL ? buf_str(body) : NULL, &answer, f);
    buf_fini(target);
    if (body != NULL)
        buf_fini(body);
    if (r != SP_OK)
        return r;
    assert(answer != NULL); /* an empty one is "" */
    *ret = json_parse(answer, strlen(answer), CLIENT_BODY_MAX, NULL);
    if (json_is_obj(json_root(*ret)))
        return SP_OK;
    *ret = json_doc_free(*ret);
    return client_fail(f, SP_PROTOCOL, "the daemon's answer is not an object");
}

int client_walk(struct sp_client *c, const char *target, const char *list, const char *next,
                const char *after, bool (*on_item)(void *ctx, const struct json *item), void *ctx,
                struct sp_failure *f)
{
    char cursor[256] = "";
    bool is_wanted = true;

    do {
        struct json_walk walk = {0};
        struct json_doc *doc = NULL;
        const struct json *items;
        const struct json *item;
        struct buf page;
        int r;

        buf_init(&page, CLIENT_TARGET_MAX);
        buf_puts(&page, target);
        client_put_query(&page, after, cursor[0] != '\0' ? cursor : NULL);
        r = client_ask(c, "GET", &page, NULL, &doc, f);
        if (r != SP_OK)
            return r;
        items = json_get(json_root(doc), list);
        while (is_wanted && (item = json_next(items, &walk)) != NULL)
            is_wanted = on_item(ctx, item);
        if (!json_is_arr(items) || !client_take(json_root(doc), next, cursor, sizeof(cursor))) {
            (void) json_doc_free(doc);
            return client_fail(f, SP_PROTOCOL, "the daemon's answer is not a page of %s", list);
        }
        (void) json_doc_free(doc);
    } while (is_wanted && cursor[0] != '\0');
    return SP_OK;
}

static int fail_sandbox(struct sp_failure *f)
{
    return client_fail(f, SP_PROTOCOL, "the daemon's answer is not a sandbox");
}

static bool read_sandbox(const struct json *o, struct sp_sandbox *ret)
{
    const struct json *alive = json_get(o, "alive");
    const struct json *ends_in_s = json_get(o, "ends_in_s");

    memset(ret, 0, sizeof(*ret));
    ret->is_paused = json_bool(json_get(o, "paused"));
    ret->is_alive_known = json_is_bool(alive);
    ret->is_alive = json_bool(alive);
    ret->ends_in_s = json_is_num(ends_in_s) ? json_num(ends_in_s) : -1;
    return json_u64(json_get(o, "generation"), &ret->generation) &&
           client_take(o, "sandbox_id", ret->sandbox_id, sizeof(ret->sandbox_id)) &&
           client_take(o, "box_id", ret->box_id, sizeof(ret->box_id)) &&
           !str_is_empty(ret->box_id) && client_take(o, "state", ret->state, sizeof(ret->state)) &&
           client_take(o, "profile", ret->profile, sizeof(ret->profile)) &&
           client_take(o, "user_id", ret->user_id, sizeof(ret->user_id)) &&
           client_take(o, "thread_id", ret->thread_id, sizeof(ret->thread_id)) &&
           client_take(o, "sandbox_url", ret->sandbox_url, sizeof(ret->sandbox_url)) &&
           client_take(o, "created_at", ret->created_at, sizeof(ret->created_at)) &&
           client_take(o, "expires_at", ret->expires_at, sizeof(ret->expires_at)) &&
           client_take(o, "ends_by", ret->ends_by, sizeof(ret->ends_by));
}

/* Sends what was built and reads a sandbox. */
static int ask_sandbox(struct sp_client *c, const char *method, struct buf *target,
                       struct buf *body, struct sp_sandbox *ret, struct sp_failure *f)
{
    struct json_doc *doc = NULL;
    struct sp_sandbox other;
    int r = client_ask(c, method, target, body, &doc, f);

    if (r == SP_OK && !read_sandbox(json_root(doc), ret != NULL ? ret : &other))
        r = fail_sandbox(f);
    (void) json_doc_free(doc);
    return r;
}

int sp_sandbox_get(struct sp_client *c, const char *id, bool want_alive, struct sp_sandbox *ret,
                   struct sp_failure *failure)
{
    struct buf target;

    buf_init(&target, CLIENT_TARGET_MAX);
    client_put_id(&target, id);
    client_put_query(&target, "alive", want_alive ? "1" : NULL);
    return ask_sandbox(c, "GET", &target, NULL, ret, failure);
}

int sp_destroy(struct sp_client *c, const char *id, uint64_t generation, bool want_quick,
               struct sp_failure *failure)
{
    struct buf target;

    buf_init(&target, CLIENT_TARGET_MAX);
    client_put_id(&target, id);
    client_put_query_u64(&target, "generation", generation);
    client_put_query(&target, "quick", want_quick ? "1" : NULL);
    return ask_sandbox(c, "DELETE", &target, NULL, NULL, failure);
}

static int change(struct sp_client *c, const char *id, const char *what, uint64_t generation,
                  uint64_t ttl_s, struct sp_sandbox *ret, struct sp_failure *f)
{
    struct json_out o;
    struct buf target;
    struct buf body;

    buf_init(&target, CLIENT_TARGET_MAX);
    buf_init(&body, 256);
    client_put_id(&target, id);
    buf_puts(&target, what);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    if (generation > 0)
        json_put_u64(&o, "generation", generation);
    if (ttl_s > 0)
        json_put_u64(&o, "ttl_s", ttl_s);
    json_end(&o);
    json_out_finish(&o, &body);
    return ask_sandbox(c, "POST", &target, &body, ret, f);
}

int sp_renew(struct sp_client *c, const char *id, uint64_t generation, uint64_t ttl_s,
             struct sp_sandbox *ret, struct sp_failure *failure)
{
    return change(c, id, "/renew", generation, ttl_s, ret, failure);
}

int sp_pause(struct sp_client *c, const char *id, uint64_t generation, struct sp_sandbox *ret,
             struct sp_failure *failure)
{
    return change(c, id, "/pause", generation, 0, ret, failure);
}

int sp_resume(struct sp_client *c, const char *id, uint64_t generation, struct sp_sandbox *ret,
              struct sp_failure *failure)
{
    return change(c, id, "/resume", generation, 0, ret, failure);
}

/* --- all of them --- */

struct listing {
    bool (*on_sandbox)(void *ctx, const struct sp_sandbox *s);
    void *ctx;
    bool is_bad;
};

static bool on_item(void *ctx, const struct json *item)
{
    struct listing *l = ctx;
    struct sp_sandbox s;

    l->is_bad = !read_sandbox(item, &s);
    return !l->is_bad && l->on_sandbox(l->ctx, &s);
}

int sp_sandbox_list(struct sp_client *c, const struct sp_sandbox_filter *filter,
                    bool (*on_sandbox)(void *ctx, const struct sp_sandbox *s), void *ctx,
                    struct sp_failure *failure)
{
    static const struct sp_sandbox_filter none = {0};
    const struct sp_sandbox_filter *by = filter != NULL ? filter : &none;
    struct listing l = {.on_sandbox = on_sandbox, .ctx = ctx};
    struct buf target;
    int r;

    buf_init(&target, CLIENT_TARGET_MAX);
    buf_puts(&target, "/v1/sandboxes");
    client_put_query_u64(&target, "limit", PAGE);
    client_put_query(&target, "state", by->state);
    client_put_query(&target, "profile", by->profile);
    client_put_query(&target, "user_id", by->user_id);
    client_put_query(&target, "thread_id", by->thread_id);
    r = buf_failed(&target) ? client_fail(failure, SP_TOO_BIG, "the request is too large")
                            : client_walk(c, buf_str(&target), "sandboxes", "next_cursor", "cursor",
                                          on_item, &l, failure);
    buf_fini(&target);
    return r == SP_OK && l.is_bad ? fail_sandbox(failure) : r;
}
