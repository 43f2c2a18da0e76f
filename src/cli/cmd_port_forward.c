/* cmd_port_forward.c - sandpool port-forward: ports of this machine's loopback joined to ports in a box. Each connection is
 * one of its own to the daemon, which becomes a stream of bytes (Upgrade: tcp). */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/run.h"

enum {
    PORTS_MAX = CLI_OPERANDS_MAX - 1,
    CONNECTIONS_MAX = 64,
    PIECE = 64 * 1024,
};

struct port {
    int fd;
    uint64_t here;
    uint64_t there;
};

/* One direction: read from `from`, then written to `to`, a piece at a time. */
struct flow {
    int from;
    int to;
    size_t len;
    size_t at;
    bool is_over; /* the end was read and passed on */
    char data[PIECE];
};

struct connection {
    int fd;             /* of the program here; -1: free */
    struct sp_box *box; /* while the daemon is asked, and then the owner of the other descriptor */
    bool is_joined;
    struct flow flows[2]; /* here to there, there to here */
};

struct forward {
    struct cli *c;
    char id[CLI_ID_MAX];
    struct port ports[PORTS_MAX];
    unsigned port_count;
    struct connection *connections; /* CONNECTIONS_MAX */
};

/* --- ports --- */

/* "8000", "9000:8000", ":8000" (any port here). */
static bool parse_port(const char *text, struct port *ret)
{
    const char *colon = strchr(text, ':');
    char here[16];

    if (!str_parse_u64(colon != NULL ? colon + 1 : text, 1, 65535, &ret->there))
        return false;
    if (colon == NULL) {
        ret->here = ret->there;
        return true;
    }
    if (colon == text) {
        ret->here = 0;
        return true;
    }
    return str_copy_n(here, sizeof(here), text, (size_t) (colon - text)) &&
           str_parse_u64(here, 0, 65535, &ret->here);
}

static int fail_port(struct forward *f, const struct port *p)
{
    struct sp_failure failure = {.code = SP_IO};

    (void) snprintf(failure.message, sizeof(failure.message),
                    "cannot listen on 127.0.0.1:%llu: %s; name another port, like %llu:%llu",
                    (unsigned long long) p->here, strerror(errno), (unsigned long long) p->here + 1,
                    (unsigned long long) p->there);
    return cli_fail(f->c, &failure);
}

static int listen_port(struct forward *f, struct port *p)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t) p->here),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int on = 1;

    p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p->fd < 0)
        return fail_port(f, p);
    (void) setsockopt(p->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(p->fd, (const struct sockaddr *) &addr, sizeof(addr)) != 0 ||
        listen(p->fd, CONNECTIONS_MAX) != 0 ||
        getsockname(p->fd, (struct sockaddr *) &addr, &len) != 0)
        return fail_port(f, p);
    (void) fprintf(f->c->out,
                   cli_wants_json(f->c)
                       ? "{\"address\":\"127.0.0.1:%u\",\"sandbox_id\":\"%s\",\"port\":%llu}\n"
                       : "127.0.0.1:%u -> %s:%llu\n",
                   (unsigned) ntohs(addr.sin_port), f->id, (unsigned long long) p->there);
    (void) fflush(f->c->out);
    return CLI_OK;
}

/* --- connections --- */

static void close_connection(struct connection *k)
{
    if (k->fd >= 0)
        (void) close(k->fd);
    sp_box_free(k->box);
    k->fd = -1;
    k->box = NULL;
    k->is_joined = false;
}

static void begin(struct forward *f, struct connection *k, const struct port *p)
{
    char target[32];
    struct sp_box_call call = {.method = "GET", .target = target, .upgrade = "tcp"};
    struct sp_failure failure;

    (void) snprintf(target, sizeof(target), "/ports/%llu", (unsigned long long) p->there);
    k->box = sp_box_new(f->c->client, f->id);
    if (sp_box_begin(k->box, &call, &failure) != SP_OK) {
        cli_say(f->c, &failure);
        close_connection(k);
    }
}

static void accept_from(struct forward *f, const struct port *p)
{
    struct sp_failure failure = {.code = SP_TOO_BIG};
    struct connection *k = f->connections;
    int fd = accept4(p->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    while (k < f->connections + CONNECTIONS_MAX && k->fd >= 0)
        k++;
    if (k == f->connections + CONNECTIONS_MAX) {
        (void) snprintf(failure.message, sizeof(failure.message),
                        "more than %d connections at once", CONNECTIONS_MAX);
        cli_say(f->c, &failure);
        (void) close(fd);
        return;
    }
    k->fd = fd;
    begin(f, k, p);
}

static void join(struct connection *k)
{
    size_t len = sp_box_answer_len(k->box);
    int there = sp_box_fd(k->box);

    k->is_joined = true;
    for (unsigned i = 0; i < 2; i++) {
        struct flow *w = &k->flows[i];

        w->from = i == 0 ? k->fd : there;
        w->to = i == 0 ? there : k->fd;
        w->len = 0;
        w->at = 0;
        w->is_over = false;
    }
    /* What came behind the answer; no more than one piece of the connection. */
    k->flows[1].len = MIN_OF(len, (size_t) PIECE);
    memcpy(k->flows[1].data, sp_box_answer(k->box), k->flows[1].len);
}

static void step_asking(struct forward *f, struct connection *k)
{
    struct sp_failure failure;

    if (sp_box_step(k->box, &failure) != SP_OK) {
        cli_say(f->c, &failure);
        close_connection(k);
    } else if (sp_box_is_raw(k->box)) {
        join(k);
    } else if (!sp_box_is_busy(k->box)) {
        close_connection(k);
    }
}

/* False: the connection is broken. */
static bool move(struct flow *w)
{
    ssize_t n;

    if (w->at == w->len) {
        n = recv(w->from, w->data, sizeof(w->data), 0);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        w->at = 0;
        w->len = (size_t) n;
        w->is_over = n == 0;
        if (w->is_over) /* the other direction may go on */
            return shutdown(w->to, SHUT_WR) == 0 || errno == ENOTCONN;
    }
    n = send(w->to, w->data + w->at, w->len - w->at, MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    w->at += (size_t) n;
    return true;
}

/* --- the loop --- */

static struct pollfd poll_flow(const struct flow *w)
{
    bool is_full = w->at < w->len;

    if (w->is_over)
        return (struct pollfd){.fd = -1};
    return (struct pollfd){.fd = is_full ? w->to : w->from, .events = is_full ? POLLOUT : POLLIN};
}

static void fill(const struct forward *f, struct pollfd *p)
{
    for (unsigned i = 0; i < CONNECTIONS_MAX; i++) {
        const struct connection *k = &f->connections[i];

        p[2 * i] = (struct pollfd){.fd = -1};
        p[2 * i + 1] = (struct pollfd){.fd = -1};
        if (k->is_joined) {
            p[2 * i] = poll_flow(&k->flows[0]);
            p[2 * i + 1] = poll_flow(&k->flows[1]);
        } else if (k->fd >= 0) {
            p[2 * i] = (struct pollfd){.fd = sp_box_fd(k->box), .events = sp_box_events(k->box)};
        }
    }
}

static void step_connection(struct forward *f, struct connection *k, const struct pollfd *p)
{
    bool is_whole = true;

    if (!k->is_joined && k->fd >= 0 && p[0].revents != 0) {
        step_asking(f, k);
        return;
    }
    for (unsigned i = 0; i < 2 && k->is_joined; i++) {
        if (p[i].revents != 0 && is_whole)
            is_whole = move(&k->flows[i]);
    }
    if (k->is_joined && (!is_whole || (k->flows[0].is_over && k->flows[1].is_over)))
        close_connection(k);
}

static int loop(struct forward *f, int signal_fd)
{
    enum { AT_PORTS = 2 * CONNECTIONS_MAX, AT_SIGNALS = AT_PORTS + PORTS_MAX, AT_COUNT };
    struct pollfd p[AT_COUNT];

    for (;;) {
        fill(f, p);
        for (unsigned i = 0; i < PORTS_MAX; i++)
            p[AT_PORTS + i] =
                (struct pollfd){.fd = i < f->port_count ? f->ports[i].fd : -1, .events = POLLIN};
        p[AT_SIGNALS] = (struct pollfd){.fd = signal_fd, .events = POLLIN};
        if (poll(p, AT_COUNT, -1) < 0 && errno != EINTR)
            return CLI_FAILED;
        if (p[AT_SIGNALS].revents != 0) {
            int signum = run_signals_next(signal_fd);

            if (signum != SIGWINCH && signum != 0)
                return signum == SIGINT || signum == SIGTERM ? CLI_OK : 128 + signum;
        }
        for (unsigned i = 0; i < CONNECTIONS_MAX; i++)
            step_connection(f, &f->connections[i], &p[2 * i]);
        for (unsigned i = 0; i < f->port_count; i++) {
            if (p[AT_PORTS + i].revents != 0)
                accept_from(f, &f->ports[i]);
        }
    }
}

static int serve(struct forward *f)
{
    int code = CLI_OK;
    int signal_fd = run_signals_open(f->c);

    if (signal_fd < 0)
        return CLI_FAILED;
    for (unsigned i = 0; i < f->port_count && code == CLI_OK; i++)
        code = listen_port(f, &f->ports[i]);
    if (code == CLI_OK)
        code = loop(f, signal_fd);
    (void) close(signal_fd);
    return code;
}

int cmd_port_forward(struct cli *c)
{
    struct forward f = {.c = c};
    int code;

    for (unsigned i = 1; i < c->args.operand_count; i++) {
        if (!parse_port(c->args.operands[i], &f.ports[f.port_count]))
            return cli_fail_usage(c, "'%.40s' is no port: 8000, or 9000:8000 for port 9000 here",
                                  c->args.operands[i]);
        f.port_count++;
    }
    code = cli_resolve(c, c->args.operands[0], f.id);
    if (code != CLI_OK)
        return code;
    f.connections = calloc(CONNECTIONS_MAX, sizeof(*f.connections));
    if (f.connections == NULL)
        abort(); /* not enough memory to go on */
    for (unsigned i = 0; i < CONNECTIONS_MAX; i++)
        f.connections[i].fd = -1;
    code = serve(&f);
    for (unsigned i = 0; i < CONNECTIONS_MAX; i++)
        close_connection(&f.connections[i]);
    free(f.connections);
    return code;
}
