/* migrate.c - open connections leave a server without their clients noticing: one between two requests
 * as it is, one in the middle of a request with the bytes read so far, and one whose request only
 * waits with that whole request, taken back from its handler. */
#include <fcntl.h>
#include <unistd.h>

#include "http/conn.h"

void http_may_repeat(struct http_exchange *ex)
{
    ex->may_repeat = true;
}

void http_may_stay(struct http_exchange *ex)
{
    ex->may_stay = true;
}

bool conn_stays(const struct conn *c)
{
    return c->phase == CONN_OPEN && c->ex != NULL && c->ex->may_stay;
}

bool conn_holds(const struct conn *c)
{
    const struct http_exchange *ex = c->ex;

    if (!c->server->is_paused)
        return false;
    /* What was too long to be kept must be read to its end. */
    return ex == NULL || (!ex->is_owned && !ex->is_ended && !buf_failed(&ex->raw));
}

static bool is_repeatable(const struct http_exchange *ex)
{
    bool is_safe = ex->req.method == HTTP_METHOD_GET || ex->req.method == HTTP_METHOD_HEAD;

    return ex->is_owned && !ex->is_begun && !ex->is_ended && ex->input == EXCHANGE_DONE &&
           ex->raw.len > 0 && !buf_failed(&ex->raw) && (ex->may_repeat || is_safe);
}

static bool can_leave(const struct conn *c)
{
    return c->phase == CONN_OPEN && !c->is_eof && !conn_is_sending(c) &&
           (conn_holds(c) || is_repeatable(c->ex));
}

void server_run_all(struct http_server *s)
{
    for (struct list_node *n = list_first(&s->conns); n != NULL; n = list_next(&s->conns, n))
        conn_defer(container_of(n, struct conn, link));
}

void http_server_resume(struct http_server *s)
{
    s->is_paused = false;
    turns_resume(s);
    server_run_all(s);
}

void http_server_get_pending(const struct http_server *s, struct http_pending *ret)
{
    *ret = (struct http_pending){.busy = s->refusing.len};
    for (const struct list_node *n = list_first(&s->conns); n != NULL;
         n = list_next(&s->conns, n)) {
        const struct conn *c = container_of(n, struct conn, link);

        if (conn_stays(c))
            ret->staying++;
        else if (!can_leave(c))
            ret->busy++;
        else if (!conn_holds(c))
            ret->repeatable++;
    }
}

static bool is_unread(const struct conn *c)
{
    return c->phase == CONN_LINGER ||
           (c->phase == CONN_OPEN && c->ex != NULL && c->ex->is_ended && conn_is_sending(c));
}

size_t http_server_cut_unread(struct http_server *s)
{
    size_t count = 0;

    assert(s->is_paused);
    for (struct list_node *n = list_first(&s->conns); n != NULL; n = list_next(&s->conns, n)) {
        struct conn *c = container_of(n, struct conn, link);

        if (!is_unread(c) || conn_stays(c))
            continue;
        conn_close(c); /* leaves the list later */
        count++;
    }
    for (struct list_node *n = list_first(&s->refusing); n != NULL; n = list_next(&s->refusing, n))
        conn_close(container_of(n, struct conn, link)); /* they were refused, or do not read */
    return count;
}

/* A session stays in this process. */
static void let_go(struct conn *c)
{
    if (c->ex != NULL && c->ex->is_owned)
        exchange_refuse(c->ex, SP_DRAINING, "the daemon is being replaced: ask again", 100);
    conn_close(c);
}

static void hand_out(struct conn *c, void (*take)(void *ctx, int fd, const char *bytes, size_t len),
                     void *ctx)
{
    struct http_exchange *ex = c->ex;
    struct buf *bytes = ex != NULL ? &ex->raw : &c->ahead;
    int own;
    int fd = uv_fileno(&c->u.handle, &own) == 0 ? fcntl(own, F_DUPFD_CLOEXEC, 3) : -1;

    if (ex != NULL) {
        bytes->max += c->ahead.len;
        buf_append(bytes, buf_str(&c->ahead), c->ahead.len);
        exchange_lost(ex);
    }
    if (fd >= 0 && !buf_failed(bytes))
        take(ctx, fd, buf_str(bytes), bytes->len);
    else if (fd >= 0)
        (void) close(fd); /* a request with a hole must not be served */
    conn_close(c);
}

void http_server_migrate(struct http_server *s,
                         void (*take)(void *ctx, int fd, const char *bytes, size_t len), void *ctx)
{
    struct list_node *next;

    assert(s->is_paused);
    for (struct list_node *n = list_first(&s->conns); n != NULL; n = next) {
        struct conn *c = container_of(n, struct conn, link);

        next = list_next(&s->conns, n);
        if (!can_leave(c) || conn_stays(c))
            continue;
        if (c->session != NULL)
            let_go(c);
        else
            hand_out(c, take, ctx);
    }
}

/* --- leaving --- */

static void on_quiet_task(struct rt_task *task)
{
    struct http_server *s = container_of(task, struct http_server, quiet_task);
    void (*on_quiet)(void *) = s->on_quiet;

    s->on_quiet = NULL;
    on_quiet(s->quiet_ctx);
    server_check_closed(s);
}

void server_check_quiet(struct http_server *s)
{
    for (struct list_node *n = list_first(&s->conns); n != NULL; n = list_next(&s->conns, n))
        if (!container_of(n, struct conn, link)->is_staying)
            return;
    if (s->refusing.len == 0 && s->listeners.len == 0)
        rt_defer(&s->loop->rt, &s->quiet_task, on_quiet_task);
}

void http_server_leave(struct http_server *s, void (*on_quiet)(void *ctx), void *quiet_ctx,
                       void (*on_closed)(void *ctx), void *ctx)
{
    assert(s->is_paused);
    s->on_quiet = on_quiet;
    s->quiet_ctx = quiet_ctx;
    for (struct list_node *n = list_first(&s->conns); n != NULL; n = list_next(&s->conns, n)) {
        struct conn *c = container_of(n, struct conn, link);

        c->is_staying = conn_stays(c);
    }
    http_server_close(s, on_closed, ctx);
}

void http_server_cut_staying(struct http_server *s)
{
    for (struct list_node *n = list_first(&s->conns); n != NULL; n = list_next(&s->conns, n))
        conn_close(container_of(n, struct conn, link)); /* leaves the list later */
}
