/* listed.c - compares what a backend runs with what the pool knows. A failed listing proves
 * nothing; a box that changed after the listing began is left alone; the backend is asked for a box
 * that a clean listing does not show. */
#include <string.h>

#include "pool/internal.h"

/* A ref names one instance of a box: another one under the same id is not it. A ref that extends it
 * is. */
static bool is_same(const struct slot *s, const struct pool_seen *seen)
{
    size_t a = strlen(s->box.ref);
    size_t b = strlen(seen->ref);

    return strncmp(s->box.ref, seen->ref, MIN_OF(a, b)) == 0;
}

/* Backends that do not store our box ids are matched by public id, then by their own name. */
static struct slot *match(struct pool *p, const struct pool_seen *seen)
{
    struct slot *s;

    if (seen->id.v != 0)
        return box_find(p, seen->id);
    s = seen->sandbox_id[0] != '\0' ? bind_find(p, seen->sandbox_id) : NULL;
    if (s != NULL && !is_same(s, seen))
        s = NULL; /* the thread has another box, and this belongs to somebody else */
    return s != NULL ? s : index_find_ref(p, seen->ref);
}

static bool take_text(char *dst, size_t cap, const char *src)
{
    if (src[0] == '\0' || strcmp(dst, src) == 0)
        return false;
    memcpy(dst, src, cap);
    return true;
}

/* The backend has the right address of the box. */
void listed_take_facts(struct pool *p, struct slot *s, const struct pool_seen *seen)
{
    bool is_new = take_text(s->box.url, sizeof(s->box.url), seen->url);

    if (seen->ref[0] != '\0' && strcmp(s->box.ref, seen->ref) != 0) {
        index_set_ref(p, s, seen->ref);
        is_new = true;
    }
    if (s->box.token[0] == '\0')
        is_new |= take_text(s->box.token, sizeof(s->box.token), seen->token);
    if (is_new && (s->box.state == POOL_LEASED || s->box.state == POOL_PARKED))
        box_mark_dirty(p, s, 0);
}

static void start_probing(struct pool *p, struct slot *s)
{
    box_set_state(p, s, POOL_STARTING);
    s->is_create_unknown = false; /* it was made */
    s->box.is_unseen = false;
    emit_event(p, POOL_FACT_ADOPTED, s, NULL);
    make_probe(p, s);
}

void listed_adopt(struct pool *p, struct slot *s)
{
    if (s->box.is_stale && s->box.sandbox_id[0] == '\0') {
        doom_box(p, s, POOL_END_ORPHAN); /* it may have had an owner since the row was written */
        return;
    }
    switch (s->box.state) {
    case POOL_INTENT:
    case POOL_BLANK:
        start_probing(p, s);
        break;
    case POOL_STARTING:
        s->box.is_unseen = false;
        emit_event(p, POOL_FACT_ADOPTED, s, NULL);
        make_probe(p, s);
        break;
    case POOL_LEASED:
    case POOL_PARKED:
        s->box.is_unseen = false;
        if (s->box.is_stale) /* its row is right, and is marked so from now on */
            box_mark_dirty(p, s, 0);
        recheck_begin(p, s);
        expiry_update(p, s);
        emit_event(p, POOL_FACT_ADOPTED, s, NULL);
        break;
    case POOL_FREE:
    case POOL_CREATING:
    case POOL_LEASING:
    case POOL_PARKING:
    case POOL_DOOMED:
    case POOL_DESTROYING:
    case POOL_FORGETTING:
    case POOL_STATE_COUNT:
        s->box.is_unseen = false;
        break;
    }
}

/* The labels do not name the owner of the row: a bind was lost, for example because the daemon
 * ended before it could repeat it. */
static bool is_mislabelled(const struct pool *p, const struct slot *s, const struct pool_seen *seen)
{
    const struct pool_box *b = &s->box;

    if ((b->state != POOL_LEASED && b->state != POOL_PARKED) || seen->is_foreign ||
        !p->profiles[b->profile].conf.can_bind)
        return false;
    return strcmp(b->sandbox_id, seen->sandbox_id) != 0 || strcmp(b->user, seen->user) != 0 ||
           strcmp(b->thread, seen->thread) != 0 || b->generation != seen->generation ||
           b->principal != seen->principal;
}

static bool is_claimed(const struct slot *s, const struct pool_seen *seen)
{
    return seen->sandbox_id[0] != '\0' && !seen->is_foreign &&
           strcmp(s->box.sandbox_id, seen->sandbox_id) != 0;
}

/* The labels name an owner that the row does not: an older copy of the database was restored. The
 * labels are right, so it belongs to that owner if the id is free. The id may become free by this
 * listing, if it does not show the id's old box: then the next listing decides. */
static void give_to_claimant(struct pool *p, struct slot *s, const struct pool_seen *seen,
                             bool was_listed)
{
    if (s->box.sandbox_id[0] == '\0' && orphan_may_bind(p, seen, s->box.profile)) {
        box_take_owner(p, s, seen);
        pause_seen(p, s, seen);
        listed_adopt(p, s);
    } else if (s->box.sandbox_id[0] != '\0' || was_listed) {
        doom_box(p, s, POOL_END_ORPHAN);
    }
}

static void is_running(struct pool *p, struct slot *s, const struct pool_seen *seen,
                       bool was_listed)
{
    listed_take_facts(p, s, seen);
    s->box.seen_ns = p->now_ns;
    doubt_clear(p, s);
    if (box_is_dying(s)) {
        s->box.is_unseen = false;
        return;
    }
    if (is_claimed(s, seen) && (s->box.is_unseen || s->box.state == POOL_BLANK)) {
        give_to_claimant(p, s, seen, was_listed);
        return;
    }
    if (is_mislabelled(p, s, seen))
        emit_backend(p, POOL_FX_BIND, s, 0);
    if (s->is_pause_open) /* also when an answer of its own has ended the doubt before */
        pause_seen(p, s, seen);
    if (s->box.is_unseen)
        listed_adopt(p, s);
}

/* The backend answers again: postponed work is tried now. A circuit stays open until the try
 * succeeds. */
static void is_back(struct pool *p, unsigned backend)
{
    const struct list *dying = &p->lists[POOL_DESTROYING];
    bool was_away = false;

    for (unsigned i = 0; i < p->profile_count; i++) {
        struct profile *f = &p->profiles[i];

        if (f->conf.backend != backend || !f->is_away)
            continue;
        f->is_away = false;
        f->retry_ns = 0;
        was_away = true;
    }
    for (struct list_node *n = list_first(dying); was_away && n != NULL; n = list_next(dying, n)) {
        struct slot *s = slot_of(n);

        if (!s->is_asked && s->retry_ns > p->now_ns && s->box.backend == backend) {
            s->retry_ns = p->now_ns;
            expiry_update(p, s);
        }
    }
}

static void is_away(struct pool *p, unsigned backend)
{
    for (unsigned i = 0; i < p->profile_count; i++)
        if (p->profiles[i].conf.backend == backend)
            p->profiles[i].is_away = true;
}

static bool is_open(const struct slot *s)
{
    return s->box.state != POOL_FREE && !box_is_dying(s) && (s->is_missing || s->box.is_unseen);
}

static bool is_concerned(const struct slot *s, const struct pool_event *ev)
{
    return s->box.state != POOL_FREE && s->changed_ns < ev->u.listed.started_ns &&
           doubt_concerns(s);
}

static void join_absent(struct pool *p, const struct pool_event *ev, size_t look)
{
    struct joining *j = &p->joining;
    size_t end = look < p->slot_count - j->next ? j->next + look : p->slot_count;

    for (; j->next < end; j->next++) {
        struct slot *s = &p->slots[j->next];

        if (s->box.backend != ev->u.listed.backend)
            continue;
        if (is_concerned(s, ev)) {
            j->known++;
            if (s->listing != p->listing) {
                j->missing++;
                doubt_box(p, s);
            }
        }
        j->open += is_open(s) ? 1 : 0;
    }
}

bool pool_is_settled(const struct pool *p, unsigned backend)
{
    if (orphan_is_any(p, backend))
        return false;
    for (size_t i = 0; i < p->slot_count; i++)
        if (p->slots[i].box.backend == backend && is_open(&p->slots[i]))
            return false;
    return true;
}

bool pool_is_all_listed(const struct pool *p, unsigned backend)
{
    return p->joining.open == 0 && !orphan_is_any(p, backend);
}

static void join_shown(struct pool *p, const struct pool_event *ev)
{
    for (size_t i = 0; i < ev->u.listed.count; i++) {
        const struct pool_seen *seen = &ev->u.listed.seen[i];
        struct slot *s = match(p, seen);
        bool was_listed;

        if (s == NULL) {
            orphan_seen(p, ev, seen);
            continue;
        }
        if (s->box.backend != ev->u.listed.backend || !is_same(s, seen))
            continue;
        if (seen->is_absent && !box_is_dying(s)) /* counts as not shown: the backend is asked for
                                                  * it */
            continue;
        was_listed = s->listing != 0;
        s->listing = p->listing;
        if (s->changed_ns < ev->u.listed.started_ns)
            is_running(p, s, seen, was_listed);
    }
}

void listed_step(struct pool *p, const struct pool_event *ev)
{
    if (!ev->u.listed.is_clean) {
        is_away(p, ev->u.listed.backend);
        return;
    }
    if (!ev->u.listed.is_later) {
        is_back(p, ev->u.listed.backend);
        away_listed(p, ev->u.listed.backend, ev->u.listed.started_ns);
        p->listing++;
        p->joining = (struct joining){0};
    }
    join_shown(p, ev);
    join_absent(p, ev, ev->u.listed.is_partial ? ev->u.listed.look : p->slot_count);
    if (ev->u.listed.is_partial)
        return;
    doubt_report(p, p->joining.missing, p->joining.known);
    orphan_forget_unseen(p, ev->u.listed.backend);
}
