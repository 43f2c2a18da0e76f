/* run.c - the session of a command: its start, its state, signals, its end. */
#include "box/aio/run.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rand.h"
#include "base/str.h"

#define CALL_NS (30 * NS_PER_S)
#define CLEAN_NS (5 * NS_PER_S)
static const char prefix[] = "sandpool-";

/* --- which one --- */

static void set_job(struct aio_run *r, uint64_t job)
{
    r->job = job;
    (void) snprintf(r->session, sizeof(r->session), "%s%llu", prefix, (unsigned long long) job);
}

static struct aio_run *make(struct aio_call *c)
{
    struct aio_run *r = xcalloc(1, sizeof(*r));

    buf_init(&r->request, 8 * AIO_BODY_MAX);
    for (unsigned i = 0; i < AIO_STREAMS; i++)
        buf_init(&r->pending[i], AIO_ANSWER_MAX);
    c->run = r;
    c->clean = aio_run_clean;
    return r;
}

struct aio_run *aio_run_new(struct aio_call *c)
{
    struct aio_run *r = make(c);
    uint32_t number;

    /* Among the sessions of one box; short, because people type it. */
    rand_secure(&number, sizeof(number));
    set_job(r, 1 + (uint64_t) number);
    return r;
}

struct aio_run *aio_run_of_path(struct aio_call *c)
{
    struct aio_run *r = make(c);
    uint64_t job;

    if (str_parse_u64(http_path_param(c->g.ex, "job"), 1, UINT64_MAX, &job)) {
        set_job(r, job);
        return r;
    }
    aio_fail(c, SP_NOT_FOUND, "no such job");
    return NULL;
}

bool aio_run_parse_session(const char *name, uint64_t *ret_job)
{
    return strncmp(name, prefix, strlen(prefix)) == 0 &&
           str_parse_u64(name + strlen(prefix), 1, UINT64_MAX, ret_job);
}

void aio_run_free(struct aio_call *c)
{
    struct aio_run *r = c->run;

    rt_timer_cancel(&c->g.p->config.loop->rt, &r->pause);
    buf_fini(&r->request);
    for (unsigned i = 0; i < AIO_STREAMS; i++) {
        aio_text_fini(&r->texts[i]);
        buf_fini(&r->pending[i]);
    }
    free(r);
    c->run = NULL;
}

/* --- its start --- */

static void on_started(struct aio_call *c, const struct aio_answer *a)
{
    const char *id = json_str(json_get(a->data, "command_id"));

    if (!a->is_ok) {
        c->run->want_close = true;
        aio_fail_answer(c, "the command was not started", a);
        return;
    }
    if (id != NULL && !str_copy(c->run->command_id, sizeof(c->run->command_id), id))
        c->run->command_id[0] = '\0'; /* then it is the last of its session */
    c->run->on_started(c, a);
}

static void on_session(struct aio_call *c, const struct aio_answer *a)
{
    const char *name = json_str(json_get(a->data, "session_id"));
    struct aio_run *r = c->run;

    if (!a->is_ok) {
        aio_fail_answer(c, "no session for a command", a);
        return;
    }
    if (name == NULL || strcmp(name, r->session) != 0) {
        aio_fail(c, SP_UNSUPPORTED, "the API of this sandbox does not let us name a session");
        return;
    }
    r->started_ns = rt_now(&c->g.p->config.loop->rt);
    r->want_close = false;
    buf_fini(&c->said);
    c->said = r->request;
    buf_init(&r->request, 0);
    aio_ask(c, "POST", "/v1/bash/exec", CALL_NS + r->wait_s * NS_PER_S, false, on_started);
}

void aio_run_start(struct aio_call *c, unsigned wait_s,
                   void (*on_run)(struct aio_call *c, const struct aio_answer *a))
{
    struct aio_run *r = c->run;
    struct json_out o;

    if (buf_failed(&r->request)) {
        aio_fail(c, SP_BODY_TOO_LARGE, "the command is too long");
        return;
    }
    r->wait_s = wait_s;
    r->on_started = on_run;
    r->want_close = true; /* until it may run */
    aio_say_begin(&o);
    json_put_str(&o, "session_id", r->session);
    aio_say(c, &o);
    aio_ask(c, "POST", "/v1/bash/sessions/create", CALL_NS, false, on_session);
}

/* --- its state --- */

void aio_run_show_command(const char *text, char ret[AIO_SHOWN_MAX])
{
    size_t head = strlen(AIO_COMMAND_HEAD);

    str_copy_cut(ret, AIO_SHOWN_MAX,
                 strncmp(text, AIO_COMMAND_HEAD, head) == 0 ? text + head : text);
}

static bool take_exit(struct aio_call *c, const struct json *code)
{
    struct aio_run *r = c->run;
    double number = code != NULL && json_is_num(code) ? json_num(code) : -1000;

    if (number < -64 || number > 255) {
        aio_fail(c, SP_BACKEND_FAILED, "the command has ended, and the sandbox does not say how");
        return false;
    }
    r->outcome = number < 0 ? AIO_SIGNALLED : AIO_EXITED;
    r->exit_code = number < 0 ? 0 : (int) number;
    r->signum = number < 0 ? -(int) number : 0;
    return true;
}

/* Our own agent says more of a command than that API has. */
static void take_more(struct aio_run *r, const char *outcome)
{
    bool is_oom = strcmp(outcome, "oom") == 0;

    if (r->outcome != AIO_EXITED || (!is_oom && strcmp(outcome, "signalled") != 0))
        return;
    r->outcome = is_oom ? AIO_OOM : AIO_SIGNALLED;
    r->signum = r->exit_code > 128 && r->exit_code <= 128 + 64 ? r->exit_code - 128 : SIGKILL;
}

bool aio_run_take_state(struct aio_call *c, const struct json *command)
{
    struct aio_run *r = c->run;
    const char *status = json_str(json_get(command, "status"));
    const char *outcome = json_str(json_get(command, "outcome"));
    const char *text = json_str(json_get(command, "command"));

    if (text != NULL)
        aio_run_show_command(text, r->command);
    if (status == NULL) {
        aio_fail(c, SP_BACKEND_FAILED, "the sandbox does not say how its command is");
        return false;
    }
    if (strcmp(status, "running") == 0 || strcmp(status, "pending") == 0) {
        r->outcome = AIO_RUNNING;
    } else if (strcmp(status, "completed") == 0) {
        if (!take_exit(c, json_get(command, "exit_code")))
            return false;
        if (outcome != NULL)
            take_more(r, outcome);
    } else if (strcmp(status, "timed_out") == 0) {
        r->outcome = AIO_TIMED_OUT;
    } else if (strcmp(status, "killed") == 0) {
        r->outcome = AIO_KILLED;
    } else {
        aio_fail(c, SP_BACKEND_FAILED,
                 "the sandbox says '%.40s' of its command, which we do not know", status);
        return false;
    }
    return true;
}

void aio_run_put(struct json_out *o, const struct aio_call *c)
{
    static const char *const names[] = {"running",   "exited", "signalled",
                                        "timed_out", "killed", "oom"};
    const struct aio_run *r = c->run;
    uint64_t now_ns = rt_now(&c->g.p->config.loop->rt);
    const char *signal = r->signum != 0 ? sigabbrev_np(r->signum) : NULL;
    char text[32];

    static_assert(ARRAY_LEN(names) == AIO_OUTCOME_COUNT, "outcomes");
    (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) r->job);
    json_put_str(o, "job", text);
    json_put_str(o, "outcome", names[r->outcome]);
    if (r->outcome == AIO_EXITED)
        json_put_i64(o, "exit_code", r->exit_code);
    else
        json_put_null(o, "exit_code");
    (void) snprintf(text, sizeof(text), "SIG%s", signal != NULL ? signal : "");
    json_put_str(o, "signal", signal != NULL ? text : NULL);
    if (r->started_ns > 0)
        json_put_u64(o, "duration_ms", (now_ns - r->started_ns) / NS_PER_MS);
}

/* What is not known is not there. */
void aio_run_put_job(struct json_out *o, const struct aio_call *c)
{
    const struct aio_run *r = c->run;

    aio_run_put(o, c);
    json_put_u64(o, "pid", 0); /* not known */
    if (!str_is_empty(r->command))
        json_put_str(o, "command", r->command);
    json_put_null(o, "tag");
    json_put_bool(o, "pty", false);
    if (r->is_blind)
        return;
    json_put_u64(o, "stdout_bytes", r->at[AIO_STDOUT]);
    json_put_u64(o, "stderr_bytes", r->at[AIO_STDERR]);
}

void aio_run_reply(struct aio_call *c)
{
    struct json_out o;

    aio_say_begin(&o);
    aio_run_put_job(&o, c);
    json_end(&o);
    aio_reply(c, &o);
}

/* --- its end --- */

void aio_run_signal(struct aio_call *c, const char *name,
                    void (*on_answer)(struct aio_call *c, const struct aio_answer *a))
{
    struct json_out o;

    aio_say_begin(&o);
    json_put_str(&o, "session_id", c->run->session);
    json_put_str(&o, "signal", name);
    aio_say(c, &o);
    aio_ask(c, "POST", "/v1/bash/kill", c->is_cleaning ? CLEAN_NS : CALL_NS, false, on_answer);
}

bool aio_run_clean(struct aio_call *c)
{
    struct aio_run *r = c->run;
    char path[AIO_NAME_MAX + 48];
    struct json_out o;

    rt_timer_cancel(&c->g.p->config.loop->rt, &r->pause);
    if (r->want_kill && r->outcome == AIO_RUNNING && r->started_ns > 0) {
        r->want_kill = false;
        r->want_close = true;
        aio_run_signal(c, "SIGKILL", NULL);
        return true;
    }
    if (!r->want_close)
        return false;
    r->want_close = false;
    (void) snprintf(path, sizeof(path), "/v1/bash/sessions/%s/close", r->session);
    aio_say_begin(&o);
    aio_say(c, &o);
    aio_ask(c, "POST", path, CLEAN_NS, true, NULL);
    return true;
}
