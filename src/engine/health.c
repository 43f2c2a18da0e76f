/* health.c - whether each profile can be served, as a line in the log and an event when that changes: so both state
 * what /readyz, `sandpool pool` and `sandpool doctor` state. Nothing is looked at while nothing happens. */
#include <ctype.h>

#include "base/str.h"
#include "engine/internal.h"

#define SOON_NS \
    (200 * NS_PER_MS) /* after something has happened; what is over by then is not reported */
#define WAIT_NS \
    (1 *        \
     NS_PER_S) /* a profile that is not served is looked at so often, and is served again after that */

static void on_timer(struct rt_timer *timer);

static void arm(struct engine *e, uint64_t wait_ns)
{
    e->health.is_armed = true;
    rt_timer_set(e->rt, &e->health.timer, rt_after(rt_now(e->rt), wait_ns), on_timer);
}

void health_touch(struct engine *e)
{
    if (!e->health.is_armed && !e->is_closing && e->is_recovered)
        arm(e, SOON_NS);
}

void health_close(struct engine *e)
{
    rt_timer_cancel(e->rt, &e->health.timer);
    e->health.is_armed = false;
}

/* The same cause with other numbers ("tried again in 1.2 s") is no news. */
static bool is_same_text(const char *a, const char *b)
{
    for (;;) {
        while (isdigit((unsigned char) *a) || *a == '.')
            a++;
        while (isdigit((unsigned char) *b) || *b == '.')
            b++;
        if (*a != *b)
            return false;
        if (*a == '\0')
            return true;
        a++;
        b++;
    }
}

static void report_bad(struct engine *e, unsigned profile, enum engine_cause cause, const char *why)
{
    const char *name = pool_profile(e->pool, profile)->name;

    log_warn("profile.not_ready", LF_STR("profile", name),
             LF_STR("cause", engine_cause_name(cause)), LF_STR("reason", why));
    event_ready(e, name, cause, why);
}

static void report_good(struct engine *e, unsigned profile)
{
    const char *name = pool_profile(e->pool, profile)->name;

    log_info("profile.ready", LF_STR("profile", name));
    event_ready(e, name, ENGINE_CAUSE_NONE, "");
}

/* True: it has to be looked at again, also if nothing happens. */
static bool look_at(struct engine *e, unsigned profile)
{
    struct engine_health *h = &e->health.profiles[profile];
    uint64_t now_ns = rt_now(e->rt);
    char why[ENGINE_TROUBLE_MAX];
    bool is_ready;
    enum engine_cause cause = ready_judge(e, profile, &is_ready, why, sizeof(why));
    bool is_gone = pool_profile(e->pool, profile)->is_retired;

    if (is_ready != h->is_good || h->since_ns == 0) {
        h->is_good = is_ready;
        h->since_ns = now_ns;
    }
    if (is_gone) { /* nobody asks for it any more */
        *h = (struct engine_health){.is_good = true, .since_ns = now_ns};
        return false;
    }
    if (is_ready && h->cause != ENGINE_CAUSE_NONE && rt_after(h->since_ns, WAIT_NS) <= now_ns) {
        h->cause = ENGINE_CAUSE_NONE;
        report_good(e, profile);
    } else if (!is_ready && rt_after(h->since_ns, SOON_NS) <= now_ns &&
               (cause != h->cause || !is_same_text(why, h->why))) {
        h->cause = cause;
        str_copy_cut(h->why, sizeof(h->why), why);
        report_bad(e, profile, cause, why);
    }
    return !h->is_good || h->cause != ENGINE_CAUSE_NONE;
}

static void on_timer(struct rt_timer *timer)
{
    struct engine *e = container_of(timer, struct engine, health.timer);
    struct pool_stats stats;
    bool is_open = false;
    bool is_new = false;

    e->health.is_armed = false;
    if (e->is_closing)
        return;
    pool_get_stats(e->pool, &stats);
    for (unsigned i = 0; i < stats.profile_count; i++) {
        is_open = look_at(e, i) || is_open;
        is_new = is_new || (!e->health.profiles[i].is_good &&
                            e->health.profiles[i].cause == ENGINE_CAUSE_NONE);
    }
    if (is_open)
        arm(e, is_new ? SOON_NS : WAIT_NS);
}
