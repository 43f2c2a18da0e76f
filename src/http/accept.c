/* accept.c - how a connection begins: taken from a listener, or from a predecessor that had it
 * open. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "http/conn.h"

static void learn_peer(struct conn *c)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    int fd;

    c->peer.uid = UINT32_MAX; /* unknown must not pass for root */
    c->peer.gid = UINT32_MAX;
    if (uv_fileno(&c->u.handle, &fd) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0) {
        c->peer.uid = cred.uid;
        c->peer.gid = cred.gid;
        c->peer.pid = cred.pid;
    }
}

static void learn_address(struct conn *c)
{
    struct sockaddr_storage ss;
    int len = sizeof(ss);
    char ip[48];
    bool is_v6;
    unsigned port;

    c->peer.is_tcp = true;
    c->peer.uid = UINT32_MAX;
    c->peer.gid = UINT32_MAX;
    (void) uv_tcp_nodelay(&c->u.tcp, 1); /* only speed */
    if (uv_tcp_getpeername(&c->u.tcp, (struct sockaddr *) &ss, &len) != 0)
        return;
    is_v6 = ss.ss_family == AF_INET6;
    if (is_v6) {
        (void) uv_ip6_name((struct sockaddr_in6 *) &ss, ip, sizeof(ip));
        port = ntohs(((struct sockaddr_in6 *) &ss)->sin6_port);
    } else {
        (void) uv_ip4_name((struct sockaddr_in *) &ss, ip, sizeof(ip));
        port = ntohs(((struct sockaddr_in *) &ss)->sin_port);
    }
    (void) snprintf(c->peer.address, sizeof(c->peer.address), is_v6 ? "[%s]:%u" : "%s:%u", ip,
                    port);
}

static struct conn *conn_new(struct http_server *s, bool is_tcp)
{
    struct conn *c = xcalloc(1, sizeof(*c));
    int r;

    c->server = s;
    c->deadline_ns = RT_NEVER;
    buf_init(&c->ahead, CONN_READ_SIZE);
    if (is_tcp)
        r = uv_tcp_init(&s->loop->uv, &c->u.tcp);
    else
        r = uv_pipe_init(&s->loop->uv, &c->u.pipe, 0);
    assert(r == 0); /* they only link the handle to the loop */
    return c;
}

/* Over the cap: it gets an error and is not served. When too many connections are being refused
 * already, it gets the error and is closed at once. */
static void refuse(struct conn *c, const char *why)
{
    struct http_server *s = c->server;

    s->stats.refused++;
    if (!secure_is_open(c)) { /* nothing can be said before a handshake */
        conn_close(c);
        return;
    }
    c->is_refused = true;
    list_remove(&s->conns, &c->link);
    list_push_back(&s->refusing, &c->link);
    c->ex = exchange_new(c);
    c->ex->req.is_http11 = true;
    exchange_refuse(c->ex, SP_TOO_MANY_CONNECTIONS, why, 1000);
    if (c->phase == CONN_OPEN && s->refusing.len > CONN_REFUSING_MAX)
        conn_close(c);
}

/* The oldest connection that has proven nothing goes, so that strangers push out each other only. What
 * it has sent is read first: when many come in one turn of the loop nobody else has done so. False: it
 * has proven who it is, and stays. */
static bool push_out(struct http_server *s)
{
    struct conn *c = container_of(list_first(&s->unproven), struct conn, unproven_link);

    conn_read_now(c);
    if (c->phase != CONN_CLOSED && c->is_proven)
        return false;
    conn_close(c);
    return true;
}

/* Each one that stays is read for the first time, so it is not long. */
static bool make_room(struct http_server *s)
{
    while (!list_is_empty(&s->unproven)) {
        if (push_out(s))
            return true;
    }
    return false;
}

/* NULL when there is room for it; else why there is none. It is among server->conns already, and a
 * connection that is closed for it still is. */
static const char *find_objection(struct conn *c)
{
    struct http_server *s = c->server;
    bool is_full =
        s->conns.len > s->limits.max_connections ||
        (c->peer.is_tcp && s->tcp_open >= callers_tcp_part(s, s->limits.max_connections));
    bool has_room = false;

    if (c->is_operator && s->conns.len <= (size_t) s->limits.max_connections + CONN_OPERATORS_MAX)
        return NULL;
    if (!c->is_proven && s->limits.max_unproven > 0 && s->unproven.len >= s->limits.max_unproven)
        has_room = push_out(s);
    if (is_full && !has_room && !make_room(s) && !callers_make_way(s, NULL))
        return "the connection limit is reached";
    if (!c->peer.is_tcp && s->config.is_operator != NULL && !callers_enter(c, c->peer.uid))
        return "this caller has its share of the connections, the rest is kept for other callers";
    return NULL;
}

static void learn_who(struct conn *c, bool is_tcp)
{
    const struct http_server_config *config = &c->server->config;

    if (is_tcp)
        learn_address(c);
    else
        learn_peer(c);
    c->is_proven = !is_tcp && config->is_operator != NULL;
    c->is_operator = c->is_proven && config->is_operator(config->ctx, &c->peer);
}

/* It is among server->conns. */
static void begin(struct conn *c, bool is_tcp)
{
    const char *why;

    c->server->stats.accepted++;
    learn_who(c, is_tcp);
    if (!secure_open(c)) {
        conn_close(c);
        return;
    }
    why = find_objection(c);
    if (why != NULL)
        refuse(c, why);
    else
        callers_add(c);
    conn_run(c);
}

void conn_accept(struct http_server *s, uv_stream_t *listener, bool is_tcp)
{
    struct conn *c = conn_new(s, is_tcp);

    list_push_back(&s->conns, &c->link);
    if (uv_accept(listener, &c->u.stream) != 0)
        conn_close(c); /* the client was faster */
    else
        begin(c, is_tcp);
}

/* A connection that is open already, among server->conns. NULL: the descriptor is closed. */
static struct conn *conn_open(struct http_server *s, int fd, bool *ret_is_tcp, struct err *err)
{
    struct conn *c;
    int domain = 0;
    socklen_t size = sizeof(domain);
    int r;

    assert(!s->is_closing && !s->is_stopping);
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0) {
        (void) close(fd); /* whatever it is */
        (void) err_set(err, SP_IO, "a connection that is not a socket");
        return NULL;
    }
    *ret_is_tcp = domain != AF_UNIX;
    c = conn_new(s, *ret_is_tcp);
    list_push_back(&s->conns, &c->link);
    r = *ret_is_tcp ? uv_tcp_open(&c->u.tcp, fd) : uv_pipe_open(&c->u.pipe, fd);
    if (r != 0) {
        (void) close(fd); /* the handle did not take it */
        conn_close(c);
        (void) err_sys(err, SP_IO, -r, "a connection that was handed over");
        return NULL;
    }
    return c;
}

int http_server_take(struct http_server *s, int fd, struct err *err)
{
    bool is_tcp;
    struct conn *c = conn_open(s, fd, &is_tcp, err);

    if (c == NULL)
        return err->code;
    begin(c, is_tcp);
    return SP_OK;
}

int http_server_adopt(struct http_server *s, int fd, const char *bytes, size_t len, struct err *err)
{
    bool is_tcp;
    struct conn *c = conn_open(s, fd, &is_tcp, err);

    if (c == NULL)
        return err->code;
    learn_who(c, is_tcp);
    if (c->is_proven)
        (void) callers_enter(c, c->peer.uid); /* it has been let in before */
    callers_add(c);
    /* What makes too much work for this turn of the loop waits there. */
    c->ahead.max = MAX_OF(c->ahead.max, len);
    conn_feed(c, bytes, len);
    return SP_OK;
}
