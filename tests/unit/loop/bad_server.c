/* bad_server.c - see bad_server.h. Blocking on purpose: the server is the part of the test that
 * must be simple enough to be right. */
#include "tests/unit/loop/bad_server.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/loop/stream_server.h"

#define REQUIRE(condition)                                       \
    do {                                                         \
        if (!(condition)) {                                      \
            fprintf(stderr, "bad_server: %s: %m\n", #condition); \
            abort();                                             \
        }                                                        \
    } while (0)

struct conn {
    int fd;
    struct bad_server_counts *counts;
    char in[65536];
    size_t len;
    size_t request_len;
    char path[256];
};

static void nap_ms(long ms)
{
    struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&ts, NULL);
}

static bool send_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

        if (n <= 0)
            return false;
        data += n;
        len -= (size_t) n;
    }
    return true;
}

static bool answer(struct conn *c, int status, const char *extra, const char *body, size_t len)
{
    char head[512];
    int n = snprintf(head, sizeof(head), "HTTP/1.1 %d Some Text\r\n%sContent-Length: %zu\r\n\r\n",
                     status, extra, len);

    if (strncmp(c->in, "HEAD ", 5) == 0)
        len = 0;
    return send_all(c->fd, head, (size_t) n) && send_all(c->fd, body, len);
}

static bool answer_text(struct conn *c, const char *text)
{
    return send_all(c->fd, text, strlen(text));
}

/* One whole request in c->in; false when the peer left. */
static bool read_request(struct conn *c)
{
    for (;;) {
        char *end = memmem(c->in, c->len, "\r\n\r\n", 4);
        ssize_t n;

        if (end != NULL) {
            char *length;
            size_t body_len = 0;

            *end = '\0'; /* only for the search */
            length = strcasestr(c->in, "\r\ncontent-length:");
            if (length != NULL)
                body_len = strtoul(length + 17, NULL, 10);
            *end = '\r';
            c->request_len = (size_t) (end - c->in) + 4;
            if (sscanf(c->in, "%*15s %255s", c->path) == 1 && stream_server_knows(c->path))
                return true;
            c->request_len += body_len;
            if (c->len >= c->request_len)
                return sscanf(c->in, "%*15s %255s", c->path) == 1;
        }
        if (c->len == sizeof(c->in) - 1)
            return false;
        n = recv(c->fd, c->in + c->len, sizeof(c->in) - 1 - c->len, 0);
        if (n <= 0)
            return false;
        c->len += (size_t) n;
        c->in[c->len] = '\0';
    }
}

static bool do_slow(struct conn *c)
{
    bool is_sent = send_all(c->fd, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n", 38);

    for (int i = 0; i < 8 && is_sent; i++) {
        nap_ms(5);
        is_sent = send_all(c->fd, "s", 1);
    }
    return is_sent;
}

static bool do_endless(struct conn *c, const char *start, const char *piece)
{
    bool is_sent = send_all(c->fd, start, strlen(start));

    while (is_sent)
        is_sent = send_all(c->fd, piece, strlen(piece));
    return false;
}

static bool do_never(struct conn *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};

    (void) poll(&p, 1, 30000);
    return false;
}

static bool do_reset(struct conn *c)
{
    struct linger l = {.l_onoff = 1, .l_linger = 0};

    (void) setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
    return false;
}

static bool do_probe(struct conn *c)
{
    unsigned long refusals = strtoul(c->path + strlen("/probe/"), NULL, 10);

    if (atomic_fetch_add(&c->counts->probes, 1) < refusals)
        return answer(c, 503, "", "not yet", 7);
    return answer(c, 200, "", "{}", 2);
}

/* 200 when the token is the one in the path: "/auth/<token>/v1/sandbox". */
static bool do_auth(struct conn *c)
{
    char wanted[128];

    snprintf(wanted, sizeof(wanted), "\r\nAuthorization: Bearer %.*s\r\n",
             (int) strcspn(c->path + 6, "/"), c->path + 6);
    return answer(c, strstr(c->in, wanted) != NULL ? 200 : 401, "", "", 0);
}

static bool is_path(const struct conn *c, const char *prefix)
{
    return strncmp(c->path, prefix, strlen(prefix)) == 0;
}

/* Does what the path says; true when the connection goes on. */
static bool serve(struct conn *c)
{
    if (stream_server_knows(c->path)) {
        char *rest = c->in + c->request_len;
        size_t rest_len = c->len - c->request_len;

        c->len = c->request_len; /* all of it is its own */
        return stream_server_serve(c->fd, c->counts, c->path, c->in, rest, rest_len);
    }
    if (is_path(c, "/echo"))
        return answer(c, 200, "", c->in, c->request_len);
    if (is_path(c, "/status/"))
        return answer(c, (int) strtol(c->path + 8, NULL, 10), "", "text", 4);
    if (is_path(c, "/redirect"))
        return answer(c, 302, "Location: /ok\r\n", "", 0);
    if (is_path(c, "/wait/"))
        nap_ms(strtol(c->path + 6, NULL, 10));
    if (is_path(c, "/slow"))
        return do_slow(c);
    if (is_path(c, "/half"))
        return send_all(c->fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", 44) && false;
    if (is_path(c, "/garbage"))
        return send_all(c->fd, "220 mail.example ready, not HTTP at all\r\n", 41) && false;
    if (is_path(c, "/huge"))
        return do_endless(c, "HTTP/1.1 200 OK\r\n\r\n", "0123456789abcdef0123456789abcdef");
    if (is_path(c, "/length"))
        return do_endless(c, "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "x");
    if (is_path(c, "/headers"))
        return do_endless(c, "HTTP/1.1 200 OK\r\n", "X-Filler: 0123456789abcdef\r\n");
    if (is_path(c, "/folded"))
        return answer_text(c, "HTTP/1.1 200 OK\r\n folded\r\nContent-Length: 2\r\n\r\nhi");
    if (is_path(c, "/coded"))
        return answer_text(c,
                           "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n");
    if (is_path(c, "/never"))
        return do_never(c);
    if (is_path(c, "/reset"))
        return do_reset(c);
    if (is_path(c, "/die"))
        atomic_fetch_add(&c->counts->deaths, 1);
    if (is_path(c, "/die") || is_path(c, "/empty"))
        return false;
    if (is_path(c, "/auth/"))
        return do_auth(c);
    if (is_path(c, "/probe/"))
        return do_probe(c);
    return answer(c, 200, "", "hello", 5);
}

static void *serve_connection(void *arg)
{
    struct conn *c = arg;
    bool goes_on = true;

    atomic_fetch_add(&c->counts->connections, 1);
    while (goes_on && read_request(c)) {
        atomic_fetch_add(&c->counts->requests, 1);
        goes_on = serve(c);
        c->len -= c->request_len;
        memmove(c->in, c->in + c->request_len, c->len + 1);
    }
    close(c->fd);
    free(c);
    return NULL;
}

static void accept_one(int listener, struct bad_server_counts *counts)
{
    struct conn *c = calloc(1, sizeof(*c));
    pthread_t thread;

    REQUIRE(c != NULL);
    c->counts = counts;
    c->fd = accept(listener, NULL, NULL);
    REQUIRE(c->fd >= 0);
    REQUIRE(pthread_create(&thread, NULL, serve_connection, c) == 0);
    REQUIRE(pthread_detach(thread) == 0);
}

static void run(const int listeners[2], struct bad_server_counts *counts)
{
    for (;;) {
        struct pollfd p[2] = {{.fd = listeners[0], .events = POLLIN},
                              {.fd = listeners[1], .events = POLLIN}};

        REQUIRE(poll(p, 2, -1) > 0);
        for (int i = 0; i < 2; i++)
            if (p[i].revents != 0)
                accept_one(listeners[i], counts);
    }
}

static int listen_tcp(unsigned port, unsigned *ret_port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t) port)};
    socklen_t len = sizeof(addr);
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    REQUIRE(fd >= 0);
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0);
    REQUIRE(bind(fd, (struct sockaddr *) &addr, sizeof(addr)) == 0);
    REQUIRE(getsockname(fd, (struct sockaddr *) &addr, &len) == 0);
    *ret_port = ntohs(addr.sin_port);
    return fd;
}

static int listen_unix(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    REQUIRE(fd >= 0);
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
    REQUIRE(bind(fd, (struct sockaddr *) &addr, sizeof(addr)) == 0);
    return fd;
}

unsigned bad_server_free_port(void)
{
    unsigned port;

    close(listen_tcp(0, &port));
    return port;
}

void bad_server_start(struct bad_server *s, unsigned port)
{
    pid_t parent = getpid();
    int listeners[2];

    s->counts =
        mmap(NULL, sizeof(*s->counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(s->counts != MAP_FAILED);
    snprintf(s->unix_path, sizeof(s->unix_path), "/tmp/bad_server.%d.sock", (int) parent);
    (void) unlink(s->unix_path);
    (void) stream_pattern(0); /* made before there are threads */
    listeners[0] = listen_tcp(port, &s->port);
    listeners[1] = listen_unix(s->unix_path);
    for (int i = 0; i < 2; i++)
        REQUIRE(listen(listeners[i], 1024) == 0);
    s->pid = fork();
    REQUIRE(s->pid >= 0);
    if (s->pid == 0) {
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that crashes leaves nothing behind */
        if (getppid() == parent)
            run(listeners, s->counts);
        _exit(0);
    }
    for (int i = 0; i < 2; i++)
        close(listeners[i]);
}

void bad_server_stop(struct bad_server *s)
{
    REQUIRE(kill(s->pid, SIGKILL) == 0);
    REQUIRE(waitpid(s->pid, NULL, 0) == s->pid);
    (void) munmap(s->counts, sizeof(*s->counts));
    (void) unlink(s->unix_path);
}

size_t bad_server_count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t count = 0;

    REQUIRE(dir != NULL);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}
