/* run_output.c - the command's output: events of the agent to bytes on our own descriptors. No more
 * is read from the box than is being written, and a broken stream is taken up where it ended. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/run.h"

enum {
    PENDING_MAX = 4 * 1024 * 1024, /* one piece of the connection, decoded, and then some */
    WRITE_MAX = 4096,              /* what a pipe takes without waiting once it says so */
    RETRIES_MAX = 3,
};

static bool on_event(struct sse *s);

void run_output_init(struct run *r)
{
    static const int fds[] = {STDOUT_FILENO, STDERR_FILENO};
    struct stat st;

    sse_init(&r->sse, on_event);
    for (unsigned i = 0; i < RUN_STREAM_COUNT; i++) {
        struct run_stream *s = &r->streams[i];

        buf_init(&s->pending, PENDING_MAX);
        s->fd = fds[i];
        s->is_closed = fstat(s->fd, &st) != 0;
        s->is_regular = !s->is_closed && S_ISREG(st.st_mode);
    }
}

void run_output_fini(struct run *r)
{
    sse_fini(&r->sse);
    for (unsigned i = 0; i < RUN_STREAM_COUNT; i++)
        buf_fini(&r->streams[i].pending);
}

bool run_stream_has_pending(const struct run_stream *s)
{
    return s->written < s->pending.len;
}

bool run_output_has_room(const struct run *r)
{
    for (unsigned i = 0; i < RUN_STREAM_COUNT; i++) {
        if (run_stream_has_pending(&r->streams[i]))
            return false;
    }
    return true;
}

/* As for a local command: whoever writes where nobody reads gets SIGPIPE. */
static void close_stream(struct run *r, struct run_stream *s)
{
    s->is_closed = true;
    r->signals |= 1ULL << SIGPIPE;
}

void run_stream_write(struct run *r, struct run_stream *s)
{
    size_t len = s->pending.len - s->written;
    ssize_t n = write(s->fd, s->pending.data + s->written,
                      s->is_regular ? len : MIN_OF(len, (size_t) WRITE_MAX));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0 && errno == EPIPE) {
        close_stream(r, s);
        n = (ssize_t) len;
    } else if (n < 0) {
        struct sp_failure f = {.code = SP_IO};

        (void) snprintf(f.message, sizeof(f.message), "the output cannot be written: %s",
                        strerror(errno));
        run_fail(r, &f);
        return;
    }
    s->written += (size_t) n;
    if (s->written == s->pending.len) {
        buf_reset(&s->pending);
        s->written = 0;
    }
}

/* The value of a base64 digit, 64 for anything else. */
static unsigned digit(unsigned char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26U;
    if (c >= '0' && c <= '9')
        return c - '0' + 52U;
    return c == '+' ? 62 : c == '/' ? 63 : 64;
}

/* Appends the bytes that `text` stands for; their count, or -1 when it is no base64. */
static int64_t decode(const char *text, struct buf *out)
{
    size_t len = strlen(text);
    size_t before = out->len;

    if (len % 4 != 0 || !buf_reserve(out, len))
        return -1;
    for (size_t i = 0; i < len; i += 4) {
        const unsigned char *at = (const unsigned char *) text + i;
        unsigned padding = at[3] != '=' ? 0 : at[2] != '=' ? 1 : 2;
        unsigned c = padding > 1 ? 0 : digit(at[2]);
        unsigned d = padding > 0 ? 0 : digit(at[3]);
        unsigned v = digit(at[0]) << 18 | digit(at[1]) << 12 | c << 6 | d;

        if (digit(at[0]) > 63 || digit(at[1]) > 63 || c > 63 || d > 63)
            return -1;
        out->data[out->len++] = (char) (v >> 16);
        if (padding < 2)
            out->data[out->len++] = (char) (v >> 8 & 255);
        if (padding < 1)
            out->data[out->len++] = (char) (v & 255);
    }
    out->data[out->len] = '\0';
    return (int64_t) (out->len - before);
}

static bool take_output(struct run_stream *s, const struct json *data)
{
    const char *text = json_str(json_get(data, "data"));
    uint64_t offset;
    int64_t n;

    if (text == NULL || !json_u64(json_get(data, "offset"), &offset) || offset != s->offset)
        return false;
    n = decode(text, &s->pending);
    if (n < 0)
        return false;
    s->offset += (uint64_t) n;
    if (s->is_closed) {
        buf_reset(&s->pending);
        s->written = 0;
    }
    return true;
}

static bool take_gap(struct run *r, const struct json *data)
{
    const char *name = json_str(json_get(data, "stream"));
    struct run_stream *s;
    uint64_t to;

    if (name == NULL || !json_u64(json_get(data, "to"), &to))
        return false;
    s = &r->streams[strcmp(name, "stderr") == 0 ? RUN_STDERR : RUN_STDOUT];
    if (to < s->offset)
        return false;
    (void) fprintf(r->command->err,
                   "sandpool: %llu bytes of the command's output came faster than they were read "
                   "here, and are lost\n",
                   (unsigned long long) (to - s->offset));
    s->offset = to;
    return true;
}

static bool take_end(struct run *r, const struct json *data)
{
    const char *outcome = json_str(json_get(data, "outcome"));
    uint64_t code;

    if (outcome == NULL || !json_u64(json_get(data, "exit_code"), &code))
        return false;
    r->phase = RUN_FLUSHING;
    r->result.may_run = false;
    r->result.status = (int) (code & 255);
    if (strcmp(outcome, "timed_out") == 0) {
        r->result.status = CLI_RUN_TIMEOUT;
    } else if (strcmp(outcome, "oom") == 0) {
        r->result.status = 128 + SIGKILL;
        run_terminal_restore(&r->terminal);
        (void) fprintf(r->command->err,
                       "sandpool: the command was killed because the box ran out of memory; a "
                       "profile with a higher limit gives it more\n");
    }
    return true;
}

static bool on_event(struct sse *s)
{
    struct run *r = container_of(s, struct run, sse);
    struct json_doc *doc = json_parse(buf_str(&s->data), s->data.len, s->data.len, NULL);
    const struct json *data = json_root(doc);
    bool is_good = true;

    if (strcmp(s->event, "stdout") == 0)
        is_good = take_output(&r->streams[RUN_STDOUT], data);
    else if (strcmp(s->event, "stderr") == 0)
        is_good = take_output(&r->streams[RUN_STDERR], data);
    else if (strcmp(s->event, "gap") == 0)
        is_good = take_gap(r, data);
    else if (strcmp(s->event, "end") == 0)
        is_good = take_end(r, data);
    (void) json_doc_free(doc);
    return is_good;
}

static bool on_data(void *ctx, const char *data, size_t len)
{
    struct run *r = ctx;

    r->retries = 0;
    return sse_feed(&r->sse, data, len);
}

void run_output_follow(struct run *r)
{
    char target[160];
    struct sp_box_call call = {.method = "GET", .target = target, .on_data = on_data, .ctx = r};
    struct sp_failure f;

    (void) snprintf(
        target, sizeof(target),
        "/v1/agent/processes/%s/output?stream=both&follow=1&offset=%llu&stderr_offset=%llu", r->id,
        (unsigned long long) r->streams[RUN_STDOUT].offset,
        (unsigned long long) r->streams[RUN_STDERR].offset);
    sse_restart(&r->sse);
    if (sp_box_begin(r->output, &call, &f) != SP_OK)
        run_fail(r, &f);
}

void run_output_step(struct run *r)
{
    struct sp_failure f = {.code = SP_PROTOCOL};
    int code = sp_box_step(r->output, &f);

    r->heard_ms = run_now_ms();
    if (r->phase != RUN_FOLLOWING || (code == SP_OK && sp_box_is_busy(r->output)))
        return;
    if (code == SP_OK) { /* it ended, and did not say how: or it said what we do not understand */
        str_copy_cut(f.message, sizeof(f.message), "the box's agent sent what makes no sense");
        code = f.code;
    }
    /* A reader that pauses for long is cut off; so is everybody when the network hiccups. */
    if (code == SP_IO && r->retries < RETRIES_MAX) {
        r->retries++;
        run_output_follow(r);
    } else {
        run_fail(r, &f);
    }
}
