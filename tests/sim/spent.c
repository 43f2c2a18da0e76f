/* spent.c - users whose budget is used up now and then: no acquire of theirs leads to a lease, and no lease of theirs is renewed.
 * What they have they keep. */
#include "world.h"

bool spent_ask(const struct world *w, const struct client *c, struct request *r)
{
    const struct pool_box *b = pool_find_sandbox(w->pool, c->sandbox_id);

    /* no random number: walks that found something stay what they are as far as they can */
    r->is_spent = w->steps / 64 % 4 == 3 && w->req % 3 == 0;
    r->had_lease = b != NULL && (b->state == POOL_LEASED || b->state == POOL_LEASING);
    return r->is_spent;
}

void spent_refused(struct world *w, const struct request *r, bool has_lease)
{
    w->spent_refused++;
    if (!r->is_spent)
        world_fail(w, "a caller was refused that has money");
    if (has_lease && r->kind == POOL_EV_ACQUIRE)
        world_fail(w, "a caller without money does not get the lease that it has");
}

void spent_served(struct world *w, const struct request *r)
{
    if (!r->is_spent)
        return;
    if (r->kind == POOL_EV_RENEW)
        world_fail(w, "a lease was renewed over budget");
    if (r->kind == POOL_EV_ACQUIRE && !r->had_lease)
        world_fail(w, "a box was leased over budget");
    w->spent_kept++;
}
