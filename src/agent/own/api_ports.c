/* api_ports.c - servers inside the box: /v1/agent/ports lists what is listened on, and CONNECT 127.0.0.1:{port} makes its
 * connection one to that port. The agent connects from where it is, which is the network of the box; only loopback is
 * connected to, so it leads to nothing that the programs of the box do not have themselves. */
#include <stdlib.h>
#include <string.h>

#include "agent/core/agent.h"
#include "agent/core/listening.h"
#include "agent/own/routes.h"
#include "base/mem.h"
#include "base/str.h"
#include "loop/tcp_stream.h"

enum { FORWARDS_MAX = 128 };
#define CONNECT_NS (5 * NS_PER_S)

/* --- the list --- */

static void handle_list(struct http_exchange *ex)
{
    struct listening *found = xcalloc(LISTENING_MAX, sizeof(*found));
    size_t count = listening_find(found, LISTENING_MAX);
    struct json_out o;

    listening_find_owners(found, count);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_begin_arr(&o, "ports");
    for (size_t i = 0; i < count; i++) {
        json_begin_obj(&o, NULL);
        json_put_u64(&o, "port", found[i].port);
        json_put_str(&o, "address", found[i].address);
        if (found[i].pid > 0)
            json_put_i64(&o, "pid", found[i].pid);
        else
            json_put_null(&o, "pid");
        json_put_str(&o, "command", found[i].pid > 0 ? found[i].command : NULL);
        json_end(&o);
    }
    json_end(&o);
    json_end(&o);
    http_reply_json(ex, 200, &o);
    free(found);
}

/* --- one connection --- */

struct forward {
    struct agent *agent;
    struct http_exchange *ex;
    struct tcp_stream *stream;
    uint16_t port;
    bool is_client_ended;
    bool is_server_ended;
    bool is_second; /* of the two addresses */
};

static void connect_to(struct forward *f, const char *address);

static void forward_free(struct forward *f)
{
    tcp_stream_close(f->stream);
    f->agent->forwards--;
    free(f);
}

static void on_gone(void *ctx)
{
    forward_free(ctx);
}

/* When both sides have ended and all is on its way. */
static void end_if_over(struct forward *f)
{
    if (!f->is_client_ended || !f->is_server_ended || tcp_stream_unsent(f->stream) > 0)
        return;
    http_end(f->ex);
    forward_free(f);
}

static void on_client_data(struct http_exchange *ex, const char *data, size_t len)
{
    struct forward *f = http_ctx(ex);

    if (tcp_stream_write(f->stream, data, len) > TCP_STREAM_HIGH)
        http_body_pause(ex);
}

static void on_client_end(struct http_exchange *ex)
{
    struct forward *f = http_ctx(ex);

    f->is_client_ended = true;
    tcp_stream_shut(f->stream);
    end_if_over(f);
}

static void on_client_drain(struct http_exchange *ex)
{
    struct forward *f = http_ctx(ex);

    tcp_stream_resume(f->stream);
}

static void on_data(void *ctx, const char *data, size_t len)
{
    struct forward *f = ctx;

    if (http_write(f->ex, data, len) >= HTTP_HIGH_WATER)
        tcp_stream_pause(f->stream);
}

static void on_end(void *ctx)
{
    struct forward *f = ctx;

    f->is_server_ended = true;
    http_shut(f->ex);
    end_if_over(f);
}

static void on_drain(void *ctx)
{
    struct forward *f = ctx;

    http_body_resume(f->ex);
    end_if_over(f);
}

static void on_broken(void *ctx)
{
    struct forward *f = ctx;

    http_abort(f->ex);
    forward_free(f);
}

static void refuse(struct forward *f, int result)
{
    char text[96];
    struct err err;

    (void) err_set(&err, SP_PORT_CLOSED, "nobody listens on port %u of the box%s",
                   (unsigned) f->port, result == SP_TIMEOUT ? ", or does not accept" : "");
    str_copy_cut(text, sizeof(text), err.msg);
    http_reply_error(f->ex, SP_PORT_CLOSED, text, 0);
    forward_free(f);
}

static void on_open(void *ctx, int result)
{
    struct forward *f = ctx;

    if (result != SP_OK && !f->is_second) {
        f->is_second = true;
        tcp_stream_close(f->stream);
        connect_to(f, "::1");
        return;
    }
    if (result != SP_OK) {
        refuse(f, result);
        return;
    }
    http_body_start(f->ex, on_client_data, on_client_end);
    http_set_drain(f->ex, on_client_drain);
    http_upgrade(f->ex, 200);
}

static void connect_to(struct forward *f, const char *address)
{
    static const struct tcp_stream_events events = {.on_open = on_open,
                                                    .on_data = on_data,
                                                    .on_end = on_end,
                                                    .on_drain = on_drain,
                                                    .on_broken = on_broken};
    struct loop *l = &f->agent->loop;

    f->stream =
        tcp_stream_open(l, address, f->port, rt_after(rt_now(&l->rt), CONNECT_NS), &events, f);
}

/* "127.0.0.1:80"; also localhost and [::1], which mean the same. */
static bool read_target(const char *target, uint16_t *ret)
{
    static const char *const hosts[] = {"127.0.0.1:", "localhost:", "[::1]:"};
    uint64_t port;

    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        size_t len = strlen(hosts[i]);

        if (strncmp(target, hosts[i], len) != 0 || !str_parse_u64(target + len, 1, 65535, &port))
            continue;
        *ret = (uint16_t) port;
        return true;
    }
    return false;
}

static void handle_connect(struct http_exchange *ex)
{
    struct agent *a = http_server_ctx(ex);
    struct forward *f;
    uint16_t port;

    if (http_body_length(ex) != 0 || !read_target(http_target(ex), &port)) {
        http_reply_error(ex, SP_BAD_REQUEST,
                         "CONNECT takes 127.0.0.1 and a port of the box, and no body", 0);
        return;
    }
    if (a->forwards >= FORWARDS_MAX) {
        http_reply_error(ex, SP_QUEUE_FULL, "128 connections to ports of this box are open already",
                         1000);
        return;
    }
    f = xcalloc(1, sizeof(*f));
    f->agent = a;
    f->ex = ex;
    f->port = port;
    a->forwards++;
    http_set_ctx(ex, f, on_gone);
    connect_to(f, "127.0.0.1");
}

const struct http_route own_port_routes[] = {
    {HTTP_METHOD_GET, "/v1/agent/ports", handle_list, 0, 0, "TCP ports that are listened on"},
    {HTTP_METHOD_CONNECT, "*", handle_connect, HTTP_STREAM, 0, "a connection to one of them"},
    {.pattern = NULL},
};
