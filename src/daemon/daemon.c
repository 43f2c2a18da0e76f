/* daemon.c - the start order, a list one can read: config, log, lock (or all that a predecessor hands
 * over), limits, loop, signals, HTTP client, engine (store loaded), ask the backends, listen, ready.
 * The stop order is in stop.c. */
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/cleanup.h"
#include "base/fault.h"
#include "base/log_thread.h"
#include "base/str.h"
#include "daemon/ends.h"
#include "daemon/files.h"
#include "daemon/guard.h"
#include "daemon/internal.h"
#include "daemon/notify.h"
#include "daemon/single.h"
#include "daemon/upgrade_connections.h"
#include "daemon/upgrade_packet.h"
#include "dialects/provisioner/provisioner.h"
#include "engine/tokens.h"
#include "http/listen.h"
#include "sandpool/version.h"

enum {
    STREAM_MAX = 4 * 1024 * 1024,
};

int daemon_load_config(const struct daemon_options *options, struct config **ret, struct err *err)
{
    struct config *c = NULL;
    int r = config_load(options->config_path, &c, err);

    if (r != SP_OK)
        return r;
    if (options->state_dir != NULL &&
        !str_copy(c->state_dir, sizeof(c->state_dir), options->state_dir))
        r = err_set(err, SP_CONFIG, "--state-dir is too long");
    else if (options->socket != NULL &&
             !str_copy(c->socket.path, sizeof(c->socket.path), options->socket))
        r = err_set(err, SP_CONFIG, "--socket is too long");
    if (r != SP_OK)
        c = config_free(c);
    else
        *ret = c;
    return r;
}

/* --- limits --- */

static struct http_limits limits_of(const struct config *c, unsigned max_connections)
{
    return (struct http_limits){
        .max_connections = max_connections,
        .max_unproven = (unsigned) c->tcp.max_unproven,
        .share_percent = (unsigned) c->http.share_percent,
        .max_header_bytes = (size_t) c->http.max_header_bytes,
        .max_body_bytes = (size_t) c->http.max_body_bytes,
        .stream_max = STREAM_MAX,
        .max_buffered = (size_t) c->http.max_buffered,
        .header_timeout_ms = c->http.header_timeout_s * 1000,
        .idle_timeout_ms = c->http.idle_timeout_s * 1000,
        .write_timeout_ms = c->http.write_timeout_s * 1000,
    };
}

static void apply_limits(struct daemon *d, const struct config *c, const char *key)
{
    struct files files;
    struct http_limits limits;

    files_divide(c, d->file_limit, &files);
    limits = limits_of(c, files.connections);
    servers_set_limits(&d->servers, &limits);
    d->api.max_requests = files.requests;
    d->api.max_calls = files.calls;
    limits = limits_of(c, files.provisioner_connections);
    if (d->provisioner != NULL &&
        provisioner_set(d->provisioner, &limits, files.provisioner_requests, key))
        ends_caller(d, provisioner_principal(d->provisioner));
}

/* --- reload --- */

static int reload(void *ctx, struct err *err)
{
    struct daemon *d = ctx;
    struct config *c = NULL;
    char key[PROVISIONER_KEY_MAX + 1];
    struct tls *tls = NULL;
    int r = daemon_load_config(d->options, &c, err);

    notify_send("RELOADING=1");
    if (r == SP_OK &&
        (provisioner_read_key(c, key, err) != SP_OK || certificate_read(c, &tls, err) != SP_OK)) {
        c = config_free(c);
        r = err->code;
    }
    if (r == SP_OK) {
        api_note_losers(&d->api, c);
        r = engine_reload(d->engine, c, err); /* takes it over */
    }
    if (r != SP_OK) {
        log_error("config.reload_failed", LF_STR("reason", err->msg));
        (void) tls_free(tls);     /* returns NULL by convention */
        buf_fini(&d->api.losers); /* nobody loses anything */
    } else {
        log_set_level(c->log.level, c->log.format);
        apply_limits(d, c, key);
        certificate_use(&d->tls, tls, &d->servers);
        api_check_waiting(&d->api);
        api_check_calls(&d->api, ends_caller, d);
    }
    notify_send("READY=1");
    return r;
}

/* --- signals --- */

static void on_signal(void *ctx, int signum)
{
    struct daemon *d = ctx;
    struct err err;

    if (signum == SIGHUP) {
        if (d->servers.count > 0 && !d->is_stopping && !upgrade_is_busy(&d->upgrade))
            (void) reload(d, &err); /* logged there; a bad file changes nothing */
        return;
    }
    if (signum == SIGUSR2) {
        if (d->servers.count > 0 && !d->is_stopping)
            upgrade_start(&d->upgrade);
        return;
    }
    daemon_stop(d, signum == SIGINT ? "SIGINT" : "SIGTERM");
}

/* --- start --- */

static void on_watchdog(struct rt_timer *timer)
{
    struct daemon *d = container_of(timer, struct daemon, watchdog_timer);
    uint64_t every_ns = notify_watchdog_ns();

    if (every_ns == 0)
        return;
    notify_send("WATCHDOG=1");
    rt_timer_set(&d->loop.rt, timer, rt_after(rt_now(&d->loop.rt), every_ns), on_watchdog);
}

static int socket_gid(const struct config *c, uint32_t *ret, struct err *err)
{
    const struct group *g;

    *ret = (uint32_t) -1;
    if (str_is_empty(c->socket.group))
        return SP_OK;
    g = getgrnam(c->socket.group); /* at start only: it may read files */
    if (g == NULL)
        return err_set(err, SP_CONFIG, "socket.group: there is no group '%s'", c->socket.group);
    *ret = g->gr_gid;
    return SP_OK;
}

static int open_tcp(struct daemon *d, const char *name, const char *key, const char *address,
                    struct listener_socket **ret, struct err *err)
{
    int r = listeners_tcp(&d->listeners, name, address, ret, err);

    return r == SP_OK ? r : err_wrap(err, "%s", key);
}

/* The sockets of the configuration; asked again, the same ones. */
static int open_sockets(struct daemon *d, const struct config *c, struct listener_socket **ret_unix,
                        struct listener_socket **ret_tcp, struct listener_socket **ret_provisioner,
                        struct err *err)
{
    uint32_t gid;
    int r = socket_gid(c, &gid, err);

    if (r == SP_OK)
        r = listeners_unix(&d->listeners, LISTENER_API, c->socket.path, (unsigned) c->socket.mode,
                           gid, ret_unix, err);
    if (r == SP_OK && !str_is_empty(c->tcp.listen))
        r = open_tcp(d, LISTENER_API_TCP, "tcp.listen", c->tcp.listen, ret_tcp, err);
    if (r == SP_OK && c->provisioner.enabled)
        r = open_tcp(d, LISTENER_PROVISIONER, "provisioner.listen", c->provisioner.listen,
                     ret_provisioner, err);
    return r;
}

static int start_provisioner(struct daemon *d, struct listener_socket *socket,
                             const struct files *files, struct err *err)
{
    struct http_limits limits = limits_of(engine_config(d->engine), files->provisioner_connections);
    struct http_server *http;
    int r = provisioner_new(&d->loop, d->engine, &limits, files->provisioner_requests,
                            &d->provisioner, &http, err);

    if (r != SP_OK)
        return r;
    log_info("provisioner.ready", LF_STR("listen", engine_config(d->engine)->provisioner.listen));
    return servers_listen(servers_add(&d->servers, SERVER_PROVISIONER, http), socket, err);
}

static int start_listening(struct daemon *d, struct err *err)
{
    const struct config *c = engine_config(d->engine);
    struct http_server_config sc = {.routes = api_routes,
                                    .pair_prefix = API_THREAD_PREFIX,
                                    .ctx = &d->api,
                                    .guard = api_guard,
                                    .wants_proof = true,
                                    .is_operator = api_is_operator,
                                    .put_message = api_put_message,
                                    .keeps_requests = true};
    struct listener_socket *unix_socket = NULL;
    struct listener_socket *tcp_socket = NULL;
    struct listener_socket *provisioner_socket = NULL;
    struct tls *tls;
    struct server *api;
    struct files files;
    int r = open_sockets(d, c, &unix_socket, &tcp_socket, &provisioner_socket, err);

    if (r != SP_OK)
        return r;
    FAULT_POINT("engine.before_listen");
    files_divide(c, d->file_limit, &files);
    sc.limits = limits_of(c, files.connections);
    d->api.max_requests = files.requests;
    d->api.max_calls = files.calls;
    tls = d->tls; /* a take-over that failed: what it had */
    r = tls == NULL ? certificate_read(c, &tls, err) : SP_OK;
    if (r != SP_OK)
        return r;
    api = servers_add(&d->servers, SERVER_API, http_server_new(&d->loop, &sc));
    r = api_open_calls(&d->api, &d->loop, err);
    if (r == SP_OK)
        r = servers_listen(api, unix_socket, err);
    if (r == SP_OK && tcp_socket != NULL)
        r = api_open_proxy(&d->api, &d->loop, err);
    if (r == SP_OK && tcp_socket != NULL)
        r = servers_listen(api, tcp_socket, err);
    if (r == SP_OK && provisioner_socket != NULL)
        r = start_provisioner(d, provisioner_socket, &files, err);
    certificate_use(&d->tls, tls, &d->servers);
    if (r != SP_OK)
        return r;
    listeners_drop_unused(&d->listeners);
    log_info("daemon.ready", LF_STR("socket", c->socket.path), LF_STR("tcp", c->tcp.listen),
             LF_U64("port", tcp_socket != NULL ? listen_port(tcp_socket->fd) : 0),
             LF_STR("instance", engine_instance(d->engine)));
    return SP_OK;
}

static void on_recovered(void *ctx)
{
    struct daemon *d = ctx;
    char text[48];
    struct err err;

    if (d->is_stopping)
        return;
    if (start_listening(d, &err) != SP_OK) {
        log_error("daemon.cannot_listen", LF_STR("reason", err.msg));
        (void) fprintf(stderr, "%ssandpoold: %s\n", log_mark(STDERR_FILENO, LOG_ERROR), err.msg);
        d->exit_status = 1;
        daemon_stop(d, "cannot listen");
        return;
    }
    takeover_done(&d->takeover);
    if (d->cargo.len > 0)
        log_info("daemon.connections_taken", LF_U64("count", cargo_unload(&d->cargo, &d->servers)));
    upgrade_open(&d->upgrade, d);
    (void) snprintf(text, sizeof(text), "READY=1\nMAINPID=%d", (int) getpid());
    notify_send(text);
    on_watchdog(&d->watchdog_timer);
}

/* One of its tokens is valid no longer. */
static void on_token_lost(void *ctx, uint64_t principal)
{
    struct daemon *d = ctx;

    api_check_waiting(&d->api);
    api_check_caller(&d->api, principal);
    ends_caller(d, principal);
}

int daemon_open_engine(struct daemon *d, struct config *config, struct err *err)
{
    int r = engine_new(&d->loop, d->http_client, config, &d->engine, err); /* takes it over */

    if (r != SP_OK)
        return r;
    d->api = (struct api){
        .engine = d->engine, .started_ns = rt_now(&d->loop.rt), .reload = reload, .reload_ctx = d};
    list_init(&d->api.destroys);
    list_init(&d->api.acquires);
    list_init(&d->api.lives);
    ends_watch(d);
    engine_watch_tokens(d->engine, on_token_lost, d);
    engine_recover(d->engine, on_recovered, d);
    return SP_OK;
}

static int start(struct daemon *d, struct config *config, struct err *err)
{
    static const int signums[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR2, 0};
    struct httpc_limits limits = {
        .connections = 512, .connections_per_host = 192, .connect_timeout_ms = 5000};
    int r = loop_init(&d->loop, err);

    rest_init(&d->rest, &d->loop);
    if (r == SP_OK)
        r = signals_init(&d->signals, &d->loop, signums, on_signal, d, err);
    if (r == SP_OK)
        r = guard_start(err);
    if (r == SP_OK)
        r = httpc_new(&d->loop, &limits, &d->http_client, err);
    if (r == SP_OK)
        r = daemon_open_engine(d, config, err);
    if (r != SP_OK)
        (void) config_free(config); /* returns NULL by convention */
    return r;
}

struct preparing {
    struct daemon *daemon;
    const struct config *config;
};

static int prepare(void *ctx, struct err *err)
{
    const struct preparing *p = ctx;
    struct listener_socket *unused[3];
    char key[PROVISIONER_KEY_MAX + 1];
    struct tls *tls = NULL;
    int r = provisioner_read_key(p->config, key, err);

    if (r == SP_OK)
        r = certificate_read(p->config, &tls, err);
    (void) tls_free(tls); /* returns NULL by convention */
    if (r == SP_OK)
        r = open_sockets(p->daemon, p->config, &unused[0], &unused[1], &unused[2], err);
    return r;
}

/* From the daemon that runs, if there is one and we are to replace it; else by taking the lock. */
static int take_state_dir(struct daemon *d, const struct config *c, struct err *err)
{
    enum single_wait wait = d->options->want_standby ? SINGLE_WAIT_LONG : SINGLE_WAIT_NOT;
    struct preparing p = {.daemon = d, .config = c};
    bool was_there = false;
    int r = SP_OK;

    d->takeover = (struct takeover){.state_dir = d->state_dir,
                                    .listeners = &d->listeners,
                                    .cargo = &d->cargo,
                                    .prepare = prepare,
                                    .ctx = &p,
                                    .fd = -1,
                                    .lock_fd = -1};
    if (d->options->want_takeover)
        r = takeover_ask(&d->takeover, &was_there, err);
    if (r != SP_OK)
        return r;
    d->lock_fd = d->takeover.lock_fd;
    if (d->lock_fd < 0)
        return single_lock(d->state_dir, was_there ? SINGLE_WAIT_SOON : wait, &d->lock_fd, err);
    single_sign(d->lock_fd);
    return SP_OK;
}

static bool is_file(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

int daemon_run(const struct daemon_options *options)
{
    struct daemon *d = calloc(1, sizeof(*d));
    struct config *config = NULL;
    struct err err;
    int r = d != NULL ? daemon_load_config(options, &config, &err)
                      : err_set(&err, SP_NO_MEMORY, "out of memory");

    if (d != NULL) {
        d->options = options;
        d->lock_fd = -1;
        list_init(&d->cargo);
    }
    if (r == SP_OK) {
        log_setup(STDERR_FILENO, config->log.level, config->log.format);
        if (is_file(STDERR_FILENO))
            log_thread_start();
        str_copy_cut(d->state_dir, sizeof(d->state_dir), config->state_dir); /* it fits */
        d->file_limit = single_raise_file_limit();
        r = listeners_from_environment(&d->listeners, &err);
    }
    if (r == SP_OK)
        r = take_state_dir(d, config, &err);
    if (r == SP_OK) {
        log_info("daemon.starting", LF_STR("version", SANDPOOL_VERSION), LF_U64("pid", getpid()),
                 LF_STR("state_dir", config->state_dir));
        r = start(d, TAKE_PTR(config), &err);
    }
    if (r != SP_OK) {
        log_flush_wait();
        (void) fprintf(stderr, "%ssandpoold: %s\n", log_mark(STDERR_FILENO, LOG_ERROR), err.msg);
        (void) config_free(config);
        if (d != NULL && d->engine != NULL)
            daemon_unwind(d);
        else if (d == NULL || d->lock_fd >= 0)
            return 1; /* the process ends here: nothing half-open is unwound */
        else          /* nothing has been started that knows it */
            cargo_drop(&d->cargo);
        free(d);
        return 1;
    }
    loop_run(&d->loop);
    loop_fini(&d->loop);
    if (!d->is_handed_over)
        packet_remove(d->state_dir);
    log_info("daemon.stopped", LF_I64("status", d->exit_status));
    log_flush_wait();
    d->tls = tls_free(d->tls);
    r = d->exit_status;
    if (d->lock_fd >= 0)
        (void) close(d->lock_fd); /* last of all: now another daemon may start */
    free(d);
    return r;
}
