/* main.c - sandpool-sim: starts the simulated machine, prints one line, runs until it gets a signal
 * to stop. Its boxes are gone when it ends: to the daemon that is a machine that was switched off. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "base/str.h"
#include "sandpool/version.h"
#include "sim/machine.h"

static const char usage_text[] =
    "usage: sandpool-sim --socket PATH [--port N]\n"
    "\n"
    "A simulated machine for sandpool: boxes in memory that outlive the daemon.\n"
    "\n"
    "  --socket PATH  Unix socket of the machine (profile key sim.socket)\n"
    "  --port N       loopback TCP port of the boxes (default: any that is free)\n"
    "  --version      print the version\n"
    "  --help         this text\n";

struct options {
    const char *socket;
    uint64_t port;
};

static const struct http_limits limits = {
    .max_connections = 16384,
    .max_header_bytes = 16 * 1024,
    .max_body_bytes = 64 * 1024,
    .stream_max = 1024 * 1024,
    .header_timeout_ms = 10000,
    .idle_timeout_ms = 60000,
    .write_timeout_ms = 30000,
};

/* Exits for --help, --version and mistakes. */
static void parse_options(int argc, char **argv, struct options *ret)
{
    static const struct option longs[] = {{"socket", required_argument, NULL, 's'},
                                          {"port", required_argument, NULL, 'p'},
                                          {"version", no_argument, NULL, 'v'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    bool is_bad = false;

    for (;;) {
        int c = getopt_long(argc, argv, "", longs, NULL);

        if (c == -1)
            break;
        if (c == 's')
            ret->socket = optarg;
        else if (c == 'p')
            is_bad = is_bad || !str_parse_u64(optarg, 0, 65535, &ret->port);
        else if (c == 'v' || c == 'h') {
            (void) fputs(c == 'h' ? usage_text : "sandpool-sim " SANDPOOL_VERSION "\n", stdout);
            exit(0);
        } else
            is_bad = true;
    }
    if (is_bad || ret->socket == NULL || optind != argc) {
        (void) fputs(usage_text, stderr);
        exit(2);
    }
}

static void on_died(void *ctx, uint64_t box_id, const char *reason)
{
    struct machine *m = ctx;

    deaths_add(&m->deaths, box_id, reason);
}

static void on_closed(void *ctx)
{
    struct machine *m = ctx;

    if (--m->closing == 0)
        loop_stop(&m->loop);
}

static void on_signal(void *ctx, int signum)
{
    struct machine *m = ctx;

    (void) signum;
    if (m->closing > 0)
        return;
    m->closing = 2;
    http_server_close(m->control, on_closed, m);
    http_server_close(m->endpoints, on_closed, m);
}

static struct http_server *new_server(struct machine *m, const struct http_route *routes)
{
    const struct http_server_config config = {.limits = limits, .routes = routes, .ctx = m};

    return http_server_new(&m->loop, &config);
}

static int listen_both(struct machine *m, const struct options *options, struct err *err)
{
    char address[32];
    int rc;

    (void) snprintf(address, sizeof(address), "127.0.0.1:%u", (unsigned) options->port);
    rc = http_server_listen_tcp(m->endpoints, address, &m->port, err);
    /* The socket last: whoever sees it may connect. */
    if (rc == SP_OK)
        rc = http_server_listen_unix(m->control, options->socket, 0660, (uint32_t) -1, err);
    return rc;
}

/* Ten thousand clients may connect: as many descriptors as the kernel allows us. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &limit); /* the old limit serves most tests */
    }
}

static int run(struct machine *m, const struct options *options, struct err *err)
{
    static const int signums[] = {SIGTERM, SIGINT, 0};
    int rc = loop_init(&m->loop, err);

    if (rc != SP_OK)
        return rc;
    world_init(&m->world, &m->loop.rt, WORLD_BOXES_MAX, on_died, m);
    deaths_init(&m->deaths, &m->loop.rt);
    m->control = new_server(m, control_routes);
    m->endpoints = new_server(m, endpoint_routes);
    rc = signals_init(&m->signals, &m->loop, signums, on_signal, m, err);
    if (rc == SP_OK)
        rc = listen_both(m, options, err);
    if (rc == SP_OK) {
        (void) printf("sandpool-sim: ready, socket %s, boxes on 127.0.0.1:%d\n", options->socket,
                      m->port);
        (void) fflush(stdout);
    } else
        on_signal(m, 0);
    loop_run(&m->loop);
    signals_close(&m->signals);
    deaths_fini(&m->deaths);
    world_fini(&m->world);
    loop_fini(&m->loop);
    return rc;
}

int main(int argc, char **argv)
{
    struct machine machine = {0};
    struct options options = {0};
    struct err err;

    parse_options(argc, argv, &options);
    log_setup(2, LOG_WARN, LOG_LOGFMT);
    raise_descriptor_limit();
    if (run(&machine, &options, &err) != SP_OK) {
        (void) fprintf(stderr, "sandpool-sim: %s\n", err.msg);
        return 1;
    }
    log_flush_wait();
    return 0;
}
