/* histogram.h - how long something took, counted in fixed buckets from 50 microseconds to a minute: what Prometheus calls a
 * histogram. Adding costs a few comparisons and no memory. */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_BOUNDS = 19 };

struct histogram {
    uint64_t counts[HISTOGRAM_BOUNDS + 1]; /* each of its own bucket; the last one has no bound */
    uint64_t sum_ns;
};

/* Nanoseconds, ascending; a value that equals a bound is below it. */
extern const uint64_t histogram_bounds[HISTOGRAM_BOUNDS];

void histogram_add(struct histogram *h, uint64_t ns);

#endif
