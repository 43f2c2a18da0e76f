/* usage.c - what leases would cost and have cost. */
#include "client/internal.h"
#include "sandpool/sandbox.h"

static int ask(struct sp_client *c, struct buf *target, char **ret_json, struct sp_failure *f)
{
    int r = buf_failed(target) ? client_fail(f, SP_TOO_BIG, "the request is too large")
                               : sp_call(c, "GET", buf_str(target), NULL, ret_json, f);

    buf_fini(target);
    return r;
}

int sp_quote(struct sp_client *c, const char *profile, uint64_t duration_s, char **ret_json,
             struct sp_failure *failure)
{
    struct buf target;

    buf_init(&target, CLIENT_TARGET_MAX);
    buf_puts(&target, "/v1/quote");
    client_put_query(&target, "profile", profile);
    client_put_query_u64(&target, "duration_s", duration_s);
    return ask(c, &target, ret_json, failure);
}

int sp_usage(struct sp_client *c, const struct sp_usage *usage, char **ret_json,
             struct sp_failure *failure)
{
    static const struct sp_usage all = {0};
    const struct sp_usage *u = usage != NULL ? usage : &all;
    struct buf target;

    buf_init(&target, CLIENT_TARGET_MAX);
    buf_puts(&target, "/v1/usage");
    client_put_query(&target, "group_by", u->group_by);
    client_put_query(&target, "intervals", u->want_intervals ? "1" : NULL);
    client_put_query(&target, "user_id", u->user_id);
    client_put_query(&target, "thread_id", u->thread_id);
    client_put_query(&target, "sandbox_id", u->sandbox_id);
    client_put_query(&target, "profile", u->profile);
    client_put_query(&target, "principal", u->principal);
    client_put_query_u64(&target, "since_ms", u->since_ms);
    client_put_query_u64(&target, "until_ms", u->until_ms);
    client_put_query_u64(&target, "limit", u->limit);
    client_put_query(&target, "cursor", u->cursor);
    return ask(c, &target, ret_json, failure);
}
