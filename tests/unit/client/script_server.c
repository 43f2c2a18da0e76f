/* script_server.c - see script_server.h. Every wait ends after a few seconds, so that a broken
 * client fails its test instead of hanging it. */
#include "script_server.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { REQUESTS_MAX = 16, REQUEST_MAX = 8192, WAIT_MS = 5000 };

struct script_server {
    char dir[64];
    char path[96];
    int listen_fd;
    int stop[2]; /* written to: stop now */
    pthread_t thread;
    const struct step *steps;
    size_t count;
    size_t next;
    unsigned connections;
    unsigned requests;
    char seen[REQUESTS_MAX][REQUEST_MAX];
};

/* True when `fd` can be read; false when asked to stop or after WAIT_MS. */
static bool wait_readable(const struct script_server *s, int fd)
{
    struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = s->stop[0], .events = POLLIN}};

    return poll(p, 2, WAIT_MS) > 0 && p[1].revents == 0;
}

/* A head and as much body as Content-Length says. False when the client is gone. */
static bool read_request(struct script_server *s, int fd)
{
    char *text = s->seen[s->requests];
    size_t len = 0;

    for (;;) {
        const char *end = strstr(text, "\r\n\r\n");
        const char *length = strstr(text, "Content-Length: ");

        if (end != NULL) {
            size_t want = length != NULL ? strtoul(length + 16, NULL, 10) : 0;

            if (strlen(end + 4) >= want)
                break;
        }
        if (len == REQUEST_MAX - 1 || !wait_readable(s, fd))
            return false;
        ssize_t n = recv(fd, text + len, REQUEST_MAX - 1 - len, 0);
        if (n <= 0)
            return false;
        len += (size_t) n;
        text[len] = '\0';
    }
    s->requests++;
    return true;
}

static void send_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

        if (n <= 0)
            return;
        data += n;
        len -= (size_t) n;
    }
}

static void send_filler(int fd, size_t len)
{
    char block[65536];

    memset(block, 'x', sizeof(block));
    while (len > 0) {
        size_t n = len < sizeof(block) ? len : sizeof(block);

        if (send(fd, block, n, MSG_NOSIGNAL) <= 0)
            return;
        len -= n;
    }
}

static void serve(struct script_server *s, int fd)
{
    char byte;

    while (s->next < s->count && s->requests < REQUESTS_MAX && read_request(s, fd)) {
        const struct step *step = &s->steps[s->next];

        s->next++;
        if (step->answer != NULL)
            send_all(fd, step->answer, strlen(step->answer));
        send_filler(fd, step->filler);
        if (step->later != NULL) {
            (void) poll(NULL, 0, 20);
            send_all(fd, step->later, strlen(step->later));
        }
        if (step->want_silence && wait_readable(s, fd))
            (void) recv(fd, &byte, 1, 0);
        if (step->want_close)
            return;
    }
}

static void *run(void *arg)
{
    struct script_server *s = arg;

    while (wait_readable(s, s->listen_fd)) {
        int fd = accept(s->listen_fd, NULL, NULL);

        if (fd < 0)
            break;
        s->connections++;
        serve(s, fd);
        (void) close(fd);
    }
    return NULL;
}

struct script_server *script_server_start(const struct step *steps, size_t count)
{
    struct script_server *s = calloc(1, sizeof(*s));
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int r;

    assert(s != NULL);
    s->steps = steps;
    s->count = count;
    (void) snprintf(s->dir, sizeof(s->dir), "%.40s/sandpool-test-XXXXXX",
                    getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    char *dir = mkdtemp(s->dir);
    assert(dir != NULL);
    (void) snprintf(s->path, sizeof(s->path), "%s/s", s->dir);
    (void) snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", s->path);
    s->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    r = bind(s->listen_fd, (const struct sockaddr *) &addr, sizeof(addr));
    assert(r == 0);
    r = listen(s->listen_fd, 8);
    assert(r == 0);
    r = pipe(s->stop);
    assert(r == 0);
    r = pthread_create(&s->thread, NULL, run, s);
    assert(r == 0);
    return s;
}

const char *script_server_path(const struct script_server *s)
{
    return s->path;
}

void script_server_stop(struct script_server *s)
{
    ssize_t n = write(s->stop[1], "x", 1);

    assert(n == 1);
    int r = pthread_join(s->thread, NULL);
    assert(r == 0);
    (void) close(s->listen_fd);
    (void) close(s->stop[0]);
    (void) close(s->stop[1]);
    (void) unlink(s->path);
    (void) rmdir(s->dir);
}

void script_server_free(struct script_server *s)
{
    free(s);
}

unsigned script_server_connections(const struct script_server *s)
{
    return s->connections;
}

unsigned script_server_requests(const struct script_server *s)
{
    return s->requests;
}

const char *script_server_request(const struct script_server *s, unsigned n)
{
    assert(n < s->requests);
    return s->seen[n];
}
