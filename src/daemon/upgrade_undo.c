/* upgrade_undo.c - the way back, when the store is closed and there is no successor. As long as the disk does
 * not answer or fails there is nothing to serve with, so this goes on until it does: callers wait in
 * the kernel, and a stop is still obeyed. */
#include <unistd.h>

#include "base/log.h"
#include "daemon/internal.h"
#include "daemon/single.h"
#include "daemon/upgrade.h"

#define RETRY_MIN_NS (250 * NS_PER_MS)
#define RETRY_MAX_NS (5 * NS_PER_S)

/* Opening the database is done on the loop. A disk that hangs is met here first, on a thread. */
static int ask_disk(struct work *work, struct err *err UNUSED)
{
    const struct upgrade *h = container_of(work, struct upgrade, disk_work);

    single_sign(h->daemon->lock_fd);
    (void) fsync(h->daemon->lock_fd); /* that it came back is what counts */
    return SP_OK;
}

static void on_disk_answered(struct op *op);

static void on_retry(struct rt_timer *timer)
{
    struct upgrade *h = container_of(timer, struct upgrade, back_timer);

    h->disk_work.run = ask_disk;
    work_start(&h->daemon->loop, &h->disk_work, NULL, RT_NEVER, on_disk_answered);
}

/* Another version of the tables, or a configuration that does not fit: no other try can help. */
static bool is_passing(const struct err *err)
{
    return err->code == SP_IO || err->code == SP_STORE_UNAVAILABLE || err->code == SP_LOCKED;
}

/* What the last try had opened. */
static void on_failed_closed(void *ctx)
{
    struct upgrade *h = ctx;
    struct daemon *d = h->daemon;

    d->engine = NULL;
    if (d->is_stopping) {
        upgrade_close(h);
        return;
    }
    h->back_wait_ns = MIN_OF(2 * h->back_wait_ns, RETRY_MAX_NS);
    rt_timer_set(&d->loop.rt, &h->back_timer, rt_after(rt_now(&d->loop.rt), h->back_wait_ns),
                 on_retry);
}

static void on_disk_answered(struct op *op)
{
    struct upgrade *h = container_of(op, struct upgrade, disk_work.op);
    struct daemon *d = h->daemon;
    struct err err;

    if (d->is_stopping)
        return; /* all is closed already */
    if (daemon_open_engine(d, h->config, &err) == SP_OK) {
        h->config = NULL;
        h->state = UPGRADE_IDLE;
        return;
    }
    log_error("upgrade.cannot_go_back", LF_STR("reason", err.msg));
    if (!is_passing(&err)) {
        d->exit_status = 1;
        d->is_stopping = true;
    }
    engine_close(d->engine, on_failed_closed, h);
}

void upgrade_undo(struct upgrade *h)
{
    h->state = UPGRADE_RETURNING;
    h->back_wait_ns = RETRY_MIN_NS;
    on_retry(&h->back_timer);
}
