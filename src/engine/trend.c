/* trend.c - one timer each ten seconds, while the pool has something to do. */
#include "engine/trend.h"

#include <math.h>
#include <string.h>

#include "base/fault.h"
#include "engine/internal.h"

#define STEP_NS FAULT_TIME(TREND_STEP_S *NS_PER_S)

static uint32_t cut(uint64_t n)
{
    return n < TREND_LONGER ? (uint32_t) n : TREND_LONGER - 1;
}

static uint32_t to_us(double s)
{
    if (s < 0)
        return TREND_NONE;
    return isinf(s) ? TREND_LONGER : cut((uint64_t) (s * 1e6 + 0.5));
}

static void subtract(struct histogram *h, const struct histogram *before)
{
    for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++)
        h->counts[i] -= before->counts[i];
    h->sum_ns -= before->sum_ns;
}

static void count_boxes(struct engine *e, struct trend_step *s)
{
    struct pool_stats now;

    pool_get_stats(e->pool, &now);
    s->boxes[TREND_STARTING] =
        now.by_state[POOL_INTENT] + now.by_state[POOL_CREATING] + now.by_state[POOL_STARTING];
    s->boxes[TREND_BLANK] = now.by_state[POOL_BLANK];
    s->boxes[TREND_LEASED] =
        now.by_state[POOL_LEASING] + now.by_state[POOL_LEASED] + now.by_state[POOL_PARKING];
    s->boxes[TREND_PARKED] = now.by_state[POOL_PARKED];
    s->boxes[TREND_DELETING] =
        now.by_state[POOL_DOOMED] + now.by_state[POOL_DESTROYING] + now.by_state[POOL_FORGETTING];
    s->waiting = now.waiting;
}

static uint64_t all_refused(const struct engine *e)
{
    uint64_t all = 0;

    for (int i = 1; i < SP_ERROR_INDEX_COUNT; i++)
        all += e->counts.refused[i];
    return all;
}

static void count_acquires(struct engine *e, struct trend_step *s)
{
    struct trend *t = &e->trend;
    uint64_t refused = all_refused(e);

    for (int i = 0; i < POOL_SRC_COUNT; i++) {
        struct histogram h = e->counts.acquires[i];

        subtract(&h, &t->last[i]);
        s->acquires[i] = cut(histogram_count(&h));
        s->p50_us[i] = to_us(histogram_quantile_of(&h, 0.5));
        s->p99_us[i] = to_us(histogram_quantile_of(&h, 0.99));
        t->last[i] = e->counts.acquires[i];
    }
    s->refused = cut(refused - t->refused);
    t->refused = refused;
}

static void end_step(struct trend *t, const struct trend_step *s)
{
    memcpy(t->minute[t->count % TREND_MINUTE], t->last, sizeof(t->last));
    t->steps[t->count % TREND_STEPS] = *s;
    t->count++;
    t->end_ns += STEP_NS;
}

/* Steps in which nothing happened: the boxes stayed as they were. */
static void fill(struct trend *t, uint64_t now_ns)
{
    uint64_t missed = now_ns > t->end_ns ? (now_ns - t->end_ns) / STEP_NS : 0;
    struct trend_step still = {.refused = 0};

    if (t->count > 0) {
        still = *trend_step(t, t->count - 1);
        memset(still.acquires, 0, sizeof(still.acquires));
        still.refused = 0;
    }
    for (int i = 0; i < POOL_SRC_COUNT; i++)
        still.p50_us[i] = still.p99_us[i] = TREND_NONE;
    if (missed > TREND_STEPS) {
        t->count += missed - TREND_STEPS;
        t->end_ns += (missed - TREND_STEPS) * STEP_NS;
        missed = TREND_STEPS;
    }
    for (; missed > 0; missed--)
        end_step(t, &still);
}

/* As the step before, and nothing is under way. */
static bool is_still(const struct trend *t, const struct trend_step *s)
{
    const struct trend_step *before = t->count > 0 ? trend_step(t, t->count - 1) : NULL;
    uint64_t acquires = s->refused;

    for (int i = 0; i < POOL_SRC_COUNT; i++)
        acquires += s->acquires[i];
    return acquires == 0 && s->waiting == 0 && before != NULL && before->waiting == 0 &&
           memcmp(s->boxes, before->boxes, sizeof(s->boxes)) == 0;
}

static void on_timer(struct rt_timer *timer)
{
    struct engine *e = container_of(timer, struct engine, trend.timer);
    struct trend *t = &e->trend;
    struct trend_step s;

    count_boxes(e, &s);
    count_acquires(e, &s);
    t->is_running = !is_still(t, &s);
    end_step(t, &s);
    fill(t, rt_now(e->rt)); /* the loop was late */
    if (t->is_running)
        rt_timer_set(e->rt, &t->timer, rt_after(t->end_ns, STEP_NS), on_timer);
}

void trend_wake(struct engine *e)
{
    struct trend *t = &e->trend;

    if (e->is_closing)
        return;
    fill(t, rt_now(e->rt));
    t->is_running = true;
    rt_timer_set(e->rt, &t->timer, rt_after(t->end_ns, STEP_NS), on_timer);
}

void trend_init(struct engine *e)
{
    e->trend.end_ns = rt_now(e->rt);
}

void trend_close(struct engine *e)
{
    rt_timer_cancel(e->rt, &e->trend.timer);
    e->trend.is_running = false;
}

const struct trend *engine_trend(struct engine *e)
{
    if (!e->trend.is_running)
        fill(&e->trend, rt_now(e->rt));
    return &e->trend;
}

void engine_acquires(struct engine *e, enum pool_source source, struct histogram *ret_all,
                     struct histogram *ret_minute)
{
    const struct trend *t = engine_trend(e);

    *ret_all = e->counts.acquires[source];
    *ret_minute = *ret_all;
    if (t->count >= TREND_MINUTE) /* the oldest of them; before that, all are younger */
        subtract(ret_minute, &t->minute[t->count % TREND_MINUTE][source]);
}
