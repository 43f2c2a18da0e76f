/* tunnel_server.c - for test_tunnel_port.py: a server whose requests all go through the proxy to one port of a box.
 * tunnel_server URL TOKEN PORT: prints the port that it listens on. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "box/proxy.h"
#include "loop/signals.h"

static struct {
    struct loop loop;
    struct http_server *server;
    struct box_proxy *proxy;
    struct box_proxy_to to;
    int used;
} here;

static void on_use(void *ctx UNUSED, uint64_t box UNUSED, int delta)
{
    here.used += delta;
}

static void refuse(struct http_exchange *ex, int status, uint64_t retry_after_ms UNUSED,
                   const char *text)
{
    char body[256];
    int len = snprintf(body, sizeof(body), "%s\n", text);

    http_reply(ex, status, "text/plain", body, (size_t) len);
}

static void handle(struct http_exchange *ex)
{
    static const struct box_proxy_limits limits = {
        .requests = 100, .requests_per_box = 100, .idle_ns = 60 * NS_PER_S};

    here.to.rest = http_target(ex);
    here.to.want_tcp = here.to.rest[1] == '\0';
    box_proxy_pass(here.proxy, ex, &limits, &here.to);
}

static void handle_used(struct http_exchange *ex)
{
    char body[16];
    int len = snprintf(body, sizeof(body), "%d", here.used);

    http_reply(ex, 200, "text/plain", body, (size_t) len);
}

static void on_proxy_closed(void *ctx UNUSED)
{
    loop_stop(&here.loop);
}

static void on_server_closed(void *ctx UNUSED)
{
    box_proxy_close(here.proxy, on_proxy_closed, NULL);
}

static void on_signal(void *ctx UNUSED, int signum UNUSED)
{
    http_server_close(here.server, on_server_closed, NULL);
}

static const struct http_route routes[] = {
    {HTTP_METHOD_GET, "/-used", handle_used, 0, 0, "requests under way"},
    {HTTP_METHOD_GET, "/*", handle, HTTP_STREAM | HTTP_ANY, 0, "to the port"},
    {.pattern = NULL},
};

int main(int argc, char **argv)
{
    struct http_server_config config = {.routes = routes,
                                        .limits = {.max_connections = 100,
                                                   .max_header_bytes = 16 * 1024,
                                                   .max_body_bytes = 64 * 1024,
                                                   .stream_max = 4 * 1024 * 1024,
                                                   .header_timeout_ms = 60000,
                                                   .idle_timeout_ms = 60000,
                                                   .write_timeout_ms = 60000}};
    struct box_proxy_config proxy = {
        .loop = &here.loop, .connections = 100, .on_use = on_use, .refuse = refuse};
    const int signums[] = {SIGTERM, 0};
    struct signals signals = {0};
    struct err err;
    int port = 0;

    if (argc != 4)
        return 2;
    (void) signal(SIGPIPE, SIG_IGN);
    here.to = (struct box_proxy_to){.box = 1,
                                    .caller = 1,
                                    .url = argv[1],
                                    .token = argv[2],
                                    .port = (uint16_t) strtoul(argv[3], NULL, 10)};
    if (loop_init(&here.loop, &err) != SP_OK)
        return 1;
    here.server = http_server_new(&here.loop, &config);
    if (box_proxy_new(&proxy, &here.proxy, &err) != SP_OK ||
        http_server_listen_tcp(here.server, "127.0.0.1:0", &port, &err) != SP_OK ||
        signals_init(&signals, &here.loop, signums, on_signal, NULL, &err) != SP_OK)
        return 1;
    (void) printf("%d\n", port);
    (void) fflush(stdout);
    loop_run(&here.loop);
    signals_close(&signals);
    loop_fini(&here.loop);
    return 0;
}
