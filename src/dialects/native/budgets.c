/* budgets.c - /v1/budgets: what users may spend and have spent, for operators; and the refusal of who has nothing left. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "dialects/native/internal.h"

enum { PAGE_DEFAULT = 100, PAGE_MAX = 1000 };

struct budget_call {
    struct store_budget_call store;
    struct api *api;
    struct http_exchange *ex; /* NULL: the caller has gone */
    char user[POOL_OWNER_MAX + 1];
};

static void call_free(struct budget_call *c)
{
    store_budget_call_fini(&c->store);
    free(c);
}

static void put_sums(struct json_out *o, struct api *api, const struct engine_budget *b)
{
    const struct config *config = engine_config(api->engine);
    uint64_t ends_ms = engine_budget_ends(api->engine);
    char text[32];

    json_put_str(o, "currency", config->budgets.currency);
    api_put_amount(o, "limit", b->limit);
    api_put_amount(o, "spent", b->spent);
    str_iso8601(text, ends_ms);
    json_put_str(o, "ends_at", ends_ms != 0 ? text : NULL);
}

static void put_budget(struct json_out *o, struct api *api, const char *user,
                       const struct engine_budget *b)
{
    json_begin_obj(o, NULL);
    json_put_str(o, "user_id", user);
    json_put_bool(o, "is_default", !b->has_amount);
    api_put_amount(o, "amount", b->amount);
    api_put_amount(o, "credit", b->credit);
    put_sums(o, api, b);
    json_end(o);
}

void api_reply_spent(struct http_exchange *ex, const struct pool_fx *fx,
                     const struct engine_call *call)
{
    struct json_out o;

    if (fx->u.reply.code != SP_BUDGET_EXCEEDED) {
        api_reply_failure(ex, fx);
        return;
    }
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    api_put_failure(&o, fx, true); /* nothing of the host is in it */
    json_begin_obj(&o, "budget");
    put_sums(&o, api_of(ex), &call->budget);
    json_end(&o);
    json_end(&o);
    http_reply_json(ex, sp_error_info(SP_BUDGET_EXCEEDED)->http_status, &o);
}

/* Answers and returns false if there are no budgets, or the path names no user. */
static bool begin(struct http_exchange *ex, char user[POOL_OWNER_MAX + 1])
{
    const char *given = http_path_param(ex, "user");

    if (!engine_has_budgets(api_of(ex)->engine)) {
        http_reply_error(ex, SP_UNSUPPORTED,
                         "there are no budgets: set budgets.currency and restart the daemon (a "
                         "reload is not enough; boxes and leases stay)",
                         0);
        return false;
    }
    if (given == NULL)
        return true;
    if (str_copy(user, POOL_OWNER_MAX + 1, given) &&
        str_is_name(user, POOL_OWNER_MAX, API_USER_EXTRA))
        return true;
    http_reply_error(ex, SP_INVALID_FIELD, "the path must name a user", 0);
    return false;
}

static void reply_one(struct http_exchange *ex, const char *user)
{
    struct engine_budget b;
    struct json_out o;

    engine_get_budget(api_of(ex)->engine, user, &b);
    json_out_init(&o);
    put_budget(&o, api_of(ex), user, &b);
    http_reply_json(ex, 200, &o);
}

void api_budget(struct http_exchange *ex)
{
    char user[POOL_OWNER_MAX + 1];

    rt_refresh(engine_rt(api_of(ex)->engine));
    if (begin(ex, user))
        reply_one(ex, user);
}

/* --- calls that wait for the store --- */

static void on_gone(void *ctx)
{
    struct budget_call *c = ctx;

    c->ex = NULL; /* it is done all the same; on_done() frees */
}

static void reply_list(struct budget_call *c)
{
    struct store_budget_call *s = &c->store;
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_begin_arr(&o, "budgets");
    for (unsigned i = 0; i < s->count; i++) {
        struct engine_budget b;

        engine_fill_budget(c->api->engine, &s->lines[i].budget, &b);
        put_budget(&o, c->api, s->lines[i].user, &b);
    }
    json_end(&o);
    json_put_str(&o, "next_cursor", s->has_more ? s->lines[s->count - 1].user : NULL);
    json_end(&o);
    http_reply_json(c->ex, 200, &o);
}

static void on_done(void *ctx, const struct err *err)
{
    struct budget_call *c = ctx;

    if (c->ex == NULL)
        ;
    else if (err != NULL)
        http_reply_err(c->ex, err);
    else if (c->store.is_full)
        http_reply_error(c->ex, SP_INVALID_FIELD, "too many users have budgets of their own", 0);
    else if (c->store.deed == STORE_BUDGET_LIST)
        reply_list(c);
    else
        reply_one(c->ex, c->user);
    call_free(c);
}

static void start(struct http_exchange *ex, const struct budget_call *with)
{
    struct budget_call *c = xcalloc(1, sizeof(*c));

    *c = *with;
    c->api = api_of(ex);
    c->ex = ex;
    c->store.user = c->user;
    http_set_ctx(ex, c, on_gone);
    engine_budget_call(c->api->engine, &c->store, on_done, c);
}

void api_budgets(struct http_exchange *ex)
{
    struct budget_call c = {.store = {.deed = STORE_BUDGET_LIST}};
    uint64_t limit = PAGE_DEFAULT;
    char text[8];

    if (!begin(ex, c.user))
        return;
    if ((http_query(ex, "cursor", c.user, sizeof(c.user)) && strcmp(c.user, HTTP_QUERY_BAD) == 0) ||
        (http_query(ex, "limit", text, sizeof(text)) &&
         !str_parse_u64(text, 1, PAGE_MAX, &limit))) {
        http_reply_error(ex, SP_INVALID_FIELD,
                         "'limit' must be 1 to 1000, 'cursor' what next_cursor said", 0);
        return;
    }
    c.store.max = (unsigned) limit;
    start(ex, &c);
}

/* Answers and returns false if there is no valid amount. */
static bool read_amount(struct http_exchange *ex, bool may_be_null, struct store_budget_call *ret)
{
    struct json_doc *doc = api_parse_body(ex);
    const struct json *amount;
    const char *text;
    bool is_good;

    if (doc == NULL)
        return false;
    amount = json_get(json_root(doc), "amount");
    text = json_str(amount);
    is_good = json_len(json_root(doc)) == 1 &&
              (text != NULL ? config_parse_micros(text, CONFIG_BUDGET_MAX, &ret->amount)
                            : may_be_null && amount != NULL && json_is_null(amount));
    if (is_good && text == NULL)
        ret->deed = STORE_BUDGET_DEFAULT;
    (void) json_doc_free(doc);
    if (!is_good)
        http_reply_error(ex, SP_INVALID_FIELD,
                         may_be_null ? "the body must be {\"amount\": \"12.50\"}, or null for the "
                                       "default"
                                     : "the body must be {\"amount\": \"12.50\"}",
                         0);
    return is_good;
}

void api_budget_set(struct http_exchange *ex)
{
    struct budget_call c = {.store = {.deed = STORE_BUDGET_SET}};

    if (begin(ex, c.user) && read_amount(ex, true, &c.store))
        start(ex, &c);
}

void api_budget_credit(struct http_exchange *ex)
{
    struct budget_call c = {.store = {.deed = STORE_BUDGET_CREDIT}};

    if (begin(ex, c.user) && read_amount(ex, false, &c.store))
        start(ex, &c);
}
