/* upgrade.c - a connection that becomes something else than HTTP: its exchange goes on as a stream of bytes in both
 * directions, with the buffers, limits and callbacks that bodies and answers have. */
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "http/conn.h"
#include "http/reply.h"

static bool has_name(const char *list, const char *name)
{
    size_t name_len = strlen(name);

    while (*list != '\0') {
        size_t len;

        list += strspn(list, ", \t");
        len = strcspn(list, ", \t");
        if (len == name_len && strncasecmp(list, name, len) == 0)
            return true;
        list += len;
    }
    return false;
}

static bool is_named(const struct http_exchange *ex)
{
    const char *name;
    const char *value;

    for (unsigned i = 0; http_header_at(ex, i, &name, &value); i++)
        if (strcasecmp(name, "Connection") == 0 && has_name(value, "upgrade"))
            return true;
    return false;
}

bool upgrade_is_asked(const struct http_exchange *ex)
{
    const char *upgrade = http_header(ex, "Upgrade");

    if (strcmp(http_method_text(ex), "CONNECT") == 0)
        return true;
    return upgrade != NULL && strncasecmp(upgrade, "h2", 2) != 0 && is_named(ex);
}

const char *http_upgrade_wanted(const struct http_exchange *ex)
{
    if (!is_named(ex) || !ex->req.is_http11 || ex->req.has_body ||
        ex->req.method == HTTP_METHOD_HEAD)
        return NULL;
    return http_header(ex, "Upgrade");
}

void http_upgrade(struct http_exchange *ex, int status)
{
    assert(!ex->is_begun && !ex->is_ended && ex->is_owned && ex->input == EXCHANGE_DONE);
    assert(!ex->req.has_body && ex->req.method != HTTP_METHOD_HEAD);
    buf_reset(&ex->out);
    buf_puts(&ex->out, "HTTP/1.1 ");
    reply_put_u64(&ex->out, (uint64_t) status);
    buf_putc(&ex->out, ' ');
    buf_puts(&ex->out, reply_status_text(status));
    buf_puts(&ex->out, "\r\n");
    buf_append(&ex->out, buf_str(&ex->headers), ex->headers.len);
    buf_puts(&ex->out, "\r\n");
    buf_fini(&ex->raw); /* it cannot be repeated any more */
    ex->is_begun = true;
    ex->is_upgraded = true;
    ex->must_close = true;
    ex->must_linger = true;
    if (buf_failed(&ex->headers) || buf_failed(&ex->out))
        conn_close(ex->conn);
    else
        conn_send_buf(ex->conn, &ex->out);
    conn_defer(ex->conn); /* what came behind the request */
}

void http_shut(struct http_exchange *ex)
{
    assert(ex->is_upgraded && !ex->is_ended);
    ex->is_shutting = true;
    conn_defer(ex->conn);
}

size_t upgrade_feed(struct http_exchange *ex, const char *data, size_t len)
{
    if (ex->on_data != NULL)
        ex->on_data(ex, data, len);
    return len;
}

static void shut(struct conn *c)
{
    int fd;

    c->ex->is_shut = true;
    secure_end(c);
    if (c->phase != CONN_OPEN)
        return;
    if (uv_fileno(&c->u.handle, &fd) != 0 || shutdown(fd, SHUT_WR) != 0)
        conn_close(c);
}

bool upgrade_step(struct conn *c, bool is_all_taken)
{
    struct http_exchange *ex = c->ex;

    if (c->phase != CONN_OPEN || !conn_is_upgraded(c) || ex->is_ended)
        return false;
    if (ex->is_shutting && !ex->is_shut && !conn_is_sending(c))
        shut(c);
    if (c->phase != CONN_OPEN || !c->is_eof || !is_all_taken || ex->is_paused || ex->is_end_known)
        return false;
    ex->is_end_known = true;
    if (ex->on_end != NULL)
        ex->on_end(ex);
    return true;
}
