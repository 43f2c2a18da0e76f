/* trend.h - the last hour of the pool, in steps of ten seconds: what charts are drawn from. A fixed ring. Nothing is done
 * while nothing happens: steps that were missed meanwhile are filled in when something does, or when somebody looks. */
#ifndef ENGINE_TREND_H
#define ENGINE_TREND_H

#include "base/histogram.h"
#include "base/rt.h"
#include "pool/pool.h"

enum { TREND_STEPS = 360, TREND_MINUTE = 6, TREND_STEP_S = 10 };

/* Boxes as they are shown to callers. */
enum trend_state {
    TREND_STARTING,
    TREND_BLANK,
    TREND_LEASED,
    TREND_PARKED,
    TREND_DELETING,
    TREND_STATE_COUNT
};

#define TREND_NONE UINT32_MAX         /* there was no acquire of this kind */
#define TREND_LONGER (UINT32_MAX - 1) /* above the last bound of histograms */

struct trend_step {
    uint32_t boxes[TREND_STATE_COUNT]; /* these two: at its end */
    uint32_t waiting;
    uint32_t refused; /* these: during it */
    uint32_t acquires[POOL_SRC_COUNT];
    uint32_t p50_us[POOL_SRC_COUNT];
    uint32_t p99_us[POOL_SRC_COUNT];
};

struct trend {
    struct trend_step steps[TREND_STEPS];                  /* number n is at n % TREND_STEPS */
    uint64_t count;                                        /* steps that have ended, ever */
    uint64_t end_ns;                                       /* when the last one ended */
    struct histogram last[POOL_SRC_COUNT];                 /* acquires until then, */
    struct histogram minute[TREND_MINUTE][POOL_SRC_COUNT]; /* and until the ends of some before */
    uint64_t refused;
    struct rt_timer timer;
    bool is_running; /* the timer is set */
};

struct engine;

/* As of now. */
const struct trend *engine_trend(struct engine *e);
static inline const struct trend_step *trend_step(const struct trend *t, uint64_t number)
{
    return &t->steps[number % TREND_STEPS];
}

/* Acquires of a source since the start, and in the last minute (50 to 60 seconds). */
void engine_acquires(struct engine *e, enum pool_source source, struct histogram *ret_all,
                     struct histogram *ret_minute);

/* --- for the engine --- */
void trend_init(struct engine *e);
void trend_close(struct engine *e);
/* Something happens and the timer does not run. */
void trend_wake(struct engine *e);

#endif
