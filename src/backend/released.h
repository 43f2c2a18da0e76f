/* released.h - what a destroy has released. Nobody guesses: what was not counted is not known, which is not the same as 0. */
#ifndef BACKEND_RELEASED_H
#define BACKEND_RELEASED_H

#include <stdbool.h>
#include <stdint.h>

struct backend_count {
    bool is_known;
    uint64_t n;
};

/* All zero: nothing is known. */
struct backend_released {
    char text[256];                 /* a sentence for people */
    struct backend_count processes; /* that were ended; 0: all had ended before */
    struct backend_count mounts;    /* of its mount namespace */
    struct backend_count layers;    /* that were its own: what it had written to them is gone */
    struct backend_count bytes;     /* of the disk */
};

static inline struct backend_count backend_counted(uint64_t n)
{
    return (struct backend_count){.is_known = true, .n = n};
}

#endif
