/* client.c - one call: request out, answer in, over a connection that is kept for the next.
 *
 * The rule about sending again: a kept connection may have been closed by the daemon meanwhile.
 * That is looked for before sending. When it shows only later, a request is sent again if none of
 * it was taken, or if it is a GET; never a POST that the daemon may have acted on. */
#include "sandpool/client.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "client/internal.h"

struct sp_client *sp_client_new(const char *socket)
{
    struct sp_client *c = calloc(1, sizeof(*c));

    if (c == NULL)
        abort(); /* a few hundred bytes */
    if (socket == NULL)
        socket = getenv("SANDPOOL_SOCKET");
    if (socket == NULL || str_is_empty(socket))
        socket = SP_DEFAULT_SOCKET;
    c->fd = -1;
    c->interrupt_fd = -1;
    c->timeout_ms = CLIENT_TIMEOUT_MS;
    str_copy_cut(c->socket, sizeof(c->socket), socket); /* longer than any socket's path anyway */
    return c;
}

void sp_client_free(struct sp_client *c)
{
    if (c == NULL)
        return;
    wire_close(c);
    free(c);
}

const char *sp_client_socket(const struct sp_client *c)
{
    return c->socket;
}

void sp_client_set_timeout(struct sp_client *c, uint64_t timeout_ms)
{
    c->timeout_ms = timeout_ms > 0 ? timeout_ms : CLIENT_TIMEOUT_MS;
}

void sp_client_set_interrupt(struct sp_client *c, int fd)
{
    c->interrupt_fd = fd;
}

static bool is_clean(const char *s)
{
    if (str_is_empty(s))
        return false;
    for (; *s != '\0'; s++) {
        if (*s <= ' ' || *s > '~')
            return false;
    }
    return true;
}

static int build(struct buf *out, const char *method, const char *target, const char *body,
                 const char *last_event_id, struct sp_failure *f)
{
    if (!is_clean(method) || !is_clean(target) ||
        (last_event_id != NULL && !is_clean(last_event_id)))
        return client_fail(f, SP_BAD_REQUEST, "spaces and control characters must be escaped");
    buf_printf(out, "%s %s HTTP/1.1\r\nHost: sandpool\r\n", method, target);
    if (last_event_id != NULL)
        buf_printf(out, "Last-Event-ID: %s\r\n", last_event_id);
    if (body != NULL)
        buf_printf(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
    else if (strcmp(method, "POST") == 0)
        buf_puts(out, "Content-Length: 0\r\n");
    buf_puts(out, "\r\n");
    if (body != NULL)
        buf_puts(out, body);
    if (buf_failed(out))
        return client_fail(f, SP_TOO_BIG, "the request is larger than %d MB",
                           CLIENT_BODY_MAX / (1024 * 1024));
    return SP_OK;
}

/* Reads until the answer is complete. For a stream the deadline moves with each piece. */
static int receive(struct sp_client *c, struct answer *a, uint64_t deadline_ms,
                   struct sp_failure *f)
{
    char piece[16 * 1024];

    while (!a->is_done && !a->is_stopped) {
        if (a->on_data != NULL && a->is_started)
            deadline_ms = wire_now_ms() + c->timeout_ms;
        int n = wire_recv(c, piece, sizeof(piece), deadline_ms, f);
        if (n < 0)
            return n;
        int r = answer_feed(a, piece, (size_t) n, f);
        if (r != SP_OK)
            return r;
    }
    return SP_OK;
}

/* Sends and receives once, over the connection there is. */
static int exchange(struct sp_client *c, const struct buf *request, struct answer *a,
                    uint64_t deadline_ms, size_t *ret_sent, struct sp_failure *f)
{
    int r = wire_send(c, request->data, request->len, deadline_ms, ret_sent, f);

    /* A refusal may have been sent before the request was taken whole. */
    if (r == SP_OK || (r == SP_IO && *ret_sent > 0))
        r = receive(c, a, deadline_ms, f);
    if (r != SP_OK || !a->can_keep)
        wire_close(c);
    return r;
}

static int perform(struct sp_client *c, const struct buf *request, bool is_safe, struct answer *a,
                   struct sp_failure *f)
{
    uint64_t deadline_ms = wire_now_ms() + c->timeout_ms;
    bool is_kept = wire_is_open(c);
    size_t sent = 0;
    int r;

    if (!is_kept) {
        r = wire_connect(c, deadline_ms, f);
        if (r != SP_OK)
            return r;
    }
    r = exchange(c, request, a, deadline_ms, &sent, f);
    if (r == SP_IO && sent > 0 && !is_safe && !a->is_started)
        return client_fail(f, SP_IO,
                           "the daemon at '%s' closed the connection without an answer: the call "
                           "may or may not have been carried out",
                           c->socket);
    if (r != SP_IO || !is_kept || a->is_started)
        return r;
    r = wire_connect(c, deadline_ms, f);
    if (r != SP_OK)
        return r;
    return exchange(c, request, a, deadline_ms, &sent, f);
}

static int finish(struct answer *a, char **ret_body, struct sp_failure *f)
{
    if (a->status / 100 != 2)
        return client_fail_http(f, a);
    if (ret_body != NULL) {
        buf_append(&a->body, "", 0);
        *ret_body = a->body.data != NULL ? buf_take(&a->body, NULL) : calloc(1, 1);
        if (*ret_body == NULL)
            return client_fail(f, SP_NO_MEMORY, "no memory for the answer");
    }
    return SP_OK;
}

int sp_call(struct sp_client *c, const char *method, const char *target, const char *body,
            char **ret_body, struct sp_failure *failure)
{
    bool is_head = strcmp(method, "HEAD") == 0;
    struct answer a;
    struct buf request;
    int r;

    answer_init(&a, "the daemon", is_head);
    buf_init(&request, CLIENT_BODY_MAX);
    r = build(&request, method, target, body, NULL, failure);
    if (r == SP_OK)
        r = perform(c, &request, is_head || strcmp(method, "GET") == 0, &a, failure);
    if (r == SP_OK)
        r = finish(&a, ret_body, failure);
    buf_fini(&request);
    answer_fini(&a);
    return r;
}

int sp_stream(struct sp_client *c, const char *target, const char *last_event_id,
              bool (*on_data)(void *ctx, const char *data, size_t len), void *ctx,
              struct sp_failure *failure)
{
    struct answer a;
    struct buf request;
    int r;

    answer_init(&a, "the daemon", false);
    a.on_data = on_data;
    a.ctx = ctx;
    buf_init(&request, CLIENT_BODY_MAX);
    r = build(&request, "GET", target, NULL, last_event_id, failure);
    if (r == SP_OK)
        r = perform(c, &request, true, &a, failure);
    if (r == SP_OK)
        r = finish(&a, NULL, failure);
    buf_fini(&request);
    answer_fini(&a);
    return r;
}
