/* budget.c - whether a user has money left: asked once for each acquire and renew, in the rows that the store keeps in memory.
 * The pool only learns that there is none, and what follows from it; how much it was is said here. */
#include "store/budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/internal.h"

static_assert(CONFIG_BUDGET_MAX == STORE_BUDGET_MAX, "amounts");

bool engine_has_budgets(const struct engine *e)
{
    return !str_is_empty(e->config->config->budgets.currency);
}

uint64_t engine_budget_ends(struct engine *e)
{
    return store_budget_ends(e->store);
}

void engine_fill_budget(const struct engine *e, const struct store_budget *from,
                        struct engine_budget *ret)
{
    ret->has_amount = from->has_amount;
    ret->amount = from->has_amount ? from->amount : e->config->config->budgets.amount;
    ret->credit = from->credit;
    ret->limit = ret->amount + ret->credit; /* each is far below the half */
    ret->spent = from->spent;
}

void engine_get_budget(struct engine *e, const char *user, struct engine_budget *ret)
{
    struct store_budget b;

    store_get_budget(e->store, user, &b);
    engine_fill_budget(e, &b, ret);
}

/* Boxes that cost nothing are not refused. */
static bool is_priced(const struct engine *e, unsigned profile)
{
    const struct engine_price *p = &e->usage.prices[profile];
    bool has_rate;

    if (profile >= POOL_PROFILES_MAX || !p->is_known)
        return false;
    has_rate = p->per_hour > 0 || p->per_start > 0;
    for (unsigned i = 0; i < STORE_RATE_COUNT; i++)
        has_rate = has_rate || p->per_use[i] > 0;
    return has_rate && strcmp(p->currency, e->config->config->budgets.currency) == 0;
}

/* --- what acquires under way will cost, so that many at once do not spend the same money --- */

struct engine_spender {
    struct map_node node;
    uint64_t held;
    unsigned calls;
    char user[];
};

static bool is_spender(const struct map_node *node, const void *key)
{
    return strcmp(container_of(node, struct engine_spender, node)->user, key) == 0;
}

static struct engine_spender *spender_find(const struct engine *e, const char *user)
{
    struct map_node *n = map_find(&e->spenders, hash_str(user), is_spender, user);

    return n != NULL ? container_of(n, struct engine_spender, node) : NULL;
}

/* A box that is given to it costs this at once; its time is another matter. */
static void hold_money(struct engine *e, const char *user, unsigned profile, struct req_id req)
{
    struct engine_call *call = engine_call_find(e, req);
    struct engine_spender *s;

    if (call == NULL || call->spender != NULL || !is_priced(e, profile) ||
        e->usage.prices[profile].per_start == 0)
        return;
    s = spender_find(e, user);
    if (s == NULL) {
        s = xcalloc(1, sizeof(*s) + strlen(user) + 1);
        memcpy(s->user, user, strlen(user) + 1);
        map_insert(&e->spenders, &s->node, hash_str(user));
    }
    call->spender = s;
    call->held_money = e->usage.prices[profile].per_start;
    s->held += call->held_money;
    s->calls++;
}

void budget_release(struct engine *e, struct engine_call *call)
{
    struct engine_spender *s = TAKE_PTR(call->spender);

    if (s == NULL)
        return;
    s->held -= call->held_money;
    s->calls--;
    if (s->calls > 0)
        return;
    map_remove(&e->spenders, &s->node);
    free(s);
}

static_assert(POOL_PROFILES_MAX <= 64, "bits");

/* All is spent, or held by acquires under way. */
static bool has_none_left(struct engine *e, const char *user, struct req_id req)
{
    const struct engine_spender *s = spender_find(e, user);
    struct engine_call *call;
    struct engine_budget b;

    engine_get_budget(e, user, &b);
    b.under_way = s != NULL ? s->held : 0;
    if (b.spent + b.under_way < b.limit)
        return false;
    call = engine_call_find(e, req);
    if (call != NULL)
        call->budget = b;
    return true;
}

static bool is_spent(struct engine *e, const char *user, unsigned profile, struct req_id req)
{
    return is_priced(e, profile) && has_none_left(e, user, req);
}

/* The profiles (bits) whose boxes the user cannot pay. */
static uint64_t spent_at(struct engine *e, const char *user, struct req_id req)
{
    uint64_t ret = 0;

    if (!has_none_left(e, user, req))
        return 0;
    for (unsigned i = 0; i < POOL_PROFILES_MAX; i++)
        ret |= (is_priced(e, i) ? 1ULL : 0) << i;
    return ret;
}

void budget_judge(struct engine *e, struct pool_event *ev)
{
    const struct pool_box *box;

    if (ev->kind == POOL_EV_ACQUIRE) {
        struct pool_acquire *a = &ev->u.acquire;

        /* its own box may be of another profile; if that has died, there is a new one of this */
        box = a->is_profile_named ? NULL : pool_find_sandbox(e->pool, a->sandbox_id);
        a->spent_at = spent_at(e, a->user, ev->req);
        a->is_spent = (a->profile < POOL_PROFILES_MAX && (a->spent_at >> a->profile & 1) != 0) ||
                      (box != NULL && (a->spent_at >> box->profile & 1) != 0);
        if (!a->is_spent && pool_find_sandbox(e->pool, a->sandbox_id) == NULL)
            hold_money(e, a->user, a->profile, ev->req);
    } else {
        box = ev->box.v != 0 ? pool_find_box(e->pool, ev->box)
                             : pool_find_sandbox(e->pool, ev->u.on.sandbox_id);
        ev->u.on.is_spent = box != NULL && is_spent(e, box->user, box->profile, ev->req);
    }
}

void budget_explain(struct engine *e, const struct engine_call *call, struct pool_fx *fx)
{
    uint64_t ends_ms = engine_budget_ends(e);
    char spent[CONFIG_MICROS_MAX];
    char limit[CONFIG_MICROS_MAX];
    char until[64] = "";
    char under_way[80] = "";
    char whole[400];

    config_print_micros(call->budget.spent, spent);
    config_print_micros(call->budget.limit, limit);
    if (ends_ms != 0) {
        char text[32];

        str_iso8601(text, ends_ms);
        (void) snprintf(until, sizeof(until), "; the next period begins at %.24s", text);
    }
    if (call->budget.spent < call->budget.limit) {
        char text[CONFIG_MICROS_MAX];

        config_print_micros(call->budget.under_way, text);
        (void) snprintf(under_way, sizeof(under_way), ", and acquires that wait will cost %s",
                        text);
    }
    (void) snprintf(whole, sizeof(whole), "%s of %s %s are spent%s%s", spent, limit,
                    e->config->config->budgets.currency, under_way, until);
    str_copy_cut(fx->reason, sizeof(fx->reason), whole);
}

/* --- calls of operators --- */

struct budget_write {
    struct store_write write;
    struct engine *engine;
    void (*on_done)(void *ctx, const struct err *err);
    void *ctx;
};

static void on_written(struct op *op)
{
    struct budget_write *w = container_of(op, struct budget_write, write.op);
    struct engine *e = w->engine;

    if (op->result == SP_OK && !w->write.u.budget->is_full)
        event_budget(e, w->write.u.budget);
    w->on_done(w->ctx, op->result == SP_OK ? NULL : &op->err);
    free(w);
    engine_op_ended(e);
}

void engine_budget_call(struct engine *e, struct store_budget_call *c,
                        void (*on_done)(void *ctx, const struct err *err), void *ctx)
{
    struct budget_write *w = xcalloc(1, sizeof(*w));

    w->engine = e;
    w->on_done = on_done;
    w->ctx = ctx;
    w->write.kind = STORE_BUDGET;
    w->write.want_power = c->deed != STORE_BUDGET_LIST;
    w->write.u.budget = c;
    engine_op_begun(e);
    store_submit(e->store, &w->write, on_written);
}
