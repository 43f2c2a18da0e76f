/* hist.c - durations in buckets that grow with the value: each power of two is cut into 64. */
#include "bench/hist.h"

#include <time.h>

#include "base/compiler.h"

enum { SUB_COUNT = 1 << HIST_SUB_BITS };

uint64_t hist_now_ns(void)
{
    struct timespec ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts); /* cannot fail for this clock */
    return (uint64_t) ts.tv_sec * NS_PER_S + (uint64_t) ts.tv_nsec;
}

static unsigned bucket_of(uint64_t ns)
{
    unsigned shift;

    if (ns < SUB_COUNT)
        return (unsigned) ns;
    shift = 63U - (unsigned) __builtin_clzll(ns) - HIST_SUB_BITS;
    return ((shift + 1) << HIST_SUB_BITS) + (unsigned) ((ns >> shift) & (SUB_COUNT - 1));
}

/* The largest duration that falls into the bucket. */
static uint64_t upper_edge(unsigned bucket)
{
    unsigned shift;

    if (bucket < SUB_COUNT)
        return bucket;
    shift = (bucket >> HIST_SUB_BITS) - 1;
    return ((uint64_t) (SUB_COUNT + (bucket & (SUB_COUNT - 1))) << shift) + (1ULL << shift) - 1;
}

void hist_add(struct hist *h, uint64_t ns)
{
    h->count++;
    h->sum_ns += ns;
    h->max_ns = MAX_OF(h->max_ns, ns);
    h->buckets[bucket_of(ns)]++;
}

void hist_merge(struct hist *into, const struct hist *from)
{
    into->count += from->count;
    into->sum_ns += from->sum_ns;
    into->max_ns = MAX_OF(into->max_ns, from->max_ns);
    for (unsigned i = 0; i < HIST_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
}

uint64_t hist_percentile(const struct hist *h, double percent)
{
    double want = (double) h->count * percent / 100;
    uint64_t seen = 0;

    for (unsigned i = 0; i < HIST_BUCKETS; i++) {
        seen += h->buckets[i];
        if (seen > 0 && (double) seen >= want)
            return MIN_OF(upper_edge(i), h->max_ns);
    }
    return h->max_ns;
}

uint64_t hist_mean(const struct hist *h)
{
    return h->count > 0 ? h->sum_ns / h->count : 0;
}
