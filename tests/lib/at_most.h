/* at_most.h - limits for time that a test has measured: as given on a quiet machine, more on a slow or a busy one. Only
 * for what cannot be shown by an event, a count or an order. The same as at_most() of testlib.py. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define AT_MOST_SLOW 4.0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define AT_MOST_SLOW 4.0
#endif
#endif
#ifndef AT_MOST_SLOW
#define AT_MOST_SLOW 1.0
#endif

/* How many processes want each processor now, or wanted it in the last minute; 1 on a quiet machine. */
static inline double at_most_busy(void)
{
    double load = 0;
    double runnable = 0;
    double busy;
    FILE *f = fopen("/proc/loadavg", "r");

    if (f == NULL)
        return 1;
    if (fscanf(f, "%lf %*f %*f %lf/", &load, &runnable) != 2)
        runnable = 0;
    (void) fclose(f); /* it was only read */
    busy = (load > runnable ? load : runnable) / (double) sysconf(_SC_NPROCESSORS_ONLN);
    return busy < 1 ? 1 : busy > 30 ? 30 : busy;
}

/* In whatever unit the limit has. */
static inline uint64_t at_most(uint64_t limit)
{
    const char *text = getenv("SANDPOOL_TEST_SLOW");
    double slow = text != NULL ? strtod(text, NULL) : AT_MOST_SLOW;

    return (uint64_t) ((double) limit * (slow > 1 ? slow : 1) * at_most_busy());
}
