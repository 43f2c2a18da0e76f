/* api_attach.c - /v1/agent/jobs/{job}/attach: one WebSocket for what a job writes and reads.
 *
 * To the client: binary messages, the first byte 1 (stdout, or the terminal) or 2 (stderr), then bytes; text messages
 * {"event":"gap",...}, {"event":"error",...}, and {"event":"end", the job} as the last. From the client: binary messages,
 * the first byte 0, then bytes for its input; text messages {"resize":{"cols","rows"}}, {"signal":"INT"}, {"eof":true}.
 * Either side waits for the other: output is sent as fast as the client takes it, the job waits for a client that is too
 * far behind (process/follow.h), and the connection is not read while the job has INPUT_HIGH bytes of input before it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/own/process_view.h"
#include "agent/own/routes.h"
#include "agent/process/follow.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/websocket.h"

enum {
    ATTACHED_MAX = 64,
    CHUNK_SIZE = 24 * 1024,
    BYTES_PER_TURN = 1024 * 1024, /* then the others are served */
    MESSAGE_MAX = 1024 * 1024,    /* of a client */
    INPUT_HIGH = 256 * 1024,
};
#define PING_NS FAULT_TIME(15 * NS_PER_S)
#define PONG_NS FAULT_TIME(60 * NS_PER_S)

struct attach {
    struct agent *agent;
    struct http_exchange *ex;
    struct process_watch watch;
    struct process_follower follower;
    struct websocket_reader reader;
    struct rt_timer next_turn;
    struct rt_timer ping;
    uint64_t came_ns; /* when something last came */
    uint64_t at[PROCESS_STREAM_COUNT];
    bool want_kill;
    bool is_full; /* waits for on_drain */
};

static void pump(struct attach *t);

/* --- the end --- */

static void attach_free(struct attach *t)
{
    struct rt *rt = &t->agent->loop.rt;

    if (t->want_kill && t->watch.process != NULL)
        process_kill(t->watch.process);
    rt_timer_cancel(rt, &t->next_turn);
    rt_timer_cancel(rt, &t->ping);
    process_unfollow(&t->follower);
    process_unwatch(&t->watch);
    websocket_reader_fini(&t->reader);
    t->agent->attached--;
    free(t);
}

static void on_gone(void *ctx)
{
    attach_free(ctx);
}

/* --- to the client --- */

static void send_frame(struct attach *t, enum websocket_opcode opcode, const char *data, size_t len)
{
    struct buf frame;

    buf_init(&frame, len + 16);
    websocket_put_head(&frame, opcode, len);
    buf_append(&frame, data, len);
    if (http_write(t->ex, buf_str(&frame), frame.len) >= HTTP_HIGH_WATER)
        t->is_full = true;
    buf_fini(&frame);
}

static void send_json(struct attach *t, struct json_out *o)
{
    struct buf text;

    buf_init(&text, 8 * 1024 * 1024);
    json_out_finish(o, &text);
    send_frame(t, WEBSOCKET_TEXT, buf_str(&text), text.len);
    buf_fini(&text);
}

static void begin_event(struct json_out *o, const char *event)
{
    json_out_init(o);
    json_begin_obj(o, NULL);
    json_put_str(o, "event", event);
}

static void send_gap(struct attach *t, unsigned stream, uint64_t to)
{
    struct json_out o;

    begin_event(&o, "gap");
    json_put_str(&o, "stream", stream == PROCESS_STDOUT ? "stdout" : "stderr");
    json_put_u64(&o, "from", t->at[stream]);
    json_put_u64(&o, "to", to);
    json_end(&o);
    send_json(t, &o);
}

/* What could not be done, and the connection goes on. */
static void send_error(struct attach *t, const struct err *err)
{
    struct json_out o;

    begin_event(&o, "error");
    json_put_str(&o, "code", sp_error_info(err->code)->name);
    json_put_str(&o, "message", err->msg);
    json_end(&o);
    send_json(t, &o);
}

/* Ends the connection, with all that was written; frees. */
static void finish(struct attach *t, int status, const char *text)
{
    struct buf frame;

    buf_init(&frame, 256);
    websocket_put_close(&frame, status, text);
    (void) http_write(t->ex, buf_str(&frame), frame.len);
    buf_fini(&frame);
    http_end(t->ex);
    attach_free(t);
}

static void finish_job(struct attach *t)
{
    struct json_out o;

    begin_event(&o, "end");
    process_put(&o, t->watch.process);
    json_end(&o);
    send_json(t, &o);
    t->want_kill = false; /* those who hold its streams are no part of it */
    finish(t, WEBSOCKET_NORMAL, "the job has ended");
}

/* Bytes that were sent; 0 when the client has all. */
static size_t send_chunk(struct attach *t, unsigned stream)
{
    const struct output *o = &t->watch.process->streams[stream].output;
    uint64_t from = output_seek(o, t->at[stream]);
    char chunk[1 + CHUNK_SIZE];
    size_t n;

    if (t->at[stream] >= o->end)
        return 0;
    if (from != t->at[stream]) {
        send_gap(t, stream, from);
        t->at[stream] = from;
    }
    n = output_read(o, from, chunk + 1, CHUNK_SIZE);
    chunk[0] = stream == PROCESS_STDOUT ? 1 : 2;
    if (n > 0)
        send_frame(t, WEBSOCKET_BINARY, chunk, n + 1);
    t->at[stream] += n;
    return n;
}

static void on_next_turn(struct rt_timer *timer)
{
    pump(container_of(timer, struct attach, next_turn));
}

/* May free it. */
static void pump(struct attach *t)
{
    struct rt *rt = &t->agent->loop.rt;
    size_t total = 0;
    size_t n = 1;

    while (n > 0 && !t->is_full && total < BYTES_PER_TURN) {
        n = 0;
        for (unsigned i = 0; i < PROCESS_STREAM_COUNT && !t->is_full; i++)
            n += send_chunk(t, i);
        total += n;
    }
    process_followed(&t->follower, t->at);
    if (t->is_full)
        return;
    if (n > 0) /* not at once: tasks and timers run before other connections are read */
        rt_timer_set(rt, &t->next_turn, rt_after(rt_now(rt), NS_PER_MS), on_next_turn);
    else if (!process_is_running(t->watch.process))
        finish_job(t);
}

static void on_drain(struct http_exchange *ex)
{
    struct attach *t = http_ctx(ex);

    t->is_full = false;
    pump(t);
}

static bool is_input_full(const struct attach *t)
{
    return t->watch.process->stdin_buf.len > INPUT_HIGH;
}

static void on_ping(struct rt_timer *timer)
{
    struct attach *t = container_of(timer, struct attach, ping);
    struct rt *rt = &t->agent->loop.rt;

    if (is_input_full(t))
        t->came_ns = rt_now(rt); /* its answers are not read now */
    if (rt_now(rt) - t->came_ns >= PONG_NS) {
        http_abort(t->ex);
        attach_free(t);
        return;
    }
    rt_timer_set(rt, &t->ping, rt_after(rt_now(rt), PING_NS), on_ping);
    if (!t->is_full)
        send_frame(t, WEBSOCKET_PING, "", 0);
}

/* --- from the client --- */

static void on_change(struct process_watch *w)
{
    struct attach *t = container_of(w, struct attach, watch);

    if (!is_input_full(t))
        http_body_resume(t->ex);
    if (!t->is_full)
        pump(t);
}

static int resize(struct attach *t, const struct json *size, struct err *err)
{
    uint64_t cols = 80;
    uint64_t rows = 24;
    int r = json_field_u64(size, "cols", 1, 4096, &cols, err);

    if (r == SP_OK)
        r = json_field_u64(size, "rows", 1, 4096, &rows, err);
    return r == SP_OK ? process_resize(t->watch.process, (uint16_t) cols, (uint16_t) rows, err) : r;
}

static int obey(struct attach *t, const struct json *root, struct err *err)
{
    static const char *const known[] = {"resize", "signal", "eof", NULL};
    const struct json *size = NULL;
    bool is_eof = false;
    int signum = 0;
    int r = json_is_obj(root) ? json_only_fields(root, known, err)
                              : err_set(err, SP_BAD_REQUEST, "a message must be a JSON object");

    if (r == SP_OK)
        r = json_field_obj(root, "resize", &size, err);
    if (r == SP_OK)
        r = process_signal_field(root, &signum, err);
    if (r == SP_OK)
        r = json_field_bool(root, "eof", &is_eof, err);
    if (r == SP_OK && size != NULL)
        r = resize(t, size, err);
    if (r == SP_OK && signum != 0)
        r = process_signal(t->watch.process, signum, err);
    if (r == SP_OK && is_eof)
        r = process_close_stdin(t->watch.process, err);
    return r;
}

static void take_text(struct attach *t, const char *data, size_t len)
{
    struct err err;
    struct json_doc *doc = json_parse(data, len, len, &err);
    int r = doc != NULL ? obey(t, json_root(doc), &err) : SP_BAD_REQUEST;

    if (r != SP_OK)
        send_error(t, &err);
    (void) json_doc_free(doc);
}

/* False: it cannot be held. */
static bool take_input(struct attach *t, const char *data, size_t len)
{
    struct err err;
    int r = len > 0 ? process_write(t->watch.process, data, len, &err) : SP_OK;

    if (r == SP_QUEUE_FULL || r == SP_NO_MEMORY)
        return false;
    if (r != SP_OK)
        send_error(t, &err);
    if (is_input_full(t))
        http_body_pause(t->ex);
    return true;
}

/* False: it is closed, and freed by the caller of the reader. */
static bool on_message(struct websocket_reader *r, enum websocket_opcode opcode, const char *data,
                       size_t len)
{
    struct attach *t = container_of(r, struct attach, reader);

    switch (opcode) {
    case WEBSOCKET_TEXT:
        take_text(t, data, len);
        return true;
    case WEBSOCKET_BINARY:
        if (len == 0 || data[0] != 0)
            r->failure = WEBSOCKET_REFUSED;
        else if (!take_input(t, data + 1, len - 1))
            r->failure = WEBSOCKET_LATER;
        return true;
    case WEBSOCKET_PING:
        send_frame(t, WEBSOCKET_PONG, data, len);
        return true;
    case WEBSOCKET_CLOSE:
        r->failure = WEBSOCKET_NORMAL;
        return true;
    case WEBSOCKET_PONG:
    case WEBSOCKET_MORE:
        break;
    }
    return true;
}

static const char *reason_of(int status)
{
    switch (status) {
    case WEBSOCKET_REFUSED:
        return "a binary message begins with a byte 0";
    case WEBSOCKET_TOO_BIG:
        return "a message is longer than 1 MiB";
    case WEBSOCKET_NOT_TEXT:
        return "a text message is not UTF-8";
    case WEBSOCKET_LATER:
        return "the job does not read its input, and others have filled it";
    case WEBSOCKET_PROTOCOL:
        return "not a frame of RFC 6455";
    default:
        return "";
    }
}

static void on_data(struct http_exchange *ex, const char *data, size_t len)
{
    struct attach *t = http_ctx(ex);
    int status;

    t->came_ns = rt_now(&t->agent->loop.rt);
    status = websocket_feed(&t->reader, data, len);
    if (status != 0)
        finish(t, status, reason_of(status));
}

static void on_end(struct http_exchange *ex)
{
    struct attach *t = http_ctx(ex);

    http_end(ex); /* nobody sends any more */
    attach_free(t);
}

/* --- the beginning --- */

static bool read_offset(struct http_exchange *ex, const char *name, uint64_t *ret)
{
    char text[24];

    *ret = 0;
    return !http_query(ex, name, text, sizeof(text)) || str_parse_u64(text, 0, INT64_MAX, ret);
}

/* The subprotocol is ours, if the client offers it. */
static bool offers_protocol(struct http_exchange *ex)
{
    const char *list = http_header(ex, "Sec-WebSocket-Protocol");

    while (list != NULL && *list != '\0') {
        size_t len;

        list += strspn(list, ", \t");
        len = strcspn(list, ", \t");
        if (len == strlen("sandpool.v1") && strncmp(list, "sandpool.v1", len) == 0)
            return true;
        list += len;
    }
    return false;
}

/* False after a refusal was answered. */
static bool shake_hands(struct http_exchange *ex)
{
    const char *upgrade = http_upgrade_wanted(ex);
    const char *version = http_header(ex, "Sec-WebSocket-Version");
    const char *key = http_header(ex, "Sec-WebSocket-Key");
    char accept[WEBSOCKET_ACCEPT_LEN + 1];

    if (upgrade == NULL || strcasecmp(upgrade, "websocket") != 0 || version == NULL ||
        strcmp(version, "13") != 0) {
        http_add_header(ex, "Upgrade", "websocket");
        http_add_header(ex, "Sec-WebSocket-Version", "13");
        http_reply_error(ex, SP_UPGRADE_REQUIRED, "this path is for WebSockets of version 13", 0);
        return false;
    }
    if (key == NULL || !websocket_accept(key, accept)) {
        http_reply_error(ex, SP_BAD_REQUEST, "Sec-WebSocket-Key must be 16 bytes in base64", 0);
        return false;
    }
    http_add_header(ex, "Connection", "Upgrade");
    http_add_header(ex, "Upgrade", "websocket");
    http_add_header(ex, "Sec-WebSocket-Accept", accept);
    if (offers_protocol(ex))
        http_add_header(ex, "Sec-WebSocket-Protocol", "sandpool.v1");
    return true;
}

static void begin(struct attach *t, struct process *p)
{
    struct rt *rt = &t->agent->loop.rt;

    t->agent->attached++;
    t->came_ns = rt_now(rt);
    websocket_reader_init(&t->reader, MESSAGE_MAX);
    t->reader.on_message = on_message;
    http_set_ctx(t->ex, t, on_gone);
    http_body_start(t->ex, on_data, on_end);
    http_set_drain(t->ex, on_drain);
    http_upgrade(t->ex, 101);
    process_watch(p, &t->watch, on_change);
    process_follow(p, &t->follower, t->at);
    rt_timer_set(rt, &t->ping, rt_after(rt_now(rt), PING_NS), on_ping);
    pump(t);
}

static struct process *find_job(struct http_exchange *ex)
{
    const struct agent *a = http_server_ctx(ex);
    uint64_t id;

    return str_parse_u64(http_path_param(ex, "job"), 1, UINT64_MAX, &id)
               ? process_find(a->processes, id)
               : NULL;
}

static void handle_attach(struct http_exchange *ex)
{
    struct agent *a = http_server_ctx(ex);
    struct attach *t;
    struct process *p;
    char kill[8];

    p = find_job(ex);
    if (p == NULL) {
        http_reply_error(ex, SP_NOT_FOUND, "no such job", 0);
        return;
    }
    if (a->attached >= ATTACHED_MAX) {
        http_reply_error(ex, SP_QUEUE_FULL, "64 WebSockets of this box are open already", 1000);
        return;
    }
    t = xcalloc(1, sizeof(*t));
    t->agent = a;
    t->ex = ex;
    t->want_kill = http_query(ex, "kill", kill, sizeof(kill)) && strcmp(kill, "0") != 0;
    if (!read_offset(ex, "offset", &t->at[PROCESS_STDOUT]) ||
        !read_offset(ex, "stderr_offset", &t->at[PROCESS_STDERR])) {
        http_reply_error(ex, SP_INVALID_FIELD, "offsets are numbers", 0);
        free(t);
    } else if (!shake_hands(ex)) {
        free(t);
    } else {
        begin(t, p);
    }
}

const struct http_route own_attach_routes[] = {
    {HTTP_METHOD_GET, "/v1/agent/jobs/{job}/attach", handle_attach, 0, 0,
     "a WebSocket for its output and input"},
    {.pattern = NULL},
};
