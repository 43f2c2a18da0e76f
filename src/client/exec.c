/* exec.c - follows a command to its end, over as many connections as that takes: its events are read as lines, and a
 * stream that breaks is taken up where it ended. */
#include "sandpool/exec.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/str.h"
#include "client/exec_internal.h"

enum {
    LINE_MAX_BYTES = 32 * 1024 * 1024, /* the last event has the whole command */
    OUTPUT_DEFAULT = 1024 * 1024,
    SILENCE_MS = 60 * 1000, /* something comes every 15 s */
    TRIES_MAX = 40,         /* without a byte of news: about a minute */
    PAUSE_MIN_MS = 50,
    PAUSE_MAX_MS = 2000,
    TIMEOUT_MS = 60 * 1000, /* of a command that has no other */
    RATE_MIN = 512, /* bytes in a ms, at which output that was kept is read when its time is over */
    READ_MS = 1024 * 1000, /* which takes no longer: a box keeps 256 MiB of each stream */
};

enum { STDOUT, STDERR, STREAM_COUNT };

static const char *const stream_names[] = {"stdout", "stderr"};
static const char *const outcome_names[] = {"exited", "signalled",    "timed_out",     "killed",
                                            "oom",    "sandbox_lost", "transport_lost"};

struct following {
    struct sp_box *box;
    const struct sp_exec *exec;
    struct sp_exec_result *ret;
    struct exec_kept kept[STREAM_COUNT];
    uint64_t offset[STREAM_COUNT]; /* of the next byte */
    struct buf line;
    struct buf data;
    bool has_end;    /* the end was reported, and is in `ret` */
    bool is_broken;  /* the box cannot be reached; it may be by another connection */
    bool is_stopped; /* a callback wants no more */
    bool is_bad;     /* an event that cannot be read */
    bool is_late;    /* the box has not ended it in its time */
    unsigned tries;  /* since the last news */
    /* A box that says all is well and never ends the command keeps nobody waiting. What the callbacks take does not
     * count. UINT64_MAX: the command has no time. */
    uint64_t give_up_ms;
    uint64_t bonus_ms; /* that output may still add */
};

const char *sp_outcome_name(enum sp_outcome outcome)
{
    return (unsigned) outcome < SP_OUTCOME_COUNT ? outcome_names[outcome] : "unknown";
}

void sp_exec_result_fini(struct sp_exec_result *r)
{
    free(r->out);
    free(r->err);
    r->out = NULL;
    r->err = NULL;
}

/* --- events --- */

static bool give(struct following *w, unsigned stream, const char *data, size_t len)
{
    bool (*on_data)(void *, const char *, size_t) =
        stream == STDOUT ? w->exec->on_stdout : w->exec->on_stderr;

    uint64_t began_ms = wire_now_ms();
    uint64_t bonus_ms = MIN_OF((uint64_t) len / RATE_MIN, w->bonus_ms);
    bool want_more;

    w->offset[stream] += len;
    exec_kept_add(&w->kept[stream], data, len);
    want_more = on_data == NULL || len == 0 || on_data(w->exec->ctx, data, len);
    w->bonus_ms -= bonus_ms;
    if (w->give_up_ms != UINT64_MAX)
        w->give_up_ms += wire_now_ms() - began_ms + bonus_ms;
    return want_more;
}

static void take_data(struct following *w, unsigned stream, const struct json *event)
{
    const char *text = json_str(json_get(event, "data"));
    uint64_t offset;
    uint64_t known;

    buf_reset(&w->data);
    if (text == NULL || !json_u64(json_get(event, "offset"), &offset) ||
        !base64_decode(text, strlen(text), &w->data) || buf_failed(&w->data)) {
        w->is_bad = true;
        return;
    }
    if (offset > w->offset[stream]) /* what is between is lost */
        w->offset[stream] = offset;
    known = w->offset[stream] - offset; /* what another connection has brought */
    if (known < w->data.len && !give(w, stream, w->data.data + known, w->data.len - known))
        w->is_stopped = true;
}

static void take_gap(struct following *w, const struct json *event)
{
    const char *name = json_str(json_get(event, "stream"));
    unsigned stream = name != NULL && strcmp(name, stream_names[STDERR]) == 0 ? STDERR : STDOUT;
    uint64_t to;

    if (json_u64(json_get(event, "to"), &to) && to > w->offset[stream])
        w->offset[stream] = to;
}

static void take_end(struct following *w, const struct json *event)
{
    struct sp_exec_result *ret = w->ret;
    const char *outcome = json_str(json_get(event, "outcome"));
    const char *signal = json_str(json_get(event, "signal"));
    unsigned i = 0;
    uint64_t n;

    while (i < SP_OUTCOME_COUNT && outcome != NULL && strcmp(outcome, outcome_names[i]) != 0)
        i++;
    if (outcome == NULL || i == SP_OUTCOME_COUNT ||
        (i == SP_OUTCOME_EXITED && !json_u64(json_get(event, "exit_code"), &n))) {
        w->is_bad = true; /* never an exit code that was not seen */
        return;
    }
    if (i == SP_OUTCOME_TRANSPORT_LOST) {
        w->is_broken = true;
        return;
    }
    w->has_end = true;
    ret->outcome = (enum sp_outcome) i;
    if (i == SP_OUTCOME_EXITED)
        ret->exit_code = (int) (n & 255);
    str_copy_cut(ret->signal, sizeof(ret->signal), signal != NULL ? signal : "");
    if (json_u64(json_get(event, "duration_ms"), &n))
        ret->duration_ms = n;
    if (json_u64(json_get(event, "stdout_bytes"), &n))
        ret->out_bytes = n;
    if (json_u64(json_get(event, "stderr_bytes"), &n))
        ret->err_bytes = n;
}

static void take_event(struct following *w, const char *text, size_t len)
{
    struct json_doc *doc = json_parse(text, len, LINE_MAX_BYTES, NULL);
    const struct json *event = json_root(doc);
    const char *name = json_str(json_get(event, "event"));
    const char *job = json_str(json_get(event, "job"));

    w->is_bad = name == NULL;
    if (name == NULL)
        ;
    else if (strcmp(name, stream_names[STDOUT]) == 0)
        take_data(w, STDOUT, event);
    else if (strcmp(name, stream_names[STDERR]) == 0)
        take_data(w, STDERR, event);
    else if (strcmp(name, "gap") == 0)
        take_gap(w, event);
    else if (strcmp(name, "end") == 0)
        take_end(w, event);
    else if (strcmp(name, "start") == 0)
        w->is_bad = !exec_is_job(job) || !str_copy(w->ret->job, sizeof(w->ret->job), job);
    w->tries = w->is_broken ? w->tries : 0;
    (void) json_doc_free(doc);
}

static bool is_over(const struct following *w)
{
    return w->has_end || w->is_broken || w->is_stopped || w->is_bad;
}

static bool on_data(void *ctx, const char *data, size_t len)
{
    struct following *w = ctx;

    while (len > 0 && !is_over(w)) {
        const char *end = memchr(data, '\n', len);
        size_t n = end != NULL ? (size_t) (end - data) : len;

        buf_append(&w->line, data, n);
        w->is_bad = buf_failed(&w->line);
        if (end != NULL && !w->is_bad) {
            if (w->line.len > 0)
                take_event(w, w->line.data, w->line.len);
            buf_reset(&w->line);
            n++;
        }
        data += n;
        len -= n;
    }
    return !is_over(w) || w->has_end; /* after the end the connection can be kept */
}

/* --- connections --- */

static void wait_step(struct following *w, int *r, struct sp_failure *f)
{
    uint64_t now_ms = wire_now_ms();
    uint64_t left_ms = w->give_up_ms > now_ms ? w->give_up_ms - now_ms : 0;

    *r = box_wait_step(w->box, MIN_OF(left_ms, (uint64_t) SILENCE_MS), f);
    if (w->has_end || wire_now_ms() < w->give_up_ms)
        return;
    w->is_late = true;
    sp_box_close(w->box);
    *r = client_fail(f, SP_TIMEOUT,
                     "the time of the command is over, and the sandbox does not end it");
}

/* One connection, until the stream ends or breaks: SP_OK when is_over() shows why. */
static int follow_once(struct following *w, struct sp_box_call *call, struct sp_failure *f)
{
    int r;

    call->accept = "application/x-ndjson";
    call->on_data = on_data;
    call->ctx = w;
    buf_reset(&w->line);
    w->is_broken = false;
    r = sp_box_begin(w->box, call, f);
    while (r == SP_OK && sp_box_is_busy(w->box))
        wait_step(w, &r, f);
    if (w->has_end || w->is_stopped)
        return SP_OK;
    if (w->is_bad)
        return client_fail(f, SP_PROTOCOL, "an event of the command cannot be read");
    if (w->is_broken)
        return client_fail(f, SP_TRANSPORT_LOST, "the connection to the box broke");
    if (r == SP_OK)
        return client_fail(f, SP_IO, "the command's output ended before the command");
    return r;
}

static int follow_again(struct following *w, struct sp_failure *f)
{
    char target[192];
    struct sp_box_call call = {.method = "GET", .target = target};

    (void) snprintf(target, sizeof(target),
                    "/jobs/%s/output?stream=both&follow=1&offset=%llu&stderr_offset=%llu",
                    w->ret->job, (unsigned long long) w->offset[STDOUT],
                    (unsigned long long) w->offset[STDERR]);
    return follow_once(w, &call, f);
}

static bool is_passing(int code)
{
    return code == SP_IO || code == SP_CONNECT_FAILED || code == SP_STARTING ||
           code == SP_TRANSPORT_LOST || code == SP_TIMEOUT || code == SP_TOO_MANY_CALLS ||
           code == SP_TOO_MANY_CONNECTIONS || code == SP_QUEUE_FULL;
}

/* Whether the command may run, or may have run, though its start was not seen. */
static bool may_have_started(int code)
{
    return code == SP_IO || code == SP_TRANSPORT_LOST || code == SP_TIMEOUT ||
           code == SP_SANDBOX_LOST || code == SP_PROTOCOL;
}

static int keep_following(struct following *w, int r, struct sp_failure *f)
{
    while (r != SP_OK && !str_is_empty(w->ret->job) && is_passing(r) && w->tries < TRIES_MAX &&
           !w->is_late) {
        if (w->tries > 0) /* a pause that a signal may shorten */
            (void) poll(NULL, 0, MIN_OF((int) PAUSE_MAX_MS, PAUSE_MIN_MS << MIN_OF(w->tries, 6U)));
        w->tries++;
        r = follow_again(w, f);
    }
    return r;
}

/* --- the whole --- */

static void begin(struct following *w, struct sp_box *b, const struct sp_exec *e,
                  struct sp_exec_result *ret)
{
    size_t max = e->max_output > 0 ? e->max_output : OUTPUT_DEFAULT;

    memset(w, 0, sizeof(*w));
    memset(ret, 0, sizeof(*ret));
    ret->exit_code = -1;
    w->give_up_ms = UINT64_MAX;
    w->bonus_ms = READ_MS;
    w->box = b;
    w->exec = e;
    w->ret = ret;
    buf_init(&w->line, LINE_MAX_BYTES);
    buf_init(&w->data, LINE_MAX_BYTES);
    for (unsigned i = 0; i < STREAM_COUNT; i++)
        exec_kept_init(&w->kept[i], max);
}

/* A callback wanted no more: the command is ended, and its outcome is that of the job. */
static int stop(struct following *w, struct sp_failure *f)
{
    struct json_doc *doc;
    int r = sp_job_kill(w->box, w->ret->job, f);

    if (r != SP_OK)
        return r;
    doc = json_parse(sp_box_answer(w->box), sp_box_answer_len(w->box), CLIENT_BODY_MAX, NULL);
    take_end(w, json_root(doc));
    (void) json_doc_free(doc);
    return w->has_end ? SP_OK : client_fail(f, SP_PROTOCOL, "the answer is not about a job");
}

static int take_output(struct following *w, struct sp_failure *f)
{
    struct sp_exec_result *ret = w->ret;

    ret->out = exec_kept_take(&w->kept[STDOUT], &ret->out_len);
    ret->err = exec_kept_take(&w->kept[STDERR], &ret->err_len);
    ret->out_bytes = MAX_OF(ret->out_bytes, w->offset[STDOUT]);
    ret->err_bytes = MAX_OF(ret->err_bytes, w->offset[STDERR]);
    ret->is_truncated = ret->out_bytes > ret->out_len || ret->err_bytes > ret->err_len;
    if (ret->out != NULL && ret->err != NULL)
        return SP_OK;
    sp_exec_result_fini(ret);
    return client_fail(f, SP_NO_MEMORY, "no memory for the command's output");
}

/* `r` is how following ended. A command that may run, or may have run, has an outcome whatever happened. */
static int finish(struct following *w, int r, struct sp_failure *f)
{
    bool is_known = !str_is_empty(w->ret->job);

    if (r == SP_OK && w->is_stopped && !w->has_end)
        r = is_known ? stop(w, f) : client_fail(f, SP_CANCELLED, "stopped");
    if (r != SP_OK && (is_known || may_have_started(r))) {
        /* A box that is not ours any more, or not known, is lost to us. */
        w->ret->outcome =
            r == SP_SANDBOX_LOST || (is_known && (r == SP_NOT_FOUND || r == SP_NOT_LEASED))
                ? SP_OUTCOME_SANDBOX_LOST
                : SP_OUTCOME_TRANSPORT_LOST;
        r = SP_OK;
    }
    if (w->has_end && w->ret->outcome == SP_OUTCOME_SANDBOX_LOST)
        (void) client_fail(f, SP_SANDBOX_LOST, "%s", sp_error_info(SP_SANDBOX_LOST)->text);
    if (r == SP_OK)
        r = take_output(w, f);
    for (unsigned i = 0; i < STREAM_COUNT; i++)
        exec_kept_fini(&w->kept[i]);
    buf_fini(&w->line);
    buf_fini(&w->data);
    return r;
}

int sp_exec(struct sp_box *b, const struct sp_exec *e, struct sp_exec_result *ret,
            struct sp_failure *failure)
{
    struct sp_box_call call = {.method = "POST", .target = "/exec"};
    uint64_t timeout_ms = e->timeout_ms > 0 ? e->timeout_ms : TIMEOUT_MS;
    struct following w;
    struct buf body;
    int r;

    begin(&w, b, e, ret);
    if (timeout_ms < SP_NO_TIMEOUT / 4)
        w.give_up_ms = wire_now_ms() + timeout_ms + b->grace_ms;
    buf_init(&body, EXEC_REQUEST_MAX);
    r = exec_encode(e, false, &body, failure);
    if (r == SP_OK) {
        call.body = buf_str(&body);
        call.len = body.len;
        r = follow_once(&w, &call, failure);
    }
    buf_fini(&body);
    return finish(&w, keep_following(&w, r, failure), failure);
}

int sp_job_follow(struct sp_box *b, const char *job, const struct sp_exec *e,
                  struct sp_exec_result *ret, struct sp_failure *failure)
{
    static const struct sp_exec plain;
    struct following w;
    int r;

    begin(&w, b, e != NULL ? e : &plain, ret);
    if (!exec_is_job(job))
        return finish(&w, client_fail(failure, SP_NOT_FOUND, "that is not a job's number"),
                      failure);
    str_copy_cut(ret->job, sizeof(ret->job), job);
    r = follow_again(&w, failure);
    if (r == SP_NOT_FOUND) /* no such job, or no such box: nothing was lost that was there */
        ret->job[0] = '\0';
    return finish(&w, keep_following(&w, r, failure), failure);
}
