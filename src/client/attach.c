/* attach.c - the client's side of a job's WebSocket: messages of the box to calls, calls to messages. Input is acknowledged
 * by pings that carry how much was written before them: the box answers each after all that came earlier. */
#include "sandpool/attach.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/str.h"
#include "base/websocket.h"
#include "client/box_internal.h"

enum {
    MESSAGE_MAX = 8 * 1024 * 1024, /* of the box */
    INPUT_MAX = 32 * 1024,         /* in one message */
    QUEUE_HIGH = 64 * 1024,        /* of frames not sent: no more input is taken */
    QUEUE_MAX = 1024 * 1024,
};

struct sp_attach {
    struct sp_box *box;
    struct sp_attach_options options; /* without `job` */
    char accept[WEBSOCKET_ACCEPT_LEN + 1];
    struct websocket_reader reader;
    struct buf queue; /* frames, from `sent` on */
    size_t sent;
    bool is_open;
    bool is_paused;
    bool has_ended;
    bool is_refused; /* what the box sent is malformed */
    bool is_closed;  /* by the box, before the job has ended */
    char reason[WEBSOCKET_CONTROL_MAX];
    struct buf end;
    uint64_t written; /* bytes of input */
    uint64_t asked;   /* of these, before the last ping */
    uint64_t taken;   /* of these, before the last answer to one */
};

/* --- to the box --- */

static void queue_frame(struct sp_attach *a, enum websocket_opcode opcode, const void *data,
                        size_t len)
{
    if (!a->is_open || a->has_ended)
        return;
    if (a->sent == a->queue.len) {
        buf_reset(&a->queue);
        a->sent = 0;
    }
    websocket_put_masked(&a->queue, opcode, data, len);
}

void sp_attach_ping(struct sp_attach *a)
{
    unsigned char count[8];

    for (size_t i = 0; i < sizeof(count); i++)
        count[i] = (unsigned char) (a->written >> (8 * i));
    a->asked = a->written;
    queue_frame(a, WEBSOCKET_PING, count, sizeof(count));
}

static void take_pong(struct sp_attach *a, const char *data, size_t len)
{
    uint64_t count = 0;

    for (size_t i = 0; i < len && i < 8; i++)
        count |= (uint64_t) (unsigned char) data[i] << (8 * i);
    if (len != 8 || count > a->asked || count < a->taken)
        return; /* not one of ours */
    a->taken = count;
    if (a->taken == a->asked && a->asked < a->written)
        sp_attach_ping(a);
}

size_t sp_attach_write(struct sp_attach *a, const void *data, size_t len)
{
    char message[1 + INPUT_MAX];

    if (!a->is_open || a->has_ended || len == 0 || a->queue.len - a->sent >= QUEUE_HIGH)
        return 0;
    len = MIN_OF(len, (size_t) INPUT_MAX);
    message[0] = 0;
    memcpy(message + 1, data, len);
    queue_frame(a, WEBSOCKET_BINARY, message, len + 1);
    a->written += len;
    if (a->taken == a->asked)
        sp_attach_ping(a);
    return len;
}

bool sp_attach_is_taken(const struct sp_attach *a)
{
    return a->taken == a->written;
}

static void queue_text(struct sp_attach *a, const char *text)
{
    queue_frame(a, WEBSOCKET_TEXT, text, strlen(text));
}

void sp_attach_end_input(struct sp_attach *a)
{
    queue_text(a, "{\"eof\":true}");
}

void sp_attach_signal(struct sp_attach *a, const char *name)
{
    char text[64];

    if (str_is_name(name, 16, "+"))
        (void) snprintf(text, sizeof(text), "{\"signal\":\"%s\"}", name);
    else
        str_copy_cut(text, sizeof(text), "{\"signal\":\"\"}"); /* the box refuses it */
    queue_text(a, text);
}

void sp_attach_resize(struct sp_attach *a, unsigned cols, unsigned rows)
{
    char text[64];

    (void) snprintf(text, sizeof(text), "{\"resize\":{\"cols\":%u,\"rows\":%u}}", cols, rows);
    queue_text(a, text);
}

/* --- from the box --- */

static void take_gap(struct sp_attach *a, const struct json *event)
{
    const char *stream = json_str(json_get(event, "stream"));
    uint64_t from = 0;
    uint64_t to = 0;

    if (stream != NULL && json_u64(json_get(event, "from"), &from) &&
        json_u64(json_get(event, "to"), &to) && to > from && a->options.on_gap != NULL)
        a->options.on_gap(a->options.ctx, strcmp(stream, "stderr") == 0 ? 2 : 1, to - from);
}

static void take_event(struct sp_attach *a, const char *data, size_t len)
{
    struct json_doc *doc = json_parse(data, len, MESSAGE_MAX, NULL);
    const char *name = json_str(json_get(json_root(doc), "event"));

    if (name == NULL) {
        a->is_refused = true;
    } else if (strcmp(name, "gap") == 0) {
        take_gap(a, json_root(doc));
    } else if (strcmp(name, "end") == 0) {
        buf_append(&a->end, data, len);
        a->has_ended = true;
    }
    /* an `error` is about a signal, a size or input that came too late: the end says more */
    (void) json_doc_free(doc);
}

static bool on_message(struct websocket_reader *r, enum websocket_opcode opcode, const char *data,
                       size_t len)
{
    struct sp_attach *a = container_of(r, struct sp_attach, reader);

    switch (opcode) {
    case WEBSOCKET_BINARY:
        if (len == 0 || (data[0] != 1 && data[0] != 2))
            a->is_refused = true;
        else
            a->options.on_output(a->options.ctx, data[0], data + 1, len - 1);
        break;
    case WEBSOCKET_TEXT:
        take_event(a, data, len);
        break;
    case WEBSOCKET_PING:
        queue_frame(a, WEBSOCKET_PONG, data, len);
        break;
    case WEBSOCKET_PONG:
        take_pong(a, data, len);
        break;
    case WEBSOCKET_CLOSE:
        a->is_closed = true;
        if (len > 2 && !str_copy_n(a->reason, sizeof(a->reason), data + 2, len - 2))
            a->reason[0] = '\0';
        break;
    case WEBSOCKET_MORE: /* never a message */
        break;
    }
    return !a->has_ended && !a->is_refused && !a->is_closed;
}

static int feed(struct sp_attach *a, const char *data, size_t len, struct sp_failure *f)
{
    int status = websocket_feed(&a->reader, data, len);

    if (a->is_closed)
        return client_fail(f, SP_IO, "the box closed the connection%s%s",
                           str_is_empty(a->reason) ? "" : ": ", a->reason);
    if (status == 0 && !a->is_refused && !buf_failed(&a->queue))
        return SP_OK;
    return client_fail(f, SP_PROTOCOL, "what the box sends for a job is no WebSocket of ours (%d)",
                       status);
}

/* --- the connection --- */

struct sp_attach *sp_attach_begin(struct sp_box *b, const struct sp_attach_options *o,
                                  struct sp_failure *failure)
{
    struct sp_attach *a = calloc(1, sizeof(*a));
    struct sp_box_call call = {.method = "GET", .upgrade = "websocket"};
    char key[WEBSOCKET_KEY_LEN + 1];
    char headers[160];
    char target[192];

    if (a == NULL)
        abort(); /* a few hundred bytes */
    a->box = b;
    a->options = *o;
    a->options.job = NULL;
    websocket_reader_init(&a->reader, MESSAGE_MAX);
    a->reader.is_client = true;
    a->reader.on_message = on_message;
    buf_init(&a->queue, QUEUE_MAX);
    buf_init(&a->end, MESSAGE_MAX);
    websocket_make_key(key);
    (void) websocket_accept(key, a->accept); /* it is a key */
    (void) snprintf(headers, sizeof(headers),
                    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n", key);
    (void) snprintf(
        target, sizeof(target), "/jobs/%.32s/attach?offset=%llu&stderr_offset=%llu&kill=%d", o->job,
        (unsigned long long) o->offset, (unsigned long long) o->stderr_offset, o->want_kill);
    call.target = target;
    call.headers = headers;
    if (!str_is_name(o->job, 32, ""))
        (void) client_fail(failure, SP_NOT_FOUND, "no such job");
    else if (sp_box_begin(b, &call, failure) == SP_OK)
        return a;
    sp_attach_free(a);
    return NULL;
}

void sp_attach_free(struct sp_attach *a)
{
    if (a == NULL)
        return;
    sp_box_close(a->box);
    websocket_reader_fini(&a->reader);
    buf_fini(&a->queue);
    buf_fini(&a->end);
    free(a);
}

int sp_attach_fd(const struct sp_attach *a)
{
    return sp_box_fd(a->box);
}

short sp_attach_events(const struct sp_attach *a)
{
    int events = a->is_paused ? 0 : POLLIN;

    if (!a->is_open)
        return sp_box_events(a->box);
    return (short) (a->sent < a->queue.len ? events | POLLOUT : events);
}

bool sp_attach_is_open(const struct sp_attach *a)
{
    return a->is_open;
}

const char *sp_attach_end(const struct sp_attach *a)
{
    return a->has_ended ? buf_str(&a->end) : NULL;
}

void sp_attach_pause(struct sp_attach *a, bool is_paused)
{
    a->is_paused = is_paused;
}

static int step_handshake(struct sp_attach *a, struct sp_failure *f)
{
    int r = sp_box_step(a->box, f);

    if (r != SP_OK || sp_box_is_busy(a->box))
        return r;
    if (!sp_box_is_raw(a->box) || strcmp(a->box->answer.accept, a->accept) != 0)
        return client_fail(f, SP_PROTOCOL, "what answers for the job is no WebSocket");
    a->is_open = true;
    return feed(a, sp_box_answer(a->box), sp_box_answer_len(a->box), f);
}

static int lost(int sys, struct sp_failure *f)
{
    return sys == 0 ? client_fail(f, SP_IO, "the connection to the box broke")
                    : client_fail(f, SP_IO, "the connection to the box broke: %s", strerror(sys));
}

static int send_some(struct sp_attach *a, struct sp_failure *f)
{
    while (a->sent < a->queue.len) {
        ssize_t n =
            send(sp_attach_fd(a), a->queue.data + a->sent, a->queue.len - a->sent, MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN)
            return SP_OK;
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
            a->sent = a->queue.len; /* what the box said before is read next, and then its end */
        else if (n < 0 && errno != EINTR)
            return lost(errno, f);
        else if (n > 0)
            a->sent += (size_t) n;
    }
    return SP_OK;
}

int sp_attach_step(struct sp_attach *a, struct sp_failure *failure)
{
    ssize_t n;
    int r;

    if (!a->is_open)
        return step_handshake(a, failure);
    if (a->has_ended)
        return SP_OK;
    r = send_some(a, failure);
    if (r != SP_OK || a->is_paused)
        return r;
    n = recv(sp_attach_fd(a), a->box->piece, BOX_PIECE, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return SP_OK;
    if (n <= 0)
        return lost(n < 0 ? errno : 0, failure);
    r = feed(a, a->box->piece, (size_t) n, failure);
    return r == SP_OK ? send_some(a, failure) : r;
}
