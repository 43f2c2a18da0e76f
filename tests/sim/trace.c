/* trace.c - events and effects of the pool as text. */
#include "trace.h"

#include <stdio.h>
#include <string.h>

#include "sandpool/errors.h"

static const char *const effects[] = {"store",    "create",  "probe", "check",     "ask_use",
                                      "discover", "destroy", "bind",  "hibernate", "freeze",
                                      "reply",    "again",   "event"};
static_assert(ARRAY_LEN(effects) == POOL_FX_COUNT, "one name per effect");

static const char *const events[] = {
    "acquire",     "release",      "renew",         "destroy",   "pause",       "abandon",
    "undelivered", "activity",     "resumed",       "created",   "create_fail", "probed",
    "checked",     "discovered",   "used",          "destroyed", "hibernated",  "died",
    "netless",     "unguarded",    "kernel_memory", "kept",      "looked",      "listed",
    "stored",      "store_failed", "store_state",   "space",     "wake",        "reconfig",
    "mode"};
static_assert(ARRAY_LEN(events) == POOL_EV_COUNT, "one name per event");

void trace_effect(char dst[TRACE_MAX], const struct pool_fx *fx)
{
    const struct pool_box *b = &fx->snapshot;
    int len =
        snprintf(dst, TRACE_MAX, "-> %s box=%016llx epoch=%llu state=%s id=%s gen=%llu",
                 effects[fx->kind], (unsigned long long) fx->box.v, (unsigned long long) fx->epoch,
                 pool_state_name(b->state), b->sandbox_id, (unsigned long long) b->generation);
    size_t at = (size_t) len;

    if (fx->kind == POOL_FX_STORE)
        len = snprintf(dst + at, TRACE_MAX - at, " what=%d write=%llu", (int) fx->u.store.what,
                       (unsigned long long) fx->u.store.write);
    else if (fx->kind == POOL_FX_REPLY)
        len = snprintf(dst + at, TRACE_MAX - at, " req=%llu %s %s", (unsigned long long) fx->req.v,
                       fx->u.reply.code == SP_OK ? "ok" : sp_error_info(fx->u.reply.code)->name,
                       pool_source_name(fx->u.reply.source));
    else if (fx->kind == POOL_FX_EVENT)
        len = snprintf(dst + at, TRACE_MAX - at, " %s", pool_fact_name(fx->u.event.fact));
    else
        len = 0;
    at += (size_t) len;
    (void) snprintf(dst + at, TRACE_MAX - at, "%s %s", b->is_paused ? " (paused)" : "", fx->reason);
}

void trace_event(char dst[TRACE_MAX], const struct pool_event *ev)
{
    int len = snprintf(dst, TRACE_MAX, "%s box=%016llx epoch=%llu req=%llu", events[ev->kind],
                       (unsigned long long) ev->box.v, (unsigned long long) ev->epoch,
                       (unsigned long long) ev->req.v);
    size_t at = (size_t) len;

    if (ev->kind == POOL_EV_ACQUIRE)
        (void) snprintf(dst + at, TRACE_MAX - at, " id=%s profile=%u", ev->u.acquire.sandbox_id,
                        ev->u.acquire.profile);
    else if (ev->kind <= POOL_EV_DESTROY)
        (void) snprintf(dst + at, TRACE_MAX - at, " id=%s gen=%llu destroy=%d", ev->u.on.sandbox_id,
                        (unsigned long long) ev->u.on.generation, (int) ev->u.on.want_destroy);
    else if (ev->kind == POOL_EV_STORED || ev->kind == POOL_EV_STORE_FAILED)
        (void) snprintf(dst + at, TRACE_MAX - at, " write=%llu",
                        (unsigned long long) ev->u.stored.write);
    else if (ev->kind == POOL_EV_STORE_STATE)
        (void) snprintf(dst + at, TRACE_MAX - at, " %s", ev->u.is_store_up ? "up" : "down");
}

enum pool_end trace_end(const struct pool_fx *fx)
{
    if (fx->u.event.fact == POOL_FACT_PARKED && strcmp(fx->reason, "ttl") == 0)
        return POOL_END_TTL;
    if (fx->u.event.fact == POOL_FACT_PARKED && strcmp(fx->reason, "idle") == 0)
        return POOL_END_IDLE;
    return fx->u.event.fact == POOL_FACT_DOOMED ? fx->u.event.end : POOL_END_NONE;
}
