/* hear.c - owned boxes of backends that do not tell of deaths. Each is asked now and then whether it is
 * still there and still the one it was: its container may be gone, or started again and empty. A backend
 * that does not know it may only be unable to look, so a box that is absent and silent is asked again
 * before its lease ends. */
#include "pool/internal.h"

#define HEAR_NS (30 * NS_PER_S)         /* unwatched: an owned box is asked so often */
#define ABSENT_MAX 3                    /* times it was found absent, before its lease ends */
#define SILENT_GAP_NS (250 * NS_PER_MS) /* before a silent one is asked again for its owner, */
#define SILENT_MAX 4                    /* this many times; then it gets it as it is */

static bool is_owned(const struct slot *s)
{
    return s->box.state == POOL_LEASED || s->box.state == POOL_PARKED;
}

static void plan(struct pool *p, struct slot *s)
{
    s->hear_ns = time_after(p->now_ns, HEAR_NS + rand_below(&p->rand, HEAR_NS / 2));
}

void hear_begin(struct pool *p, struct slot *s)
{
    s->absences = 0;
    s->hear_ns = POOL_NEVER;
    if (is_owned(s) && !s->box.is_unseen && !box_is_watched(p, s))
        plan(p, s);
}

uint64_t hear_due(const struct slot *s)
{
    return s->is_checking ? POOL_NEVER : s->hear_ns;
}

void hear_ask(struct pool *p, struct slot *s)
{
    s->hear_ns = POOL_NEVER; /* until it is answered */
    box_check(p, s, time_after(p->now_ns, POOL_CHECK_NS));
}

/* One that was absent already has its turn. */
void hear_hint(struct pool *p, struct slot *s)
{
    if (!is_owned(s) || s->hear_ns == POOL_NEVER || s->absences > 0)
        return;
    s->hear_ns = p->now_ns;
    expiry_update(p, s);
}

/* True when it was absent often enough: it is gone. */
static bool count_absence(struct pool *p, struct slot *s)
{
    bool is_apart = s->absences == 0 || p->now_ns - s->absent_ns >= POOL_ABSENT_GAP_NS;

    if (is_apart) {
        s->absences++;
        s->absent_ns = p->now_ns;
    }
    s->hear_ns = time_after(s->absent_ns, POOL_ABSENT_GAP_NS);
    return s->absences >= ABSENT_MAX;
}

enum pool_verdict hear_answered(struct pool *p, struct slot *s, const struct pool_event *ev)
{
    enum pool_verdict verdict = ev->u.verdict;

    if (verdict == POOL_ALIVE) {
        s->heard_ns = p->now_ns;
        s->absences = 0;
        box_take_life(p, s, ev->life);
    }
    if (s->box.state == POOL_BLANK) /* nobody has work in it */
        return verdict == POOL_ABSENT ? POOL_DEAD : verdict;
    if (s->box.state == POOL_INTENT && verdict == POOL_ABSENT) { /* it may be there all the same */
        bind_cut(p, s);
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
    if (verdict == POOL_SILENT && !list_is_empty(&s->waiters)) /* its owner is there */
        s->hear_ns = time_after(p->now_ns, SILENT_GAP_NS);
    return verdict;
}

/* One that does not answer is its owner's all the same: it may be stopped, or the way to it broken. */
bool hear_is_enough(const struct pool *p, const struct slot *s, const struct waiter *w,
                    enum pool_verdict verdict)
{
    if (!is_owned(s) || box_is_watched(p, s))
        return true;
    if (verdict == POOL_ABSENT)
        return false;
    return verdict != POOL_SILENT || w->silences >= SILENT_MAX ||
           w->acquire.deadline_ns <= p->now_ns;
}
