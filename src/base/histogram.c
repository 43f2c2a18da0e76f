/* histogram.c - durations in fixed buckets. */
#include "base/histogram.h"

#include <math.h>

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

double histogram_quantile(const double *bounds, const uint64_t *counts, unsigned buckets, double q)
{
    double all = 0;
    double below = 0;

    for (unsigned i = 0; i <= buckets; i++)
        all += (double) counts[i];
    if (all <= 0)
        return -1;
    for (unsigned i = 0; i < buckets; i++) {
        double low = i > 0 ? bounds[i - 1] : 0;
        double n = (double) counts[i];

        if (n > 0 && below + n >= q * all)
            return low + (bounds[i] - low) * (q * all - below) / n;
        below += n;
    }
    return INFINITY;
}

double histogram_quantile_of(const struct histogram *h, double q)
{
    double bounds[HISTOGRAM_BOUNDS];

    for (unsigned i = 0; i < HISTOGRAM_BOUNDS; i++)
        bounds[i] = (double) histogram_bounds[i] / 1e9;
    return histogram_quantile(bounds, h->counts, HISTOGRAM_BOUNDS, q);
}

uint64_t histogram_count(const struct histogram *h)
{
    uint64_t all = 0;

    for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++)
        all += h->counts[i];
    return all;
}
