/* api_exec.c - /v1/agent/exec: runs a command and answers with its end in one round trip. While it runs it
 * is a job like others. One that was answered in full is forgotten; one whose caller went, or whose output
 * was too long for the answer, stays. */
#include <stdlib.h>
#include <string.h>

#include "agent/own/body.h"
#include "agent/own/exec_answer.h"
#include "agent/own/job_request.h"
#include "agent/own/process_stream.h"
#include "agent/own/routes.h"
#include "base/base64.h"
#include "base/mem.h"

enum {
    BODY_MAX = 6 * 1024 * 1024, /* the input as base64, and the rest */
    OUTPUT_DEFAULT = 1024 * 1024,
    OUTPUT_MAX = 8 * 1024 * 1024,
    ONE_PIECE_MAX = 64 * 1024,   /* of output: answered in one piece, with its length */
    BYTES_PER_TURN = 256 * 1024, /* of the answer; then the others are served */
};
#define TIMEOUT_DEFAULT_NS (60 * NS_PER_S)

struct exec_options {
    uint64_t max_output;
    bool is_base64;
    bool want_stream;
    bool want_kill; /* when the caller goes */
    bool has_input;
    struct buf input;
};

/* One that waits for the end, and then sends the answer. */
struct exec {
    struct agent *agent;
    struct http_exchange *ex;
    struct process_watch watch;
    struct rt_timer next_turn;
    struct exec_options options; /* without the input */
    struct exec_answer answer;
    bool is_answering;
    bool is_full; /* waits for on_drain */
};

static int read_input(const struct json *root, struct exec_options *w, struct err *err)
{
    const char *text = NULL;
    const char *encoded = NULL;
    int r = json_field_str(root, "stdin", PROCESS_STDIN_MAX, &text, err);

    if (r == SP_OK)
        r = json_field_str(root, "stdin_base64", BODY_MAX, &encoded, err);
    if (r != SP_OK)
        return r;
    if (text != NULL && encoded != NULL)
        return err_set(err, SP_INVALID_FIELD, "either 'stdin' or 'stdin_base64' can be given");
    if (text != NULL)
        buf_puts(&w->input, text);
    if (encoded != NULL && !base64_decode(encoded, strlen(encoded), &w->input))
        return err_set(err, SP_INVALID_FIELD, "'stdin_base64' is not valid base64");
    w->has_input = text != NULL || encoded != NULL;
    if (buf_failed(&w->input) || w->input.len > PROCESS_STDIN_MAX)
        return err_set(err, SP_INVALID_FIELD, "the input is longer than %d bytes",
                       (int) PROCESS_STDIN_MAX);
    return SP_OK;
}

static int read_encoding(const struct json *root, bool *ret_is_base64, struct err *err)
{
    const char *encoding = NULL;
    int r = json_field_str(root, "encoding", 16, &encoding, err);

    if (r != SP_OK || encoding == NULL)
        return r;
    *ret_is_base64 = strcmp(encoding, "base64") == 0;
    if (!*ret_is_base64 && strcmp(encoding, "utf-8") != 0)
        return err_set(err, SP_INVALID_FIELD, "'encoding' must be utf-8 or base64");
    return SP_OK;
}

static int read_request(const struct json *root, struct launch *l, struct exec_options *w,
                        struct err *err)
{
    static const char *const known[] = {
        "argv",         "command",   "cwd",        "env",      "user",   "stdin",
        "stdin_base64", "timeout_s", "max_output", "encoding", "stream", "kill_on_disconnect",
        "tag",          NULL};
    int r = json_only_fields(root, known, err);

    w->max_output = OUTPUT_DEFAULT;
    l->request.timeout_ns = TIMEOUT_DEFAULT_NS;
    if (r == SP_OK)
        r = job_read_common(root, l, err);
    if (r == SP_OK)
        r = json_field_u64(root, "max_output", 0, OUTPUT_MAX, &w->max_output, err);
    if (r == SP_OK)
        r = read_encoding(root, &w->is_base64, err);
    if (r == SP_OK)
        r = json_field_bool(root, "stream", &w->want_stream, err);
    if (r == SP_OK)
        r = json_field_bool(root, "kill_on_disconnect", &w->want_kill, err);
    if (r == SP_OK)
        r = read_input(root, w, err);
    l->request.spawn.want_stdin = w->has_input;
    return r;
}

static void exec_free(struct exec *e)
{
    rt_timer_cancel(&e->agent->loop.rt, &e->next_turn);
    process_unwatch(&e->watch);
    free(e);
}

/* It goes on as a job, unless the caller wanted it otherwise. */
static void on_gone(void *ctx)
{
    struct exec *e = ctx;

    if (e->options.want_kill)
        process_kill(e->watch.process);
    exec_free(e);
}

/* The answer is complete. */
static void leave(struct exec *e)
{
    struct process *p = e->watch.process;
    bool is_whole = !e->answer.is_truncated;

    if (is_whole)
        process_forget(p); /* still watched: it goes with the watch */
    exec_free(e);
}

static void answer_at_once(struct exec *e)
{
    enum exec_progress progress = EXEC_MORE;
    struct buf text;

    buf_init(&text, 6 * ONE_PIECE_MAX + EXEC_PIECE_TEXT_MAX);
    while (progress == EXEC_MORE)
        progress = exec_answer_put(&e->answer, &text);
    if (progress == EXEC_DONE && !buf_failed(&text)) {
        http_reply(e->ex, 200, "application/json", buf_str(&text), text.len);
        leave(e);
    } else {
        http_reply_error(e->ex, SP_NO_MEMORY,
                         "the output cannot be read back: it stays with the job", 0);
        exec_free(e);
    }
    buf_fini(&text);
}

static void pump(struct exec *e);

static void on_next_turn(struct rt_timer *timer)
{
    pump(container_of(timer, struct exec, next_turn));
}

static void pump(struct exec *e)
{
    struct rt *rt = &e->agent->loop.rt;
    enum exec_progress progress = EXEC_MORE;
    size_t total = 0;

    while (progress == EXEC_MORE && !e->is_full && total < BYTES_PER_TURN) {
        struct buf text;

        buf_init(&text, EXEC_PIECE_TEXT_MAX);
        progress = exec_answer_put(&e->answer, &text);
        if (buf_failed(&text))
            progress = EXEC_LOST;
        else if (text.len > 0)
            e->is_full = http_write(e->ex, buf_str(&text), text.len) > HTTP_HIGH_WATER;
        total += text.len;
        buf_fini(&text);
    }
    if (progress == EXEC_DONE) {
        http_end(e->ex);
        leave(e);
    } else if (progress == EXEC_LOST) {
        http_abort(e->ex);
        exec_free(e);
    } else if (!e->is_full) { /* not at once: timers run before other connections are read */
        rt_timer_set(rt, &e->next_turn, rt_after(rt_now(rt), NS_PER_MS), on_next_turn);
    }
}

static void on_drain(struct http_exchange *ex)
{
    struct exec *e = http_ctx(ex);

    e->is_full = false;
    pump(e);
}

static void answer(struct exec *e)
{
    e->is_answering = true;
    exec_answer_init(&e->answer, e->watch.process, e->options.max_output, e->options.is_base64);
    if (exec_answer_size(&e->answer) <= ONE_PIECE_MAX) {
        answer_at_once(e);
        return;
    }
    http_set_drain(e->ex, on_drain);
    http_begin(e->ex, 200, "application/json");
    pump(e);
}

static void on_change(struct process_watch *watch)
{
    struct exec *e = container_of(watch, struct exec, watch);

    if (!process_is_running(watch->process) && !e->is_answering)
        answer(e);
}

static void wait_for_end(struct http_exchange *ex, struct process *p, const struct exec_options *w)
{
    struct exec *e = xcalloc(1, sizeof(*e));

    e->agent = http_server_ctx(ex);
    e->ex = ex;
    e->options = *w;
    http_set_ctx(ex, e, on_gone);
    process_watch(p, &e->watch, on_change);
}

static void follow(struct http_exchange *ex, struct process *p, const struct exec_options *w,
                   enum stream_form form)
{
    const struct stream_options options = {.form = form != STREAM_BYTES ? form : STREAM_SSE,
                                           .wants = {true, true},
                                           .want_follow = true,
                                           .want_start = true,
                                           .want_kill = w->want_kill};

    process_stream_begin(ex, p, &options);
}

static int feed(struct process *p, struct exec_options *w, struct err *err)
{
    int r = SP_OK;

    if (w->input.len > 0)
        r = process_write(p, buf_str(&w->input), w->input.len, err);
    if (r == SP_OK && w->has_input)
        r = process_close_stdin(p, err);
    return r;
}

static int start(struct http_exchange *ex, const struct json *root, struct exec_options *w,
                 struct process **ret, struct err *err)
{
    struct agent *a = http_server_ctx(ex);
    struct launch l;
    int r;

    launch_init(&l, a);
    r = read_request(root, &l, w, err);
    if (r == SP_OK)
        r = process_start(a->processes, &l.request, ret, err);
    launch_fini(&l);
    if (r != SP_OK)
        return r;
    r = feed(*ret, w, err);
    if (r != SP_OK)
        process_kill(*ret);
    return r;
}

static void handle_exec(struct http_exchange *ex)
{
    struct json_doc *doc = agent_read_body(ex);
    enum stream_form form = stream_accepted(ex);
    struct exec_options w = {.max_output = 0};
    struct process *p = NULL;
    struct err err;
    int r;

    if (doc == NULL)
        return;
    buf_init(&w.input, BODY_MAX); /* the decoder reserves more than it needs */
    r = start(ex, json_root(doc), &w, &p, &err);
    (void) json_doc_free(doc);
    buf_fini(&w.input);
    if (r != SP_OK)
        http_reply_err(ex, &err);
    else if (w.want_stream || form != STREAM_BYTES)
        follow(ex, p, &w, form);
    else
        wait_for_end(ex, p, &w);
}

const struct http_route own_exec_routes[] = {
    {HTTP_METHOD_POST, "/v1/agent/exec", handle_exec, 0, BODY_MAX,
     "run a command and answer with its end"},
    {.pattern = NULL},
};
