/* upgrade_drain.c - before a successor gets anything: the store has to write a row, requests that are under way are
 * finished, and all that uses the database is closed. */
#include "daemon/upgrade_drain.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "daemon/internal.h"
#include "daemon/upgrade_connections.h"

#define DRAIN_WAIT_NS (5 * NS_PER_S)
#define DRAIN_POLL_NS (2 * NS_PER_MS)
#define UNREAD_WAIT_NS (1 * NS_PER_S)     /* for who reads its answer slowly; then it is closed */
#define REPEAT_AFTER_NS (100 * NS_PER_MS) /* until then a waiting request may still be answered */
#define CLOSE_WAIT_NS (10 * NS_PER_S)

static void on_engine_closed(void *ctx)
{
    struct daemon *d = ctx;

    d->engine = NULL;
    upgrade_give(&d->upgrade);
}

static void on_provisioner_closed(void *ctx)
{
    struct daemon *d = ctx;

    engine_close(d->engine, on_engine_closed, d);
}

/* Of the servers there are only requests to boxes left, which need no engine. */
static void on_servers_quiet(void *ctx)
{
    struct daemon *d = ctx;

    for (struct box_proxy *p = api_take_proxy(&d->api); p != NULL; p = api_take_proxy(&d->api))
        rest_leave_proxy(&d->rest, p);
    if (d->provisioner == NULL) {
        on_provisioner_closed(d);
        return;
    }
    rest_leave_proxy(&d->rest, provisioner_take_proxy(d->provisioner));
    provisioner_close(TAKE_PTR(d->provisioner), on_provisioner_closed, d);
}

static void close_all(struct upgrade *h)
{
    struct daemon *d = h->daemon;

    h->state = UPGRADE_CLOSING;
    cargo_load(&d->cargo, &d->servers);
    FAULT_POINT("takeover.old_handed");
    log_info("upgrade.drained", LF_U64("connections", d->cargo.len),
             LF_U64("ms", (rt_now(&d->loop.rt) - h->started_ns) / NS_PER_MS));
    h->config = engine_keep_config(d->engine);
    upgrade_set_timer(h, CLOSE_WAIT_NS);
    rest_leave_servers(&d->rest, &d->servers, on_servers_quiet, d);
}

static void start_draining(struct upgrade *h);

struct proof {
    struct upgrade *upgrade;
    uint64_t number;
};

static void on_proved(void *ctx, int result)
{
    struct proof *proof = ctx;
    struct upgrade *h = proof->upgrade;
    bool is_old = proof->number != h->proof;

    free(proof);
    if (is_old || (h->state != UPGRADE_PROVING && h->state != UPGRADE_DRAINING))
        return; /* given up meanwhile */
    h->is_proving = false;
    if (result != SP_OK) {
        upgrade_give_up(
            h, "the database cannot be written now: see store.down in the log of the running "
               "daemon, which goes on");
    } else if (h->state == UPGRADE_PROVING) {
        start_draining(h);
    } else {
        h->is_proved = true;
        upgrade_drain(h);
    }
}

/* A database that is closed on a disk which has failed, is full or hangs could not be opened again by
 * anybody: it has to take a row first. Before anything is paused, and again before it is closed. */
void upgrade_prove(struct upgrade *h)
{
    struct proof *proof = xcalloc(1, sizeof(*proof));

    h->proof++;
    proof->upgrade = h;
    proof->number = h->proof;
    h->is_proving = true;
    engine_prove_store(h->daemon->engine, on_proved, proof);
}

/* All others wait meanwhile. A lease in such an answer is parked for its thread, which asks again. */
static void cut_unread(struct upgrade *h)
{
    size_t count = servers_cut_unread(&h->daemon->servers);

    if (count > 0)
        log_warn("upgrade.readers_cut", LF_U64("connections", count));
}

void upgrade_drain(struct upgrade *h)
{
    struct daemon *d = h->daemon;
    uint64_t now_ns = rt_now(&d->loop.rt);
    struct http_pending pending;
    char why[80];

    servers_get_pending(&d->servers, &pending);
    if (pending.busy == 0 &&
        (pending.repeatable + pending.staying == 0 || now_ns - h->started_ns >= REPEAT_AFTER_NS)) {
        if (h->is_proved)
            close_all(h);
        else if (!h->is_proving)
            upgrade_prove(h); /* comes back here */
    } else if (now_ns >= h->deadline_ns) {
        (void) snprintf(why, sizeof(why), "%zu requests did not end in time", pending.busy);
        upgrade_give_up(h, why);
    } else {
        if (pending.busy > 0 && now_ns - h->started_ns >= UNREAD_WAIT_NS) {
            cut_unread(h);
            api_end_destroys(&d->api);
        }
        upgrade_set_timer(h, DRAIN_POLL_NS);
    }
}

static void start_draining(struct upgrade *h)
{
    struct daemon *d = h->daemon;
    struct rt *rt = &d->loop.rt;

    FAULT_POINT("takeover.old_ready");
    h->state = UPGRADE_DRAINING;
    h->is_proved = false;
    h->started_ns = rt_now(rt);
    h->deadline_ns = rt_after(h->started_ns, DRAIN_WAIT_NS);
    log_info("upgrade.draining", LF_I64("pid", h->peer_pid));
    servers_pause(&d->servers);
    journal_close(engine_journal(d->engine)); /* followers come back to the successor */
    upgrade_set_timer(h, DRAIN_POLL_NS);
}
