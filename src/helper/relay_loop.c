/* relay_loop.c - passes bytes between callers and a box. Neither is trusted: nobody waits for anybody
 * but the one at the other end. A caller gets a connection into the box only when it has said something;
 * those that say nothing push out each other, the oldest first, and cost the box nothing. A caller whom
 * the box has closed takes no place of the box's, however long it stays. */
#include "helper/relay_loop.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/compiler.h"
#include "base/list.h"
#include "helper/proc.h"
#include "helper/relay_end.h"

#define TAKES 64        /* callers before others have their turn */
#define RETRY_MS 10     /* descriptors or memory are short */
#define SILENT_MS 10000 /* for a caller to say something */
#define REST_MS 10000   /* for a caller to take some of what a box left that has closed */
#define LINGER_MS 1000  /* for a caller to read the end, and to close */
#define EVENTS_MAX 64
#define CONNS_MAX (RELAY_SERVED_MAX + RELAY_NEW_MAX + 2 * RELAY_LEFT_MAX)
#define FILES_OWN 32U

enum state {
    FREE,
    SILENT,  /* has said nothing yet */
    WAITING, /* has said something, but the box has no place yet */
    SERVED,
    RESTING,   /* the box has closed; some of what it said is still to be passed on */
    LINGERING, /* all was passed on; what the caller still says is dropped, as unread bytes would
                * make the kernel reset the connection and the caller lose the end of the answer */
    DEAD,      /* an event of the same turn may still name it */
    STATE_COUNT
};

struct relay_conn {
    struct list_node link; /* in the list of its state */
    enum state state;
    uint64_t since_ms;
    struct relay_end ends[2]; /* the caller, the box */
};

static struct relay {
    const struct relay_loop *config;
    int epoll;
    unsigned served_max;
    unsigned new_max;
    unsigned left_max; /* of each kind that the box has closed */
    bool is_paused;    /* callers are not taken */
    bool is_over;
    uint64_t retry_ms;              /* something was short: not before; 0: nothing was */
    uint32_t end_events;            /* what `end` is watched for */
    unsigned used;                  /* of conns: more are free, and were never touched */
    struct list lists[STATE_COUNT]; /* of struct relay_conn, the oldest first */
    struct relay_conn conns[CONNS_MAX];
} relay;

static struct relay_conn *first(const struct relay *r, enum state state)
{
    struct list_node *n = list_first(&r->lists[state]);

    return n != NULL ? container_of(n, struct relay_conn, link) : NULL;
}

/* --- epoll --- */

/* An end with no events is still watched for its death. */
static bool watch(struct relay *r, struct relay_end *e, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = e};
    int op = e->watched == RELAY_NOT_WATCHED ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;

    if (e->watched == events)
        return true;
    if (epoll_ctl(r->epoll, op, e->fd, &ev) != 0)
        return false;
    e->watched = events;
    return true;
}

static void unwatch(struct relay *r, struct relay_end *e)
{
    if (e->watched != RELAY_NOT_WATCHED)
        (void) epoll_ctl(r->epoll, EPOLL_CTL_DEL, e->fd, NULL); /* it is there */
    e->watched = RELAY_NOT_WATCHED;
}

/* `tag` is the address that distinguishes its events from those of connections. */
static bool watch_own(struct relay *r, int op, const int *tag, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = (void *) (uintptr_t) tag};

    return epoll_ctl(r->epoll, op, *tag, &ev) == 0;
}

static void pause_taking(struct relay *r)
{
    for (int i = 0; !r->is_paused && i < RELAY_SOURCES_MAX; i++)
        (void) watch_own(r, EPOLL_CTL_DEL, &r->config->sources[i],
                         0); /* it is there, or was not taken */
    r->is_paused = true;
}

static void resume_taking(struct relay *r)
{
    bool is_done = true;

    if (!r->is_paused)
        return;
    for (int i = 0; i < RELAY_SOURCES_MAX; i++) {
        bool is_taken = watch_own(r, EPOLL_CTL_ADD, &r->config->sources[i], EPOLLIN);

        is_done = is_done && (is_taken || errno == EPERM || errno == EBADF || errno == EEXIST);
    }
    r->is_paused = !is_done;
}

/* Whether the box is to say that it has room again. */
static void watch_end(struct relay *r)
{
    bool is_asked = r->config->is_end_asked && !list_is_empty(&r->lists[WAITING]) &&
                    r->lists[SERVED].len < r->served_max && r->retry_ms == 0;
    uint32_t events = EPOLLIN | (is_asked ? (uint32_t) EPOLLOUT : 0);

    if (events != r->end_events && watch_own(r, EPOLL_CTL_MOD, &r->config->end, events))
        r->end_events = events;
}

/* --- connections --- */

static void set_state(struct relay *r, struct relay_conn *c, enum state state)
{
    list_remove(&r->lists[c->state], &c->link);
    list_push_back(&r->lists[state], &c->link);
    c->state = state;
}

static void kill_conn(struct relay *r, struct relay_conn *c)
{
    if (c->state == DEAD)
        return;
    for (int i = 0; i < 2; i++) {
        if (c->ends[i].fd >= 0)
            (void) close(c->ends[i].fd); /* leaves the epoll set, too */
    }
    set_state(r, c, DEAD);
}

static void free_dead(struct relay *r)
{
    while (!list_is_empty(&r->lists[DEAD]))
        set_state(r, first(r, DEAD), FREE);
}

/* The box has closed this one: others of its kind make room, the oldest first. */
static void set_left(struct relay *r, struct relay_conn *c, enum state state)
{
    if (c->state != state && r->lists[state].len >= r->left_max)
        kill_conn(r, first(r, state));
    c->since_ms = proc_now_ms();
    set_state(r, c, state);
}

static bool rewatch(struct relay *r, struct relay_conn *c)
{
    for (int i = 0; i < 2; i++) {
        struct relay_end *e = &c->ends[i];
        uint32_t events = relay_end_wanted(e);

        /* One that was let go stays so until something is wanted of it. */
        if ((events != 0 || e->watched != RELAY_NOT_WATCHED) && !watch(r, e, events))
            return false;
    }
    return true;
}

static void on_lingering(struct relay *r, struct relay_conn *c)
{
    if (!relay_end_drain(&c->ends[0]) || !watch(r, &c->ends[0], EPOLLIN))
        kill_conn(r, c);
}

/* Only TCP loses what was sent when something unread is closed. */
static void linger(struct relay *r, struct relay_conn *c)
{
    if (!c->ends[0].is_tcp) {
        kill_conn(r, c);
        return;
    }
    relay_end_finish(&c->ends[0]);
    (void) close(c->ends[1].fd);
    c->ends[1].fd = -1;
    set_left(r, c, LINGERING);
    on_lingering(r, c);
}

static void settle(struct relay *r, struct relay_conn *c, bool is_well)
{
    if (is_well && c->ends[0].is_read && c->ends[1].is_read) {
        linger(r, c);
        return;
    }
    if (!is_well || !rewatch(r, c))
        kill_conn(r, c);
    else if (c->state == RESTING && c->ends[0].has_taken)
        set_left(r, c, RESTING);
    c->ends[0].has_taken = false;
}

static void on_served(struct relay *r, struct relay_end *e, uint32_t events)
{
    struct relay_conn *c = e->conn;
    bool is_well = true;

    if (e->is_box && (events & EPOLLHUP) != 0 && c->state == SERVED) {
        relay_end_shut(e);
        set_left(r, c, RESTING);
    }
    if (relay_end_wanted(e) == 0) {
        unwatch(r, e); /* hung up: would be reported for ever */
        settle(r, c, e->is_box || (events & EPOLLERR) == 0);
        return;
    }
    if (e->is_full && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0) {
        e->is_full = false;
        is_well = relay_end_pump(e->other);
    }
    if (is_well && (events & ~(uint32_t) EPOLLOUT) != 0)
        is_well = relay_end_pump(e);
    settle(r, c, is_well);
}

/* --- into the box --- */

static bool is_shortage(int code)
{
    return code == EMFILE || code == ENFILE || code == ENOMEM || code == ENOBUFS ||
           code == ETOOMANYREFS;
}

/* False: not now. */
static bool serve(struct relay *r, struct relay_conn *c)
{
    int fd =
        r->lists[SERVED].len < r->served_max ? r->config->enter(r->config) : (errno = EAGAIN, -1);

    if (fd < 0 && (errno == EAGAIN || is_shortage(errno))) {
        if (is_shortage(errno) || !r->config->is_end_asked)
            r->retry_ms = proc_now_ms() + RETRY_MS;
        return false;
    }
    if (fd < 0) {
        kill_conn(r, c);
        return true;
    }
    c->ends[1].fd = fd;
    /* Without it the connection is only slower. The result also shows whether it is a TCP socket. */
    c->ends[0].is_tcp =
        setsockopt(c->ends[0].fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) == 0;
    set_state(r, c, SERVED);
    settle(r, c, relay_end_pump(&c->ends[0]));
    return true;
}

/* Those that came first first; who is left waits for `end`, the clock, or an end of another. */
static void serve_waiting(struct relay *r)
{
    while (!list_is_empty(&r->lists[WAITING]) && r->retry_ms == 0) {
        if (!serve(r, first(r, WAITING)))
            return;
    }
}

/* The caller has said something, or will not. It is not looked at again before it is served. */
static void on_silent(struct relay *r, struct relay_end *e)
{
    char byte;
    ssize_t n = recv(e->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);

    if (n < 0 && (errno == EAGAIN || errno == EINTR) && watch(r, e, EPOLLIN))
        return;
    if (n <= 0) {
        kill_conn(r, e->conn);
        return;
    }
    unwatch(r, e);
    set_state(r, e->conn, WAITING);
    if (list_first(&r->lists[WAITING]) == &e->conn->link)
        serve_waiting(r);
}

/* --- new callers --- */

/* A place for one more: the longest silent goes. NULL: there is none in this turn. */
static struct relay_conn *make_room(struct relay *r)
{
    if (r->lists[WAITING].len >= r->new_max / 4)
        return NULL;
    if (r->lists[SILENT].len + r->lists[WAITING].len >= r->new_max)
        kill_conn(r, first(r, SILENT));
    if (list_is_empty(&r->lists[FREE]) && r->used < ARRAY_LEN(r->conns))
        list_push_back(&r->lists[FREE], &r->conns[r->used++].link);
    return first(r, FREE);
}

static void add_caller(struct relay *r, struct relay_conn *c, int fd)
{
    c->since_ms = proc_now_ms();
    for (int i = 0; i < 2; i++)
        c->ends[i] = (struct relay_end){.conn = c,
                                        .other = &c->ends[1 - i],
                                        .fd = i == 0 ? fd : -1,
                                        .watched = RELAY_NOT_WATCHED,
                                        .is_box = i == 1};
    set_state(r, c, SILENT);
    on_silent(r, &c->ends[0]); /* most have said it already */
}

static void on_callers(struct relay *r, int source)
{
    for (int i = 0; i < TAKES; i++) {
        struct relay_conn *c = make_room(r);
        int fd = c != NULL ? r->config->take(r->config, source) : -1;

        if (c == NULL) {
            pause_taking(r);
            return;
        }
        if (fd >= 0) {
            add_caller(r, c, fd);
            continue;
        }
        if (is_shortage(errno)) {
            r->retry_ms = proc_now_ms() + RETRY_MS;
            pause_taking(r);
        }
        if (errno == EPIPE)
            r->is_over = true; /* there will be no more */
        if (errno != ECONNABORTED && errno != EBADMSG && errno != EINTR)
            return;
    }
}

/* --- turns --- */

static const uint64_t patience_ms[STATE_COUNT] = {
    [SILENT] = SILENT_MS,
    [RESTING] = REST_MS,
    [LINGERING] = LINGER_MS,
};

static int next_timeout(const struct relay *r, uint64_t now)
{
    uint64_t due = r->retry_ms != 0 ? r->retry_ms : UINT64_MAX;

    for (int i = 0; i < STATE_COUNT; i++) {
        if (patience_ms[i] != 0 && !list_is_empty(&r->lists[i]))
            due = MIN_OF(due, first(r, (enum state) i)->since_ms + patience_ms[i]);
    }
    if (due == UINT64_MAX)
        return -1;
    return due <= now ? 0 : (int) MIN_OF(due - now, (uint64_t) SILENT_MS);
}

/* A slow caller can have taken something that epoll does not report: it waits for much more room. */
static bool has_moved(struct relay *r, struct relay_conn *c, uint64_t now)
{
    if (c->state != RESTING)
        return false;
    c->ends[0].is_full = false;
    settle(r, c, relay_end_pump(&c->ends[1]));
    return c->state != RESTING || c->since_ms >= now;
}

static void on_time(struct relay *r, uint64_t now)
{
    for (int i = 0; i < STATE_COUNT; i++) {
        struct relay_conn *c = first(r, (enum state) i);

        for (; patience_ms[i] != 0 && c != NULL && c->since_ms + patience_ms[i] <= now;
             c = first(r, (enum state) i)) {
            if (!has_moved(r, c, now))
                kill_conn(r, c);
        }
    }
    if (r->retry_ms != 0 && now >= r->retry_ms)
        r->retry_ms = 0;
}

static void on_event(struct relay *r, const struct epoll_event *ev)
{
    struct relay_end *e = ev->data.ptr;

    if (ev->data.ptr == &r->config->leash)
        r->is_over = true;
    else if (ev->data.ptr == &r->config->end)
        r->is_over = r->is_over || (ev->events & ~(uint32_t) EPOLLOUT) != 0;
    else if (ev->data.ptr == &r->config->sources[0] || ev->data.ptr == &r->config->sources[1])
        on_callers(r, *(const int *) ev->data.ptr);
    else if (e->conn->state == SILENT)
        on_silent(r, e);
    else if (e->conn->state == SERVED || e->conn->state == RESTING)
        on_served(r, e, ev->events);
    else if (e->conn->state == LINGERING)
        on_lingering(r, e->conn);
}

/* What the box said last still goes to its callers. */
static void finish(struct relay *r)
{
    for (unsigned i = 0; i < r->used; i++) {
        if (r->conns[i].state == SERVED || r->conns[i].state == RESTING)
            (void) relay_end_pump(&r->conns[i].ends[1]); /* there is nothing after it */
    }
}

static void run(struct relay *r)
{
    struct epoll_event events[EVENTS_MAX];

    while (!r->is_over) {
        int n = epoll_wait(r->epoll, events, EVENTS_MAX, next_timeout(r, proc_now_ms()));

        if (n < 0 && errno != EINTR)
            return;
        for (int i = 0; i < n; i++)
            on_event(r, &events[i]);
        free_dead(r);
        on_time(r, proc_now_ms());
        serve_waiting(r);
        free_dead(r);
        if (r->retry_ms == 0 && r->lists[WAITING].len < r->new_max / 4)
            resume_taking(r);
        watch_end(r);
    }
    finish(r);
}

void relay_loop_prepare(void)
{
    const unsigned need = RELAY_SERVED_MAX * 2 + RELAY_NEW_MAX + RELAY_LEFT_MAX * 3 + FILES_OWN;
    struct rlimit limit = {0};

    (void) getrlimit(RLIMIT_NOFILE, &limit); /* cannot fail for a limit that exists */
    if (limit.rlim_cur < need) {
        limit.rlim_cur = MIN_OF(limit.rlim_max, (rlim_t) need);
        (void) setrlimit(RLIMIT_NOFILE, &limit); /* not above the hard limit */
    }
    relay.served_max = RELAY_SERVED_MAX;
    relay.new_max = RELAY_NEW_MAX;
    relay.left_max = RELAY_LEFT_MAX;
    if (limit.rlim_cur < need) {
        relay.new_max = (unsigned) limit.rlim_cur / 4;
        relay.served_max = (unsigned) limit.rlim_cur / 4;
        relay.left_max = (unsigned) limit.rlim_cur / 16;
    }
    relay.epoll = epoll_create1(EPOLL_CLOEXEC);
}

void relay_loop_run(const struct relay_loop *config)
{
    struct relay *r = &relay;

    r->config = config;
    r->is_paused = true;
    r->end_events = EPOLLIN;
    for (int i = 0; i < STATE_COUNT; i++)
        list_init(&r->lists[i]);
    if (r->epoll < 0 || !watch_own(r, EPOLL_CTL_ADD, &config->end, EPOLLIN))
        return;
    if (config->leash >= 0)
        (void) watch_own(r, EPOLL_CTL_ADD, &config->leash, EPOLLIN); /* not a file's */
    resume_taking(r);
    run(r);
}
