/* price.c - what boxes cost: whole millionths of a currency, no fractions of them anywhere. */
#include <assert.h>

#include "config/config.h"

#define MILLION 1000000ULL
#define GB (1024ULL * 1024 * 1024)

enum { HOUR_S = 3600, MILLI = 1000, LONGEST_S = 366 * 24 * HOUR_S };

/* rate * a * b / unit, rounded. Rate, seconds and limits are bounded by their keys, so that the result fits. */
static uint64_t amount(uint64_t rate, uint64_t a, uint64_t b, uint64_t unit)
{
    unsigned __int128 product = (unsigned __int128) rate * a * b;

    return (uint64_t) ((product + unit / 2) / unit);
}

uint64_t config_hourly(const struct config_profile *p)
{
    const uint64_t *rates = p->price.rates;
    unsigned __int128 sum = (unsigned __int128) rates[CONFIG_RATE_GB_HOUR] * p->limits.memory +
                            (unsigned __int128) rates[CONFIG_RATE_DISK_GB_HOUR] * p->limits.disk;

    if (p->price.currency[0] == '\0')
        return 0;
    sum = (sum * MILLION + GB / 2) / GB;
    sum += (unsigned __int128) rates[CONFIG_RATE_HOUR] * MILLION;
    sum += (unsigned __int128) rates[CONFIG_RATE_CPU_HOUR] * p->limits.cpus * (MILLION / MILLI);
    return sum > INT64_MAX ? (uint64_t) INT64_MAX : (uint64_t) sum;
}

bool config_quote(const struct config_profile *p, uint64_t seconds, struct config_quote *ret)
{
    const uint64_t *rates = p->price.rates;
    uint64_t *parts = ret->parts;

    assert(seconds <= LONGEST_S);
    *ret = (struct config_quote){.total = 0};
    if (p->price.currency[0] == '\0')
        return false;
    parts[CONFIG_RATE_START] = rates[CONFIG_RATE_START];
    parts[CONFIG_RATE_HOUR] = amount(rates[CONFIG_RATE_HOUR], seconds, 1, HOUR_S);
    parts[CONFIG_RATE_CPU_HOUR] =
        amount(rates[CONFIG_RATE_CPU_HOUR], seconds, p->limits.cpus, HOUR_S * MILLI);
    parts[CONFIG_RATE_GB_HOUR] =
        amount(rates[CONFIG_RATE_GB_HOUR], seconds, p->limits.memory, HOUR_S * GB);
    parts[CONFIG_RATE_DISK_GB_HOUR] =
        amount(rates[CONFIG_RATE_DISK_GB_HOUR], seconds, p->limits.disk, HOUR_S * GB);
    for (unsigned i = 0; i < CONFIG_RATE_COUNT; i++)
        ret->total += parts[i];
    return true;
}
