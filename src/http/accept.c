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

/* Over the cap: answered, not served. When too many are being told already it gets the answer and
 * is closed at once. */
static void refuse(struct conn *c)
{
    struct http_server *s = c->server;

    s->stats.refused++;
    c->ex = exchange_new(c);
    c->ex->req.is_http11 = true;
    exchange_refuse(c->ex, SP_TOO_MANY_CONNECTIONS, "the connection limit is reached", 1000);
    if (c->phase == CONN_OPEN && s->refusing.len > CONN_REFUSING_MAX)
        conn_close(c);
}

/* The oldest connection that has proven nothing goes, so that strangers push out each other only. */
static bool make_room(struct http_server *s)
{
    for (struct list_node *n = list_first(&s->conns); n != NULL; n = list_next(&s->conns, n)) {
        struct conn *c = container_of(n, struct conn, link);

        if (c->phase == CONN_OPEN && !c->is_proven) {
            conn_close(c);
            return true;
        }
    }
    return false;
}

void conn_accept(struct http_server *s, uv_stream_t *listener, bool is_tcp)
{
    struct conn *c = conn_new(s, is_tcp);

    c->is_refused =
        s->conns.len >= s->limits.max_connections && !(s->config.wants_proof && make_room(s));
    list_push_back(c->is_refused ? &s->refusing : &s->conns, &c->link);
    if (uv_accept(listener, &c->u.stream) != 0) {
        conn_close(c); /* the client was faster */
        return;
    }
    s->stats.accepted++;
    if (is_tcp)
        learn_address(c);
    else
        learn_peer(c);
    if (c->is_refused)
        refuse(c);
    conn_run(c);
}

int http_server_adopt(struct http_server *s, int fd, const char *bytes, size_t len, struct err *err)
{
    struct conn *c;
    int domain = 0;
    socklen_t size = sizeof(domain);
    int r;

    assert(!s->is_closing && !s->is_stopping);
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0) {
        (void) close(fd); /* whatever it is */
        return err_set(err, SP_IO, "a connection that is no socket");
    }
    c = conn_new(s, domain != AF_UNIX);
    list_push_back(&s->conns, &c->link);
    r = domain != AF_UNIX ? uv_tcp_open(&c->u.tcp, fd) : uv_pipe_open(&c->u.pipe, fd);
    if (r != 0) {
        (void) close(fd); /* the handle did not take it */
        conn_close(c);
        return err_sys(err, SP_IO, -r, "a connection that was handed over");
    }
    if (domain != AF_UNIX)
        learn_address(c);
    else
        learn_peer(c);
    conn_feed(c, bytes, len);
    return SP_OK;
}
