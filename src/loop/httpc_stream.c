/* httpc_stream.c - the bytes of one transfer: bounds of what the peer sends, back-pressure both ways.
 * A callback of libcurl only copies or returns "pause"; libcurl is resumed from the loop, by
 * on_wake(), never from inside it. */
#include "loop/httpc_stream.h"

#include <curl/curl.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/compiler.h"

enum {
    HEADER_MAX = 65536,        /* all header lines of an answer together */
    PIECE_ROOM = 65536,        /* for what comes between two on_data() */
    QUEUE_MAX = 64 * (1 << 20) /* of a body: the caller's own limit is far below */
};

void httpc_stream_reset(struct httpc_request *r)
{
    r->header_len = 0;
    r->polled = CURL_POLL_NONE;
    r->socket_fd = -1;
    r->body_off = 0;
    r->body_written = 0;
    r->fault = SP_OK;
    r->is_too_big = false;
    r->is_chunked = false;
    r->is_bad_chunk = false;
    r->chunks = (struct httpc_chunks){0};
    r->is_coded = false;
    r->is_status_line = true;
    r->is_header_done = false;
    r->is_paused = false;
    r->is_recv_held = false;
    r->is_send_held = false;
    r->is_body_ended = false;
    r->is_answer_over = false;
    r->is_answer_whole = false;
    r->want_check = false;
    r->has_news = false;
    r->status = 0;
    r->tunnel_status = 0;
    r->tunnel_reads = 0;
    r->is_tunnel_open = false;
    r->error_text[0] = '\0';
    buf_fini(&r->response);
    buf_init(&r->response, r->response_max + (r->on_data != NULL ? PIECE_ROOM : 0));
    buf_fini(&r->response_headers);
    buf_init(&r->response_headers, HEADER_MAX);
    buf_fini(&r->body_queue);
    buf_init(&r->body_queue, QUEUE_MAX);
}

void httpc_stream_stop(struct httpc_request *r, bool is_ok)
{
    rt_undefer(r->op.rt, &r->wake);
    rt_undefer(r->op.rt, &r->drain);
    httpc_rest_end(r);
    buf_fini(&r->body_queue);
    r->body_off = 0;
    if (is_ok)
        return; /* on_data() was deferred earlier than on_done() will be */
    rt_undefer(r->op.rt, &r->data);
    buf_fini(&r->response);
    buf_fini(&r->response_headers);
}

/* --- the answer --- */

static void wake(struct httpc_request *r);

static void on_data_task(struct rt_task *task)
{
    struct httpc_request *r = container_of(task, struct httpc_request, data);

    r->has_news = false;
    r->on_data(r);
    if (!op_is_active(&r->op) || r->is_paused)
        return;
    if (r->response.len > r->response_max) {
        r->is_too_big = true;
        httpc_complete(r, CURLE_WRITE_ERROR);
    } else {
        wake(r);
    }
}

/* Deferred: no code of a caller runs inside libcurl. A completion is deferred too, and later. */
static void notify_data(struct httpc_request *r)
{
    r->has_news = true;
    if (r->on_data != NULL && !r->is_paused)
        rt_defer(r->op.rt, &r->data, on_data_task);
}

static size_t take_chunks(struct httpc_request *r, const char *data, size_t len)
{
    size_t before = r->response.len;
    bool is_good = httpc_chunks_take(&r->chunks, data, len, HEADER_MAX, &r->response);

    httpc_count_effort(r, effort_cost(len, r->response.len - before));
    r->is_too_big = buf_failed(&r->response);
    r->is_bad_chunk = !is_good && !r->is_too_big;
    if (!is_good || r->is_too_big)
        return 0;
    if (r->response.len > before)
        notify_data(r);
    return len;
}

/* Returning another number than was given ends the transfer with CURLE_WRITE_ERROR. */
size_t httpc_stream_on_body(char *data, size_t size, size_t count, void *arg)
{
    struct httpc_request *r = arg;
    size_t len = size * count;
    bool is_full = len > r->response.max - r->response.len;
    bool is_unread = list_is_linked(&r->data.link); /* a burst: on_data() had no turn yet */

    /* libcurl keeps the piece and reads no further. */
    if (r->is_paused || (is_full && is_unread) || (r->is_chunked && httpc_rests(r))) {
        r->is_recv_held = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    if (r->is_chunked)
        return take_chunks(r, data, len);
    if (is_full) {
        r->is_too_big = true;
        return 0;
    }
    buf_append(&r->response, data, len);
    notify_data(r);
    return buf_failed(&r->response) ? 0 : len;
}

static void end_header(struct httpc_request *r)
{
    long status = 0;

    (void) curl_easy_getinfo((CURL *) r->easy, CURLINFO_RESPONSE_CODE, &status);
    r->is_status_line = true;
    if (status < 200 && status != 101)
        return; /* the answer proper comes behind it */
    r->status = (int) status;
    r->is_header_done = true;
    notify_data(r);
}

/* One line without its end; a folded one is joined to the one before. What could pass for a line's
 * end further on becomes a space. */
static void add_header(struct httpc_request *r, const char *line, size_t len)
{
    struct buf *all = &r->response_headers;

    while (len > 0 && (line[len - 1] == '\r' || line[len - 1] == '\n'))
        len--;
    if ((line[0] == ' ' || line[0] == '\t') && all->len > 0)
        all->data[all->len - 1] = ' ';
    for (size_t i = 0; i < len; i++)
        buf_putc(all, (unsigned char) line[i] < ' ' || line[i] == 0x7f ? ' ' : line[i]);
    buf_putc(all, '\n');
}

static bool is_word(const char *text, size_t len, const char *word)
{
    return len == strlen(word) && strncasecmp(text, word, len) == 0;
}

/* libcurl unpacks compressed ones unasked, and a few bytes of those are hundreds of MiB. */
static void look_for_coding(struct httpc_request *r, const char *line, size_t len)
{
    static const char name[] = "transfer-encoding:";
    size_t at = sizeof(name) - 1;

    if (len < at || strncasecmp(line, name, at) != 0)
        return;
    while (at < len && (line[at] == ' ' || line[at] == '\t'))
        at++;
    while (len > at && strchr(" \t\r\n", line[len - 1]) != NULL)
        len--;
    if (is_word(line + at, len - at, "chunked"))
        r->is_chunked = true; /* libcurl remembers it as well, also of a provisional answer */
    else if (!is_word(line + at, len - at, "identity"))
        r->is_coded = true;
}

size_t httpc_stream_on_header(char *data, size_t size, size_t count, void *arg)
{
    struct httpc_request *r = arg;
    size_t len = size * count;

    r->header_len += len;
    if (r->header_len > HEADER_MAX) {
        r->is_too_big = true;
        return 0;
    }
    if (r->is_header_done)
        return len; /* a trailer: nobody asks for these */
    look_for_coding(r, data, len);
    if (r->is_coded)
        return 0;
    if (len <= 2 && (data[0] == '\r' || data[0] == '\n')) {
        end_header(r);
    } else if (r->is_status_line) {
        r->is_status_line = false;
        buf_reset(&r->response_headers); /* of a provisional answer */
    } else if (r->want_headers) {
        add_header(r, data, len);
    }
    return buf_failed(&r->response_headers) ? 0 : len;
}

/* --- the body --- */

static void on_drain_task(struct rt_task *task)
{
    struct httpc_request *r = container_of(task, struct httpc_request, drain);

    r->on_body_drain(r);
}

static size_t body_left(const struct httpc_request *r)
{
    return r->body_queue.len - r->body_off;
}

static bool is_hung_up(const struct httpc_request *r)
{
    char byte;

    return recv(r->socket_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

size_t httpc_stream_on_read(char *data, size_t size, size_t count, void *arg)
{
    struct httpc_request *r = arg;
    size_t left = body_left(r);
    size_t len = left < size * count ? left : size * count;

    if (r->is_answer_over && (!r->is_answer_whole || is_hung_up(r)))
        return CURL_READFUNC_ABORT; /* nobody will take the rest */
    if (left == 0 && !r->is_body_ended) {
        r->is_send_held = true;
        return CURL_READFUNC_PAUSE;
    }
    if (left == 0)
        return 0;
    memcpy(data, r->body_queue.data + r->body_off, len);
    r->body_off += len;
    if (body_left(r) == 0 && r->on_body_drain != NULL)
        rt_defer(r->op.rt, &r->drain, on_drain_task);
    return len;
}

/* --- going on --- */

/* While the body waits for its caller, libcurl 7.88 does not end a transfer whose answer is over or
 * whose server hung up: it only stops to watch the socket. Then on_wake() has it look again. */
static void check_over(struct httpc_request *r)
{
    curl_off_t length = -1;
    curl_off_t have = 0;

    if (r->is_answer_over || r->is_recv_held || !r->is_send_held || (r->polled & CURL_POLL_IN) != 0)
        return;
    (void) curl_easy_getinfo((CURL *) r->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    (void) curl_easy_getinfo((CURL *) r->easy, CURLINFO_SIZE_DOWNLOAD_T, &have);
    r->is_answer_over = true;
    r->is_answer_whole = r->is_header_done && (length >= 0 ? have == length : !is_hung_up(r));
    r->want_check = true;
}

static void on_wake(struct rt_task *task)
{
    struct httpc_request *r = container_of(task, struct httpc_request, wake);
    bool is_sending = r->is_send_held && (body_left(r) > 0 || r->is_body_ended || r->want_check);
    bool is_receiving = r->is_recv_held && !r->is_paused && !list_is_linked(&r->resting);
    CURLcode rc;

    if (r->easy == NULL || (!is_sending && !is_receiving))
        return;
    if (is_sending)
        r->is_send_held = false;
    if (is_receiving)
        r->is_recv_held = false; /* may be held again at once: libcurl gives what it kept */
    r->want_check = false;
    rc = curl_easy_pause(r->easy, (r->is_recv_held ? CURLPAUSE_RECV : 0) |
                                      (r->is_send_held ? CURLPAUSE_SEND : 0));
    if (rc != CURLE_OK) {
        httpc_complete(r, (int) rc);
        return;
    }
    check_over(r);
    if (r->want_check)
        rt_defer(r->op.rt, &r->wake, on_wake);
}

static void wake(struct httpc_request *r)
{
    if (r->is_send_held || r->is_recv_held)
        rt_defer(r->op.rt, &r->wake, on_wake);
}

void httpc_stream_go_on(struct httpc_request *r)
{
    rt_undefer(r->op.rt, &r->wake);
    on_wake(&r->wake);
}

void httpc_stream_polled(struct httpc_request *r, int fd, int what)
{
    if (what == CURL_POLL_REMOVE && fd != r->socket_fd)
        return; /* of an idle connection, closed on this occasion */
    r->socket_fd = fd;
    r->polled = what == CURL_POLL_REMOVE ? CURL_POLL_NONE : what;
    check_over(r);
    if (r->want_check)
        wake(r);
}

bool httpc_stream_is_answered(const struct httpc_request *r, int curl_code)
{
    curl_off_t length = -1;
    curl_off_t have = 0;

    if (!r->is_header_done || r->fault != SP_OK ||
        (curl_code != CURLE_SEND_ERROR && curl_code != CURLE_ABORTED_BY_CALLBACK))
        return false;
    (void) curl_easy_getinfo((CURL *) r->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    (void) curl_easy_getinfo((CURL *) r->easy, CURLINFO_SIZE_DOWNLOAD_T, &have);
    return r->is_answer_whole || (length >= 0 && have == length);
}

/* --- the caller's side --- */

void httpc_pause(struct httpc_request *r)
{
    if (!op_is_active(&r->op))
        return;
    r->is_paused = true;
    rt_undefer(r->op.rt, &r->data);
}

void httpc_resume(struct httpc_request *r)
{
    if (!op_is_active(&r->op) || !r->is_paused)
        return;
    r->is_paused = false;
    if (r->has_news || r->response.len > 0)
        notify_data(r);
    wake(r);
}

/* A mistake of the caller's, which the server must not see as the end of a body. */
static void fail_body(struct httpc_request *r, int code)
{
    r->fault = code;
    httpc_complete(r, CURLE_ABORTED_BY_CALLBACK);
}

size_t httpc_body_write(struct httpc_request *r, const char *data, size_t len)
{
    if (!op_is_active(&r->op))
        return 0; /* it is over; on_done() is on its way */
    assert(r->is_body_streamed && !r->is_body_ended);
    r->body_written += len;
    if (r->body_off >= body_left(r)) { /* so that no byte is moved more than twice */
        buf_consume(&r->body_queue, r->body_off);
        r->body_off = 0;
    }
    buf_append(&r->body_queue, data, len);
    if (r->body_size >= 0 && r->body_written > (uint64_t) r->body_size)
        fail_body(r, SP_BAD_REQUEST);
    else if (buf_failed(&r->body_queue))
        fail_body(r, SP_TOO_BIG);
    else
        wake(r);
    return body_left(r);
}

void httpc_body_end(struct httpc_request *r)
{
    if (!op_is_active(&r->op) || r->is_body_ended)
        return;
    r->is_body_ended = true;
    if (r->body_size >= 0 && r->body_written < (uint64_t) r->body_size)
        fail_body(r, SP_BAD_REQUEST);
    else
        wake(r);
}
