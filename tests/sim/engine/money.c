/* money.c - budgets: users have nothing left now and then. Then no acquire of theirs leads to a lease that costs something, and
 * none is renewed; what they have they keep. How the store counts is tested with the store. */
#include <string.h>

#include "base/str.h"
#include "store/budget.h"
#include "walk.h"

#define PHASE_NS (7 * NS_PER_S)

enum { AMOUNT = 8, RICH_SPENT = 4 }; /* a start costs 1: four acquires of a user may wait */

static bool is_poor(const char *user)
{
    return (hash_str(user) + walk_now() / PHASE_NS) % 4 == 0;
}

void store_get_budget(struct store *s UNUSED, const char *user, struct store_budget *ret)
{
    *ret = (struct store_budget){
        .has_amount = true, .amount = AMOUNT, .spent = is_poor(user) ? AMOUNT + 1 : RICH_SPENT};
}

uint64_t store_budget_ends(struct store *s UNUSED)
{
    return 0;
}

void money_config(struct config *c)
{
    str_copy_cut(c->budgets.currency, sizeof(c->budgets.currency), "EUR");
    for (unsigned i = 0; i < c->profile_count; i++) {
        struct config_profile *p = &c->profiles[i];

        if (hash_str(p->name) % 4 == 0)
            continue; /* free of charge */
        str_copy_cut(p->price.currency, sizeof(p->price.currency), "EUR");
        p->price.rates[CONFIG_RATE_START] = 1;
    }
}

static bool is_priced(unsigned profile)
{
    const struct config_profile *p = engine_profile(walk.engine, profile);

    return p != NULL && !str_is_empty(p->price.currency);
}

void money_asked(struct walk_request *r)
{
    const struct pool_box *b = pool_find_sandbox(engine_pool(walk.engine), r->sandbox_id);
    struct pool_stats stats;

    r->was_poor = is_poor(walk.clients[r->client].user);
    pool_get_stats(engine_pool(walk.engine), &stats);
    for (unsigned i = 0; i < stats.profile_count; i++)
        r->priced |= (is_priced(i) ? 1ULL : 0) << i;
    r->had_lease = (b != NULL && (b->state == POOL_LEASED || b->state == POOL_LEASING)) ||
                   callers_has_open(r->client); /* which asked when there was money */
}

void money_served(const struct pool_fx *fx, const struct walk_request *r)
{
    /* A profile may have got its price meanwhile. */
    if (!r->was_poor || !is_priced(fx->snapshot.profile) ||
        (r->priced >> fx->snapshot.profile & 1) == 0)
        return;
    if (r->kind == POOL_EV_RENEW)
        walk_fail("a lease was renewed over budget");
    if (r->kind == POOL_EV_ACQUIRE && !r->had_lease && fx->u.reply.source != POOL_SRC_DISCOVERED)
        walk_fail("a box was leased over budget");
}

void money_refused(const struct walk_request *r, bool has_lease)
{
    const struct engine_budget *b = &r->call.budget;
    bool has_money = !r->was_poor && !is_poor(walk.clients[r->client].user);

    if (has_money && b->under_way < AMOUNT - RICH_SPENT)
        walk_fail("a caller was refused that has money");
    if (b->limit != AMOUNT || b->spent != (has_money ? RICH_SPENT : b->spent) ||
        (b->spent != RICH_SPENT && b->spent != AMOUNT + 1))
        walk_fail("a refusal has wrong amounts");
    if (has_lease && r->kind == POOL_EV_ACQUIRE)
        walk_fail("a caller without money does not get the lease that it has");
}
