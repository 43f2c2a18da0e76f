/* exec.c - runs a command and answers with its end, or with its output as it comes. A short one is answered by the box in one
 * piece; of a longer one the output is asked for. */
#include <string.h>

#include "base/base64.h"
#include "box/aio/run.h"

enum { OUTPUT_DEFAULT = 1024 * 1024, OUTPUT_MAX = 8 * 1024 * 1024, WAIT_S = 20 };
#define TIMEOUT_DEFAULT_NS (60 * NS_PER_S)

/* --- an answer in one piece --- */

static void put_text(struct json_out *o, const char *key, const struct aio_run *r, unsigned stream)
{
    const struct buf *text = &r->texts[stream].bytes;
    struct buf encoded;

    if (!r->is_base64) {
        json_put_str(o, key, buf_str(text));
        return;
    }
    buf_init(&encoded, 2 * text->len + 16);
    base64_encode(buf_str(text), text->len, &encoded);
    json_put_str(o, key, buf_str(&encoded));
    buf_fini(&encoded);
}

static void reply(struct aio_call *c)
{
    struct aio_run *r = c->run;
    struct json_out o;

    for (unsigned i = 0; i < AIO_STREAMS; i++) {
        aio_text_finish(&r->texts[i]);
        r->is_truncated = r->is_truncated || r->texts[i].dropped > 0;
    }
    r->want_close = true;
    aio_say_begin(&o);
    aio_run_put(&o, c);
    put_text(&o, "stdout", r, AIO_STDOUT);
    put_text(&o, "stderr", r, AIO_STDERR);
    json_put_bool(&o, "truncated", r->is_truncated);
    json_put_null(&o, "spill");
    json_end(&o);
    aio_reply(c, &o);
}

/* Less text than there was output: the box has left the middle out. */
static void take_whole(struct aio_call *c, const struct json *data)
{
    static const char *const names[] = {"stdout", "stderr"};
    static const char *const offsets[] = {"offset", "stderr_offset"};
    struct aio_run *r = c->run;

    for (unsigned i = 0; i < AIO_STREAMS; i++) {
        const char *text = json_str(json_get(data, names[i]));
        uint64_t size;

        if (text == NULL)
            text = "";
        aio_text_add(&r->texts[i], text, strlen(text));
        if (json_u64(json_get(data, offsets[i]), &size) && size > strlen(text))
            r->is_truncated = true;
    }
}

static void on_waited(struct aio_call *c, const struct aio_answer *a)
{
    if (!aio_run_take_state(c, a->data))
        return;
    if (c->run->outcome == AIO_RUNNING) {
        aio_follow(c, reply);
        return;
    }
    take_whole(c, a->data);
    reply(c);
}

/* The answer to the start was too long: then its end is asked for without the output. */
static void on_too_big(struct aio_call *c)
{
    c->run->is_blind = true;
    c->run->is_truncated = true;
    aio_follow(c, reply);
}

/* --- a stream --- */

static void end_stream(struct aio_call *c)
{
    c->run->want_close = true;
    aio_stream_end(c);
}

static void on_streaming(struct aio_call *c, const struct aio_answer *a)
{
    enum proxy_stream form = aio_stream_accepted(c->g.ex);

    if (!aio_run_take_state(c, a->data))
        return;
    c->run->outcome = AIO_RUNNING; /* its output is still to be read */
    c->run->want_start = true;
    aio_stream_begin(c, form != PROXY_BYTES ? form : PROXY_SSE);
    aio_follow(c, end_stream);
}

/* --- the request --- */

static bool read_options(struct aio_call *c, uint64_t *ret_max, bool *ret_stream)
{
    const struct json *root = json_root(c->doc);
    const char *encoding = NULL;
    struct err err;
    int rc = json_field_u64(root, "max_output", 0, OUTPUT_MAX, ret_max, &err);

    if (rc == SP_OK)
        rc = json_field_bool(root, "stream", ret_stream, &err);
    if (rc == SP_OK)
        rc = json_field_bool(root, "kill_on_disconnect", &c->run->want_kill, &err);
    if (rc == SP_OK)
        rc = json_field_str(root, "encoding", 16, &encoding, &err);
    if (rc == SP_OK && encoding != NULL) {
        c->run->is_base64 = strcmp(encoding, "base64") == 0;
        if (!c->run->is_base64 && strcmp(encoding, "utf-8") != 0)
            rc = err_set(&err, SP_INVALID_FIELD, "'encoding' must be utf-8 or base64");
    }
    if (rc != SP_OK)
        aio_fail(c, rc, "%s", err.msg);
    return rc == SP_OK;
}

static void on_given(struct aio_call *c)
{
    static const char *const known[] = {
        "argv",         "command",   "cwd",        "env",      "user",   "stdin",
        "stdin_base64", "timeout_s", "max_output", "encoding", "stream", "kill_on_disconnect",
        "tag",          NULL};
    struct aio_command_form form = {.known = known, .wait_s = WAIT_S};
    struct aio_run *r = aio_run_new(c);
    uint64_t max_output = OUTPUT_DEFAULT;
    bool want_stream = false;

    r->timeout_ns = TIMEOUT_DEFAULT_NS;
    r->want_follow = true;
    if (!read_options(c, &max_output, &want_stream))
        return;
    want_stream = want_stream || aio_stream_accepted(c->g.ex) != PROXY_BYTES;
    max_output = MIN_OF(max_output, (uint64_t) OUTPUT_DEFAULT);
    for (unsigned i = 0; i < AIO_STREAMS; i++) {
        r->wants[i] = true;
        aio_text_init(&r->texts[i], max_output);
    }
    form.wait_s = want_stream ? 0 : WAIT_S;
    form.max_output = MAX_OF(max_output, (uint64_t) 1); /* 0 would be all of it */
    if (!aio_command_read(c, &form))
        return;
    c->on_too_big = want_stream ? NULL : on_too_big;
    aio_run_start(c, form.wait_s, want_stream ? on_streaming : on_waited);
}

void aio_exec(struct aio_call *c)
{
    aio_read_given(c, on_given);
}
