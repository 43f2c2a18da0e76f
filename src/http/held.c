/* held.c - memory that connections keep busy: answers that nobody reads, requests that are not
 * complete. One budget for all (http_limits.max_buffered); of what it has and what is free a caller
 * may use a part only, as with connections. Operators on the Unix socket have a budget of their own,
 * so nobody can keep them out. Checked before a request is served, so that each connection goes
 * over by one answer at most, and whenever a request or a streamed answer needs more. */
#include "http/conn.h"

enum { READ_SIZE_OVER = 512 }; /* enough to notice the end of a connection */

static const char *const over_text =
    "the answers that this caller does not read and its unfinished requests take all the memory it "
    "may use (http.max_buffered): read the answers, or use fewer connections";

static size_t held_by(const struct conn *c)
{
    const struct http_exchange *ex = c->ex;
    size_t sum = c->ahead.cap;

    if (c->flight != NULL)
        sum += c->flight->cur.cap + c->flight->next.cap;
    if (ex != NULL)
        sum += ex->req.text.cap + ex->body.cap + ex->raw.cap + ex->headers.cap + ex->out.cap;
    return sum;
}

void held_count(struct conn *c)
{
    struct http_server *s = c->server;
    size_t now = c->is_counted ? held_by(c) : 0;
    size_t *sum = c->is_operator ? &s->operators_held : &s->held;

    *sum = *sum - c->held + now;
    if (c->peer.is_tcp)
        s->tcp_held = s->tcp_held - c->held + now;
    if (c->caller != NULL)
        c->caller->held = c->caller->held - c->held + now;
    c->held = now;
}

bool held_is_over(const struct conn *c)
{
    const struct http_server *s = c->server;
    size_t max = s->limits.max_buffered;
    size_t room = rest_of(max, s->held);
    size_t own = c->caller != NULL ? c->caller->held : 0;

    if (max == 0 || !c->is_counted)
        return false;
    if (c->is_operator)
        return s->operators_held >= max;
    if (c->peer.is_tcp)
        room = MIN_OF(room, rest_of(callers_tcp_part(s, max), s->tcp_held));
    if (room == 0 || s->limits.share_percent == 0)
        return room == 0;
    return own * 100 >= (own + room) * s->limits.share_percent;
}

bool held_refuses(struct http_exchange *ex)
{
    /* Short answers that say whether the daemon lives must not depend on what callers do. */
    if ((ex->match.route->flags & (HTTP_OPEN | HTTP_STREAM)) == HTTP_OPEN)
        return false;
    held_count(ex->conn);
    if (!held_is_over(ex->conn))
        return false;
    exchange_refuse(ex, SP_NO_MEMORY, over_text, 1000);
    return true;
}

/* A handler works on the request, or will: what comes now belongs to the next one. */
static bool is_waiting(const struct http_exchange *ex)
{
    return (ex->is_owned || ex->on_turn != NULL) && ex->input == EXCHANGE_DONE && !ex->is_ended &&
           !ex->is_upgraded;
}

void held_check_input(struct conn *c)
{
    struct http_exchange *ex = c->ex;
    size_t before = c->held;

    held_count(c);
    if (c->held <= before || c->phase != CONN_OPEN || ex == NULL || ex->is_ended ||
        !held_is_over(c))
        return;
    if (!ex->is_owned) {
        buf_fini(&ex->body);
        buf_fini(&ex->raw);
        exchange_refuse(ex, SP_NO_MEMORY, over_text, 1000);
    } else if (is_waiting(ex) && c->ahead.len > 0) {
        conn_close(c);
    }
}

size_t held_ahead_max(const struct conn *c)
{
    /* One that waits is always read, so that its end is noticed. */
    if (c->phase != CONN_OPEN || (c->ex != NULL && is_waiting(c->ex)) || !held_is_over(c))
        return CONN_READ_SIZE;
    return READ_SIZE_OVER;
}
