/* command.c - from the body of exec and jobs to a request for the box's bash. Variables go in a field of that request, never
 * into the text of a command. */
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/str.h"
#include "box/aio/run.h"

enum {
    TEXT_MAX = 120 * 1000, /* of a command: a program's argument has at most 128 KiB */
    ENV_MAX = 256,
    ARGS_MAX = 256,
};
#define SECONDS_MAX (7.0 * 24 * 3600)

static bool refuse(struct aio_call *c, const char *what)
{
    aio_fail(c, SP_UNSUPPORTED,
             "this sandbox has no agent of sandpool, and its API cannot do that: %s", what);
    return false;
}

static bool fail(struct aio_call *c, const char *message)
{
    aio_fail(c, SP_INVALID_FIELD, "%s", message);
    return false;
}

static bool is_given(const struct json *root, const char *key)
{
    const struct json *v = json_get(root, key);

    return v != NULL && !json_is_null(v) && (!json_is_bool(v) || json_bool(v));
}

/* --- the text --- */

static bool put_words(struct aio_call *c, const struct json *argv, struct buf *out)
{
    if (!json_is_arr(argv) || json_len(argv) == 0 || json_len(argv) > ARGS_MAX)
        return fail(c, "'argv' must be a list of 1 to 256 strings");
    for (size_t i = 0; i < json_len(argv); i++) {
        const char *word = json_str(json_at(argv, i));

        if (word == NULL)
            return fail(c, "'argv' must be a list of 1 to 256 strings");
        if (i > 0)
            buf_putc(out, ' ');
        aio_quote(out, word);
    }
    return true;
}

static bool put_program(struct aio_call *c, const struct json *root, bool has_input,
                        struct buf *out)
{
    const struct json *argv = is_given(root, "argv") ? json_get(root, "argv") : NULL;
    const char *command = json_str(json_get(root, "command"));

    if ((argv == NULL) == (command == NULL))
        return fail(c, "either 'argv' or 'command' is required");
    if (argv != NULL)
        return put_words(c, argv, out);
    if (has_input) { /* behind a pipe */
        buf_puts(out, "eval ");
        aio_quote(out, command);
    } else {
        buf_puts(out, command);
    }
    return true;
}

/* Its input is behind it in the text, or nothing: the box would leave it a pipe that never ends. */
static bool put_text(struct aio_call *c, const struct json *root, struct buf *out)
{
    const char *text = json_str(json_get(root, "stdin"));
    const char *encoded = json_str(json_get(root, "stdin_base64"));
    bool is_good;
    struct buf bytes;

    if (is_given(root, "stdin") && text == NULL)
        return refuse(c, "input that is sent later (give all of it to exec, in 'stdin')");
    if (text != NULL && encoded != NULL)
        return fail(c, "either 'stdin' or 'stdin_base64' can be given");
    if (text == NULL && encoded == NULL) {
        buf_puts(out, AIO_COMMAND_HEAD);
        is_good = put_program(c, root, false, out);
    } else {
        buf_init(&bytes, 2 * AIO_BODY_MAX);
        if (text != NULL)
            buf_puts(&bytes, text);
        if (encoded != NULL && !base64_decode(encoded, strlen(encoded), &bytes)) {
            buf_fini(&bytes);
            return fail(c, "'stdin_base64' is not valid base64");
        }
        buf_puts(out, "base64 -d <<'SANDPOOL_INPUT' | ");
        is_good = put_program(c, root, true, out);
        buf_putc(out, '\n');
        base64_encode(buf_str(&bytes), bytes.len, out);
        buf_puts(out, "\nSANDPOOL_INPUT\n");
        buf_fini(&bytes);
    }
    if (is_good && (buf_failed(out) || out->len > TEXT_MAX)) {
        aio_fail(c, SP_BODY_TOO_LARGE,
                 "command and input together are longer than %d bytes, the limit of a sandbox "
                 "without an agent of sandpool: put the input into a file",
                 (int) TEXT_MAX);
        return false;
    }
    return is_good;
}

/* --- the rest --- */

static bool put_env(struct aio_call *c, const struct json *root, struct json_out *o)
{
    const struct json *env = json_get(root, "env");
    const struct json *value;
    const char *name;
    size_t i;

    if (env == NULL || json_is_null(env))
        return true;
    if (!json_is_obj(env) || json_len(env) > ENV_MAX)
        return fail(c, "'env' must be an object of at most 256 strings");
    json_begin_obj(o, "env");
    for (i = 0; json_member(env, i, &name, &value); i++) {
        if (!str_is_name(name, 256, "_") || (*name >= '0' && *name <= '9') ||
            json_str(value) == NULL)
            return fail(c, "'env' must be an object of names and strings");
        json_put_str(o, name, json_str(value));
    }
    json_end(o);
    return true;
}

static bool read_seconds(struct aio_call *c, const struct json *root, uint64_t *ret_ns)
{
    const struct json *v = json_get(root, "timeout_s");

    if (v == NULL || json_is_null(v))
        return true;
    if (!json_is_num(v) || !(json_num(v) >= 0 && json_num(v) <= SECONDS_MAX))
        return fail(c, "'timeout_s' must be a number of seconds, at most 604800");
    *ret_ns = (uint64_t) (json_num(v) * (double) NS_PER_S);
    return true;
}

/* False when something is asked for that this API has not. */
static bool check(struct aio_call *c, const struct json *root, const char *const *known)
{
    const char *cwd = json_str(json_get(root, "cwd"));
    struct err err;

    if (json_only_fields(root, known, &err) != SP_OK)
        return fail(c, err.msg);
    if (is_given(root, "user"))
        return refuse(c, "'user': commands run as the user of its server");
    if (is_given(root, "pty"))
        return refuse(c, "a terminal");
    if (is_given(root, "cwd") && (cwd == NULL || cwd[0] != '/'))
        return refuse(c, "a 'cwd' that is not an absolute path");
    return true;
}

static void drop(struct json_out *o)
{
    struct buf text;

    while (o->depth > 0)
        json_end(o);
    buf_init(&text, 8 * AIO_BODY_MAX);
    json_out_finish(o, &text);
    buf_fini(&text);
}

static void put_rest(struct json_out *o, const struct aio_run *r, const struct json *root,
                     const struct aio_command_form *form)
{
    const char *cwd = json_str(json_get(root, "cwd"));

    if (cwd != NULL)
        json_put_str(o, "exec_dir", cwd);
    if (r->timeout_ns > 0)
        json_put_num(o, "hard_timeout", (double) r->timeout_ns / (double) NS_PER_S);
    json_put_bool(o, "async_mode", form->wait_s == 0);
    if (form->wait_s == 0)
        return;
    json_put_u64(o, "timeout", form->wait_s);
    json_put_u64(o, "max_output_length", form->max_output);
}

bool aio_command_read(struct aio_call *c, const struct aio_command_form *form)
{
    const struct json *root = json_root(c->doc);
    struct aio_run *r = c->run;
    struct json_out o;
    struct buf text;
    bool is_good = check(c, root, form->known) && read_seconds(c, root, &r->timeout_ns);

    if (!is_good)
        return false;
    buf_init(&text, 4 * AIO_BODY_MAX);
    aio_say_begin(&o);
    json_put_str(&o, "session_id", r->session);
    is_good = put_text(c, root, &text) && put_env(c, root, &o);
    if (is_good) {
        json_put_str(&o, "command", buf_str(&text));
        put_rest(&o, r, root, form);
        json_end(&o);
        json_out_finish(&o, &r->request);
    } else {
        drop(&o); /* the call is gone */
    }
    buf_fini(&text);
    return is_good;
}
