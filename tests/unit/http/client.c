/* client.c - a client that sends exactly the bytes it is given. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/str.h"
#include "fixture.h"

void client_open_fd(struct client *c, struct fixture *f, int fd)
{
    memset(c, 0, sizeof(*c));
    c->f = f;
    c->fd = fd;
    buf_init(&c->in, 512 * 1024 * 1024);
}

void client_open(struct client *c, struct fixture *f)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    assert_true(fd >= 0);
    assert_true(str_copy(addr.sun_path, sizeof(addr.sun_path), f->path));
    assert_int_equal(connect(fd, (struct sockaddr *) &addr, sizeof(addr)), 0);
    client_open_fd(c, f, fd);
}

void client_close(struct client *c)
{
    if (c->fd >= 0)
        (void) close(c->fd);
    c->fd = -1;
    buf_fini(&c->in);
}

bool client_try_send(struct client *c, const char *data, size_t len)
{
    uint64_t end = fixture_now_ms() + 20 * WAIT_MS;

    while (len > 0) {
        ssize_t n = send(c->fd, data, len, MSG_NOSIGNAL);

        if (n > 0) {
            data += n;
            len -= (size_t) n;
            continue;
        }
        if (errno != EAGAIN)
            return false;
        assert_true(fixture_now_ms() < end);
        fixture_turn(c->f);
    }
    return true;
}

void client_send(struct client *c, const char *text)
{
    assert_true(client_try_send(c, text, strlen(text)));
}

void client_poll(struct client *c)
{
    static char data[64 * 1024];

    while (!c->is_eof) {
        ssize_t n = recv(c->fd, data, sizeof(data), 0);

        if (n > 0) {
            buf_append(&c->in, data, (size_t) n);
            continue;
        }
        if (n < 0 && errno == EAGAIN)
            return;
        c->is_eof = true;
        c->is_reset = n < 0;
    }
}

/* Length of the answer at the start of the input; 0 while it is not all there. */
static size_t answer_length(const struct client *c, bool has_body)
{
    const char *text = buf_str(&c->in);
    const char *end = strstr(text, "\r\n\r\n");
    const char *length = strcasestr(text, "\r\nContent-Length: ");
    size_t total;

    if (end == NULL)
        return 0;
    total = (size_t) (end + 4 - text);
    if (has_body && length != NULL && length < end)
        total += strtoul(length + 18, NULL, 10);
    return c->in.len >= total ? total : 0;
}

static int take_answer(struct client *c, bool has_body, struct buf *ret)
{
    uint64_t end = fixture_now_ms() + WAIT_MS;
    int status;

    client_poll(c);
    while (answer_length(c, has_body) == 0) {
        if (fixture_now_ms() > end)
            fail_msg("no answer in time; so far: %s", buf_str(&c->in));
        if (c->is_eof)
            fail_msg("closed without an answer; so far: %s", buf_str(&c->in));
        fixture_turn(c->f);
        client_poll(c);
    }
    assert_memory_equal(c->in.data, "HTTP/1.1 ", 9);
    status = (int) strtol(c->in.data + 9, NULL, 10);
    if (ret != NULL) {
        buf_reset(ret);
        buf_append(ret, c->in.data, answer_length(c, has_body));
    }
    buf_consume(&c->in, answer_length(c, has_body));
    return status;
}

int client_answer(struct client *c, struct buf *ret)
{
    return take_answer(c, true, ret);
}

int client_head(struct client *c, struct buf *ret)
{
    return take_answer(c, false, ret);
}

void client_wait_eof(struct client *c)
{
    uint64_t end = fixture_now_ms() + WAIT_MS;

    client_poll(c);
    while (!c->is_eof) {
        if (fixture_now_ms() > end)
            fail_msg("not closed in time; so far: %s", buf_str(&c->in));
        fixture_turn(c->f);
        client_poll(c);
    }
}

void client_expect(struct client *c, const char *request, int status)
{
    struct buf text;
    int got;

    buf_init(&text, 64 * 1024 * 1024);
    client_send(c, request);
    got = client_answer(c, &text);
    if (got != status)
        fail_msg("expected %d, got %s\nfor %s", status, buf_str(&text), request);
    buf_fini(&text);
}
