/* orphan.c - boxes that run with our labels and have no row. One that fits is adopted, and probed
 * before a caller gets it; any other is destroyed, but only if a second listing shows it again: the
 * first may have been older than our own destroy. */
#include <string.h>

#include "pool/internal.h"

const struct recent *orphan_recent(const struct pool *p, struct box_id id)
{
    for (size_t i = 0; i < POOL_RECENT_MAX; i++)
        if (p->recent[i].id.v == id.v && id.v != 0)
            return &p->recent[i];
    return NULL;
}

static struct slot *take_slot(struct pool *p, const struct pool_seen *seen, unsigned profile,
                              unsigned backend)
{
    struct slot *s = box_take(p);

    if (s == NULL)
        return NULL;
    s->box.id = seen->id.v != 0 ? seen->id : box_mint_id(p);
    s->box.profile = profile;
    s->box.backend = backend;
    s->box.spec_hash = seen->spec_hash;
    s->box.created_ns = p->now_ns;
    s->box.seen_ns = p->now_ns;
    s->box.expires_ns = POOL_NEVER;
    s->box.idle_ns = POOL_NEVER;
    s->listing = p->listing;
    memcpy(s->box.sandbox_id, seen->sandbox_id, sizeof(s->box.sandbox_id));
    memcpy(s->box.user, seen->user, sizeof(s->box.user));
    memcpy(s->box.thread, seen->thread, sizeof(s->box.thread));
    s->box.generation = seen->generation;
    memcpy(s->box.url, seen->url, sizeof(s->box.url));
    memcpy(s->box.token, seen->token, sizeof(s->box.token));
    index_set_ref(p, s, seen->ref);
    s->box.principal = seen->principal;
    return s;
}

/* The id its labels name is free, and newer than anything that ended under it. */
bool orphan_may_bind(const struct pool *p, const struct pool_seen *seen, unsigned profile)
{
    const struct pool_profile *c = &p->profiles[profile].conf;

    return !c->is_retired && c->park_ns > 0 && seen->thread[0] != '\0' &&
           seen->sandbox_id[0] != '\0' && bind_find(p, seen->sandbox_id) == NULL &&
           seen->generation >= past_next_generation(p, seen->sandbox_id);
}

/* One without an owner in its labels is not taken as blank: its row is lost, and with it the proof
 * that nobody had it before the labels could be written. */
static bool may_adopt(const struct pool *p, const struct pool_seen *seen, unsigned profile)
{
    return orphan_recent(p, seen->id) == NULL && orphan_may_bind(p, seen, profile);
}

static void adopt(struct pool *p, const struct pool_seen *seen, unsigned profile, unsigned backend)
{
    struct slot *s = take_slot(p, seen, profile, backend);

    if (s == NULL)
        return; /* the next listing shows it again */
    bind_link(p, s);
    bind_claim(p, s);
    s->box.ready_ns = p->now_ns; /* it has been somebody's: it is not treated as a new one */
    box_enter(p, s, POOL_STARTING);
    p->adopted_high = MAX_OF(p->adopted_high, p->total);
    emit_event(p, POOL_FACT_ADOPTED, s, NULL);
    pause_seen(p, s, seen);
    make_probe(p, s);
}

static void destroy(struct pool *p, const struct pool_seen *seen, unsigned profile,
                    unsigned backend)
{
    struct slot *s = take_slot(p, seen, profile, backend);

    if (s == NULL)
        return;
    bind_clear(p, s); /* its labels bind nobody */
    s->box.end = POOL_END_ORPHAN;
    box_enter(p, s, POOL_DOOMED);
    p->adopted_high = MAX_OF(p->adopted_high, p->total);
    emit_event(p, POOL_FACT_DOOMED, s, pool_end_name(POOL_END_ORPHAN));
    box_mark_dirty(p, s, 0);
}

/* True when an earlier listing has shown it too. */
static bool was_seen(struct pool *p, const struct pool_seen *seen, unsigned backend)
{
    struct orphan *unused = NULL;

    for (size_t i = 0; i < POOL_ORPHANS_MAX; i++) {
        struct orphan *o = &p->orphans[i];

        if (o->listing != 0 && o->id.v == seen->id.v && o->backend == backend) {
            bool is_older = o->listing < p->listing;

            o->listing = p->listing;
            return is_older;
        }
        if (o->listing == 0 && unused == NULL)
            unused = o;
    }
    if (unused != NULL)
        *unused = (struct orphan){.id = seen->id, .listing = p->listing, .backend = backend};
    return false;
}

/* A profile for its place in the pool, if possible one of the backend it runs on. */
static int profile_for(const struct pool *p, const struct pool_seen *seen, unsigned backend)
{
    int named = pool_profile_index(p, seen->profile);

    if (named >= 0) /* it may have moved to another backend since: the box stays where it is */
        return named;
    for (unsigned i = 0; i < p->profile_count; i++)
        if (p->profiles[i].conf.backend == backend)
            return (int) i;
    return p->profile_count > 0 ? 0 : -1;
}

void orphan_seen(struct pool *p, const struct pool_event *ev, const struct pool_seen *seen)
{
    unsigned backend = ev->u.listed.backend;
    const struct recent *gone = orphan_recent(p, seen->id);
    int profile = profile_for(p, seen, backend);
    bool is_named = profile >= 0 && strcmp(p->profiles[profile].conf.name, seen->profile) == 0;

    if (seen->is_foreign)
        return;
    if (profile < 0 || (gone != NULL && gone->freed_ns >= ev->u.listed.started_ns))
        return; /* the listing is older than its end */
    if (is_named && !seen->is_absent && may_adopt(p, seen, (unsigned) profile))
        adopt(p, seen, (unsigned) profile, backend);
    else if (seen->id.v != 0 && was_seen(p, seen, backend))
        destroy(p, seen, (unsigned) profile, backend);
}

bool orphan_is_any(const struct pool *p, unsigned backend)
{
    for (size_t i = 0; i < POOL_ORPHANS_MAX; i++) {
        const struct orphan *o = &p->orphans[i];

        if (o->listing != 0 && o->backend == backend && box_find(p, o->id) == NULL)
            return true;
    }
    return false;
}

void orphan_forget_unseen(struct pool *p, unsigned backend)
{
    for (size_t i = 0; i < POOL_ORPHANS_MAX; i++)
        if (p->orphans[i].backend == backend && p->orphans[i].listing < p->listing)
            p->orphans[i].listing = 0;
}
