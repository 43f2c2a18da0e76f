/* pace.h - bytes that pass between a caller and a process of ours. The process may be silent for two minutes at a time. The caller has
 * two minutes of its own: what is its turn uses them up, and each byte that it moves gives some back. So one that moves
 * a byte now and then does not hold the place of others. */
#ifndef ENGINE_PACE_H
#define ENGINE_PACE_H

#include <stddef.h>

#include "base/rt.h"

#define PACE_PATIENCE_S 120
#define PACE_RATE 32768 /* bytes per second of a caller's turns */

struct pace {
    struct rt *rt;
    struct rt_timer timer;
    uint64_t left_ns; /* of the caller's own time */
    uint64_t since_ns;
    bool is_callers; /* its turn, since then */
    void (*on_over)(struct pace *p);
};

/* The caller's turn. `on_over` comes at most once. */
void pace_begin(struct pace *p, struct rt *rt, void (*on_over)(struct pace *p));
/* So many bytes of the caller have moved, and whose turn it is now. */
void pace_moved(struct pace *p, size_t bytes, bool is_callers);
/* One that was never begun has all zero, and may be ended, too. */
void pace_end(struct pace *p);

#endif
