/* server.c - listeners, the cap on connections, stop and close. Closing is a join: on_closed()
 * comes when the last handle is gone, and the server is freed right before it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "http/conn.h"
#include "http/listen.h"

struct listener {
    struct list_node link;
    struct http_server *server;
    union stream u;
    bool is_tcp;
    bool is_closing;
    char *path; /* Unix socket bound here; NULL: none */
    dev_t dev;  /* which file it was, so that a successor's is not removed */
    ino_t ino;
};

struct http_server *http_server_new(struct loop *l, const struct http_server_config *config)
{
    struct http_server *s = xcalloc(1, sizeof(*s));

    s->has_connect = router_check(config->routes);
    s->loop = l;
    s->config = *config;
    s->limits = config->limits;
    list_init(&s->conns);
    list_init(&s->unproven);
    map_init(&s->callers, 64);
    list_init(&s->refusing);
    list_init(&s->listeners);
    list_init(&s->pool);
    turns_init(s);
    s->read_buf = xcalloc(1, CONN_READ_SIZE);
    buf_init(&s->scratch, REPLY_MAX);
    return s;
}

static void on_connection(uv_stream_t *stream, int status)
{
    struct listener *ln = container_of(stream, struct listener, u.stream);

    if (status == 0) /* otherwise that connection is lost already and the next is another call */
        conn_accept(ln->server, stream, ln->is_tcp);
}

static void remove_file(const struct listener *ln)
{
    struct stat st;

    if (ln->path != NULL && lstat(ln->path, &st) == 0 && st.st_dev == ln->dev &&
        st.st_ino == ln->ino)
        (void) unlink(ln->path); /* a stale socket is removed at the next start */
}

static void on_listener_closed(void *ctx)
{
    struct listener *ln = ctx;
    struct http_server *s = ln->server;

    list_remove(&s->listeners, &ln->link);
    free(ln->path);
    free(ln);
    server_check_closed(s);
}

static void close_listener(struct listener *ln)
{
    if (ln->is_closing)
        return;
    ln->is_closing = true;
    remove_file(ln);
    loop_close_handle(&ln->u.handle, on_listener_closed, ln);
}

/* Opens the handle on `fd`; the descriptor is the handle's, or closed. */
static int open_handle(struct listener *ln, int fd, struct err *err)
{
    struct http_server *s = ln->server;
    int r;

    if (ln->is_tcp) {
        r = uv_tcp_init(&s->loop->uv, &ln->u.tcp);
        assert(r == 0);
        r = uv_tcp_open(&ln->u.tcp, fd);
    } else {
        r = uv_pipe_init(&s->loop->uv, &ln->u.pipe, 0);
        assert(r == 0);
        r = uv_pipe_open(&ln->u.pipe, fd);
    }
    if (r != 0)
        (void) close(fd);
    else
        r = uv_listen(&ln->u.stream, SOMAXCONN, on_connection);
    if (r != 0)
        return err_set(err, SP_IO, "cannot listen: %s", uv_strerror(r));
    return SP_OK;
}

static int add_listener(struct http_server *s, int fd, const char *path, struct err *err)
{
    struct listener *ln;
    int domain = 0;
    socklen_t len = sizeof(domain);
    struct stat st;
    int r;

    assert(!s->is_closing && !s->is_stopping);
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0)
        return err_sys(err, SP_IO, errno, "descriptor %d is not a socket", fd);
    ln = xcalloc(1, sizeof(*ln));
    ln->server = s;
    ln->is_tcp = domain != AF_UNIX;
    s->has_unix = s->has_unix || !ln->is_tcp;
    list_push_back(&s->listeners, &ln->link);
    if (path != NULL && lstat(path, &st) == 0) {
        ln->path = xstrdup(path);
        ln->dev = st.st_dev;
        ln->ino = st.st_ino;
    }
    r = open_handle(ln, fd, err);
    if (r != SP_OK)
        close_listener(ln);
    return r;
}

int http_server_listen_fd(struct http_server *s, int fd, struct err *err)
{
    return add_listener(s, fd, NULL, err);
}

int http_server_listen_unix(struct http_server *s, const char *path, unsigned mode, uint32_t gid,
                            struct err *err)
{
    int fd = listen_unix(path, mode, gid, err);

    return fd >= 0 ? add_listener(s, fd, path, err) : fd;
}

int http_server_listen_tcp(struct http_server *s, const char *address, int *ret_port,
                           struct err *err)
{
    int fd = listen_tcp(address, err);

    if (fd < 0)
        return fd;
    if (ret_port != NULL)
        *ret_port = listen_port(fd);
    return add_listener(s, fd, NULL, err);
}

static void close_listeners(struct http_server *s)
{
    for (struct list_node *n = list_first(&s->listeners); n != NULL;
         n = list_next(&s->listeners, n))
        close_listener(container_of(n, struct listener, link));
}

void http_server_pause(struct http_server *s)
{
    assert(!s->is_stopping && s->config.keeps_requests);
    s->is_paused = true;
    close_listeners(s);
    server_run_all(s);
}

void http_server_set_limits(struct http_server *s, const struct http_limits *limits)
{
    s->limits = *limits;
}

/* Somebody works on its request, or will when it is its turn. */
static bool is_busy(const struct conn *c)
{
    const struct http_exchange *ex = c->ex;

    return ex != NULL && (ex->is_owned || ex->is_ended || (ex->on_turn != NULL && !conn_holds(c)));
}

static void close_conns(struct list *conns, bool only_idle)
{
    struct list_node *next;

    for (struct list_node *n = list_first(conns); n != NULL; n = next) {
        struct conn *c = container_of(n, struct conn, link);

        next = list_next(conns, n);
        if (c->is_staying)
            continue;
        if (!only_idle || !is_busy(c))
            conn_close(c);
    }
}

void http_server_stop(struct http_server *s)
{
    if (s->is_stopping)
        return;
    s->is_stopping = true;
    close_listeners(s);
    close_conns(&s->conns, true);
}

size_t http_server_connections(const struct http_server *s)
{
    return s->conns.len;
}

static void finish_close(struct rt_task *task)
{
    struct http_server *s = container_of(task, struct http_server, task);
    void (*on_closed)(void *) = s->on_closed;
    void *ctx = s->closed_ctx;
    struct list_node *n;

    for (n = list_pop_front(&s->pool); n != NULL; n = list_pop_front(&s->pool))
        exchange_free(container_of(n, struct http_exchange, link));
    map_fini(&s->callers);
    buf_fini(&s->scratch);
    free(s->read_buf);
    free(s);
    if (on_closed != NULL)
        on_closed(ctx);
}

void server_check_closed(struct http_server *s)
{
    if (s->on_quiet != NULL) /* the end comes after it */
        server_check_quiet(s);
    else if (s->is_closing && s->conns.len == 0 && s->refusing.len == 0 && s->listeners.len == 0)
        rt_defer(&s->loop->rt, &s->task, finish_close);
}

void http_server_close(struct http_server *s, void (*on_closed)(void *ctx), void *ctx)
{
    assert(!s->is_closing);
    s->is_closing = true;
    s->is_stopping = true;
    s->on_closed = on_closed;
    s->closed_ctx = ctx;
    close_listeners(s);
    close_conns(&s->conns, false);
    close_conns(&s->refusing, false);
    server_check_closed(s);
}

void http_server_get_stats(const struct http_server *s, struct http_stats *ret)
{
    *ret = s->stats;
    ret->open = s->conns.len;
    ret->buffered = s->held + s->operators_held;
}
