/* handover.c - gives a successor all this daemon has, and takes it back when the successor fails. */
#include "daemon/handover.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "daemon/baton.h"
#include "daemon/cargo.h"
#include "daemon/give.h"
#include "daemon/internal.h"
#include "daemon/notify.h"
#include "daemon/single.h"

#define ASK_WAIT_NS (2 * NS_PER_S)
#define READY_WAIT_NS (10 * NS_PER_S)
#define DRAIN_WAIT_NS (10 * NS_PER_S)
#define DRAIN_POLL_NS (2 * NS_PER_MS)
#define REPEAT_AFTER_NS (100 * NS_PER_MS) /* until then a waiting request may still be answered */
#define DONE_WAIT_NS (30 * NS_PER_S)
#define END_WAIT_NS (5 * NS_PER_S) /* of a successor that was killed */

enum { ARGS_MAX = 64 };

/* A descriptor that is watched: the listening one, or the successor's. */
struct handover_peer {
    uv_poll_t poll;
    struct handover *handover;
    int fd;
};

static void on_timer(struct rt_timer *timer);

/* --- descriptors --- */

static struct handover_peer *watch(struct handover *h, int fd, uv_poll_cb on_readable)
{
    struct handover_peer *p = xcalloc(1, sizeof(*p));
    int r = uv_poll_init(&h->daemon->loop.uv, &p->poll, fd);

    if (r != 0) { /* the descriptor cannot be watched */
        (void) close(fd);
        free(p);
        return NULL;
    }
    p->handover = h;
    p->fd = fd;
    r = uv_poll_start(&p->poll, UV_READABLE, on_readable);
    assert(r == 0); /* only links the watcher */
    return p;
}

static void unwatch(struct handover_peer **p)
{
    if (*p == NULL)
        return;
    (void) uv_poll_stop(&(*p)->poll); /* cannot fail on an initialised handle */
    (void) close((*p)->fd);           /* nothing to do about it here */
    loop_close_handle((uv_handle_t *) &(*p)->poll, free, *p);
    *p = NULL;
}

static void say_no(int fd, const char *why)
{
    struct err err;

    if (baton_send(fd, BATON_NO, why, strlen(why), NULL, 0, &err) != SP_OK)
        log_debug("handover.no_not_said", LF_STR("reason", err.msg)); /* it sees the end anyway */
}

static void set_timer(struct handover *h, uint64_t after_ns)
{
    struct rt *rt = &h->daemon->loop.rt;

    rt_timer_set(rt, &h->timer, rt_after(rt_now(rt), after_ns), on_timer);
}

static void become_idle(struct handover *h)
{
    h->state = HANDOVER_IDLE;
    rt_timer_cancel(&h->daemon->loop.rt, &h->timer);
    unwatch(&h->peer);
}

/* --- back --- */

static void fail_daemon(struct daemon *d, const struct err *err)
{
    log_error("handover.cannot_go_back", LF_STR("reason", err->msg));
    d->exit_status = 1;
    d->is_stopping = true;
    baton_remove(d->state_dir);
    unwatch(&d->handover.listener);
    listeners_close(&d->listeners, true);
    cargo_drop(&d->cargo);
    daemon_finish(d);
}

/* The store is closed and the successor has ended, or never had it: opens all again. */
static void go_back(struct handover *h, const char *why)
{
    struct daemon *d = h->daemon;
    struct config *config = h->config;
    struct err err;

    log_error("handover.failed", LF_STR("reason", why), LF_I64("pid", h->peer_pid));
    h->config = NULL;
    become_idle(h);
    single_sign(d->lock_fd);
    if (daemon_open_engine(d, config, &err) != SP_OK)
        fail_daemon(d, &err);
}

/* Nothing was closed yet: goes on. */
static void give_up(struct handover *h, const char *why)
{
    struct daemon *d = h->daemon;
    enum handover_state state = h->state;
    struct err err;

    log_warn("handover.given_up", LF_STR("reason", why), LF_I64("pid", h->peer_pid));
    if (h->peer != NULL)
        say_no(h->peer->fd, why);
    become_idle(h);
    if (state != HANDOVER_DRAINING)
        return;
    journal_open(engine_journal(d->engine));
    if (servers_resume(&d->servers, &err) == SP_OK)
        return;
    log_error("handover.cannot_go_back", LF_STR("reason", err.msg));
    d->exit_status = 1;
    (void) raise(SIGTERM); /* no descriptor left: what is under way is finished in order */
}

/* It has the database and does not do what it should. Its end is seen at its socket. */
static void end_successor(struct handover *h)
{
    if (h->is_ending || kill(h->peer_pid, SIGKILL) != 0) {
        go_back(h, "the successor does not end");
        return;
    }
    h->is_ending = true;
    set_timer(h, END_WAIT_NS);
}

static void on_peer_failed(struct handover *h, bool is_gone, const char *why)
{
    switch (h->state) {
    case HANDOVER_ASKED:
    case HANDOVER_OFFERED:
    case HANDOVER_DRAINING:
        give_up(h, why);
        break;
    case HANDOVER_CLOSING:
        unwatch(&h->peer); /* seen when the store is closed */
        break;
    case HANDOVER_GIVEN:
        if (is_gone)
            go_back(h, why);
        else
            end_successor(h);
        break;
    case HANDOVER_IDLE:
    case HANDOVER_STATE_COUNT:
        break;
    }
}

/* --- forward --- */

static void on_engine_closed(void *ctx)
{
    struct daemon *d = ctx;
    struct handover *h = &d->handover;
    struct err err;

    d->engine = NULL;
    if (d->is_stopping) { /* told to in the meantime */
        unwatch(&h->peer);
        h->config = config_free(h->config);
        cargo_drop(&d->cargo);
        listeners_close(&d->listeners, true);
        daemon_finish(d);
        return;
    }
    FAULT_POINT("takeover.old_closed");
    if (h->peer == NULL) {
        go_back(h, "the successor ended");
        return;
    }
    h->state = HANDOVER_GIVEN;
    h->is_ending = false;
    if (give_all(h->peer->fd, &d->cargo, d->lock_fd, &err) != SP_OK) {
        on_peer_failed(h, err.code == SP_CONNECT_FAILED, err.msg);
        return;
    }
    FAULT_POINT("takeover.old_given");
    set_timer(h, DONE_WAIT_NS);
}

static void on_servers_closed(void *ctx)
{
    struct daemon *d = ctx;

    if (d->provisioner != NULL)
        provisioner_close(TAKE_PTR(d->provisioner), on_servers_closed, d);
    else
        engine_close(d->engine, on_engine_closed, d);
}

static void close_all(struct handover *h)
{
    struct daemon *d = h->daemon;

    h->state = HANDOVER_CLOSING;
    cargo_load(&d->cargo, &d->servers);
    FAULT_POINT("takeover.old_handed");
    log_info("handover.drained", LF_U64("connections", d->cargo.len),
             LF_U64("ms", (rt_now(&d->loop.rt) - h->started_ns) / NS_PER_MS));
    h->config = engine_keep_config(d->engine);
    servers_close(&d->servers, on_servers_closed, d);
}

static void drain(struct handover *h)
{
    struct daemon *d = h->daemon;
    uint64_t now_ns = rt_now(&d->loop.rt);
    struct http_pending pending;
    char why[80];

    servers_get_pending(&d->servers, &pending);
    if (pending.busy == 0 &&
        (pending.repeatable == 0 || now_ns - h->started_ns >= REPEAT_AFTER_NS)) {
        close_all(h);
    } else if (now_ns >= h->deadline_ns) {
        (void) snprintf(why, sizeof(why), "%zu requests did not end in time", pending.busy);
        give_up(h, why);
    } else {
        set_timer(h, DRAIN_POLL_NS);
    }
}

static void start_draining(struct handover *h)
{
    struct daemon *d = h->daemon;
    struct rt *rt = &d->loop.rt;

    FAULT_POINT("takeover.old_ready");
    h->state = HANDOVER_DRAINING;
    h->started_ns = rt_now(rt);
    h->deadline_ns = rt_after(h->started_ns, DRAIN_WAIT_NS);
    log_info("handover.draining", LF_I64("pid", h->peer_pid));
    servers_pause(&d->servers);
    journal_close(engine_journal(d->engine)); /* followers come back to the successor */
    set_timer(h, DRAIN_POLL_NS);
}

static void on_hello(struct handover *h, const struct baton *b)
{
    struct err err;
    int r = give_check_hello(b, &err);

    FAULT_POINT("takeover.old_asked");
    if (r == SP_OK)
        r = give_offer(h->peer->fd, &h->daemon->listeners, &err);
    if (r != SP_OK) {
        give_up(h, err.msg);
        return;
    }
    h->state = HANDOVER_OFFERED;
    FAULT_POINT("takeover.old_offered");
    set_timer(h, READY_WAIT_NS);
}

static void finish(struct handover *h)
{
    struct daemon *d = h->daemon;
    char text[48];

    FAULT_POINT("takeover.old_done");
    log_info("daemon.handed_over", LF_I64("to_pid", h->peer_pid),
             LF_U64("connections", d->cargo.len),
             LF_U64("ms", (rt_now(&d->loop.rt) - h->started_ns) / NS_PER_MS));
    (void) snprintf(text, sizeof(text), "MAINPID=%d", (int) h->peer_pid);
    notify_send(text);
    d->is_stopping = true;
    become_idle(h);
    unwatch(&h->listener);
    h->config = config_free(h->config);
    cargo_drop(&d->cargo);
    listeners_close(&d->listeners, false);
    daemon_finish(d);
}

static void on_packet(struct handover *h, const struct baton *b)
{
    if (h->state == HANDOVER_ASKED && b->kind == BATON_HELLO && b->fd_count == 0)
        on_hello(h, b);
    else if (h->state == HANDOVER_OFFERED && b->kind == BATON_READY)
        start_draining(h);
    else if (h->state == HANDOVER_GIVEN && b->kind == BATON_DONE)
        finish(h);
    else
        on_peer_failed(h, false, "a packet that is not expected now");
}

static void on_peer_readable(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
    struct handover *h = container_of(poll, struct handover_peer, poll)->handover;
    struct baton *b = xcalloc(1, sizeof(*b));
    struct err err;
    int r = baton_receive(h->peer->fd, b, &err);

    if (r == SP_OK) {
        on_packet(h, b);
        baton_drop_fds(b);
    } else if (r != SP_TIMEOUT) {
        on_peer_failed(h, r == SP_CONNECT_FAILED, err.msg);
    }
    free(b);
}

static void on_timer(struct rt_timer *timer)
{
    struct handover *h = container_of(timer, struct handover, timer);

    switch (h->state) {
    case HANDOVER_ASKED:
    case HANDOVER_OFFERED:
        give_up(h, "the successor does not go on");
        break;
    case HANDOVER_DRAINING:
        drain(h);
        break;
    case HANDOVER_GIVEN:
        log_error("handover.successor_hangs", LF_I64("pid", h->peer_pid));
        end_successor(h);
        break;
    case HANDOVER_IDLE:
    case HANDOVER_CLOSING:
    case HANDOVER_STATE_COUNT:
        break;
    }
}

static void on_listener_readable(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
    struct handover_peer *listener = container_of(poll, struct handover_peer, poll);
    struct handover *h = listener->handover;
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    pid_t pid = 0;

    if (fd < 0)
        return; /* it was faster */
    if (!baton_is_allowed(fd, &pid)) {
        log_warn("handover.stranger", LF_I64("pid", pid));
        (void) close(fd); /* no word to strangers */
        return;
    }
    if (h->state != HANDOVER_IDLE || h->daemon->is_stopping || h->daemon->servers.count == 0) {
        say_no(fd, h->state != HANDOVER_IDLE ? "another hand-over is under way"
                                             : "it starts or stops just now");
        (void) close(fd); /* said all */
        return;
    }
    h->peer = watch(h, fd, on_peer_readable);
    if (h->peer == NULL)
        return;
    h->peer_pid = pid;
    h->state = HANDOVER_ASKED;
    set_timer(h, ASK_WAIT_NS);
}

/* --- a successor of our own making --- */

/* It is our child until we end; one that failed is not left as a zombie. */
static void reap(struct handover *h)
{
    if (h->started_pid > 0 && waitpid(h->started_pid, NULL, WNOHANG) != 0)
        h->started_pid = 0;
}

void handover_start(struct handover *h)
{
    static char takeover[] = "--takeover";
    char *const *own = h->daemon->options->argv;
    char *argv[ARGS_MAX + 2];
    size_t count = 0;
    int r = ENOENT;

    reap(h);
    while (own[count] != NULL && count < ARGS_MAX) {
        argv[count] = own[count];
        count++;
    }
    argv[count] = takeover; /* once more does no harm */
    argv[count + 1] = NULL;
    if (h->started_pid > 0 || h->listener == NULL || own[count] != NULL)
        r = EBUSY;
    else if (h->program[0] != '\0')
        r = posix_spawn(&h->started_pid, h->program, NULL, NULL, argv, environ);
    if (r != 0)
        log_error("handover.not_started", LF_STR("program", h->program), LF_I64("errno", r));
    else
        log_info("handover.started", LF_STR("program", h->program), LF_I64("pid", h->started_pid));
}

/* --- life --- */

void handover_open(struct handover *h, struct daemon *d)
{
    struct err err;
    ssize_t len;
    int fd;

    h->daemon = d;
    if (h->listener != NULL)
        return;
    /* Now, because an upgrade puts another file in its place. */
    len = readlink("/proc/self/exe", h->program, sizeof(h->program) - 1);
    h->program[len > 0 ? len : 0] = '\0';
    if (baton_listen(d->state_dir, &fd, &err) != SP_OK)
        log_warn("handover.not_possible", LF_STR("reason", err.msg));
    else
        h->listener = watch(h, fd, on_listener_readable);
}

bool handover_stop(struct handover *h)
{
    if (h->listener != NULL && h->state != HANDOVER_GIVEN) {
        baton_remove(h->daemon->state_dir);
        unwatch(&h->listener);
    }
    switch (h->state) {
    case HANDOVER_CLOSING:
        return false;
    case HANDOVER_GIVEN:
        finish(h);
        return false;
    case HANDOVER_ASKED:
    case HANDOVER_OFFERED:
    case HANDOVER_DRAINING:
        become_idle(h);
        break;
    case HANDOVER_IDLE:
    case HANDOVER_STATE_COUNT:
        break;
    }
    return true;
}

bool handover_is_busy(const struct handover *h)
{
    return h->state >= HANDOVER_DRAINING;
}
