/* relay_loop.c - passes bytes between callers and the Unix socket of a box. The box is not trusted:
 * only a socket in the one directory is connected to, nothing waits for it but its own callers, and
 * memory is bounded: what one end does not take stops the reading from the other. */
#include "hands/relay_loop.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "hands/proc.h"

#define CHUNK 65536
#define TURNS 4     /* reads of one end before others have their turn */
#define RETRY_MS 10 /* the box does not take connections as fast as they come */
#define EVENTS_MAX 64

#define NOT_WATCHED UINT32_MAX

struct conn;

/* One end of a connection. */
struct end {
    struct conn *conn;
    int fd;
    uint32_t watched; /* epoll's events */
    bool is_read;     /* nothing comes from it any more */
    bool is_shut;     /* nothing goes to it any more */
    char *rest;       /* what it has not taken yet */
    size_t rest_len;
    size_t rest_at;
};

struct conn {
    struct end ends[2]; /* the caller, the box */
    bool is_dead;
    struct conn *next; /* in relay.dead */
};

struct relay {
    const struct relay_loop *config;
    int epoll;
    unsigned count;
    bool is_paused;    /* callers are not listened to */
    uint64_t retry_ms; /* but will be from then on; 0: when a connection ends */
    struct conn *dead; /* an event of the same turn may still name them */
    char chunk[CHUNK];
};

static struct end *other(struct end *e)
{
    return e == &e->conn->ends[0] ? &e->conn->ends[1] : &e->conn->ends[0];
}

/* --- epoll --- */

/* An end with no events is still watched for its death. */
static bool watch(struct relay *r, struct end *e, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = e};
    int op = e->watched == NOT_WATCHED ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;

    if (e->watched == events)
        return true;
    if (epoll_ctl(r->epoll, op, e->fd, &ev) != 0)
        return false;
    e->watched = events;
    return true;
}

static void unwatch(struct relay *r, struct end *e)
{
    if (e->watched != NOT_WATCHED)
        (void) epoll_ctl(r->epoll, EPOLL_CTL_DEL, e->fd, NULL); /* it is there */
    e->watched = NOT_WATCHED;
}

/* `tag` is the address that tells its events from those of connections. */
static bool watch_own(struct relay *r, int fd, const int *tag, bool is_wanted)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = (void *) (uintptr_t) tag};

    return epoll_ctl(r->epoll, is_wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &ev) == 0;
}

static void pause_listening(struct relay *r, uint64_t retry_ms)
{
    if (!r->is_paused)
        (void) watch_own(r, r->config->listen, &r->config->listen, false); /* it is there */
    r->is_paused = true;
    r->retry_ms = retry_ms;
}

static void resume_listening(struct relay *r)
{
    if (r->is_paused && watch_own(r, r->config->listen, &r->config->listen, true)) {
        r->is_paused = false;
        r->retry_ms = 0;
    }
}

/* --- connections --- */

static void kill_conn(struct relay *r, struct conn *c)
{
    if (c->is_dead)
        return;
    c->is_dead = true;
    for (int i = 0; i < 2; i++) {
        (void) close(c->ends[i].fd); /* leaves the epoll set, too */
        free(c->ends[i].rest);
        c->ends[i].rest = NULL;
    }
    c->next = r->dead;
    r->dead = c;
    r->count--;
    if (r->retry_ms == 0)
        resume_listening(r);
}

static void bury(struct relay *r)
{
    while (r->dead != NULL) {
        struct conn *c = r->dead;

        r->dead = c->next;
        free(c);
    }
}

/* It takes nothing any more; what the other end still says is of no use. */
static void shut(struct end *e)
{
    free(e->rest);
    e->rest = NULL;
    e->rest_len = 0;
    e->is_shut = true;
    other(e)->is_read = true;
}

static void pass_end(struct end *to)
{
    if (!to->is_shut)
        (void) shutdown(to->fd, SHUT_WR); /* one that is gone is noticed when it is read */
    to->is_shut = true;
}

/* How much it took; 0 also when it will never take any. */
static size_t give(struct end *to, const char *data, size_t len)
{
    ssize_t n = send(to->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n >= 0)
        return (size_t) n;
    if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS && errno != ENOMEM)
        shut(to);
    return 0;
}

static void flush_rest(struct end *to)
{
    to->rest_at += give(to, to->rest + to->rest_at, to->rest_len - to->rest_at);
    if (to->rest != NULL && to->rest_at == to->rest_len) {
        free(to->rest);
        to->rest = NULL;
        to->rest_len = 0;
        if (other(to)->is_read)
            pass_end(to);
    }
}

static void keep_rest(struct end *to, const char *data, size_t len)
{
    to->rest = xcalloc(1, len);
    memcpy(to->rest, data, len);
    to->rest_len = len;
    to->rest_at = 0;
}

/* From one end to the other until one of them has enough. False: the connection is broken. */
static bool pump(struct relay *r, struct end *from)
{
    struct end *to = other(from);

    for (int i = 0; i < TURNS && !from->is_read && to->rest == NULL; i++) {
        ssize_t n = recv(from->fd, r->chunk, sizeof(r->chunk), MSG_DONTWAIT);
        size_t sent;

        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        if (n == 0) {
            from->is_read = true;
            pass_end(to);
            return true;
        }
        sent = give(to, r->chunk, (size_t) n);
        if (sent < (size_t) n && !to->is_shut)
            keep_rest(to, r->chunk + sent, (size_t) n - sent);
    }
    return true;
}

static uint32_t wanted(struct end *e)
{
    bool want_in = !e->is_read && other(e)->rest == NULL;

    return (want_in ? (uint32_t) EPOLLIN : 0) | (e->rest != NULL ? (uint32_t) EPOLLOUT : 0);
}

static bool rewatch(struct relay *r, struct conn *c)
{
    for (int i = 0; i < 2; i++) {
        struct end *e = &c->ends[i];
        uint32_t events = wanted(e);

        /* One that was let go stays so until something is wanted of it. */
        if ((events != 0 || e->watched != NOT_WATCHED) && !watch(r, e, events))
            return false;
    }
    return true;
}

static bool is_over(const struct conn *c)
{
    return c->ends[0].is_read && c->ends[1].is_read && c->ends[0].rest == NULL &&
           c->ends[1].rest == NULL;
}

static void on_event(struct relay *r, struct end *e, uint32_t events)
{
    struct conn *c = e->conn;

    if (c->is_dead)
        return;
    if (wanted(e) == 0) {
        if ((events & EPOLLERR) != 0)
            kill_conn(r, c);
        else
            unwatch(r, e); /* hung up: would be told for ever */
        return;
    }
    if (e->rest != NULL && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0)
        flush_rest(e);
    if (!pump(r, e) || is_over(c) || !rewatch(r, c))
        kill_conn(r, c);
}

/* --- new ones --- */

/* A connected socket; -1: errno. EAGAIN: the box's queue is full. Never follows a link and never
 * connects to anything but a socket in the directory, whatever the box does meanwhile. */
static int connect_box(const struct relay_loop *config)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    AUTO_CLOSE int at = openat(config->dir, config->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    AUTO_CLOSE int fd = -1;
    struct stat st;

    if (at < 0 || fstat(at, &st) != 0)
        return -1;
    if (!S_ISSOCK(st.st_mode)) {
        errno = ENOTSOCK;
        return -1;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    (void) snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d", at);
    if (fd < 0 || connect(fd, (const struct sockaddr *) &addr, sizeof(addr)) != 0)
        return -1;
    return TAKE_FD(fd);
}

static void add_conn(struct relay *r, int caller, int box)
{
    struct conn *c = xcalloc(1, sizeof(*c));
    int on = 1;

    c->ends[0] = (struct end){.conn = c, .fd = caller, .watched = NOT_WATCHED};
    c->ends[1] = (struct end){.conn = c, .fd = box, .watched = NOT_WATCHED};
    (void) setsockopt(caller, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* only slower without */
    r->count++;
    if (!rewatch(r, c))
        kill_conn(r, c);
    else if (r->count >= r->config->max)
        pause_listening(r, 0);
}

/* The box is asked first: when it is busy, callers wait in the queue and cost nothing. */
static void on_caller(struct relay *r)
{
    AUTO_CLOSE int box = connect_box(r->config);
    AUTO_CLOSE int caller = -1;

    if (box < 0 && (errno == EAGAIN || errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
        pause_listening(r, proc_now_ms() + RETRY_MS);
        return;
    }
    caller = accept4(r->config->listen, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (caller < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS))
        pause_listening(r, proc_now_ms() + RETRY_MS);
    if (caller >= 0 && box >= 0)
        add_conn(r, TAKE_FD(caller), TAKE_FD(box));
}

/* False: it is time to end. */
static bool take_events(struct relay *r)
{
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(r->epoll, events, EVENTS_MAX, r->retry_ms != 0 ? RETRY_MS : -1);

    if (n < 0)
        return errno == EINTR;
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr == &r->config->init)
            return false;
    }
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr == &r->config->listen)
            on_caller(r);
        else
            on_event(r, events[i].data.ptr, events[i].events);
    }
    bury(r);
    if (r->retry_ms != 0 && proc_now_ms() >= r->retry_ms)
        resume_listening(r);
    return true;
}

void relay_loop_run(const struct relay_loop *config)
{
    static struct relay r;

    r = (struct relay){.config = config, .epoll = epoll_create1(EPOLL_CLOEXEC), .is_paused = true};
    if (r.epoll < 0 || fcntl(config->listen, F_SETFL, O_NONBLOCK) != 0 ||
        !watch_own(&r, config->init, &config->init, true))
        return;
    resume_listening(&r);
    while (take_events(&r))
        ;
}
