/* quotas.c - walks in which callers have quotas: nobody gets more than its quota, and nobody is refused that has less. */
#include "world.h"

/* No random number: walks that found something stay what they are. */
void quotas_init(struct world *w)
{
    struct pool_quota *caller = &w->config.quotas[POOL_LEVEL_CALLER];
    struct pool_quota *user = &w->config.quotas[POOL_LEVEL_USER];

    w->config.has_quotas = w->seed % 4 == 3;
    if (!w->config.has_quotas)
        return;
    caller->boxes = 1 + (unsigned) (w->seed / 4 % 4);
    caller->waiting = (unsigned) (w->seed / 16 % 3);
    user->boxes = (unsigned) (w->seed / 48 % 3);
    user->per_minute = w->seed / 144 % 2 == 0 ? 0 : 20;
}

static unsigned limit_of(const struct world *w)
{
    unsigned caller = w->config.quotas[POOL_LEVEL_CALLER].boxes;
    unsigned user = w->config.quotas[POOL_LEVEL_USER].boxes;

    /* each caller has one user, but for those who ask wrongly and get nothing */
    return user > 0 && user < caller ? user : caller;
}

/* One that is being released may count as well. */
static unsigned held_by(const struct world *w, uint64_t principal)
{
    unsigned count = 0;

    for (size_t i = 0; i < pool_slot_count(w->pool); i++) {
        const struct pool_box *b = pool_slot(w->pool, i);

        if (b != NULL && b->sandbox_id[0] != '\0' && b->principal == principal &&
            (b->state == POOL_INTENT || b->state == POOL_CREATING || b->state == POOL_STARTING ||
             b->state == POOL_LEASING || b->state == POOL_LEASED))
            count++;
    }
    return count;
}

static unsigned open_acquires(const struct world *w, uint64_t principal)
{
    unsigned count = 0;

    for (uint64_t i = 1; i <= w->req; i++) {
        const struct request *r = &w->requests[i];

        count += r->is_open && r->kind == POOL_EV_ACQUIRE &&
                         clients_principal(&w->clients[r->client]) == principal
                     ? 1
                     : 0;
    }
    return count;
}

/* Boxes that were there already, or that a backend shows, nobody has asked for; acquires that waited at that time still get
 * theirs. */
void quotas_check(struct world *w, const struct pool_event *ev)
{
    bool may_find = ev == NULL || ev->kind == POOL_EV_LISTED || ev->kind == POOL_EV_DISCOVERED;

    for (size_t i = 0; w->config.has_quotas && i < WORLD_USERS; i++) {
        unsigned held = held_by(w, WORLD_PRINCIPAL + i);
        unsigned reach = held + open_acquires(w, WORLD_PRINCIPAL + i);

        if (held > limit_of(w) && held > w->over[i] && !may_find)
            world_fail(w, "a caller has more boxes than its quota");
        if (may_find || w->over[i] > reach)
            w->over[i] = reach;
    }
}

static unsigned releasing(const struct world *w, uint64_t principal)
{
    unsigned count = 0;

    for (size_t i = 0; i < pool_slot_count(w->pool); i++) {
        const struct pool_box *b = pool_slot(w->pool, i);

        count += b != NULL && b->principal == principal && b->state == POOL_PARKING ? 1 : 0;
    }
    return count;
}

/* Acquires of it that are open may have what is missing. */
void quotas_refused(struct world *w, const struct request *r, int code)
{
    uint64_t principal = clients_principal(&w->clients[r->client]);
    unsigned claims = open_acquires(w, principal);

    if (code != SP_QUOTA_BOXES && code != SP_QUOTA_WAITING && code != SP_QUOTA_CREATES)
        return;
    if (!w->config.has_quotas)
        world_fail(w, "a caller was refused by a quota, and there are none");
    w->quota_refused++;
    if (code == SP_QUOTA_BOXES &&
        held_by(w, principal) + claims + releasing(w, principal) < limit_of(w))
        world_fail(w, "a caller was refused that has less than its quota of boxes");
    if (code == SP_QUOTA_WAITING && claims < w->config.quotas[POOL_LEVEL_CALLER].waiting)
        world_fail(w, "a caller was refused though few of its acquires wait");
}

bool quotas_is_full(int code)
{
    return code == SP_QUEUE_FULL || code == SP_QUOTA_WAITING;
}
