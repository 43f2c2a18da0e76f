/* names.c - the words the API, the store and the events use for the pool's enums. They are stored
 * and shown: changing one is changing the format. */
#include "base/compiler.h"
#include "pool/pool.h"

const char *pool_state_name(enum pool_state state)
{
    static const char *const names[] = {
        "free",   "intent",  "creating", "starting", "blank",      "leasing",
        "leased", "parking", "parked",   "doomed",   "destroying", "forgetting",
    };

    static_assert(ARRAY_LEN(names) == POOL_STATE_COUNT, "one name per state");
    return (unsigned) state < ARRAY_LEN(names) ? names[state] : "unknown";
}

const char *pool_source_name(enum pool_source source)
{
    static const char *const names[] = {
        "none", "kept", "parked", "discovered", "warm", "cold", "restored",
    };

    static_assert(ARRAY_LEN(names) == POOL_SRC_COUNT, "one name per source");
    return (unsigned) source < ARRAY_LEN(names) ? names[source] : "unknown";
}

const char *pool_end_name(enum pool_end end)
{
    static const char *const names[] = {
        "",
        "released",
        "destroyed",
        "ttl",
        "idle",
        "evicted",
        "died",
        "aged",
        "drift",
        "shrunk",
        "drained",
        "create_failed",
        "not_ready",
        "orphan",
        "network_ended",
        "machine_restarted",
        "guard_ended",
        "kernel_memory",
        "hibernated",
        "not_kept",
    };

    static_assert(ARRAY_LEN(names) == POOL_END_COUNT, "one name per end");
    return (unsigned) end < ARRAY_LEN(names) ? names[end] : "unknown";
}

const char *pool_mode_name(enum pool_mode mode)
{
    static const char *const names[] = {"running", "paused", "draining"};

    static_assert(ARRAY_LEN(names) == POOL_MODE_COUNT, "one name per mode");
    return (unsigned) mode < ARRAY_LEN(names) ? names[mode] : "unknown";
}

const char *pool_fact_name(enum pool_fact fact)
{
    static const char *const names[] = {
        "created",      "ready",
        "leased",       "renewed",
        "parked",       "paused",
        "resumed",      "doomed",
        "gone",         "lost",
        "adopted",      "create_failed",
        "breaker_open", "breaker_closed",
        "mode",         "missing",
        "disk_low",     "disk_ok",
        "exhausted",    "available",
        "idle_unknown", "hibernate_failed",
    };

    static_assert(ARRAY_LEN(names) == POOL_FACT_COUNT, "one name per fact");
    return (unsigned) fact < ARRAY_LEN(names) ? names[fact] : "unknown";
}

bool pool_end_is_death(enum pool_end end)
{
    return end == POOL_END_DIED || end == POOL_END_NETLESS || end == POOL_END_UNGUARDED ||
           end == POOL_END_KERNEL_MEMORY || end == POOL_END_RESTARTED;
}

bool pool_end_is_loss(enum pool_end end)
{
    return pool_end_is_death(end) || end == POOL_END_TTL || end == POOL_END_IDLE ||
           end == POOL_END_EVICTED || end == POOL_END_DRAINED || end == POOL_END_NOT_KEPT;
}
