/* stop.c - the stop order: no new connections, waiting acquires are refused, running requests get a moment,
 * close connections, destroy the boxes if asked to, engine (operations, store), HTTP client, loop. A
 * second signal skips the moment. Each step has a deadline; guard.c ends the process if the loop hangs. */
#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "daemon/ends.h"
#include "daemon/guard.h"
#include "daemon/internal.h"
#include "daemon/notify.h"
#include "daemon/upgrade_connections.h"

#define STOP_GRACE_NS (2 * NS_PER_S)
#define DESTROY_GRACE_NS (60 * NS_PER_S)
#define CLOSE_POLL_NS (500 * NS_PER_MS)
#define STOP_POLL_NS (10 * NS_PER_MS)
#define REST_MAX_NS (3600 * NS_PER_S) /* for requests to boxes that a take-over left here */
#define CLOSE_MAX_NS (60 * NS_PER_S)  /* for operations under way; a service manager waits longer */

static void on_all_closed(void *ctx)
{
    static const int signums[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR2};
    struct daemon *d = ctx;
    sigset_t ours;

    /* Till here, because closing them brings back the default action: one more signal would end
     * the process before what is committed is written down. Now only milliseconds are left. */
    (void) sigemptyset(&ours); /* none of these can fail for a valid number */
    for (size_t i = 0; i < ARRAY_LEN(signums); i++)
        (void) sigaddset(&ours, signums[i]);
    (void) pthread_sigmask(SIG_BLOCK, &ours,
                           NULL); /* one that comes in between waits, and is dropped */
    signals_close(&d->signals);
    for (size_t i = 0; i < ARRAY_LEN(signums); i++)
        (void) signal(signums[i], SIG_IGN);
    (void) pthread_sigmask(SIG_UNBLOCK, &ours, NULL);
    rt_timer_cancel(&d->loop.rt, &d->beat_timer);
    loop_stop(&d->loop);
}

static void on_failed_closed(void *ctx)
{
    struct daemon *d = ctx;

    d->engine = NULL;
    httpc_close(d->http_client, on_all_closed, d);
}

void daemon_unwind(struct daemon *d)
{
    engine_close(d->engine, on_failed_closed, d);
    loop_run(&d->loop);
    loop_fini(&d->loop);
    cargo_drop(&d->cargo);
    (void) close(d->lock_fd); /* nothing of it is used any more */
}

static void on_rest_ended(void *ctx)
{
    struct daemon *d = ctx;

    ends_unfollow(&d->upgrade);
    httpc_close(d->http_client, on_all_closed, d);
}

void daemon_finish(struct daemon *d)
{
    rt_timer_cancel(&d->loop.rt, &d->watchdog_timer);
    rt_timer_cancel(&d->loop.rt, &d->stop_timer);
    rest_wait(&d->rest, d->is_handed_over ? REST_MAX_NS : 0, on_rest_ended, d);
}

static void on_engine_closed(void *ctx)
{
    struct daemon *d = ctx;

    d->engine = NULL;
    rt_timer_cancel(&d->loop.rt, &d->stop_timer);
    cargo_drop(&d->cargo);
    daemon_finish(d);
}

static void end_now(const char *why)
{
    log_error("daemon.stop_forced", LF_STR("reason", why));
    log_flush_wait();
    _exit(1);
}

/* The store is closed when its last write has ended, which a disk that hangs never lets happen. All
 * that was promised is on it, so the process may just end. */
static void on_close_timer(struct rt_timer *timer)
{
    struct daemon *d = container_of(timer, struct daemon, stop_timer);

    if (d->engine == NULL)
        return;
    if (engine_is_store_hung(d->engine))
        end_now(engine_store_trouble(d->engine));
    if (rt_now(&d->loop.rt) >= d->stop_deadline_ns)
        end_now("operations under way do not end");
    rt_timer_set(&d->loop.rt, timer, rt_after(rt_now(&d->loop.rt), CLOSE_POLL_NS), on_close_timer);
}

/* The engine is being closed, by us or by a take-over. */
static void watch_close(struct daemon *d)
{
    d->stop_deadline_ns = rt_after(rt_now(&d->loop.rt), CLOSE_MAX_NS);
    on_close_timer(&d->stop_timer);
}

static void close_engine(struct daemon *d)
{
    engine_close(d->engine, on_engine_closed, d);
    watch_close(d);
}

static void on_all_destroyed(void *ctx, size_t left)
{
    struct daemon *d = ctx;

    if (left > 0)
        log_error("daemon.boxes_left", LF_U64("count", left));
    close_engine(d);
}

static void on_servers_closed(void *ctx)
{
    struct daemon *d = ctx;

    if (api_close_proxy(&d->api, on_servers_closed, d))
        return;
    if (d->provisioner != NULL) {
        provisioner_close(TAKE_PTR(d->provisioner), on_servers_closed, d);
        return;
    }
    if (d->options->want_destroy)
        engine_destroy_all(d->engine, rt_after(rt_now(&d->loop.rt), DESTROY_GRACE_NS),
                           on_all_destroyed, d);
    else
        close_engine(d);
}

static void close_everything(struct daemon *d)
{
    if (d->is_closing)
        return;
    d->is_closing = true;
    rt_timer_cancel(&d->loop.rt, &d->stop_timer);
    engine_refuse_waiting(d->engine); /* those that came while stopping */
    servers_close(&d->servers, on_servers_closed, d);
}

static void on_beat(struct rt_timer *timer)
{
    struct daemon *d = container_of(timer, struct daemon, beat_timer);

    guard_beat();
    rt_timer_set(&d->loop.rt, timer, rt_after(rt_now(&d->loop.rt), CLOSE_POLL_NS), on_beat);
}

/* Only while stopping: looks whether the last running request has been answered. */
static void on_stop_timer(struct rt_timer *timer)
{
    struct daemon *d = container_of(timer, struct daemon, stop_timer);
    struct rt *rt = &d->loop.rt;

    if (servers_connections(&d->servers) == 0 || rt_now(rt) >= d->stop_deadline_ns)
        close_everything(d);
    else
        rt_timer_set(rt, timer, rt_after(rt_now(rt), STOP_POLL_NS), on_stop_timer);
}

void daemon_stop(struct daemon *d, const char *why)
{
    if (d->is_stopping) {
        rest_cut(&d->rest);
        if (d->engine != NULL && !upgrade_is_busy(&d->upgrade))
            close_everything(d);
        return;
    }
    d->is_stopping = true;
    on_beat(&d->beat_timer);
    if (!upgrade_stop(&d->upgrade)) {
        watch_close(d);
        return;
    }
    notify_send("STOPPING=1");
    log_info("daemon.stopping", LF_STR("why", why));
    servers_stop(&d->servers);
    listeners_close(&d->listeners, d->takeover.fd < 0); /* else the files are not ours yet */
    engine_refuse_waiting(d->engine);
    journal_close(engine_journal(d->engine));
    d->stop_deadline_ns = rt_after(rt_now(&d->loop.rt), STOP_GRACE_NS);
    on_stop_timer(&d->stop_timer);
}
