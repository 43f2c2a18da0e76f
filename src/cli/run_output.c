/* run_output.c - the command's output: two streams of bytes from the agent to our own descriptors. No
 * more is read from the box than is being written, and a stream that breaks is taken up where it
 * ended. When both have ended, the agent is asked how the command did. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/run.h"

enum {
    PENDING_MAX = 1024 * 1024, /* one piece of the connection, and then some */
    WRITE_MAX = 4096,          /* what a pipe takes without waiting once it says so */
    RETRIES_MAX = 3,
    DAEMON_RETRIES_MAX = 40, /* a daemon that restarts: about a minute */
    RETRY_MIN_MS = 50,
    RETRY_MAX_MS = 2000,
    ANSWER_MAX = 4 * 1024 * 1024,
};

void run_output_init(struct run *r)
{
    static const int fds[] = {STDOUT_FILENO, STDERR_FILENO};
    struct stat st;

    for (unsigned i = 0; i < RUN_STREAM_COUNT; i++) {
        struct run_stream *s = &r->streams[i];

        buf_init(&s->pending, PENDING_MAX);
        s->fd = fds[i];
        s->is_closed = fstat(s->fd, &st) != 0;
        s->is_ready =
            !s->is_closed && (S_ISREG(st.st_mode) || (S_ISCHR(st.st_mode) && isatty(s->fd) == 0));
    }
}

void run_output_fini(struct run *r)
{
    for (unsigned i = 0; i < RUN_STREAM_COUNT; i++) {
        sp_box_free(r->streams[i].box);
        buf_fini(&r->streams[i].pending);
    }
}

bool run_stream_has_pending(const struct run_stream *s)
{
    return s->written < s->pending.len;
}

bool run_output_is_written(const struct run *r)
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
                      s->is_ready ? len : MIN_OF(len, (size_t) WRITE_MAX));

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

static bool on_data(void *ctx, const char *data, size_t len)
{
    struct run_stream *s = ctx;

    if (s->is_new && sp_box_offset(s->box) > s->offset) {
        s->lost += sp_box_offset(s->box) - s->offset;
        s->offset = sp_box_offset(s->box);
    }
    s->is_new = false;
    s->retries = 0;
    s->offset += len;
    if (!s->is_closed)
        buf_append(&s->pending, data, len);
    return !buf_failed(&s->pending);
}

bool run_stream_try_again(struct run *r, struct run_stream *s, int code)
{
    bool has_daemon = r->place->client != NULL;
    bool is_away = code == SP_CONNECT_FAILED || code == SP_STARTING || code == SP_TRANSPORT_LOST;

    if (s->retries >= (has_daemon ? DAEMON_RETRIES_MAX : RETRIES_MAX) ||
        !(code == SP_IO || (has_daemon && is_away)))
        return false;
    s->retry_ms = run_now_ms();
    if (s->retries > 0)
        s->retry_ms +=
            MIN_OF((uint64_t) RETRY_MAX_MS, (uint64_t) RETRY_MIN_MS << MIN_OF(s->retries, 6U));
    s->retries++;
    return true;
}

static void follow(struct run *r, struct run_stream *s)
{
    char target[160];
    struct sp_box_call call = {.method = "GET", .target = target, .on_data = on_data, .ctx = s};
    struct sp_failure f;

    (void) snprintf(target, sizeof(target), "/jobs/%s/output?stream=%s&follow=%d&offset=%llu",
                    r->id, s == &r->streams[RUN_STDERR] ? "stderr" : "stdout",
                    r->command->job == NULL || r->command->want_follow,
                    (unsigned long long) s->offset);
    s->is_new = true;
    s->retry_ms = 0;
    if (sp_box_begin(s->box, &call, &f) != SP_OK && !run_stream_try_again(r, s, f.code))
        run_fail(r, &f);
}

void run_output_retry(struct run *r, uint64_t now_ms)
{
    for (unsigned i = 0; i < RUN_STREAM_COUNT; i++) {
        struct run_stream *s = &r->streams[i];

        if (s->retry_ms == 0 || now_ms < s->retry_ms || r->phase != RUN_FOLLOWING)
            continue;
        if (r->command->want_tty)
            run_attach_begin(r);
        else
            follow(r, s);
    }
}

void run_output_follow(struct run *r)
{
    for (unsigned i = 0; i < RUN_STREAM_COUNT && r->phase == RUN_FOLLOWING; i++)
        follow(r, &r->streams[i]);
}

/* A daemon that was replaced closes the connection behind the output. Then the end of the output is looked for again, on
 * a new one, and the question follows. */
static void ask_again(struct run *r, const struct sp_failure *f)
{
    if (run_stream_try_again(r, &r->streams[RUN_STDOUT], f->code))
        r->phase = RUN_FOLLOWING;
    else
        run_fail(r, f);
}

/* All has come: how did it end? */
static void ask(struct run *r)
{
    char target[96];
    struct sp_box_call call = {.method = "GET", .target = target};
    struct sp_failure f;

    if (r->command->job != NULL) { /* nobody asked how it ended */
        r->phase = RUN_FLUSHING;
        return;
    }
    (void) snprintf(target, sizeof(target), "/jobs/%s", r->id);
    r->phase = RUN_ASKING;
    r->call_deadline_ms = run_now_ms() + RUN_CALL_MS;
    if (sp_box_begin(r->streams[RUN_STDOUT].box, &call, &f) != SP_OK)
        ask_again(r, &f);
}

void run_output_step(struct run *r, struct run_stream *s)
{
    struct sp_failure f = {.code = SP_NO_MEMORY, .message = "no memory for the command's output"};
    int code = sp_box_step(s->box, &f);

    if (code == SP_OK && sp_box_is_busy(s->box))
        return;
    if (code == SP_OK && buf_failed(&s->pending))
        code = SP_NO_MEMORY; /* on_data() did not want more */
    if (code == SP_OK) {
        s->has_ended = true;
        if (r->streams[RUN_STDOUT].has_ended && r->streams[RUN_STDERR].has_ended)
            ask(r);
    } else if (!run_stream_try_again(r, s, code)) {
        run_fail(r, &f);
    }
}

void run_output_finish(struct run *r)
{
    uint64_t lost = r->streams[RUN_STDOUT].lost + r->streams[RUN_STDERR].lost;

    r->phase = RUN_OVER;
    run_terminal_restore(&r->terminal);
    if (r->is_oom)
        (void) fprintf(r->command->cli->err,
                       "sandpool: the command was killed because the box ran out of memory; a "
                       "profile with a higher limit gives it more\n");
    if (r->is_late)
        (void) fprintf(r->command->cli->err,
                       "sandpool: the command was ended after %s by --timeout\n",
                       cli_option(r->command->args, "timeout"));
    if (lost > 0)
        (void) fprintf(r->command->cli->err,
                       "sandpool: %llu bytes of the command's output came faster than they were "
                       "read here, and are lost\n",
                       (unsigned long long) lost);
}

static bool take_end(struct run *r, const struct json *process)
{
    const char *outcome = json_str(json_get(process, "outcome"));
    const char *signal = json_str(json_get(process, "signal"));
    uint64_t code = 128 + (uint64_t) run_signal_number(signal != NULL ? signal : "SIGTERM");

    /* Only a command that ended by itself has an exit code. */
    if (outcome == NULL || (!json_u64(json_get(process, "exit_code"), &code) &&
                            (strcmp(outcome, "exited") == 0 || strcmp(outcome, "running") == 0)))
        return false;
    r->phase = RUN_FLUSHING;
    r->result.may_run = false;
    r->result.status = (int) (code & 255);
    if (strcmp(outcome, "timed_out") == 0) {
        r->result.status = CLI_RUN_TIMEOUT;
        r->is_late = r->command->timeout_ms > 0; /* not of a job that 'logs' shows */
    }
    r->is_oom = strcmp(outcome, "oom") == 0;
    if (r->is_oom)
        r->result.status = 128 + SIGKILL;
    return true;
}

void run_output_take_end(struct run *r, const char *text)
{
    struct sp_failure f = {.code = SP_PROTOCOL,
                           .message = "the box's agent does not report how the command ended"};
    struct json_doc *doc = json_parse(text, strlen(text), ANSWER_MAX, NULL);

    if (!take_end(r, json_root(doc)))
        run_fail(r, &f);
    (void) json_doc_free(doc);
}

void run_output_ask_step(struct run *r)
{
    struct sp_box *box = r->streams[RUN_STDOUT].box;
    struct sp_failure f;

    if (sp_box_step(box, &f) != SP_OK) {
        ask_again(r, &f);
        return;
    }
    if (!sp_box_is_busy(box))
        run_output_take_end(r, sp_box_answer(box));
}
