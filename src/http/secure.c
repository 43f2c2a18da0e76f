/* secure.c - a connection with TLS: what comes goes through its session before it is parsed, and what is sent before it is written.
 * No more is decrypted than there is room for; the rest waits in the session, and the connection is not read meanwhile. A
 * handshake makes much work, so a turn of the loop has few steps of them. */
#include <string.h>

#include "base/str.h"
#include "http/conn.h"

enum { SHAKES_PER_TURN = 2, SEAL_MAX = 64 * 1024 };

static const struct http_secure_ops *ops_of(const struct conn *c)
{
    return c->secure;
}

void http_server_set_secure(struct http_server *s, const struct http_secure *secure)
{
    s->secure = *secure;
}

bool secure_open(struct conn *c)
{
    const struct http_secure *secure = &c->server->secure;

    if (!c->peer.is_tcp || secure->ops == NULL)
        return true;
    c->session = secure->ops->open(secure->ctx);
    c->secure = secure->ops;
    c->peer.is_secure = true;
    return c->session != NULL;
}

void secure_close(struct conn *c)
{
    if (c->session != NULL)
        ops_of(c)->close(c->session);
    c->session = NULL;
}

bool secure_has_more(const struct conn *c)
{
    return c->session != NULL && ops_of(c)->has_input(c->session);
}

bool secure_is_open(const struct conn *c)
{
    return c->session == NULL || c->is_shaken;
}

/* --- out --- */

static void flush(struct conn *c)
{
    const char *data;
    size_t len = ops_of(c)->output(c->session, &data);

    if (len == 0)
        return;
    conn_send_raw(c, &(uv_buf_t){.base = (char *) (uintptr_t) data, .len = len}, 1);
    ops_of(c)->sent(c->session);
}

/* In pieces, so that what is sealed does not need the memory of all of it again. */
static bool seal(struct conn *c, const char *data, size_t len)
{
    for (size_t at = 0; at < len && c->phase == CONN_OPEN; at += SEAL_MAX) {
        if (!ops_of(c)->seal(c->session, data + at, MIN_OF(len - at, (size_t) SEAL_MAX)))
            return false;
        if (len - at > SEAL_MAX)
            flush(c);
    }
    return true;
}

void secure_send(struct conn *c, const uv_buf_t *bufs, unsigned count)
{
    bool is_good = c->is_shaken;

    for (unsigned i = 0; i < count && is_good; i++)
        is_good = seal(c, bufs[i].base, bufs[i].len);
    if (!is_good)
        conn_close(c); /* a hole in the stream would be worse */
    else if (c->phase == CONN_OPEN)
        flush(c);
}

void secure_end(struct conn *c)
{
    if (c->session == NULL || !c->is_shaken || c->is_sealed)
        return;
    c->is_sealed = true;
    ops_of(c)->end(c->session);
    flush(c);
}

/* --- in --- */

static void note_shaken(struct conn *c)
{
    if (c->is_shaken || !ops_of(c)->is_open(c->session))
        return;
    c->is_shaken = true;
    str_copy_cut(c->peer.name, sizeof(c->peer.name), ops_of(c)->name(c->session));
}

/* False: its handshake goes on in the next turn of the loop. */
static bool may_shake(struct conn *c)
{
    struct http_server *s = c->server;

    if (c->is_shaken)
        return true;
    if (s->shake_turn != s->loop->turn) {
        s->shake_turn = s->loop->turn;
        s->shakes = 0;
    }
    s->shakes++;
    return s->shakes <= SHAKES_PER_TURN;
}

bool secure_waits_for_turn(const struct conn *c)
{
    return c->phase == CONN_OPEN && !c->is_shaken && secure_has_more(c);
}

/* Nothing more will come of what has come so far. */
static void end_input(struct conn *c, int why)
{
    if (why == HTTP_SECURE_BROKEN || !c->is_shaken) {
        c->server->stats.bad_requests++;
        conn_close(c);
        return;
    }
    c->is_eof = true;
    conn_feed(c, NULL, 0);
}

void secure_run(struct conn *c)
{
    struct http_server *s = c->server;

    while (c->phase == CONN_OPEN && !c->is_eof) {
        size_t room = rest_of(held_ahead_max(c), c->ahead.len);
        bool has_more = secure_has_more(c);
        int n;

        if ((!has_more && !c->is_wire_eof) || room == 0 || conn_holds(c) || conn_is_resting(c))
            break;
        if (has_more && !may_shake(c))
            break;
        n = ops_of(c)->take(c->session, s->read_buf, MIN_OF(room, (size_t) CONN_READ_SIZE));
        flush(c);
        if (c->phase != CONN_OPEN)
            break;
        note_shaken(c);
        if (n > 0)
            conn_feed(c, s->read_buf, (size_t) n);
        else if (n < 0 || c->is_wire_eof)
            end_input(c, n);
        else if (!secure_has_more(c))
            break;
    }
    conn_update(c);
}

void secure_input(struct conn *c, const char *data, size_t len)
{
    if (ops_of(c)->put(c->session, data, len))
        secure_run(c);
    else
        conn_close(c);
}

void secure_wire_eof(struct conn *c)
{
    c->is_wire_eof = true;
    secure_run(c);
}
