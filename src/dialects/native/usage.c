/* usage.c - GET /v1/usage: metered time and what it cost, added up or interval by interval. The store's thread reads it in
 * steps, so that many rows hold nobody up. A caller sees the time of boxes that it acquired; operators see all. */
#include "dialects/native/usage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

enum { PAGE_DEFAULT = 100, PAGE_MAX = 1000, SUMS_MAX = 10000, RETRY_MS = 1000 };

static const struct {
    const char *name;
    unsigned bit;
} groups[] = {{"user", STORE_BY_USER},
              {"thread", STORE_BY_THREAD},
              {"sandbox", STORE_BY_SANDBOX},
              {"profile", STORE_BY_PROFILE},
              {"principal", STORE_BY_PRINCIPAL}};

static void query_free(struct usage_query *q)
{
    store_usage_fini(&q->usage);
    free(q);
}

/* --- the parameters --- */

static bool text_of(struct http_exchange *ex, const char *name, char *dst, size_t cap,
                    const char **ret)
{
    if (!http_query(ex, name, dst, cap))
        return true;
    *ret = dst;
    return strcmp(dst, HTTP_QUERY_BAD) != 0;
}

static bool read_names(struct http_exchange *ex, struct usage_query *q)
{
    struct store_usage *u = &q->usage;

    return text_of(ex, "user_id", q->user, sizeof(q->user), &u->user) &&
           text_of(ex, "thread_id", q->thread, sizeof(q->thread), &u->thread) &&
           text_of(ex, "profile", q->profile, sizeof(q->profile), &u->profile);
}

/* Also by its thread: what is metered is of an id. */
static bool read_sandbox(struct http_exchange *ex, struct usage_query *q)
{
    char id[2 * POOL_OWNER_MAX + 16];
    struct box_id box;

    if (!http_query(ex, "sandbox_id", id, sizeof(id)))
        return true;
    q->usage.sandbox_id = q->sandbox_id;
    return api_parse_id(id, q->sandbox_id, &box) && box.v == 0;
}

/* A uid, or 16 hex digits as shown. Others see their own whatever they ask for. */
static bool read_principal(struct http_exchange *ex, const struct api_caller *caller,
                           struct store_usage *u)
{
    char text[24];
    bool is_good = true;

    u->has_principal = http_query(ex, "principal", text, sizeof(text));
    if (u->has_principal)
        is_good = api_parse_principal(text, &u->principal);
    if (!caller->is_operator && u->has_principal && u->principal != caller->principal)
        u->max = 0;
    if (!caller->is_operator) {
        u->has_principal = true;
        u->principal = caller->principal;
    }
    return is_good;
}

#define TIME_MAX_MS 253402300799999 /* the end of the year 9999 */

static bool time_of(struct http_exchange *ex, const char *name, uint64_t *ret)
{
    char text[24];

    return !http_query(ex, name, text, sizeof(text)) || str_parse_u64(text, 1, TIME_MAX_MS, ret);
}

static bool read_groups(struct http_exchange *ex, struct store_usage *u)
{
    char text[80];
    char *rest = text;
    char *name;

    if (!http_query(ex, "group_by", text, sizeof(text)))
        str_copy_cut(text, sizeof(text), "user");
    while ((name = strsep(&rest, ",")) != NULL) {
        size_t i = 0;

        while (i < ARRAY_LEN(groups) && strcmp(groups[i].name, name) != 0)
            i++;
        if (i < ARRAY_LEN(groups))
            u->by |= groups[i].bit;
        else if (!str_is_empty(text)) /* empty: one sum of all */
            return false;
    }
    return true;
}

/* "open:" or "closed:" and the place of the last one. */
static bool read_cursor(struct http_exchange *ex, struct store_usage *u)
{
    char text[40];
    uint64_t place;

    if (!http_query(ex, "cursor", text, sizeof(text)))
        return true;
    u->is_past_open = strncmp(text, "closed:", 7) == 0;
    u->has_place = true;
    if (!u->is_past_open && strncmp(text, "open:", 5) != 0)
        return false;
    if (!str_parse_hex64(text + (u->is_past_open ? 7 : 5), &place))
        return false;
    u->place = (int64_t) place;
    return true;
}

static bool read_page(struct http_exchange *ex, struct store_usage *u)
{
    uint64_t limit = PAGE_DEFAULT;
    char text[24];

    if (http_query(ex, "limit", text, sizeof(text)) && !str_parse_u64(text, 1, PAGE_MAX, &limit))
        return false;
    u->max = (unsigned) limit;
    return read_cursor(ex, u);
}

static bool read_format(struct http_exchange *ex, struct usage_query *q)
{
    char text[8];

    if (!http_query(ex, "format", text, sizeof(text)))
        return true;
    q->want_csv = strcmp(text, "csv") == 0;
    return q->want_csv || strcmp(text, "json") == 0;
}

static const char *read_all(struct http_exchange *ex, struct usage_query *q)
{
    struct store_usage *u = &q->usage;
    char text[8];

    u->want_rows = http_query(ex, "intervals", text, sizeof(text)) && strcmp(text, "1") == 0;
    u->max = SUMS_MAX;
    if (!read_names(ex, q))
        return "'user_id', 'thread_id' and 'profile' must be short texts";
    if (!read_sandbox(ex, q))
        return "'sandbox_id' must be the id of a sandbox, or thread:<user>/<thread>";
    if (!time_of(ex, "since_ms", &u->since_ms) || !time_of(ex, "until_ms", &u->until_ms))
        return "'since_ms' and 'until_ms' must be milliseconds since 1970, before the year 10000";
    if (u->want_rows ? !read_page(ex, u) : !read_groups(ex, u))
        return u->want_rows ? "'limit' must be 1 to 1000, 'cursor' what next_cursor said"
                            : "'group_by' must be some of user, thread, sandbox, profile, "
                              "principal, with commas between";
    if (!read_format(ex, q))
        return "'format' must be json or csv";
    if (!read_principal(ex, &q->caller, u))
        return "'principal' must be a user id, or 16 hex digits";
    return NULL;
}

/* --- steps --- */

static void step(struct usage_query *q);

static void on_gone(void *ctx)
{
    struct usage_query *q = ctx;

    q->ex = NULL; /* the step that runs still ends; on_step() frees */
}

static void on_step(void *ctx, const struct err *err)
{
    struct usage_query *q = ctx;

    if (q->ex != NULL && err == NULL && !q->usage.is_end) {
        step(q);
        return;
    }
    if (q->ex != NULL && err != NULL)
        http_reply_err(q->ex, err);
    else if (q->ex != NULL && q->usage.is_cut && !q->usage.want_rows)
        http_reply_error(q->ex, SP_INVALID_FIELD,
                         "there are more than 10000 sums: ask for fewer, by 'group_by', a name or "
                         "a range of time",
                         0);
    else if (q->ex != NULL && q->usage.is_unsteady)
        http_reply_error(q->ex, SP_STORE_UNAVAILABLE,
                         "intervals are being added up at this moment: try again", RETRY_MS);
    else if (q->ex != NULL)
        api_reply_usage(q);
    query_free(q);
}

static void step(struct usage_query *q)
{
    engine_read_usage(q->api->engine, &q->usage, on_step, q);
}

void api_usage(struct http_exchange *ex)
{
    struct usage_query *q = xcalloc(1, sizeof(*q));
    const struct rt *rt;
    const char *trouble;

    q->api = api_of(ex);
    q->ex = ex;
    rt = engine_rt(q->api->engine);
    store_usage_init(&q->usage);
    (void) api_identify(ex, &q->caller); /* the guard has let it in */
    trouble = read_all(ex, q);
    if (trouble != NULL) {
        http_reply_error(ex, SP_INVALID_FIELD, trouble, 0);
        query_free(q);
        return;
    }
    q->skew_ms = rt->wall_offset_ms - rt->stored_offset_ms;
    q->usage.since_ms = usage_stored(q, q->usage.since_ms);
    if (q->usage.until_ms != UINT64_MAX)
        q->usage.until_ms = usage_stored(q, q->usage.until_ms);
    if (q->usage.max == 0) { /* the time of another caller */
        api_reply_usage(q);
        query_free(q);
        return;
    }
    http_set_ctx(ex, q, on_gone);
    step(q);
}
