/* rand.h - two kinds of randomness: a seeded generator that tests can replay, and the kernel's
 * for tokens and ids that nobody may guess. */
#ifndef BASE_RAND_H
#define BASE_RAND_H

#include <stddef.h>
#include <stdint.h>

struct rand {
    uint64_t s[4];
};

void rand_seed(struct rand *r, uint64_t seed);
uint64_t rand_next(struct rand *r);
/* Uniform in [0, n); n > 0. */
uint64_t rand_below(struct rand *r, uint64_t n);
/* Uniform in [lo, hi]. */
uint64_t rand_between(struct rand *r, uint64_t lo, uint64_t hi);

/* From the kernel; aborts if the kernel has none to give (it always has after boot). */
void rand_secure(void *dst, size_t len);

#endif
