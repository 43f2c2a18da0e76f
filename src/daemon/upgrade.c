/* upgrade.c - gives a successor all this daemon has, and takes it back when the successor fails: the talk with it, and its
 * timers. What must be ended here before is in upgrade_drain.c. */
#include "daemon/upgrade.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "daemon/ends.h"
#include "daemon/internal.h"
#include "daemon/notify.h"
#include "daemon/upgrade_connections.h"
#include "daemon/upgrade_drain.h"
#include "daemon/upgrade_packet.h"
#include "daemon/upgrade_peer.h"
#include "daemon/upgrade_send.h"

#define ASK_WAIT_NS (2 * NS_PER_S)
#define READY_WAIT_NS (10 * NS_PER_S)
#define DONE_WAIT_NS (30 * NS_PER_S)
#define END_WAIT_NS (5 * NS_PER_S) /* of a successor that was killed */

static void on_timer(struct rt_timer *timer);

static void say_no(int fd, const char *why)
{
    struct err err;

    if (packet_send(fd, PACKET_NO, why, strlen(why), NULL, 0, &err) != SP_OK)
        log_debug("upgrade.refusal_not_sent",
                  LF_STR("reason", err.msg)); /* it sees the end anyway */
}

void upgrade_set_timer(struct upgrade *h, uint64_t after_ns)
{
    struct rt *rt = &h->daemon->loop.rt;

    rt_timer_set(rt, &h->timer, rt_after(rt_now(rt), after_ns), on_timer);
}

static void become_idle(struct upgrade *h)
{
    h->state = UPGRADE_IDLE;
    h->is_proving = false;
    h->proof++; /* one that is under way does not count */
    rt_timer_cancel(&h->daemon->loop.rt, &h->timer);
    upgrade_unwatch(&h->peer);
}

/* --- back --- */

/* The store is closed and the successor has ended, or never had it: opens all again. */
static void go_back(struct upgrade *h, const char *why)
{
    log_error("upgrade.failed", LF_STR("reason", why), LF_I64("pid", h->peer_pid));
    become_idle(h);
    upgrade_undo(h);
}

/* Nothing was closed yet: goes on. */
void upgrade_give_up(struct upgrade *h, const char *why)
{
    struct daemon *d = h->daemon;
    enum upgrade_state state = h->state;
    struct err err;

    log_warn("upgrade.given_up", LF_STR("reason", why), LF_I64("pid", h->peer_pid));
    if (h->peer != NULL)
        say_no(h->peer->fd, why);
    become_idle(h);
    if (state != UPGRADE_DRAINING)
        return;
    journal_open(engine_journal(d->engine));
    if (servers_resume(&d->servers, &err) == SP_OK)
        return;
    log_error("upgrade.cannot_go_back", LF_STR("reason", err.msg));
    d->exit_status = 1;
    (void) raise(SIGTERM); /* no descriptor left: what is under way is finished in order */
}

/* It has the database and does not do what it should. Its end is seen at its socket. */
static void end_successor(struct upgrade *h)
{
    if (h->is_ending || kill(h->peer_pid, SIGKILL) != 0) {
        go_back(h, "the successor does not end");
        return;
    }
    h->is_ending = true;
    upgrade_set_timer(h, END_WAIT_NS);
}

static void on_peer_failed(struct upgrade *h, bool is_gone, const char *why)
{
    switch (h->state) {
    case UPGRADE_ASKED:
    case UPGRADE_OFFERED:
    case UPGRADE_PROVING:
    case UPGRADE_DRAINING:
        upgrade_give_up(h, why);
        break;
    case UPGRADE_CLOSING:
        upgrade_unwatch(&h->peer); /* seen when the store is closed */
        break;
    case UPGRADE_GIVEN:
        if (is_gone)
            go_back(h, why);
        else
            end_successor(h);
        break;
    case UPGRADE_IDLE:
    case UPGRADE_RETURNING:
    case UPGRADE_STATE_COUNT:
        break;
    }
}

/* --- forward --- */

void upgrade_give(struct upgrade *h)
{
    struct daemon *d = h->daemon;
    struct err err;

    if (d->is_stopping) { /* asked to stop in the meantime */
        upgrade_close(h);
        return;
    }
    FAULT_POINT("takeover.old_closed");
    if (h->peer == NULL) {
        go_back(h, "the successor ended");
        return;
    }
    h->state = UPGRADE_GIVEN;
    h->is_ending = false;
    if (give_all(h->peer->fd, &d->cargo, h->takes_rests ? &d->takeover : NULL, d->lock_fd, &err) !=
        SP_OK) {
        on_peer_failed(h, err.code == SP_CONNECT_FAILED, err.msg);
        return;
    }
    FAULT_POINT("takeover.old_given");
    upgrade_set_timer(h, DONE_WAIT_NS);
}

/* The disk has stopped to answer in the last moment. The successor need not wait; we go on when the store
 * is closed after all. */
static void on_close_late(struct upgrade *h)
{
    static const char why[] = "the running daemon cannot close its database: the disk hangs";

    log_error("upgrade.close_hangs", LF_STR("reason", why), LF_I64("pid", h->peer_pid));
    if (h->peer != NULL)
        say_no(h->peer->fd, why);
    upgrade_unwatch(&h->peer);
}

static void on_hello(struct upgrade *h, const struct packet *b)
{
    const char *trouble = engine_store_trouble(h->daemon->engine);
    struct err err;
    int r;

    h->takes_rests = false;
    r = give_check_hello(b, &h->takes_rests, &err);
    FAULT_POINT("takeover.old_asked");
    if (r == SP_OK && trouble != NULL)
        r = err_set(&err, SP_STORE_UNAVAILABLE, "its database cannot be written (%.160s)", trouble);
    if (r == SP_OK)
        r = give_offer(h->peer->fd, &h->daemon->listeners, &err);
    if (r != SP_OK) {
        upgrade_give_up(h, err.msg);
        return;
    }
    h->state = UPGRADE_OFFERED;
    FAULT_POINT("takeover.old_offered");
    upgrade_set_timer(h, READY_WAIT_NS);
}

static void on_ready(struct upgrade *h)
{
    h->state = UPGRADE_PROVING;
    rt_timer_cancel(&h->daemon->loop.rt, &h->timer); /* the proof has its own deadline */
    upgrade_prove(h);
}

static void finish(struct upgrade *h)
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
    d->is_handed_over = true;
    takeover_leave(&d->takeover); /* the successor has them: of leases that end we learn no more */
    if (d->rest.left > 0)
        ends_follow(h);
    become_idle(h);
    upgrade_unwatch(&h->listener);
    h->config = config_free(h->config);
    cargo_drop(&d->cargo);
    listeners_close(&d->listeners, false);
    (void) close(d->lock_fd); /* the successor's: we may still be here when it has ended */
    d->lock_fd = -1;
    if (d->rest.left > 0)
        log_info("upgrade.rest", LF_U64("connections", rest_count(&d->rest)));
    daemon_finish(d);
}

static void on_packet(struct upgrade *h, const struct packet *b)
{
    if (h->state == UPGRADE_ASKED && b->kind == PACKET_HELLO && b->fd_count == 0)
        on_hello(h, b);
    else if (h->state == UPGRADE_OFFERED && b->kind == PACKET_READY)
        on_ready(h);
    else if (h->state == UPGRADE_GIVEN && b->kind == PACKET_DONE)
        finish(h);
    else
        on_peer_failed(h, false, "a packet that is not expected now");
}

static void on_peer_readable(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
    struct upgrade *h = container_of(poll, struct upgrade_peer, poll)->upgrade;
    struct packet *b = xcalloc(1, sizeof(*b));
    struct err err;
    int r = packet_receive(h->peer->fd, b, &err);

    if (r == SP_OK) {
        on_packet(h, b);
        packet_drop_fds(b);
    } else if (r != SP_TIMEOUT) {
        on_peer_failed(h, r == SP_CONNECT_FAILED, err.msg);
    }
    free(b);
}

static void on_timer(struct rt_timer *timer)
{
    struct upgrade *h = container_of(timer, struct upgrade, timer);

    switch (h->state) {
    case UPGRADE_ASKED:
    case UPGRADE_OFFERED:
        upgrade_give_up(h, "the successor does not go on");
        break;
    case UPGRADE_DRAINING:
        upgrade_drain(h);
        break;
    case UPGRADE_GIVEN:
        log_error("upgrade.successor_hangs", LF_I64("pid", h->peer_pid));
        end_successor(h);
        break;
    case UPGRADE_CLOSING:
        on_close_late(h);
        break;
    case UPGRADE_IDLE:
    case UPGRADE_PROVING:
    case UPGRADE_RETURNING:
    case UPGRADE_STATE_COUNT:
        break;
    }
}

static void on_listener_readable(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
    struct upgrade_peer *listener = container_of(poll, struct upgrade_peer, poll);
    struct upgrade *h = listener->upgrade;
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    pid_t pid = 0;

    if (fd < 0)
        return; /* it was faster */
    if (!packet_is_allowed(fd, &pid)) {
        log_warn("upgrade.stranger", LF_I64("pid", pid));
        (void) close(fd); /* no word to strangers */
        return;
    }
    if (h->state != UPGRADE_IDLE || h->daemon->is_stopping || h->daemon->servers.count == 0) {
        say_no(fd, h->state != UPGRADE_IDLE ? "another take-over is under way"
                                            : "it starts or stops just now");
        (void) close(fd); /* said all */
        return;
    }
    h->peer = upgrade_watch(h, fd, on_peer_readable);
    if (h->peer == NULL)
        return;
    h->peer_pid = pid;
    h->state = UPGRADE_ASKED;
    upgrade_set_timer(h, ASK_WAIT_NS);
}

/* --- life --- */

void upgrade_open(struct upgrade *h, struct daemon *d)
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
    if (packet_listen(d->state_dir, &fd, &err) != SP_OK)
        log_warn("upgrade.not_possible", LF_STR("reason", err.msg));
    else
        h->listener = upgrade_watch(h, fd, on_listener_readable);
}

void upgrade_close(struct upgrade *h)
{
    rt_timer_cancel(&h->daemon->loop.rt, &h->back_timer);
    upgrade_unwatch(&h->listener);
    upgrade_unwatch(&h->peer);
    h->config = config_free(h->config);
    cargo_drop(&h->daemon->cargo);
    listeners_close(&h->daemon->listeners, true);
    daemon_finish(h->daemon);
}

bool upgrade_stop(struct upgrade *h)
{
    if (h->state != UPGRADE_GIVEN)
        upgrade_unwatch(&h->listener);
    switch (h->state) {
    case UPGRADE_CLOSING:
        return false;
    case UPGRADE_GIVEN:
        finish(h);
        return false;
    case UPGRADE_RETURNING:
        if (h->daemon->engine ==
            NULL) /* otherwise one that failed is being closed, and this comes then */
            upgrade_close(h);
        return false;
    case UPGRADE_ASKED:
    case UPGRADE_OFFERED:
    case UPGRADE_PROVING:
    case UPGRADE_DRAINING:
        become_idle(h);
        break;
    case UPGRADE_IDLE:
    case UPGRADE_STATE_COUNT:
        break;
    }
    return true;
}

bool upgrade_is_busy(const struct upgrade *h)
{
    return h->state >= UPGRADE_DRAINING;
}
