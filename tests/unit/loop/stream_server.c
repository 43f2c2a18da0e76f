/* stream_server.c - see stream_server.h. */
#include "tests/unit/loop/stream_server.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { PERIOD = 251 }; /* a prime: a piece that is lost or doubled shows */

struct input {
    int fd;
    const char *rest;
    size_t rest_len;
};

const char *stream_pattern(uint64_t pos)
{
    static char text[PATTERN_PIECE + PERIOD];

    if (text[1] == 0)
        for (size_t i = 0; i < sizeof(text); i++)
            text[i] = (char) (i % PERIOD);
    return text + pos % PERIOD;
}

static bool put(int fd, const char *data, size_t len)
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

static bool puts_to(int fd, const char *text)
{
    return put(fd, text, strlen(text));
}

static size_t take(struct input *in, char *data, size_t max)
{
    ssize_t n;

    if (in->rest_len > 0) {
        size_t len = in->rest_len < max ? in->rest_len : max;

        memcpy(data, in->rest, len);
        in->rest += len;
        in->rest_len -= len;
        return len;
    }
    n = recv(in->fd, data, max, 0);
    return n > 0 ? (size_t) n : 0;
}

/* --- down --- */

static bool do_flow(int fd, uint64_t size, bool is_chunked)
{
    char head[200];

    if (is_chunked)
        snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    else
        snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %llu\r\n\r\n",
                 (unsigned long long) size);
    if (!puts_to(fd, head))
        return false;
    for (uint64_t pos = 0; pos < size; pos += PATTERN_PIECE) {
        snprintf(head, sizeof(head), "%x\r\n", PATTERN_PIECE);
        if ((is_chunked && !puts_to(fd, head)) || !put(fd, stream_pattern(pos), PATTERN_PIECE) ||
            (is_chunked && !puts_to(fd, "\r\n")))
            return false;
    }
    return !is_chunked || puts_to(fd, "0\r\n\r\n");
}

static bool do_flow_bytes(int fd, uint64_t kib)
{
    char text[6 * 1024];

    if (!puts_to(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"))
        return false;
    for (uint64_t k = 0; k < kib; k++) {
        const char *data = stream_pattern(k * 1024);

        for (size_t i = 0; i < 1024; i++) {
            memcpy(text + 6 * i, "1\r\n?\r\n", 6);
            text[6 * i + 3] = data[i];
        }
        if (!put(fd, text, sizeof(text)))
            return false;
    }
    return puts_to(fd, "0\r\n\r\n");
}

static bool do_flow_extensions(int fd)
{
    static const char text[] = ";name=0123456789012345678901234567890123456789";

    if (!puts_to(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5"))
        return false;
    while (put(fd, text, sizeof(text) - 1)) {
    }
    return false;
}

static bool do_fields(int fd)
{
    return puts_to(fd, "HTTP/1.1 100 Continue\r\nX-Early: yes\r\n\r\n"
                       "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
                       "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nSet-Cookie: a=1\r\n"
                       "set-cookie: b=2\r\nX-Folded: one\r\n  two\r\nX-Bare: a\rb\r\nX-Empty:\r\n"
                       "Transfer-Encoding: chunked\r\n\r\n"
                       "5\r\nhello\r\n0\r\nX-Trailer: late\r\n\r\n");
}

/* --- up --- */

/* The length of the next piece of a body in chunks; 0 at its end, or when the peer left. */
static uint64_t next_chunk(struct input *in)
{
    char line[40];
    size_t len = 0;

    while (len < sizeof(line) - 1 && take(in, line + len, 1) == 1) {
        len++;
        if (line[len - 1] == '\n' && len > 2)
            break;
    }
    line[len] = '\0';
    return strtoull(line, NULL, 16);
}

static uint64_t take_exactly(struct input *in, uint64_t pos, uint64_t len, bool *is_sound)
{
    char data[PATTERN_PIECE];
    uint64_t done = 0;

    while (done < len) {
        uint64_t left = len - done;
        size_t n = take(in, data, left < sizeof(data) ? (size_t) left : sizeof(data));

        if (n == 0)
            break;
        if (memcmp(data, stream_pattern(pos + done), n) != 0)
            *is_sound = false;
        done += n;
    }
    return done;
}

static bool do_count(struct input *in, struct bad_server_counts *counts, const char *head)
{
    const char *length = strcasestr(head, "\r\ncontent-length:");
    bool is_sound = true;
    uint64_t pos = 0;
    char body[64];
    char answer[200];

    while (atomic_load(&counts->gate) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    if (length != NULL) {
        pos = take_exactly(in, 0, strtoull(length + 17, NULL, 10), &is_sound);
    } else {
        char end[2];

        for (uint64_t n = next_chunk(in); n > 0; n = next_chunk(in)) {
            pos += take_exactly(in, pos, n, &is_sound);
            (void) take(in, end, 1); /* the line's end behind the piece */
            (void) take(in, end + 1, 1);
        }
        (void) take(in, end, 1); /* the empty line behind the last */
        (void) take(in, end + 1, 1);
    }
    snprintf(body, sizeof(body), "%llu %s", (unsigned long long) pos,
             is_sound ? "sound" : "damaged");
    snprintf(answer, sizeof(answer), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(body), body);
    return puts_to(in->fd, answer);
}

static bool do_early(int fd, const char *path)
{
    bool is_chunked = strncmp(path, "/up/early-chunked/", 18) == 0;
    bool is_closing = strncmp(path, "/up/early-close/", 16) == 0;
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    char text[200];

    snprintf(text, sizeof(text), "HTTP/1.1 %ld Early\r\n%s\r\n%s",
             strtol(strrchr(path, '/') + 1, NULL, 10),
             is_chunked   ? "Transfer-Encoding: chunked\r\n"
             : is_closing ? "Content-Length: 5\r\nConnection: close\r\n"
                          : "Content-Length: 5\r\n",
             is_chunked ? "5\r\nearly\r\n" : "early");
    if (!puts_to(fd, text))
        return false;
    if (is_chunked) { /* apart, so that the end comes without a byte of the body */
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        (void) puts_to(fd, "0\r\n\r\n");
    }
    if (!is_closing)
        (void) poll(&p, 1, 30000);
    return false;
}

bool stream_server_knows(const char *path)
{
    return strncmp(path, "/up/", 4) == 0 || strncmp(path, "/flow", 5) == 0 ||
           strcmp(path, "/fields") == 0;
}

bool stream_server_serve(int fd, struct bad_server_counts *counts, const char *path,
                         const char *head, const char *rest, size_t rest_len)
{
    struct input in = {.fd = fd, .rest = rest, .rest_len = rest_len};
    char data[16];

    if (strncmp(path, "/flow-bytes/", 12) == 0)
        return do_flow_bytes(fd, strtoull(path + 12, NULL, 10));
    if (strcmp(path, "/flow-extensions") == 0)
        return do_flow_extensions(fd);
    if (strncmp(path, "/flow", 5) == 0)
        return do_flow(fd, strtoull(strrchr(path, '/') + 1, NULL, 10) << 20,
                       strncmp(path, "/flow-chunked", 13) == 0);
    if (strcmp(path, "/fields") == 0)
        return do_fields(fd);
    if (strcmp(path, "/up/count") == 0)
        return do_count(&in, counts, head);
    if (strcmp(path, "/up/hangup") == 0)
        return take(&in, data, sizeof(data)) == 0; /* with the rest unread: a reset */
    return do_early(fd, path);
}
