/* tunnel.c - from a client's upgrade to a connection into a box.
 *
 *   LOOKUP -> CONNECT -> (ASK_PORT: CONNECT 127.0.0.1:port of the agent) -> ASK: the client's request -> OPEN
 *
 * An answer other than 101 is passed on as a whole, and both connections are closed: so what a client sends next never
 * reaches the server that refused, nor is it read as a request of ours. Each direction holds some hundred KiB: whoever is
 * faster waits. */
#include "box/tunnel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"
#include "box/proxy_head.h"
#include "box/tunnel_head.h"
#include "loop/resolve.h"
#include "loop/tcp_stream.h"

enum { REQUEST_MAX = 1024 * 1024 /* what the server lets in is less */ };
#define CONNECT_NS (5 * NS_PER_S)
#define ANSWER_NS (60 * NS_PER_S)
#define HALF_NS (30 * NS_PER_S) /* that a client may be silent when the box has ended */

enum tunnel_phase { PHASE_LOOKUP, PHASE_CONNECT, PHASE_ASK_PORT, PHASE_ASK, PHASE_OPEN };

struct tunnel {
    struct loop *loop;
    struct http_exchange *ex; /* NULL: the client has gone, or was answered */
    struct tunnel_owner owner;
    enum tunnel_phase phase;
    struct resolve lookup;
    struct tcp_stream *stream; /* NULL: none yet */
    struct tunnel_address address;
    struct tunnel_answer answer;
    struct buf ask_port; /* what is sent first, if anything */
    struct buf ask;      /* the request; empty: raw TCP */
    struct rt_timer timer;
    uint64_t moved_ns;
    uint64_t idle_ns;
    size_t next_address;
    bool is_client_ended;
    bool is_box_ended;
};

static void on_timer(struct rt_timer *timer);

/* --- the end --- */

static void tunnel_free(struct tunnel *t)
{
    struct tunnel_owner owner = t->owner;

    rt_timer_cancel(&t->loop->rt, &t->timer);
    if (t->stream != NULL)
        tcp_stream_close(t->stream);
    tunnel_answer_fini(&t->answer);
    buf_fini(&t->ask_port);
    buf_fini(&t->ask);
    free(t);
    owner.on_over(owner.ctx);
}

static void on_gone(void *ctx)
{
    struct tunnel *t = ctx;

    t->ex = NULL;
    if (t->phase == PHASE_LOOKUP)
        op_cancel(&t->lookup.op); /* on_found() frees */
    else
        tunnel_free(t);
}

static void refuse(struct tunnel *t, int status, const char *text)
{
    t->owner.refuse(t->ex, status, 0, text);
    t->ex = NULL;
    tunnel_free(t);
}

struct http_exchange *tunnel_exchange(const struct tunnel *t)
{
    return t->ex;
}

void tunnel_cut(struct tunnel *t, int code, const char *reason)
{
    if (t->ex == NULL) /* its client was faster */
        return;
    if (t->phase == PHASE_OPEN)
        http_abort(t->ex);
    else
        t->owner.refuse_loss(t->ex, code, reason);
    on_gone(t);
}

/* --- open --- */

static void moved(struct tunnel *t)
{
    t->moved_ns = rt_now(&t->loop->rt);
}

/* Both have ended, and what they sent is on its way. */
static void end_if_over(struct tunnel *t)
{
    if (!t->is_client_ended || !t->is_box_ended || tcp_stream_unsent(t->stream) > 0)
        return;
    http_end(t->ex);
    tunnel_free(t);
}

static void on_client_data(struct http_exchange *ex, const char *data, size_t len)
{
    struct tunnel *t = http_ctx(ex);

    moved(t);
    if (tcp_stream_write(t->stream, data, len) > TCP_STREAM_HIGH)
        http_body_pause(ex);
}

static void on_client_end(struct http_exchange *ex)
{
    struct tunnel *t = http_ctx(ex);

    t->is_client_ended = true;
    tcp_stream_shut(t->stream);
    end_if_over(t);
}

static void on_client_drain(struct http_exchange *ex)
{
    struct tunnel *t = http_ctx(ex);

    moved(t);
    tcp_stream_resume(t->stream);
}

static void pass_to_client(struct tunnel *t, const char *data, size_t len)
{
    moved(t);
    if (len > 0 && http_write(t->ex, data, len) >= HTTP_HIGH_WATER)
        tcp_stream_pause(t->stream);
}

static void open_client(struct tunnel *t)
{
    t->phase = PHASE_OPEN;
    moved(t);
    http_body_start(t->ex, on_client_data, on_client_end);
    http_set_drain(t->ex, on_client_drain);
    if (t->ask.len == 0) {
        http_add_header(t->ex, "Connection", "Upgrade");
        http_add_header(t->ex, "Upgrade", "tcp");
    } else {
        tunnel_add_headers(&t->answer, t->ex, true);
    }
    http_upgrade(t->ex, 101);
    pass_to_client(t, buf_str(&t->answer.body), t->answer.body.len);
    buf_fini(&t->answer.body);
    rt_timer_set(&t->loop->rt, &t->timer, rt_after(t->moved_ns, t->idle_ns), on_timer);
}

/* --- asking --- */

static void send_request(struct tunnel *t)
{
    uint64_t limit_ns = MIN_OF(t->idle_ns, ANSWER_NS);
    bool is_port = t->ask_port.len > 0;
    struct buf *text = is_port ? &t->ask_port : &t->ask;

    t->phase = is_port ? PHASE_ASK_PORT : PHASE_ASK;
    tunnel_answer_fini(&t->answer);
    tunnel_answer_init(&t->answer, is_port);
    (void) tcp_stream_write(t->stream, buf_str(text), text->len);
    explicit_bzero(text->data, text->len); /* the token may be in it */
    rt_timer_set(&t->loop->rt, &t->timer, rt_after(rt_now(&t->loop->rt), limit_ns), on_timer);
}

static void pass_answer(struct tunnel *t)
{
    struct tunnel_answer *a = &t->answer;

    tunnel_add_headers(a, t->ex, false);
    http_reply(t->ex, a->status, NULL, buf_str(&a->body), a->body.len);
    t->ex = NULL;
    tunnel_free(t);
}

/* The agent has not connected to the port. */
static void refuse_port(struct tunnel *t)
{
    int status = t->answer.status;

    if (status == 502) {
        http_reply_error(t->ex, SP_PORT_CLOSED, sp_error_info(SP_PORT_CLOSED)->text, 0);
        t->ex = NULL;
        tunnel_free(t);
    } else if (status == 429) {
        refuse(t, 429, "Too many connections to ports of this sandbox");
    } else {
        refuse(t, 501,
               "Ports of this sandbox cannot be reached: it has no agent that connects to them");
    }
}

static void go_on(struct tunnel *t, enum tunnel_state state)
{
    bool is_port = t->phase == PHASE_ASK_PORT;

    switch (state) {
    case TUNNEL_MORE:
        break;
    case TUNNEL_OPEN:
        if (!is_port || t->ask.len == 0) {
            open_client(t);
        } else if (t->answer.body.len > 0) {
            refuse(t, 502, "The sandbox did not answer: it spoke before it was asked");
        } else {
            buf_fini(&t->ask_port);
            send_request(t);
        }
        break;
    case TUNNEL_OTHER:
        if (is_port)
            refuse_port(t);
        else
            pass_answer(t);
        break;
    case TUNNEL_BAD:
    case TUNNEL_STATE_COUNT:
        refuse(t, 502, "The sandbox did not answer: the peer's response is malformed or too long");
        break;
    }
}

static void on_timer(struct rt_timer *timer)
{
    struct tunnel *t = container_of(timer, struct tunnel, timer);
    struct rt *rt = &t->loop->rt;
    uint64_t at_ns = rt_after(t->moved_ns, t->idle_ns);

    if (t->phase != PHASE_OPEN) {
        refuse(t, 504, "The sandbox did not answer in time");
        return;
    }
    if (rt_now(rt) < at_ns) {
        rt_timer_set(rt, timer, at_ns, on_timer);
        return;
    }
    http_abort(t->ex);
    tunnel_free(t);
}

/* --- the box --- */

static void on_data(void *ctx, const char *data, size_t len)
{
    struct tunnel *t = ctx;

    if (t->phase == PHASE_OPEN)
        pass_to_client(t, data, len);
    else
        go_on(t, tunnel_answer_feed(&t->answer, data, len));
}

static void on_end(void *ctx)
{
    struct tunnel *t = ctx;

    if (t->phase != PHASE_OPEN) {
        go_on(t, tunnel_answer_end(&t->answer));
        return;
    }
    t->is_box_ended = true;
    if (t->ask.len >
        0) { /* no protocol of this kind goes on in one direction, and a dead box ends like this, too */
        http_end(t->ex);
        tunnel_free(t);
        return;
    }
    http_shut(t->ex);
    moved(t);
    t->idle_ns = MIN_OF(t->idle_ns, HALF_NS);
    rt_timer_set(&t->loop->rt, &t->timer, rt_after(t->moved_ns, t->idle_ns), on_timer);
    end_if_over(t);
}

static void on_drain(void *ctx)
{
    struct tunnel *t = ctx;

    if (t->phase != PHASE_OPEN)
        return;
    moved(t);
    http_body_resume(t->ex);
    end_if_over(t);
}

static void on_broken(void *ctx)
{
    struct tunnel *t = ctx;

    if (t->phase != PHASE_OPEN) {
        refuse(t, 502, "The sandbox did not answer: the connection broke");
        return;
    }
    http_abort(t->ex); /* a client learns that something is missing */
    tunnel_free(t);
}

static void connect_next(struct tunnel *t);

static void on_open(void *ctx, int result)
{
    struct tunnel *t = ctx;

    if (result == SP_OK) {
        send_request(t);
    } else if (t->next_address < t->lookup.addrs.count) {
        tcp_stream_close(t->stream);
        connect_next(t);
    } else {
        refuse(t, 502, "The sandbox cannot be reached");
    }
}

static void connect_next(struct tunnel *t)
{
    static const struct tcp_stream_events events = {.on_open = on_open,
                                                    .on_data = on_data,
                                                    .on_end = on_end,
                                                    .on_drain = on_drain,
                                                    .on_broken = on_broken};
    const char *address = t->lookup.addrs.text[t->next_address++];

    t->phase = PHASE_CONNECT;
    t->stream = tcp_stream_open(t->loop, address, t->address.port,
                                rt_after(rt_now(&t->loop->rt), CONNECT_NS), &events, t);
}

static void on_found(struct op *op)
{
    struct tunnel *t = container_of(op, struct tunnel, lookup.op);

    if (t->ex == NULL)
        tunnel_free(t);
    else if (op->result != SP_OK)
        refuse(t, 502, "The sandbox cannot be reached");
    else
        connect_next(t);
}

/* A number needs no look-up, and localhost is always the same. */
static void look_up(struct tunnel *t)
{
    static struct resolve_cache names; /* of all tunnels */
    const char *host = t->address.host;
    bool is_number = strchr(host, ':') != NULL || host[strspn(host, "0123456789.")] == '\0';

    if (!is_number && strcasecmp(host, "localhost") != 0) {
        t->lookup.host = host;
        resolve_start(t->loop, &t->lookup, &names, rt_after(rt_now(&t->loop->rt), CONNECT_NS),
                      on_found);
        return;
    }
    t->lookup.addrs.count = 1;
    str_copy_cut(t->lookup.addrs.text[0], RESOLVE_TEXT, is_number ? host : "127.0.0.1");
    connect_next(t);
}

/* --- the client --- */

bool tunnel_is_wanted(const struct http_exchange *ex)
{
    const char *upgrade = http_upgrade_wanted(ex);

    return upgrade != NULL && strncasecmp(upgrade, "h2", 2) != 0;
}

static void put_ask_port(struct buf *out, unsigned port, const char *token)
{
    buf_printf(out, "CONNECT 127.0.0.1:%u HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n", port, port);
    buf_printf(out, "Authorization: Bearer %s\r\n\r\n", token);
}

/* False: it cannot be asked for. */
static bool make_requests(struct tunnel *t, const struct box_proxy_to *to)
{
    const struct tunnel_address *a = &t->address;
    char host[32];
    struct buf path;

    buf_init(&path, REQUEST_MAX);
    if (!proxy_url(to->port != 0 ? "" : a->path, to->rest, &path)) {
        buf_fini(&path);
        return false;
    }
    if (to->port == 0) {
        tunnel_put_request(&t->ask, t->ex, to, buf_str(&path), a->authority, a->authority_len);
    } else {
        put_ask_port(&t->ask_port, to->port, to->token);
        (void) snprintf(host, sizeof(host), "127.0.0.1:%u", (unsigned) to->port);
        if (!to->want_tcp || strcasecmp(http_upgrade_wanted(t->ex), "tcp") != 0)
            tunnel_put_request(&t->ask, t->ex, to, buf_str(&path), host, strlen(host));
    }
    buf_fini(&path);
    return !buf_failed(&t->ask) && !buf_failed(&t->ask_port);
}

void tunnel_start(struct loop *l, struct http_exchange *ex, const struct box_proxy_to *to,
                  uint64_t idle_ns, const struct tunnel_owner *owner, struct tunnel **ret)
{
    struct tunnel *t = xcalloc(1, sizeof(*t));

    *ret = t;
    t->loop = l;
    t->ex = ex;
    t->owner = *owner;
    t->idle_ns = idle_ns;
    t->phase = PHASE_CONNECT;
    buf_init(&t->ask_port, REQUEST_MAX);
    buf_init(&t->ask, REQUEST_MAX);
    tunnel_answer_init(&t->answer, false);
    if (!tunnel_read_url(to->url, &t->address)) {
        refuse(t, 501, "Upgrades of a sandbox at an address of this kind are not supported");
        return;
    }
    if (to->port != 0 && t->address.path[strspn(t->address.path, "/")] != '\0') {
        refuse(t, 501, "Ports of this sandbox cannot be reached: it is behind a proxy");
        return;
    }
    if (!make_requests(t, to)) {
        refuse(t, 400, "Bad request target");
        return;
    }
    t->address.authority = NULL; /* they point into `to` */
    t->address.path = NULL;
    http_set_ctx(ex, t, on_gone);
    http_may_stay(ex);
    t->phase = PHASE_LOOKUP;
    look_up(t);
}
