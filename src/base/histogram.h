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

/* What part `q` of the values is below, as Prometheus computes it: evenly within a bucket. `bounds` are in seconds, `counts`
 * has one more. Below 0: there are no values; INFINITY: above the last bound. */
double histogram_quantile(const double *bounds, const uint64_t *counts, unsigned buckets, double q);
/* The same of one of ours. */
double histogram_quantile_of(const struct histogram *h, double q);
/* Values in all. */
uint64_t histogram_count(const struct histogram *h);

#endif
