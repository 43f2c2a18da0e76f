/* clients.h - a number of clients that do the same work at the same time, each in its own thread
 * over its own kept connection. */
#ifndef BENCH_CLIENTS_H
#define BENCH_CLIENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "bench/hist.h"

enum { CLIENTS_MAX = 1024, CLIENTS_FAILURE_MAX = 255 };

enum work {
    WORK_HEALTHZ, /* GET /healthz: what a call costs that does nothing */
    WORK_RECLAIM, /* acquire and release (park) of the client's own thread */
    WORK_WARM,    /* acquire for a thread never seen before, release with destroy */
    WORK_FILL,    /* acquire for a thread never seen before, and keep it */
    WORK_COUNT
};

const char *work_name(enum work work);
/* False when there is no such name. */
MUST_CHECK bool work_from_name(const char *name, enum work *ret);

struct work_result {
    struct hist whole;   /* one call, or acquire and release together */
    struct hist acquire; /* its parts; empty for WORK_HEALTHZ */
    struct hist release;
    uint64_t as_meant; /* acquires served as the work means it: parked, or warm */
    uint64_t failures;
    uint64_t elapsed_ns;
    char failure[CLIENTS_FAILURE_MAX + 1]; /* the first one */
};

struct clients;

/* `name` begins every thread_id, so that two runs against one daemon do not meet. It is copied. */
MUST_CHECK struct clients *clients_new(const char *socket, unsigned count, const char *name);
struct clients *clients_free(struct clients *all);

/* Does `count` operations together, or fewer when `budget_ns` is over, and adds what was measured.
 * A client stops at its first failure. */
void clients_run(struct clients *all, enum work work, uint64_t count, uint64_t budget_ns,
                 struct work_result *result);

#endif
