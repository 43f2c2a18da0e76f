/* histogram.c - durations in fixed buckets. */
#include "base/histogram.h"

#define US UINT64_C(1000)
#define MS (1000 * US)
#define S (1000 * MS)

const uint64_t histogram_bounds[HISTOGRAM_BOUNDS] = {
    50 * US,          100 * US, 250 * US, 500 * US, 1 * MS,   2500 * US, 5 * MS,
    10 * MS,          25 * MS,  50 * MS,  100 * MS, 250 * MS, 500 * MS,  1 * S,
    2 * S + 500 * MS, 5 * S,    10 * S,   30 * S,   60 * S,
};

void histogram_add(struct histogram *h, uint64_t ns)
{
    unsigned i = 0;

    while (i < HISTOGRAM_BOUNDS && ns > histogram_bounds[i])
        i++;
    h->counts[i]++;
    h->sum_ns += ns;
}
