/* jobs.c - /jobs: sessions that were made for a command of ours. The box keeps them, and decides for how long. */
#include <string.h>

#include "base/str.h"
#include "box/aio/run.h"

#define CALL_NS (30 * NS_PER_S)
#define TERM_NS (2 * NS_PER_S)
#define KILL_NS (10 * NS_PER_S)
enum { WAIT_S = 60, WAIT_S_MAX = 3600 };

static uint64_t after(const struct aio_call *c, uint64_t ns)
{
    return rt_after(rt_now(&c->g.p->config.loop->rt), ns);
}

/* --- start, list --- */

static void on_started(struct aio_call *c, const struct aio_answer *a)
{
    if (aio_run_take_state(c, a->data))
        aio_run_reply(c);
}

static void on_given(struct aio_call *c)
{
    static const char *const known[] = {"argv", "command", "cwd",       "env",  "stdin",
                                        "pty",  "tag",     "timeout_s", "user", NULL};
    struct aio_command_form form = {.known = known};

    (void) aio_run_new(c);
    if (aio_command_read(c, &form))
        aio_run_start(c, 0, on_started);
}

void aio_job_start(struct aio_call *c)
{
    aio_read_given(c, on_given);
}

static void on_list(struct aio_call *c, const struct aio_answer *a)
{
    struct json_walk walk = {0};
    const struct json *session;
    char shown[AIO_SHOWN_MAX];
    struct json_out o;

    if (!a->is_ok) {
        aio_fail_answer(c, "the sessions of the sandbox", a);
        return;
    }
    aio_say_begin(&o);
    json_begin_arr(&o, "jobs");
    while (json_is_arr(a->data) && (session = json_next(a->data, &walk)) != NULL) {
        const char *name = json_str(json_get(session, "session_id"));
        const char *command = json_str(json_get(session, "current_command"));
        uint64_t job;

        if (name == NULL || command == NULL || !aio_run_parse_session(name, &job))
            continue;
        json_begin_obj(&o, NULL);
        json_put_str(&o, "job", strchr(name, '-') + 1);
        json_put_u64(&o, "pid", 0);
        aio_run_show_command(command, shown);
        json_put_str(&o, "command", shown);
        json_put_null(&o, "tag");
        json_put_bool(&o, "pty", false);
        json_put_str(&o, "outcome", "running");
        json_put_null(&o, "exit_code");
        json_put_null(&o, "signal");
        json_end(&o);
    }
    json_end(&o);
    json_end(&o);
    aio_reply(c, &o);
}

void aio_job_list(struct aio_call *c)
{
    aio_ask(c, "GET", "/v1/bash/sessions", CALL_NS, true, on_list);
}

/* --- state --- */

void aio_job_get(struct aio_call *c)
{
    struct aio_run *r = aio_run_of_path(c);

    if (r == NULL)
        return;
    r->is_blind = true;
    aio_follow(c, aio_run_reply);
}

static void wait_given(struct aio_call *c)
{
    static const char *const known[] = {"timeout_s", NULL};
    const struct json *v = json_get(json_root(c->doc), "timeout_s");
    struct aio_run *r = c->run;
    double seconds = WAIT_S;
    struct err err;

    if (json_only_fields(json_root(c->doc), known, &err) != SP_OK) {
        aio_fail(c, err.code, "%s", err.msg);
        return;
    }
    if (v != NULL && !json_is_null(v))
        seconds = json_is_num(v) ? json_num(v) : -1;
    if (!(seconds >= 0 && seconds <= WAIT_S_MAX)) {
        aio_fail(c, SP_INVALID_FIELD, "'timeout_s' must be a number of seconds, at most %d",
                 (int) WAIT_S_MAX);
        return;
    }
    r->is_blind = true;
    r->want_follow = seconds > 0;
    r->until_ns = after(c, (uint64_t) (seconds * (double) NS_PER_S));
    aio_follow(c, aio_run_reply);
}

void aio_job_wait(struct aio_call *c)
{
    if (aio_run_of_path(c) != NULL)
        aio_read_given(c, wait_given);
}

/* --- signals --- */

static void on_signalled(struct aio_call *c, const struct aio_answer *a)
{
    if (a->status == 404)
        aio_fail(c, SP_NOT_FOUND, "no such job, or its sandbox has dropped it");
    else if (!a->is_ok)
        aio_fail_answer(c, "the signal", a);
    else
        aio_follow(c, aio_run_reply);
}

static void send_signal(struct aio_call *c)
{
    const char *name = json_str(json_get(json_root(c->doc), "signal"));
    char full[16];

    if (c->run->outcome != AIO_RUNNING) {
        aio_fail(c, SP_JOB_ENDED, "the job has ended");
        return;
    }
    if (name == NULL)
        name = "TERM";
    str_copy_cut(full, sizeof(full), "SIG");
    str_copy_cut(full + 3, sizeof(full) - 3, strncmp(name, "SIG", 3) == 0 ? name + 3 : name);
    if (strcmp(full, "SIGTERM") != 0 && strcmp(full, "SIGKILL") != 0 && strcmp(full, "SIGINT") != 0)
        aio_fail(
            c, SP_UNSUPPORTED,
            "this sandbox has no agent of sandpool, and its API sends TERM, KILL and INT only");
    else
        aio_run_signal(c, full, on_signalled);
}

static void signal_given(struct aio_call *c)
{
    static const char *const known[] = {"signal", NULL};
    struct err err;

    if (json_only_fields(json_root(c->doc), known, &err) != SP_OK) {
        aio_fail(c, err.code, "%s", err.msg);
        return;
    }
    c->run->is_blind = true;
    aio_follow(c, send_signal);
}

void aio_job_signal(struct aio_call *c)
{
    if (aio_run_of_path(c) != NULL)
        aio_read_given(c, signal_given);
}

/* --- its end: TERM, then KILL --- */

static void end_step(struct aio_call *c);

static void on_end_signal(struct aio_call *c, const struct aio_answer *a)
{
    struct aio_run *r = c->run;

    (void) a; /* it may have ended in this moment: its state says so */
    r->want_follow = true;
    r->until_ns = after(c, r->is_killed ? KILL_NS : TERM_NS);
    aio_follow(c, end_step);
}

static void end_step(struct aio_call *c)
{
    struct aio_run *r = c->run;

    if (r->outcome != AIO_RUNNING || r->is_killed) {
        aio_run_reply(c);
        return;
    }
    r->is_killed = r->is_asked_to_end;
    r->is_asked_to_end = true;
    aio_run_signal(c, r->is_killed ? "SIGKILL" : "SIGTERM", on_end_signal);
}

void aio_job_end(struct aio_call *c)
{
    struct aio_run *r = aio_run_of_path(c);

    if (r == NULL)
        return;
    r->is_blind = true;
    aio_follow(c, end_step);
}

/* --- output --- */

static void read_stream(struct http_exchange *ex, char ret[16])
{
    if (!http_query(ex, "stream", ret, 16))
        str_copy_cut(ret, 16, "stdout");
}

static void begin_output(struct aio_call *c)
{
    char stream[16];
    enum proxy_stream form = aio_stream_accepted(c->g.ex);

    read_stream(c->g.ex, stream);
    if (form == PROXY_BYTES && strcmp(stream, "both") == 0)
        form = PROXY_SSE;
    aio_stream_begin(c, form);
}

static bool read_offset(struct http_exchange *ex, const char *name, uint64_t *ret)
{
    char text[24];

    return !http_query(ex, name, text, sizeof(text)) || str_parse_u64(text, 0, INT64_MAX, ret);
}

void aio_job_output(struct aio_call *c)
{
    struct http_exchange *ex = c->g.ex;
    struct aio_run *r = aio_run_of_path(c); /* NULL: the call is freed */
    char stream[16];
    char follow[8];

    if (r == NULL)
        return;
    read_stream(ex, stream);
    r->wants[AIO_STDOUT] = strcmp(stream, "stdout") == 0 || strcmp(stream, "both") == 0;
    r->wants[AIO_STDERR] = strcmp(stream, "stderr") == 0 || strcmp(stream, "both") == 0;
    r->want_follow = http_query(ex, "follow", follow, sizeof(follow)) && strcmp(follow, "0") != 0;
    if (!(r->wants[AIO_STDOUT] || r->wants[AIO_STDERR]) ||
        !read_offset(ex, "offset", &r->from[r->wants[AIO_STDOUT] ? AIO_STDOUT : AIO_STDERR]) ||
        !read_offset(ex, "stderr_offset", &r->from[AIO_STDERR])) {
        aio_fail(c, SP_INVALID_FIELD, "'stream' is stdout, stderr or both; offsets are numbers");
        return;
    }
    r->on_begin = begin_output;
    aio_follow(c, aio_stream_end);
}
