/* effort.h - how much work input makes in one turn of the loop: of one connection, and of all together.
 * A byte of a body is copied, a byte of the framing around it (sizes of chunks, extensions) goes through
 * a state machine: it counts as sixteen. Whoever has used its part goes on in the next turn, and in each
 * turn everybody gets a little, so that nobody starves behind those who use up the whole. */
#ifndef BASE_EFFORT_H
#define BASE_EFFORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

enum {
    EFFORT_FRAMING = 16,       /* what a byte of framing counts */
    EFFORT_ONE_MAX = 1 << 20,  /* of one connection in a turn */
    EFFORT_ALL_MAX = 16 << 20, /* of all together */
    EFFORT_SLICE = 16 * 1024,  /* that each of them has in any case */
    EFFORT_STEP = 1024,        /* less than this is nothing */
    EFFORT_CHUNK_FREE = 12, /* bytes of framing that a chunk needs: eight digits, two line ends */
};

struct effort {
    uint64_t turn;
    size_t used;
};

static inline size_t effort_used(const struct effort *e, uint64_t turn)
{
    return e->turn == turn ? e->used : 0;
}

static inline void effort_add(struct effort *e, uint64_t turn, size_t cost)
{
    e->used = effort_used(e, turn) + cost;
    e->turn = turn;
}

/* What `one` may still use in this turn; 0: it has to wait for the next. */
static inline size_t effort_room(const struct effort *one, const struct effort *all, uint64_t turn)
{
    size_t own = effort_used(one, turn);
    size_t sum = effort_used(all, turn);
    size_t max =
        sum < EFFORT_ALL_MAX ? MIN_OF((size_t) EFFORT_ONE_MAX, own + EFFORT_ALL_MAX - sum) : 0;

    max = MAX_OF(max, (size_t) EFFORT_SLICE);
    return own + EFFORT_STEP <= max ? max - own : 0;
}

/* Cost of `raw` bytes of which `body` are payload. */
static inline size_t effort_cost(size_t raw, size_t body)
{
    return body + EFFORT_FRAMING * (raw - body);
}

#endif
