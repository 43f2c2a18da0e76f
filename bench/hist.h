/* hist.h - how often which duration was seen. Fixed size, never allocates; a duration is kept to
 * within a sixty-fourth of itself, the largest exactly. */
#ifndef BENCH_HIST_H
#define BENCH_HIST_H

#include <stdint.h>

enum { HIST_SUB_BITS = 6, HIST_BUCKETS = (64 - HIST_SUB_BITS + 1) << HIST_SUB_BITS };

struct hist {
    uint64_t count;
    uint64_t sum_ns;
    uint64_t max_ns;
    uint64_t buckets[HIST_BUCKETS];
};

/* The machine's monotonic clock. */
uint64_t hist_now_ns(void);

void hist_add(struct hist *h, uint64_t ns);
void hist_merge(struct hist *into, const struct hist *from);
/* The duration that `percent` of all stay within; 0 when nothing was added. */
uint64_t hist_percentile(const struct hist *h, double percent);
uint64_t hist_mean(const struct hist *h);

#endif
