/* exec_request.c - what is asked of the agent about commands: to start one, and the short calls about a job. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/str.h"
#include "client/exec_internal.h"

enum {
    INPUT_PIECE = 256 * 1024,
    PAUSE_MIN_MS = 5,
    PAUSE_MAX_MS = 200,
    WRITE_MS = 120 * 1000, /* without a byte being taken */
};

/* --- starting --- */

static bool is_utf8(const char *s)
{
    return s == NULL || str_is_utf8(s, strlen(s));
}

static bool is_sendable(const struct sp_exec *e)
{
    bool is_good = is_utf8(e->command) && is_utf8(e->cwd) && is_utf8(e->user) && is_utf8(e->tag);

    for (size_t i = 0; e->argv != NULL && e->argv[i] != NULL; i++)
        is_good = is_good && is_utf8(e->argv[i]);
    for (size_t i = 0; i < e->env_count; i++)
        is_good = is_good && is_utf8(e->envs[i].name) && is_utf8(e->envs[i].value);
    return is_good;
}

static void put_str(struct json_out *o, const char *key, const char *v)
{
    if (v != NULL)
        json_put_str(o, key, v);
}

static void put_command(struct json_out *o, const struct sp_exec *e)
{
    put_str(o, "command", e->command);
    if (e->argv != NULL) {
        json_begin_arr(o, "argv");
        for (size_t i = 0; e->argv[i] != NULL; i++)
            json_put_str(o, NULL, e->argv[i]);
        json_end(o);
    }
    put_str(o, "cwd", e->cwd);
    put_str(o, "user", e->user);
    put_str(o, "tag", e->tag);
    if (e->env_count > 0) {
        json_begin_obj(o, "env");
        for (size_t i = 0; i < e->env_count; i++)
            json_put_str(o, e->envs[i].name, e->envs[i].value);
        json_end(o);
    }
    if (e->timeout_ms != 0)
        json_put_num(o, "timeout_s",
                     e->timeout_ms == SP_NO_TIMEOUT ? 0.0 : (double) e->timeout_ms / 1000);
}

static void put_input(struct json_out *o, const struct sp_exec *e)
{
    struct buf text;

    buf_init(&text, EXEC_REQUEST_MAX);
    base64_encode(e->input, e->input_len, &text);
    json_put_str(o, "stdin_base64", buf_str(&text));
    buf_fini(&text);
}

int exec_encode(const struct sp_exec *e, bool is_job, struct buf *out, struct sp_failure *f)
{
    struct json_out o;

    if ((e->command == NULL) == (e->argv == NULL))
        return client_fail(f, SP_INVALID_FIELD, "either 'command' or 'argv' is required");
    if (!is_sendable(e))
        return client_fail(f, SP_INVALID_FIELD, "the command has text that is not valid UTF-8");
    if (!is_job && e->input_len > EXEC_REQUEST_MAX / 2)
        return client_fail(f, SP_TOO_BIG,
                           "the input is too large: start a job and write it, or put a file");
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    put_command(&o, e);
    if (is_job) {
        json_put_bool(&o, "stdin", e->want_input);
    } else {
        json_put_bool(&o, "stream", true);
        if (e->input != NULL)
            put_input(&o, e);
        if (e->want_kill_on_disconnect)
            json_put_bool(&o, "kill_on_disconnect", true);
    }
    json_end(&o);
    json_out_finish(&o, out);
    return buf_failed(out) ? client_fail(f, SP_TOO_BIG, "the request is too large") : SP_OK;
}

bool exec_is_job(const char *job)
{
    uint64_t number;

    return job != NULL && strlen(job) < SP_JOB_SIZE && str_parse_u64(job, 1, UINT64_MAX, &number);
}

/* --- short calls --- */

static int call(struct sp_box *b, const char *method, const char *target, const void *body,
                size_t len, struct sp_failure *f)
{
    struct sp_box_call c = {.method = method, .target = target, .body = body, .len = len};
    int r = sp_box_begin(b, &c, f);

    return r == SP_OK ? box_finish(b, f) : r;
}

static int call_job(struct sp_box *b, const char *method, const char *job, const char *what,
                    const void *body, size_t len, struct sp_failure *f)
{
    char target[96];

    if (!exec_is_job(job))
        return client_fail(f, SP_NOT_FOUND, "that is not a job's number");
    (void) snprintf(target, sizeof(target), "/jobs/%s%s", job, what);
    return call(b, method, target, body, len, f);
}

int sp_job_start(struct sp_box *b, const struct sp_exec *e, char ret_job[SP_JOB_SIZE],
                 struct sp_failure *failure)
{
    struct json_doc *doc;
    const char *job;
    struct buf body;
    int r;

    buf_init(&body, EXEC_REQUEST_MAX);
    r = exec_encode(e, true, &body, failure);
    if (r == SP_OK)
        r = call(b, "POST", "/jobs", buf_str(&body), body.len, failure);
    buf_fini(&body);
    if (r != SP_OK)
        return r;
    doc = json_parse(sp_box_answer(b), sp_box_answer_len(b), CLIENT_BODY_MAX, NULL);
    job = json_str(json_get(json_root(doc), "job"));
    if (!exec_is_job(job) || !str_copy(ret_job, SP_JOB_SIZE, job))
        r = client_fail(failure, SP_PROTOCOL, "the answer is not about a job");
    (void) json_doc_free(doc);
    return r;
}

int sp_job_signal(struct sp_box *b, const char *job, const char *signal, struct sp_failure *failure)
{
    char body[64];

    if (!str_is_name(signal, 16, "+"))
        return client_fail(failure, SP_INVALID_FIELD, "that is not the name of a signal");
    (void) snprintf(body, sizeof(body), "{\"signal\":\"%s\"}", signal);
    return call_job(b, "POST", job, "/signal", body, strlen(body), failure);
}

int sp_job_kill(struct sp_box *b, const char *job, struct sp_failure *failure)
{
    return call_job(b, "DELETE", job, "", NULL, 0, failure);
}

/* --- input --- */

/* One piece: the agent refuses it while what came before it waits to be read. */
static int write_piece(struct sp_box *b, const char *job, const void *data, size_t len, bool is_end,
                       struct sp_failure *f)
{
    uint64_t deadline_ms = wire_now_ms() + WRITE_MS;
    int pause_ms = PAUSE_MIN_MS;

    for (;;) {
        struct sp_failure why = {0};
        int r = call_job(b, "POST", job, is_end ? "/stdin?eof=1" : "/stdin", data, len, &why);

        if (r == SP_OK)
            return r;
        if ((r != SP_QUEUE_FULL && r != SP_NO_MEMORY) || wire_now_ms() >= deadline_ms) {
            if (f != NULL)
                *f = why;
            return r;
        }
        (void) poll(NULL, 0, pause_ms); /* a pause that a signal may shorten */
        pause_ms = MIN_OF(pause_ms * 2, (int) PAUSE_MAX_MS);
    }
}

int sp_job_write(struct sp_box *b, const char *job, const void *data, size_t len, bool is_end,
                 struct sp_failure *failure)
{
    const char *at = data != NULL ? data : "";
    int r = SP_OK;

    do {
        size_t n = MIN_OF(len, (size_t) INPUT_PIECE);

        len -= n;
        if (n > 0 || is_end)
            r = write_piece(b, job, at, n, is_end && len == 0, failure);
        at += n;
    } while (r == SP_OK && len > 0);
    return r;
}
