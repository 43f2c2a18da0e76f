/* main.c - sandpool-agent: runs inside a box, as root there and for a user. It serves connections
 * that arrive through an inherited socket, or on one that it binds. It reaps exited orphans when it
 * is the box's init, and hides its token and its descriptors from what it starts. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/core/channel.h"
#include "agent/core/refuse.h"
#include "agent/process/leave.h"
#include "agent/serve.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/str.h"
#include "loop/signals.h"
#include "sandpool/version.h"

enum { INHERITED_MAX = 1025 }; /* the options take numbers up to 1024 */

struct program {
    struct agent agent;
    struct agent_parts parts;
    struct channel *channel; /* NULL: connections come from a listening socket */
    struct leave leave;
    const char *spill_dir;
    uint64_t stop_grace_ns; /* between SIGTERM and the end of all */
    bool is_closing;
};

static const char usage_text[] =
    "usage: sandpool-agent [OPTION]...\n"
    "\n"
    "Serves the sandbox it runs in.\n"
    "\n"
    "  --listen ADDRESS   IPv4 address or [IPv6 address] to bind (default 127.0.0.1)\n"
    "  --port N           TCP port (default 8080; 0: any)\n"
    "  --channel-fd N     serve the connections that arrive through this inherited socket\n"
    "                     instead; end when no more can arrive\n"
    "  --channel-from PATH  the same with a socket that is received from this Unix socket\n"
    "  --unix PATH        serve on a Unix socket instead; only the agent's own user may connect\n"
    "  --token-file FILE  holds the bearer token; else SANDPOOL_AGENT_TOKEN\n"
    "  --open             without a token, serve every caller that reaches the port: all of them can\n"
    "                     run commands and read files; else SANDPOOL_AGENT_OPEN=1\n"
    "  --user NAME        the user of commands and file operations (default: the agent's)\n"
    "  --workdir DIR      directory of commands and of relative paths (default: the home)\n"
    "  --detach-stdio     after the ready line, replace the standard streams by /dev/null\n"
    "  --refuse-programs  refuse socket filters and system call filters after the agent's own\n"
    "  --spill-dir DIR    where long outputs are kept (default /var/tmp, else /tmp)\n"
    "  --stop-grace S     seconds that processes may take to end after a SIGTERM (default 0)\n"
    "  --version          print the version\n"
    "  --help             this text\n";

struct options {
    const char *listen;
    const char *unix_path;
    const char *channel_from;
    const char *token_file;
    const char *spill_dir;
    const char *user;
    const char *workdir;
    uint64_t port;
    uint64_t channel_fd;
    uint64_t stop_grace_s;
    bool has_channel;
    bool want_detach;
    bool want_refusal;
    bool want_open;
};

static const struct http_limits limits = {
    .max_connections = 256,
    .max_header_bytes = 16 * 1024,
    .max_body_bytes = 1024 * 1024,
    .stream_max = 4 * 1024 * 1024,
    .header_timeout_ms = 10000,
    .idle_timeout_ms = 60000,
    .write_timeout_ms = 60000,
};

/* False: a wrong value. */
static bool take_option(int c, const char *value, struct options *ret)
{
    switch (c) {
    case 'l':
        ret->listen = value;
        return true;
    case 'p':
        return str_parse_u64(value, 0, 65535, &ret->port);
    case 'f':
        ret->has_channel = true;
        return str_parse_u64(value, 3, 1024, &ret->channel_fd);
    case 'r':
        ret->channel_from = value;
        return true;
    case 'x':
        ret->unix_path = value;
        return true;
    case 't':
        ret->token_file = value;
        return true;
    case 's':
        ret->spill_dir = value;
        return true;
    case 'u':
        ret->user = value;
        return true;
    case 'w':
        ret->workdir = value;
        return value[0] == '/';
    case 'g':
        return str_parse_u64(value, 0, 3600, &ret->stop_grace_s);
    case 'd':
        ret->want_detach = true;
        return true;
    case 'n':
        ret->want_refusal = true;
        return true;
    case 'o':
        ret->want_open = true;
        return true;
    default:
        return false;
    }
}

/* Exits for --help, --version and wrong options. */
static void parse_options(int argc, char **argv, struct options *ret)
{
    static const struct option longs[] = {{"listen", required_argument, NULL, 'l'},
                                          {"port", required_argument, NULL, 'p'},
                                          {"channel-fd", required_argument, NULL, 'f'},
                                          {"channel-from", required_argument, NULL, 'r'},
                                          {"unix", required_argument, NULL, 'x'},
                                          {"token-file", required_argument, NULL, 't'},
                                          {"spill-dir", required_argument, NULL, 's'},
                                          {"user", required_argument, NULL, 'u'},
                                          {"workdir", required_argument, NULL, 'w'},
                                          {"stop-grace", required_argument, NULL, 'g'},
                                          {"detach-stdio", no_argument, NULL, 'd'},
                                          {"refuse-programs", no_argument, NULL, 'n'},
                                          {"open", no_argument, NULL, 'o'},
                                          {"version", no_argument, NULL, 'v'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    bool is_bad = false;

    for (;;) {
        int c = getopt_long(argc, argv, "", longs, NULL);

        if (c == -1)
            break;
        if (c == 'v' || c == 'h') {
            (void) fputs(c == 'h' ? usage_text : "sandpool-agent " SANDPOOL_VERSION "\n", stdout);
            exit(0);
        }
        is_bad = !take_option(c, optarg, ret) || is_bad;
    }
    if (is_bad || optind != argc) {
        (void) fputs(usage_text, stderr);
        exit(2);
    }
}

static int read_token_file(struct agent *a, const char *path, struct err *err)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    char text[AGENT_TOKEN_MAX + 2]; /* a newline may follow */
    ssize_t len;

    if (fd < 0)
        return err_sys(err, SP_CONFIG, errno, "token file '%.120s'", path);
    len = read(fd, text, sizeof(text));
    if (len < 0)
        return err_sys(err, SP_CONFIG, errno, "token file '%.120s'", path);
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    if (len == 0 || !str_copy_n(a->token, sizeof(a->token), text, (size_t) len))
        return err_set(err, SP_CONFIG, "token file '%.120s': 1 to %d characters are needed", path,
                       (int) AGENT_TOKEN_MAX);
    return SP_OK;
}

/* The variable is wiped in place, so that /proc does not show it to the box's programs. */
static int read_token(struct agent *a, const char *path, struct err *err)
{
    char *env = getenv("SANDPOOL_AGENT_TOKEN");
    bool is_fitting = true;

    if (env != NULL) {
        is_fitting = str_copy(a->token, sizeof(a->token), env);
        explicit_bzero(env, strlen(env));
        (void) unsetenv("SANDPOOL_AGENT_TOKEN"); /* the name is valid: it cannot fail */
    }
    if (path != NULL)
        return read_token_file(a, path, err);
    if (!is_fitting)
        return err_set(err, SP_CONFIG, "SANDPOOL_AGENT_TOKEN is longer than %d characters",
                       (int) AGENT_TOKEN_MAX);
    return SP_OK;
}

/* For images that are started by another program, which sets no token. If there is a token, it is
 * required. */
static void choose_access(struct agent *a, bool want_open)
{
    const char *env = getenv("SANDPOOL_AGENT_OPEN");
    unsigned char bytes[AGENT_LIFE_LEN / 2];

    rand_secure(bytes, sizeof(bytes));
    str_hex(a->life, bytes, sizeof(bytes));
    a->is_open = str_is_empty(a->token) && (want_open || (env != NULL && strcmp(env, "1") == 0));
    if (a->is_open)
        (void) fputs("sandpool-agent: open: whoever reaches the port can run commands here\n",
                     stderr);
}

/* Who is served, and where. */
static int choose_user(struct agent *a, const struct options *options, struct err *err)
{
    int rc = SP_OK;

    if (options->user == NULL)
        identity_own(&a->user, getenv("HOME"));
    else
        rc = identity_find(options->user, &a->user, err);
    if (rc == SP_OK)
        rc = identity_share_groups(&a->user, err);
    if (rc != SP_OK)
        return err_wrap(err, "--user");
    if (identity_enter(&a->user) != 0)
        return err_set(err, SP_CONFIG, "--user: this box has no ids for '%s' (%u, %u)",
                       a->user.name, (unsigned) a->user.uid, (unsigned) a->user.gid);
    identity_leave(&a->user);
    if (options->user == NULL || geteuid() != 0)
        a->root = a->user;
    else
        identity_own(&a->root, NULL);
    if (options->workdir != NULL && !str_copy(a->work_dir, sizeof(a->work_dir), options->workdir))
        return err_set(err, SP_CONFIG, "--workdir: too long");
    return SP_OK;
}

static int fetch_channel(struct options *options, struct err *err)
{
    int fd = -1;
    int rc;

    if (options->channel_from == NULL)
        return SP_OK;
    rc = channel_fetch(options->channel_from, &fd, err);
    options->has_channel = true;
    options->channel_fd = (uint64_t) fd;
    return rc;
}

/* What was inherited is only for the agent. */
static void keep_descriptors(void)
{
    if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0)
        for (int i = 3; i < INHERITED_MAX; i++)
            (void) fcntl(i, F_SETFD, FD_CLOEXEC); /* most are not open */
}

static int detach_stdio(struct err *err)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return err_sys(err, SP_IO, errno, "/dev/null");
    for (int i = 0; i < 3; i++)
        (void) dup2(fd, i); /* both are open */
    if (fd > 2)
        (void) close(fd);
    return SP_OK;
}

static void on_processes_closed(void *ctx)
{
    struct program *p = ctx;

    loop_stop(&p->agent.loop);
}

static void on_server_closed(void *ctx)
{
    struct program *p = ctx;

    agent_close_sessions(&p->agent);
    descendants_kill_own(); /* what was started, and what came of it */
    process_table_close(&p->parts.processes, on_processes_closed, p);
}

static void stop(struct program *p)
{
    if (p->is_closing)
        return;
    p->is_closing = true;
    leave_end(&p->leave);
    channel_close(TAKE_PTR(p->channel));
    http_server_close(p->agent.server, on_server_closed, p);
}

static void on_alone(void *ctx)
{
    stop(ctx);
}

/* A second signal: end at once. */
static void on_signal(void *ctx, int signum)
{
    struct program *p = ctx;

    if (signum == SIGCHLD) {
        process_table_reap(&p->parts.processes);
        leave_look(&p->leave);
    } else if (p->stop_grace_ns == 0 || p->is_closing || p->leave.is_on) {
        stop(p);
    } else {
        leave_start(&p->leave, &p->parts.processes, p->stop_grace_ns);
    }
}

static int start_listening(struct program *p, const struct options *options, struct err *err)
{
    struct agent *a = &p->agent;
    char address[80];
    int port = 0;
    int rc;

    if (options->has_channel)
        rc = channel_open(&a->loop, (int) options->channel_fd, a->server, on_alone, p, &p->channel,
                          err);
    else if (options->unix_path != NULL)
        rc = http_server_listen_unix(a->server, options->unix_path, 0600, UINT32_MAX, err);
    else {
        (void) snprintf(address, sizeof(address), "%.64s:%u", options->listen,
                        (unsigned) options->port);
        rc = http_server_listen_tcp(a->server, address, &port, err);
    }
    if (rc != SP_OK)
        return rc;
    if (options->has_channel)
        (void) printf("sandpool-agent: ready on descriptor %u\n", (unsigned) options->channel_fd);
    else if (options->unix_path != NULL)
        (void) printf("sandpool-agent: ready on %s\n", options->unix_path);
    else
        (void) printf("sandpool-agent: ready on %s:%d\n", options->listen, port);
    (void) fflush(stdout);
    return SP_OK;
}

static int run(struct program *p, const struct options *options, struct err *err)
{
    const int signums[] = {SIGTERM, SIGINT, SIGCHLD, 0};
    struct agent *a = &p->agent;
    struct http_server_config config = {
        .limits = limits, .ctx = a, .guard = agent_guard, .wants_proof = true};
    struct http_route *routes = agent_routes_new();
    struct signals signals = {0};
    int rc = loop_init(&a->loop, err);

    if (rc != SP_OK) {
        free(routes);
        return rc;
    }
    a->started_ns = rt_now(&a->loop.rt);
    agent_parts_init(&p->parts, a, p->spill_dir);
    /* From here on the user's programs cannot read its memory, environment or descriptors, nor
     * trace it. */
    (void) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* the value is valid: it cannot fail */
    config.routes = routes;
    a->server = http_server_new(&a->loop, &config);
    rc = signals_init(&signals, &a->loop, signums, on_signal, p, err);
    if (rc == SP_OK)
        rc = start_listening(p, options, err);
    if (rc == SP_OK && options->want_detach)
        rc = detach_stdio(err);
    if (rc == SP_OK)
        process_table_reap(&p->parts.processes); /* those that ended before SIGCHLD was handled */
    else
        stop(p);
    loop_run(&a->loop);
    signals_close(&signals);
    process_table_fini(&p->parts.processes);
    loop_fini(&a->loop);
    free(routes);
    return rc;
}

int main(int argc, char **argv)
{
    struct program program = {.spill_dir = NULL};
    struct agent *a = &program.agent;
    struct options options = {.listen = "127.0.0.1", .port = 8080};
    struct err err;

    parse_options(argc, argv, &options);
    log_setup(2, LOG_WARN, LOG_LOGFMT);
    a->is_init = getpid() == 1;
    if (!a->is_init)
        (void) prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0,
                     0); /* orphans of what it starts are its own */
    program.leave.on_alone = on_alone;
    program.leave.ctx = &program;
    program.stop_grace_ns = options.stop_grace_s * NS_PER_S;
    program.spill_dir = options.spill_dir;
    if (program.spill_dir == NULL)
        program.spill_dir = access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp";
    keep_descriptors();
    if ((options.want_refusal && refuse_kernel_programs(&err) != SP_OK) ||
        read_token(a, options.token_file, &err) != SP_OK ||
        fetch_channel(&options, &err) != SP_OK || choose_user(a, &options, &err) != SP_OK) {
        (void) fprintf(stderr, "sandpool-agent: %s\n", err.msg);
        return 1;
    }
    choose_access(a, options.want_open);
    env_table_init(&a->env, environ);
    if (run(&program, &options, &err) != SP_OK) {
        (void) fprintf(stderr, "sandpool-agent: %s\n", err.msg);
        return 1;
    }
    env_table_fini(&a->env);
    log_flush_wait();
    return 0;
}
