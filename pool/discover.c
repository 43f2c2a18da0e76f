/* discover.c - the backend's answer to "do you already run a box under this id?". Only a box that
 * is not ours yet counts: a box that we destroy may still run under its id for a moment. */
#include <string.h>

#include "pool/internal.h"

/* A box of ours that the answer may be about, whatever its id is at the backend. */
static bool is_ours(const struct pool *p, const struct pool_seen *seen)
{
    if (seen->id.v != 0 && (box_find(p, seen->id) != NULL || orphan_recent(p, seen->id) != NULL))
        return true;
    return pool_find_ending(p, seen->sandbox_id) != NULL || index_is_ending_ref(p, seen->ref);
}

static int check_found(struct pool *p, const struct waiter *w, const struct pool_seen *seen,
                       unsigned *ret_profile)
{
    const struct pool_acquire *a = &w->acquire;
    int profile = pool_profile_index(p, seen->profile);

    /* The backend that answered runs it, whatever its labels say. */
    if (profile >= 0 && p->profiles[profile].conf.backend != p->profiles[a->profile].conf.backend)
        profile = -1;
    *ret_profile = profile >= 0 ? (unsigned) profile : a->profile;
    if ((seen->user[0] != '\0' && strcmp(seen->user, a->user) != 0) ||
        (seen->thread[0] != '\0' && strcmp(seen->thread, a->thread) != 0))
        return SP_OWNER_CONFLICT;
    /* User and thread are names that any caller can choose. Without a label it belongs to root. */
    if (!seen->is_foreign && seen->principal != a->principal && !a->is_operator)
        return SP_FORBIDDEN;
    if (a->is_profile_named && *ret_profile != a->profile)
        return SP_SPEC_CONFLICT;
    return SP_OK;
}

static void give_to(struct pool *p, struct slot *s, uint64_t principal)
{
    s->box.principal = principal;
    index_owner_join(p, s);
    holders_settle(p, s);
}

static void lease_found(struct pool *p, struct waiter *w, const struct pool_seen *seen)
{
    unsigned profile = 0;
    int code = check_found(p, w, seen, &profile);
    struct slot *s;

    if (code == SP_OK && mode_of(p, &p->profiles[profile]) != POOL_RUNNING) {
        struct refusal r = {.code = SP_OK};

        mode_refuse(p, &p->profiles[profile], &r);
        waiter_refuse(p, w, &r);
        return;
    }
    s = code == SP_OK ? box_take(p) : NULL;
    if (s == NULL) {
        struct refusal r = {.code = code != SP_OK ? code : SP_POOL_EXHAUSTED};

        r.reason = sp_error_info(r.code)->text;
        waiter_refuse(p, w, &r);
        return;
    }
    s->box.id = seen->id.v != 0 ? seen->id : box_mint_id(p);
    s->box.profile = profile;
    s->box.backend = p->profiles[w->acquire.profile].conf.backend;
    s->box.spec_hash = seen->spec_hash;
    s->box.generation = seen->generation;
    s->box.created_ns = p->now_ns;
    s->box.ready_ns = p->now_ns;
    s->box.seen_ns = p->now_ns;
    memcpy(s->box.url, seen->url, sizeof(s->box.url));
    memcpy(s->box.token, seen->token, sizeof(s->box.token));
    memcpy(s->box.life, seen->life, sizeof(s->box.life));
    s->answered_ns = p->now_ns;
    index_set_ref(p, s, seen->ref);
    lease_begin(p, s, w, POOL_SRC_DISCOVERED);
    pause_seen(p, s, seen); /* the row that says why it stands still may be lost */
    if (!seen->is_foreign)  /* an operator does not take it away from its owner */
        give_to(p, s, seen->principal);
    p->adopted_high = MAX_OF(p->adopted_high, p->total);
}

void acquire_discovered(struct pool *p, const struct pool_event *ev)
{
    struct req_id req = {ev->box.v};
    struct waiter *w = waiter_find(p, req);
    const struct pool_seen *seen = &ev->u.discovered.seen;

    if (w == NULL || w->phase != WAITER_DISCOVERING || w->epoch != ev->epoch) {
        p->late_answers++;
        return;
    }
    w->is_discovered = true;
    if (!ev->u.discovered.is_unknown && ev->u.discovered.is_found && !is_ours(p, seen) &&
        p->is_store_up) {
        lease_found(p, w, seen);
        return;
    }
    waiter_enter(p, w, WAITER_REDO);
}
