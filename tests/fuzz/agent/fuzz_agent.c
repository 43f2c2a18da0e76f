/* fuzz_agent.c - requests to the agent: its real parser, guard, routes and handlers, on one connection.
 *
 * An input is a list of records, one per request, ended by the byte 0x1e. A record is a line "METHOD target [range]",
 * then the body; the rest of the request is made here, so that the fuzzer need not find out what a header is. A record
 * that begins with NUL is sent as it is, behind the NUL. The first byte of the input seeds how what is sent, and what
 * helpers answer, is cut. Processes are replaced: fake_children.h. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/serve.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/rand.h"
#include "fake_children.h"

enum { TURNS_MAX = 400, IDLE_MAX = 8, BYTES_MAX = 256 * 1024, END_OF_RECORD = 0x1e };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct http_limits limits = {
    .max_connections = 4,
    .max_header_bytes = 4096,
    .max_body_bytes = 64 * 1024,
    .stream_max = 1024 * 1024,
    .header_timeout_ms = 10000,
    .idle_timeout_ms = 10000,
    .write_timeout_ms = 10000,
};

struct fixture {
    struct agent agent;
    struct agent_parts parts;
    struct http_route *routes;
    int client; /* our end; -1: the agent has closed it */
    struct rand random;
    struct buf out; /* what is to be sent */
    char status[16];
    size_t status_len;
    bool is_closed;
};

/* --- from records to requests --- */

static size_t field(const char **at, const char *end, char *dst, size_t cap)
{
    size_t len = 0;

    while (*at < end && (**at == ' ' || **at == '\r'))
        (*at)++;
    for (; *at<end &&* * at> ' ' && **at != 0x7f; (*at)++)
        if (len + 1 < cap)
            dst[len++] = **at;
    dst[len] = '\0';
    return len;
}

static void add_request(struct buf *out, const char *record, size_t len)
{
    const char *end = record + len;
    const char *line_end = memchr(record, '\n', len);
    const char *body = line_end != NULL ? line_end + 1 : end;
    char method[16];
    char target[1024];
    char range[64];

    if (len > 0 && record[0] == '\0') {
        buf_append(out, record + 1, len - 1);
        return;
    }
    if (line_end == NULL)
        line_end = end;
    if (field(&record, line_end, method, sizeof(method)) == 0 ||
        field(&record, line_end, target, sizeof(target)) == 0)
        return;
    buf_printf(out, "%s %s HTTP/1.1\r\nHost: box\r\nAuthorization: Bearer token\r\n", method,
               target);
    if (field(&record, line_end, range, sizeof(range)) > 0)
        buf_printf(out, "Range: %s\r\n", range);
    buf_printf(out, "Content-Type: multipart/form-data; boundary=B\r\nContent-Length: %zu\r\n\r\n",
               (size_t) (end - body));
    buf_append(out, body, (size_t) (end - body));
}

static void read_records(struct buf *out, const char *data, size_t size)
{
    while (size > 0 && !buf_failed(out)) {
        const char *stop = memchr(data, END_OF_RECORD, size);
        size_t len = stop != NULL ? (size_t) (stop - data) : size;

        add_request(out, data, len);
        len += stop != NULL;
        data += len;
        size -= len;
    }
}

/* --- the agent and its client --- */

static void on_closed(void *ctx)
{
    struct fixture *w = ctx;

    w->is_closed = true;
}

static void on_server_closed(void *ctx)
{
    struct fixture *w = ctx;

    agent_close_sessions(&w->agent);
    process_table_close(&w->parts.processes, on_closed, w);
}

static void begin(struct fixture *w)
{
    static char *no_environment[] = {(char *) (uintptr_t) "PATH=/bin", NULL};
    struct agent *a = &w->agent;
    struct http_server_config config = {
        .limits = limits, .ctx = a, .guard = agent_guard, .wants_proof = true};
    struct err err;
    int fds[2];

    memset(w, 0, sizeof(*w));
    (void) snprintf(a->token, sizeof(a->token), "token");
    identity_own(&a->user, "/");
    a->root = a->user;
    (void) snprintf(a->work_dir, sizeof(a->work_dir), "/");
    env_table_init(&a->env, no_environment);
    if (loop_init(&a->loop, &err) != SP_OK ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
        abort();
    agent_parts_init(&w->parts, a, "/tmp");
    w->parts.processes.grace_ns = 0;
    w->routes = agent_routes_new();
    config.routes = w->routes;
    a->server = http_server_new(&a->loop, &config);
    w->client = fds[0];
    if (http_server_adopt(a->server, fds[1], "", 0, &err) != SP_OK)
        abort();
}

/* An answer must begin with a status line. */
static void look(struct fixture *w, const char *data, size_t len)
{
    static const char begins[] = "HTTP/1.1 ";
    size_t n = MIN_OF(len, strlen(begins) - w->status_len);

    assert(memcmp(data, begins + w->status_len, n) == 0);
    w->status_len += n;
}

/* True if something was sent or received. */
static bool exchange(struct fixture *w)
{
    char data[4096];
    ssize_t n = 0;
    bool is_moved = false;

    if (w->client < 0)
        return false;
    if (w->out.len > 0) {
        size_t cut = 1 + rand_below(&w->random, sizeof(data));

        n = send(w->client, buf_str(&w->out), MIN_OF(w->out.len, cut), MSG_NOSIGNAL);
        if (n > 0)
            buf_consume(&w->out, (size_t) n);
        is_moved = n > 0;
    }
    n = recv(w->client, data, sizeof(data), 0);
    if (n == 0)
        (void) close(TAKE_FD(w->client));
    if (n > 0)
        look(w, data, (size_t) n);
    return is_moved || n > 0;
}

static void turn(struct fixture *w)
{
    (void) loop_run_once(&w->agent.loop);
    process_table_reap(&w->parts.processes);
}

static void serve(struct fixture *w)
{
    unsigned idle = 0;

    for (unsigned i = 0; i < TURNS_MAX && idle < IDLE_MAX && w->client >= 0; i++) {
        bool is_moved = exchange(w);

        turn(w);
        if (is_moved || fake_children_are_busy()) {
            idle = 0;
            continue;
        }
        idle += list_is_empty(&w->parts.processes.running) ? 4 : 1;
        (void) poll(NULL, 0, list_is_empty(&w->parts.processes.running) ? 0 : 1);
    }
}

static void end(struct fixture *w)
{
    struct agent *a = &w->agent;

    if (w->client >= 0)
        (void) close(w->client);
    turn(w);
    http_server_close(a->server, on_server_closed, w);
    while (!w->is_closed) {
        turn(w);
        if (!w->is_closed && !list_is_empty(&w->parts.processes.running))
            (void) poll(NULL, 0, 1);
    }
    process_table_fini(&w->parts.processes);
    loop_fini(&a->loop);
    env_table_fini(&a->env);
    free(w->routes);
    buf_fini(&w->out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool is_ready;
    static struct fixture w;

    if (size < 2)
        return 0;
    if (!is_ready) {
        log_setup(2, LOG_ERROR, LOG_LOGFMT);
        fake_children_init();
        (void) signal(SIGPIPE, SIG_IGN); /* as signals_init() does */
    }
    is_ready = true;
    fake_children_begin(data[0]);
    begin(&w);
    rand_seed(&w.random, data[0]);
    buf_init(&w.out, BYTES_MAX);
    read_records(&w.out, (const char *) data + 1, size - 1);
    serve(&w);
    end(&w);
    return 0;
}
