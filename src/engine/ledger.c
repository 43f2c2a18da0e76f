/* ledger.c - the store as the engine opens it, and the news that come from its thread. */
#include <stdio.h>

#include "base/file.h"
#include "base/str.h"
#include "engine/internal.h"

void ledger_on_wake(void *ctx)
{
    struct engine *e = ctx;

    /* All writes have ended by then. The news that the disk works again would begin others, of which the thread that closes
     * the database knows nothing. */
    if (!e->is_store_closed)
        store_drain(e->store);
}

static void wake_loop(void *ctx)
{
    struct engine *e = ctx;

    wake_send(&e->store_wake);
}

static void on_store_state(void *ctx, bool is_up, const char *reason)
{
    struct engine *e = ctx;
    struct pool_event ev = {.kind = POOL_EV_STORE_STATE, .u.is_store_up = is_up};

    str_copy_cut(e->store_trouble, sizeof(e->store_trouble), is_up ? "" : reason);
    if (is_up)
        log_info("store.up", LF_STR("reason", reason != NULL ? reason : ""));
    else
        log_error("store.down", LF_STR("reason", reason != NULL ? reason : ""));
    engine_post(e, &ev);
}

static const char *boot_dir(void)
{
    const char *dir = file_boot_dir();

    if (dir == NULL)
        log_warn("store.no_boot_stamp", LF_STR("directory", "/run"),
                 LF_STR("effect",
                        "an older copy of the whole state directory is not recognised; set "
                        "XDG_RUNTIME_DIR to a directory that a start of the machine empties"));
    return dir;
}

int ledger_open(struct engine *e, struct err *err)
{
    const struct config *c = e->config->config;
    char path[CONFIG_PATH_MAX + 32];
    struct store_config sc = {.path = path,
                              .rt = e->rt,
                              .queue_max = (unsigned) c->store.queue_max,
                              .batch_max = 256,
                              .want_stamp = true,
                              .boot_dir = boot_dir(),
                              .events_max = c->store.events_max,
                              .past_max = c->pool.max_boxes * 4 + 1024,
                              .want_usage = c->usage.enabled,
                              .usage_max = c->usage.keep_rows,
                              .usage_ms = c->usage.keep_days * 24 * 3600 * 1000,
                              .budget_currency =
                                  str_is_empty(c->budgets.currency) ? NULL : c->budgets.currency,
                              .is_budget_monthly = c->budgets.period == CONFIG_PERIOD_MONTH,
                              .timeout_ns = c->store.timeout_s * NS_PER_S,
                              .want_reserve = true,
                              .wake = wake_loop,
                              .on_state = on_store_state,
                              .ctx = e};

    (void) snprintf(path, sizeof(path), "%s/sandpool.db", c->state_dir); /* both are bounded */
    return store_open(&sc, &e->store, err);
}
