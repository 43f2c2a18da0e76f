/* schema_pool.c - keys of the whole pool, its database and what may be mounted into boxes. */
#include "config/table.h"

static const char *const durability_names[] = {"auto", "process", "power", NULL};

static const char *const period_names[] = {"total", "month", NULL};
static const char *const auto_names[] = {"ordered", "cheapest", "fastest", NULL};

static_assert(ARRAY_LEN(period_names) == CONFIG_PERIOD_COUNT + 1, "a name for each");
static_assert(ARRAY_LEN(auto_names) == CONFIG_AUTO_COUNT + 1, "a name for each");
static_assert(ARRAY_LEN(durability_names) == CONFIG_DURABILITY_COUNT + 1, "a name for each");

static const struct config_key keys[] = {
    GLOBAL(pool.max_boxes, U64, 0, 1, 100000, "1000",
           "Boxes that may exist at once, those being made and destroyed included. Never "
           "exceeded."),
    GLOBAL(pool.max_waiters, U64, 0, 1, 1000000, "4096",
           "Callers that may wait for a box at once; one more is answered 429."),
    GLOBAL(pool.share_percent, U64, 0, 1, 100, "90",
           "One caller (a user id, or a token's name) may use this part of its own and the free "
           "places in the queue together. The rest is kept for other callers."),
    GLOBAL(pool.default_wait_ms, U64, RELOAD, 0, 3600000, "30000",
           "How long an acquire without wait_ms waits for a box."),
    GLOBAL(pool.max_wait_ms, U64, RELOAD, 0, 3600000, "600000",
           "The longest wait an acquire may ask for."),
    GLOBAL(pool.reconcile_interval_s, U64, RELOAD, 1, DAY, "60",
           "Seconds between two comparisons of the boxes that the backends run with what is "
           "recorded."),

    GLOBAL(
        quotas.enabled, BOOL, 0, 0, 0, "false",
        "Count what each caller (a user id, or a token's name) and each user of a caller has, so "
        "that the limits below hold. They do not hold for operators."),
    GLOBAL(
        quotas.caller_boxes, U64, RELOAD, 0, 100000, "0",
        "Boxes of one caller that may be leased or made at once; one more is answered 429. Parked "
        "ones make room for others and do not count. 0: no limit."),
    GLOBAL(quotas.caller_waiting, U64, RELOAD, 0, 1000000, "0",
           "Acquires of one caller that may wait at once. 0: only pool.share_percent."),
    GLOBAL(quotas.caller_per_minute, U64, RELOAD, 0, 1000000, "0",
           "New sandboxes that one caller may get in a minute; those that its threads have or had "
           "parked do not count. 0: no limit."),
    GLOBAL(quotas.user_boxes, U64, RELOAD, 0, 100000, "0", "The same for each user of a caller."),
    GLOBAL(quotas.user_waiting, U64, RELOAD, 0, 1000000, "0",
           "The same for each user of a caller."),
    GLOBAL(quotas.user_per_minute, U64, RELOAD, 0, 1000000, "0",
           "The same for each user of a caller."),

    CHOICE(store.durability, 0, durability_names, "auto",
           "What a committed lease survives: process is any crash of the daemon, power "
           "is also a crash of the machine. auto: power when a backend's boxes outlive "
           "this machine, else process."),
    GLOBAL(store.queue_max, U64, 0, 16, 10000000, "65536",
           "Changes that may wait to be written; when full, new leases are answered 503."),
    GLOBAL(store.events_max, U64, 0, 100, 100000000, "100000",
           "Events kept in the audit trail; the oldest go first."),
    GLOBAL(store.min_free, SIZE, RELOAD, 0, 64 * TIB, "512M",
           "Free space of the file system that holds the database and the disks of boxes, below "
           "which no new box is made. Boxes that exist can still be used, released and "
           "destroyed. 0: no floor."),
    GLOBAL(
        store.timeout_s, U64, 0, 1, 3600, "10",
        "Seconds the disk may take for a change. When one takes longer, callers are answered 503 "
        "until it is done."),

    GLOBAL(usage.enabled, BOOL, 0, 0, 0, "true",
           "Meter the time that boxes are leased, parked and paused, and what it costs: see "
           "GET /v1/usage."),
    GLOBAL(usage.sample_s, U64, RELOAD, 0, 3600, "60",
           "Seconds in which each box is once looked at for what it has used: processor, memory, "
           "network, disk. A crash loses what was used since. 0: only time is metered."),
    GLOBAL(usage.keep_days, U64, 0, 1, 3660, "400", "Days that metered time is kept."),
    GLOBAL(usage.keep_rows, U64, 0, 100, 1000000000, "1000000",
           "Metered intervals kept, at about 150 bytes each; of more, the oldest become sums."),

    GLOBAL(budgets.currency, STRING, 0, 0, CONFIG_CURRENCY_MAX, "",
           "Budgets of users are in this currency, like EUR; boxes with prices in others do not "
           "count. Empty: there are no budgets."),
    CHOICE(budgets.period, 0, period_names, "month",
           "What a budget is for: a month of the calendar (UTC), or all time."),
    GLOBAL(budgets.amount, MICRO, RELOAD, 0, CONFIG_BUDGET_MAX, "0",
           "What each user may spend in a period, unless it has an amount of its own: see "
           "/v1/budgets. 0: nothing but credits."),

    GLOBAL(mounts.allow, LIST, 0, 0, CONFIG_TEXT_MAX, "",
           "Directories of this machine whose contents may be mounted into boxes, by a profile "
           "or by a caller. Symbolic links that lead out of them are refused. Empty: none."),
    {"auto.strategy", CONFIG_TYPE_ENUM, RELOAD, offsetof(struct config, auto_.strategy), 0, 0,
     "ordered", auto_names,
     "Which of the profiles that have what an acquire with `profile: auto` asks for (limits, network, labels) it "
     "gets. ordered: the first. cheapest: the one with the lowest price for an hour, without what is paid by use; one "
     "without a price costs nothing. fastest: one with a ready box, else the one whose boxes are made fastest. Profiles "
     "whose boxes cannot be made at the moment come last."},
    {"auto.profiles", CONFIG_TYPE_LIST, RELOAD, offsetof(struct config, auto_.profiles), 0,
     CONFIG_TEXT_MAX, "", NULL,
     "Names of the profiles to choose from, in their order. Empty: all, by name."},
};

const struct config_table config_table_pool = {keys, ARRAY_LEN(keys)};
