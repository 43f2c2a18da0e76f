/* life.c - an engine is made, gets another configuration, and is freed; what comes before the last is in close.c. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/engine.h"
#include "engine/hibernate.h"
#include "engine/internal.h"
#include "engine/pauses.h"
#include "engine/snapshots.h"

int engine_new(struct loop *l, struct httpc *http, struct config *config, struct engine **ret,
               struct err *err)
{
    struct engine *e = xcalloc(1, sizeof(*e));
    int r;

    e->loop = l;
    e->rt = &l->rt;
    e->http = http;
    e->config = config_ref_new(config);
    e->next_req = 1;
    list_init(&e->free_writes);
    list_init(&e->late_events);
    list_init(&e->note_list);
    snapshots_init(e, config);
    list_init(&e->watchers);
    list_init(&e->probes);
    list_init(&e->uses);
    list_init(&e->bind_list);
    map_init(&e->binds, 1024);
    list_init(&e->joins);
    list_init(&e->rounds);
    list_init(&e->acquires);
    map_init(&e->calls, config->pool.max_waiters);
    map_init(&e->pending, config->pool.max_waiters);
    map_init(&e->spenders, 64);
    map_init(&e->notes, config->pool.max_boxes);
    map_init(&e->updates, 64);
    map_init(&e->pauses, 64);
    hibernate_init(e, config);
    leases_init(e, config);
    journal_init(&e->journal);
    trend_init(e);
    tokens_init(e);
    *ret = e;
    r = ledger_open(e, err);
    if (r == SP_OK)
        r = load_store(e, err);
    if (r == SP_OK)
        r = wake_init(&e->store_wake, l, ledger_on_wake, e, err);
    e->has_wake = r == SP_OK;
    if (r == SP_OK)
        r = store_start(e->store, err);
    if (r != SP_OK) {
        e->store = store_close(e->store); /* so that it can be opened again */
        e->config->is_kept = true;
        return r;
    }
    if (e->is_instance_new) /* committed before the first intent, which is queued behind it */
        meta_put(e, META_INSTANCE, e->instance);
    if (!str_is_empty(e->boot_id))
        meta_put(e, META_BOOT, e->boot_id);
    clock_note(e); /* committed before the first row */
    meta_put(e, META_CLEAN, "0");
    return SP_OK;
}

void engine_free(struct engine *e)
{
    notes_fini(e);
    leases_fini(e);
    if (e->pool != NULL)
        e->pool = pool_free(e->pool);
    fx_store_fini(e);
    tokens_fini(e);
    snapshots_fini(e);
    hibernate_fini(e);
    map_fini(&e->calls);
    map_fini(&e->pending);
    map_fini(&e->spenders);
    map_fini(&e->updates);
    map_fini(&e->pauses);
    map_fini(&e->binds);
    stats_close(e);
    journal_fini(&e->journal);
    config_ref_put(e->config);
    free(e->queue);
    free(e);
}

int engine_reload(struct engine *e, struct config *config, struct err *err)
{
    struct pool_config *pc = xcalloc(1, sizeof(*pc));
    struct pool_event ev = {.kind = POOL_EV_RECONFIG};
    int r = config_can_reload(e->config->config, config, err);

    if (r == SP_OK)
        r = profiles_check(e, config, err);
    if (r == SP_OK)
        r = profiles_open_backends(e, config, err);
    if (r != SP_OK) {
        (void) config_free(config); /* returns NULL by convention */
        free(pc);
        return r;
    }
    profiles_fill(e, config, pc);
    ev.u.reconfig = pc;
    config_ref_put(e->config);
    e->config = config_ref_new(config);
    engine_post(e, &ev);
    usage_take_prices(e);
    usage_reprice(e);
    for (unsigned i = 0; i < e->backend_count; i++) {
        if (e->backends[i].is_begun)
            continue;
        e->backends[i].is_begun = true;
        snapshots_load(e, i);
        reconcile_backend(e, i);
    }
    profiles_prepare(e);
    reconcile_arm(e);
    snapshots_keep_arm(e);
    space_look(e);
    hibernate_rank(e);
    leases_rank(e);
    free(pc);
    e->reloads++;
    journal_wake(&e->journal);
    log_info("config.reloaded", LF_U64("profiles", config->profile_count));
    return SP_OK;
}

struct config *engine_keep_config(struct engine *e)
{
    e->config->is_kept = true;
    return e->config->config;
}
