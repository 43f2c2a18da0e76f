/* recheck.c - owned boxes of backends that do not report deaths. Each is checked now and then: is
 * it still there, and still the same? Its container may be gone, or restarted and empty. A backend
 * that does not know it may only be unable to look, so a box that is absent and silent is checked
 * again before its lease ends. */
#include "pool/internal.h"

#define RECHECK_NS (30 * NS_PER_S)      /* unwatched: interval of the checks of an owned box */
#define ABSENT_MAX 3                    /* times it is found absent before its lease ends */
#define SILENT_GAP_NS (250 * NS_PER_MS) /* before a silent one is checked again for its owner, */
#define SILENT_MAX 4                    /* this many times; then the owner gets it as it is */

static bool is_owned(const struct slot *s)
{
    return s->box.state == POOL_LEASED || s->box.state == POOL_PARKED;
}

static void plan(struct pool *p, struct slot *s)
{
    s->recheck_ns = time_after(p->now_ns, RECHECK_NS + rand_below(&p->rand, RECHECK_NS / 2));
}

void recheck_begin(struct pool *p, struct slot *s)
{
    s->absences = 0;
    s->recheck_ns = POOL_NEVER;
    if (is_owned(s) && !s->box.is_unseen && !box_is_watched(p, s))
        plan(p, s);
}

uint64_t recheck_due(const struct slot *s)
{
    return s->is_checking ? POOL_NEVER : s->recheck_ns;
}

void recheck_ask(struct pool *p, struct slot *s)
{
    s->recheck_ns = POOL_NEVER; /* until it is answered */
    box_check(p, s, time_after(p->now_ns, POOL_CHECK_NS));
}

/* One that was found absent is checked soon anyway. */
static void ask_soon(struct pool *p, struct slot *s)
{
    if (!is_owned(s) || s->recheck_ns == POOL_NEVER || s->absences > 0)
        return;
    s->recheck_ns = p->now_ns;
    expiry_update(p, s);
}

static void note_present(struct pool *p, struct slot *s)
{
    if (!is_owned(s) || s->absences == 0)
        return;
    s->absences = 0;
    if (s->recheck_ns != POOL_NEVER) /* otherwise the answer plans it */
        plan(p, s);
    expiry_update(p, s);
}

void recheck_looked(struct pool *p, struct slot *s, enum pool_verdict verdict)
{
    if (verdict == POOL_ABSENT)
        ask_soon(p, s);
    else if (verdict == POOL_ALIVE || verdict == POOL_SILENT)
        note_present(p, s);
}

/* True if it was absent often enough: it is gone. */
static bool count_absence(struct pool *p, struct slot *s)
{
    bool is_apart = s->absences == 0 || p->now_ns - s->absent_ns >= POOL_ABSENT_GAP_NS;

    if (is_apart) {
        s->absences++;
        s->absent_ns = p->now_ns;
    }
    s->recheck_ns = time_after(s->absent_ns, POOL_ABSENT_GAP_NS);
    return s->absences >= ABSENT_MAX;
}

/* Another start of it, or another box: nobody may get that, but it runs and has to be destroyed. */
static bool is_replaced(const struct pool_event *ev)
{
    return ev->u.verdict == POOL_DEAD && ev->life[0] != '\0';
}

enum pool_verdict recheck_answered(struct pool *p, struct slot *s, const struct pool_event *ev)
{
    enum pool_verdict verdict = ev->u.verdict;

    if (verdict == POOL_ALIVE) {
        s->answered_ns = p->now_ns;
        s->box.seen_ns = p->now_ns;
        s->absences = 0;
        box_take_life(p, s, ev->life);
    }
    if (s->box.state == POOL_BLANK) /* nobody has work in it */
        return verdict == POOL_ABSENT ? POOL_DEAD : verdict;
    if (s->box.state == POOL_DESTROYING && is_replaced(ev))
        return POOL_ALIVE;
    if (s->box.state == POOL_INTENT &&
        (verdict == POOL_ABSENT || is_replaced(ev))) { /* it may still exist */
        bind_give_up(p, s);
        doom_box(p, s, POOL_END_ORPHAN);
        return POOL_UNKNOWN;
    }
    if (!is_owned(s) || box_is_watched(p, s))
        return verdict;
    if (verdict == POOL_ABSENT)
        return count_absence(p, s) ? POOL_DEAD : POOL_ABSENT;
    if (verdict == POOL_SILENT)
        s->absences = 0; /* its backend knows it */
    plan(p, s);
    if (verdict == POOL_SILENT && !list_is_empty(&s->waiters)) /* its owner uses it */
        s->recheck_ns = time_after(p->now_ns, SILENT_GAP_NS);
    return verdict;
}

/* One that does not answer still belongs to its owner: it may be stopped, or the connection
 * broken. */
bool recheck_is_enough(const struct pool *p, const struct slot *s, const struct waiter *w,
                       enum pool_verdict verdict)
{
    if (!is_owned(s) || box_is_watched(p, s))
        return true;
    if (verdict == POOL_ABSENT)
        return false;
    return verdict != POOL_SILENT || w->silences >= SILENT_MAX ||
           w->acquire.deadline_ns <= p->now_ns;
}
