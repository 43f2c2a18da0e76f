/* lease.c - a box gets its owner. The lease row is committed before a caller gets a reply; if the
 * commit fails, or all callers have left meanwhile, the box returns to its previous state. Once
 * committed, the box is used: if no reply can be delivered, it is parked for its thread or
 * destroyed. */
#include "pool/internal.h"
#include "pool/pulse.h"

static const struct refusal store_down = {SP_STORE_UNAVAILABLE, "the store cannot be written",
                                          POOL_REWRITE_NS, POOL_END_NONE};

/* The youngest blank box, drifted ones last. */
struct slot *lease_find_blank(struct pool *p, unsigned profile)
{
    struct profile *f = &p->profiles[profile];

    for (int k = BLANK_FRESH; k <= BLANK_DRIFTED; k++)
        for (struct list_node *n = list_last(&f->blank[k]); n != NULL;
             n = list_last(&f->blank[k])) {
            enum pulse pulse = pulse_feel(p, slot_of(n));

            if (pulse != PULSE_ASKED) /* else it has left the list */
                return pulse == PULSE_FRESH ? slot_of(n) : NULL;
        }
    return NULL;
}

/* It was ready when it was requested, though it had to be verified. */
enum pool_source lease_source(const struct slot *s, const struct waiter *w)
{
    bool was_ready = !w->was_queued || s->box.ready_ns < w->since_ns;

    return was_ready ? POOL_SRC_WARM : POOL_SRC_COLD;
}

/* From now on, but never longer after its beginning than the profile allows. */
static uint64_t deadline_of(const struct pool *p, const struct slot *s, uint64_t asked_ns)
{
    const struct pool_profile *c = &p->profiles[s->box.profile].conf;
    uint64_t ttl_ns = asked_ns != 0 ? asked_ns : c->ttl_ns;
    uint64_t wanted_ns = ttl_ns == 0 ? POOL_NEVER : time_after(p->now_ns, ttl_ns);
    uint64_t last_ns =
        c->ttl_max_ns == 0 ? POOL_NEVER : time_after(s->box.leased_ns, c->ttl_max_ns);

    return MIN_OF(wanted_ns, last_ns);
}

static uint64_t idle_limit_of(uint64_t asked_ns, uint64_t usual_ns)
{
    uint64_t idle_ns = asked_ns != 0 ? asked_ns : usual_ns;

    return idle_ns == 0 ? POOL_NEVER : idle_ns;
}

void lease_begin(struct pool *p, struct slot *s, struct waiter *w, enum pool_source source)
{
    const struct pool_acquire *a = &w->acquire;
    struct profile *f = profile_of(p, s);

    s->lease_from = s->box.state; /* FREE: found by a discovery; STARTING: made for it */
    s->source = source;
    s->box.leased_ns = p->now_ns;
    s->box.active_ns = p->now_ns;
    s->box.expires_ns = deadline_of(p, s, a->ttl_ns);
    s->box.idle_ns = idle_limit_of(a->idle_ns, f->conf.idle_ns);
    s->box.busy = 0;
    s->reply_count = 0;
    s->is_known = false;
    s->is_spoiled = false;
    if (s->lease_from == POOL_FREE) {
        bind_owner(p, s, a);
        box_enter(p, s, POOL_LEASING);
    } else {
        box_set_state(p, s, POOL_LEASING);
        if (s->lease_from == POOL_BLANK)
            bind_owner(p, s, a);
    }
    if (source == POOL_SRC_WARM)
        f->warm_hits++;
    if (source == POOL_SRC_COLD)
        f->cold_starts++;
    s->wait_write = box_write(p, s, POOL_WRITE_LEASE);
    waiter_attach(p, w, s, WAITER_COMMIT, s->wait_write);
}

void lease_extend(struct pool *p, struct slot *s, struct waiter *w, uint64_t ttl_ns)
{
    uint64_t write;

    s->box.expires_ns = deadline_of(p, s, ttl_ns);
    s->box.active_ns = p->now_ns;
    expiry_update(p, s);
    write = box_write(p, s, POOL_WRITE_LEASE);
    waiter_attach(p, w, s, WAITER_COMMIT, write);
}

/* The thread has this box already. With the store down, or the budget of its user used up, it keeps it with the old
 * deadline. */
void lease_keep(struct pool *p, struct slot *s, struct waiter *w)
{
    if (!p->is_store_up || waiter_is_spent(w, s->box.profile)) {
        lease_touch(p, s, p->now_ns);
        waiter_ok(p, w, s, POOL_SRC_KEPT);
        return;
    }
    if (w->acquire.idle_ns != 0)
        s->box.idle_ns = w->acquire.idle_ns;
    lease_extend(p, s, w, w->acquire.ttl_ns);
}

/* A caller waits for a later deadline: the row with it must not be overwritten by one with the old
 * deadline. */
static bool is_extended_after(const struct slot *s, const struct waiter *w)
{
    for (struct list_node *n = list_first(&s->waiters); n != NULL; n = list_next(&s->waiters, n))
        if (waiter_of(n)->phase == WAITER_COMMIT && waiter_of(n)->write > w->write)
            return true;
    return false;
}

/* The store takes too long: the lease stays, with the deadline that is known to be stored. If the
 * write succeeds later, its deadline counts after all. */
void lease_keep_old(struct pool *p, struct slot *s, struct waiter *w)
{
    if (!is_extended_after(s, w)) {
        s->is_reverted = true;
        s->box.expires_ns = s->committed_ns;
    }
    lease_touch(p, s, p->now_ns);
    if (s->box.expires_ns <= p->now_ns)
        hibernate_or_doom(p, s, POOL_END_TTL); /* it was over before it could be extended */
    else
        waiter_ok(p, w, s, POOL_SRC_KEPT);
}

/* Another box has been made in its place already: a caller that asks and disconnects must not fill
 * the pool with boxes that nobody needs. */
static bool is_surplus(struct pool *p, const struct slot *s)
{
    const struct profile *f = profile_of(p, s);
    size_t have = f->making + f->blank[BLANK_FRESH].len + f->blank[BLANK_DRIFTED].len;

    return have >= (size_t) MAX_OF(f->conf.warm_max, f->conf.warm_min) + f->waiting[LINE_BLANK];
}

/* Nobody has data in it yet, so nobody has given up anything with it: what became of the id's last box stays as it is. */
static void doom_unused(struct pool *p, struct slot *s)
{
    s->box.leased_ns = 0;
    doom_box(p, s, hibernate_unused_end(s));
}

static void undo_blank(struct pool *p, struct slot *s)
{
    past_remember(p, s->box.sandbox_id, s->box.generation, POOL_END_NONE, s->box.principal);
    bind_clear(p, s);
    box_set_state(p, s, POOL_BLANK);
    box_mark_dirty(p, s, 0);
}

static void undo_parked(struct pool *p, struct slot *s, bool is_unused)
{
    if (s->lease_from != POOL_PARKED || !is_unused)
        s->box.parked_ns = p->now_ns;
    box_set_state(p, s, POOL_PARKED);
    box_mark_dirty(p, s, 0);
}

/* The lease has no owner. While it is LEASING no call has shown the box, and a blank one is as good
 * as new; but not without labels, because a copy of the database may contain the row. Later its
 * caller may know the token in spite of the failed reply (it was partly read, or a list on another
 * connection showed it), so the box is kept for its thread or destroyed. */
static void undo(struct pool *p, struct slot *s)
{
    bool is_shown = s->box.state == POOL_LEASED;
    bool is_unused = s->box.busy == 0 && !s->is_known;
    bool is_fresh =
        s->lease_from == POOL_BLANK || (s->lease_from == POOL_STARTING && !s->is_restored);

    if (!is_shown && s->lease_from == POOL_BLANK && !is_surplus(p, s) &&
        profile_of(p, s)->conf.can_bind)
        undo_blank(p, s);
    else if (is_fresh && is_unused && (!is_shown || s->is_spoiled))
        doom_unused(p, s);
    else if (s->box.thread[0] != '\0' && profile_of(p, s)->conf.park_ns > 0)
        undo_parked(p, s, is_unused);
    else if (is_fresh && is_unused)
        doom_unused(p, s);
    else
        doom_box(p, s, is_shown ? POOL_END_RELEASED : hibernate_unused_end(s));
}

static void refuse_all(struct pool *p, struct slot *s)
{
    for (struct list_node *n = list_first(&s->waiters); n != NULL; n = list_first(&s->waiters))
        waiter_refuse(p, waiter_of(n), &store_down);
}

void lease_stored(struct pool *p, struct slot *s)
{
    if (s->box.expires_ns <= p->now_ns) /* the disk took longer than the duration of the lease */
        refuse_all(p, s);
    past_drop(p, s->box.sandbox_id);
    if (list_is_empty(&s->waiters)) { /* or all its callers disconnected */
        undo(p, s);
        return;
    }
    s->committed_ns = s->box.expires_ns;
    s->is_unclaimed = false;
    box_set_state(p, s, POOL_LEASED);
    lease_touch(p, s, p->now_ns); /* the idle time begins with the reply to its owner */
    if (s->lease_from != POOL_PARKED && s->lease_from != POOL_STARTING) /* else they are set */
        emit_backend(p, POOL_FX_BIND, s, 0);
    emit_event(p, POOL_FACT_LEASED, s, pool_source_name(s->source));
    for (struct list_node *n = list_first(&s->waiters); n != NULL; n = list_first(&s->waiters))
        waiter_ok(p, waiter_of(n), s, s->source);
}

void lease_failed(struct pool *p, struct slot *s)
{
    refuse_all(p, s);
    if (s->lease_from == POOL_FREE) { /* not ours yet, and no row says otherwise */
        box_set_state(p, s, POOL_FREE);
        return;
    }
    if (s->lease_from == POOL_STARTING) { /* made for the callers that were just refused */
        doom_unused(p, s);
        return;
    }
    if (s->lease_from == POOL_BLANK)
        bind_clear(p, s);
    box_set_state(p, s, s->lease_from);
    box_mark_dirty(p, s, time_after(p->now_ns, POOL_REWRITE_NS));
}

void lease_undelivered(struct pool *p, const struct pool_event *ev)
{
    struct slot *s = box_find(p, ev->box);

    if (s == NULL || s->box.state != POOL_LEASED || s->box.epoch != ev->epoch ||
        s->reply_count == 0)
        return;
    s->reply_count--;
    s->is_spoiled = s->is_spoiled || ev->u.undelivered.is_spoiled;
    lease_left(p, s);
}

void lease_left(struct pool *p, struct slot *s)
{
    if (s->box.state == POOL_LEASED && s->reply_count == 0 && !s->is_known &&
        list_is_empty(&s->waiters))
        undo(p, s);
}

/* The idle clock must survive a restart, but without a row per command: the store may be behind by
 * a quarter of the limit, and a restart adds as much. */
void lease_touch(struct pool *p, struct slot *s, uint64_t at_ns)
{
    s->box.active_ns = MAX_OF(s->box.active_ns, at_ns);
    if (s->box.state == POOL_LEASED && s->box.idle_ns != POOL_NEVER &&
        s->box.active_ns - s->saved_ns >= s->box.idle_ns / 4) {
        s->saved_ns = s->box.active_ns;
        box_mark_dirty(p, s, 0);
    }
    expiry_update(p, s);
}

void lease_activity(struct pool *p, const struct pool_event *ev)
{
    struct slot *s = box_find(p, ev->box);
    int delta = ev->u.activity.delta;

    if (s == NULL || box_is_dying(s))
        return;
    if (delta > 0)
        s->box.busy++;
    else if (delta < 0 && s->box.busy > 0)
        s->box.busy--;
    if (s->box.state == POOL_LEASED || s->box.state == POOL_PARKED ||
        s->box.state == POOL_PARKING) { /* which may come to nothing */
        s->is_known = true;
        lease_touch(p, s, p->now_ns);
    }
}
