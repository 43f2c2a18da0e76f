/* observer.c - who has seen the token and the address of which box: in a reply, even if its
 * delivery failed, and in the views. A caller that has seen them once may use them for ever, so
 * nobody else may get that box. */
#include <stdio.h>
#include <string.h>

#include "world.h"

static void saw(struct world *w, const struct pool_box *b)
{
    struct world_box *real = backend_find(w, b->id.v);

    if (real == NULL)
        world_fail(w, "a box was shown that never existed");
    if (real->seen_by != 0 && real->seen_by != b->principal)
        world_fail(w, "a token was seen by two principals");
    if (real->owner[0] != '\0' && strcmp(real->owner, b->sandbox_id) != 0)
        world_fail(w, "a used box was shown to another thread");
    if (strcmp(real->seen.token, b->token) != 0)
        world_fail(w, "a box was shown with a token that is not its own");
    real->seen_by = b->principal;
    memcpy(real->owner, b->sandbox_id, sizeof(real->owner));
}

void observer_reply(struct world *w, const struct pool_fx *fx, bool is_delivered)
{
    const struct pool_box *b = &fx->snapshot;
    struct world_box *real = backend_find(w, b->id.v);

    saw(w, b);
    if (real->lease_epoch != b->epoch)
        real->is_held = fx->u.reply.source == POOL_SRC_KEPT; /* from before a restart */
    real->lease_epoch = b->epoch;
    real->is_held |= is_delivered;
}

void observer_held(struct world *w, uint64_t box)
{
    struct world_box *real = backend_find(w, box);

    if (real != NULL)
        real->is_held = true;
}

/* Somebody may still get it, or the pool will be notified that nobody did. */
static bool is_on_its_way(const struct world *w, const struct pool_box *b)
{
    for (size_t i = 0; i < WORLD_PENDING; i++)
        if (w->pending[i].is_used && w->pending[i].ev.kind == POOL_EV_UNDELIVERED &&
            w->pending[i].ev.box.v == b->id.v)
            return true;
    for (uint64_t i = 1; i <= w->req; i++)
        if (w->requests[i].is_open &&
            strcmp(w->clients[w->requests[i].client].sandbox_id, b->sandbox_id) == 0)
            return true;
    return false;
}

/* None of its replies was delivered: it would stay until its deadline, if it has one. */
static void check_lease(struct world *w, const struct pool_box *b)
{
    const struct world_box *real = backend_find(w, b->id.v);

    if (b->state == POOL_LEASED && real->lease_epoch == b->epoch && !real->is_held &&
        !is_on_its_way(w, b))
        world_fail(w, "a box is leased and nobody knows it");
}

/* All callers list their boxes after every step. */
void observer_look(struct world *w)
{
    for (size_t i = 0; i < pool_slot_count(w->pool); i++) {
        const struct pool_box *b = pool_slot(w->pool, i);
        const struct world_box *real;

        if (b == NULL)
            continue;
        if (pool_is_shown(b)) {
            saw(w, b);
            check_lease(w, b);
        }
        if (b->state != POOL_BLANK ||
            b->is_unseen) /* an old row may say so, until the first listing */
            continue;
        real = backend_find(w, b->id.v);
        if (real != NULL && (real->seen_by != 0 || real->owner[0] != '\0'))
            world_fail(w, "a used box is blank");
    }
}

/* Secrets that no two boxes share. */
void observer_make_token(void *ctx, char *dst)
{
    struct world *w = ctx;

    w->tokens++;
    (void) snprintf(dst, POOL_TOKEN_MAX + 1, "token-%llu", (unsigned long long) w->tokens);
}

bool observer_is_idle(struct world *w, const struct world_box *real, uint64_t idle_ns)
{
    if (real == NULL || real->has_no_agent)
        return true;
    if (real->silent_ns != 0)
        return w->now_ns - real->silent_ns >= 3 * MIN_OF(idle_ns / 4, 10 * NS_PER_S);
    return (!real->is_at_work || real->worked_ns + WORLD_PROBE_NS >= w->now_ns) &&
           (real->worked_ns + idle_ns <= w->now_ns + WORLD_PROBE_NS ||
            real->worked_ns + WORLD_PROBE_NS >= w->now_ns);
}
