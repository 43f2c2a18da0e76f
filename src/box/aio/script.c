/* script.c - what the AIO API has no call for, or only newer images have, is done by a short script of the box's shell. A
 * script writes base64, so that names and contents of any bytes come through, and its errors are those of coreutils in
 * English: "rm: cannot remove '/x': Permission denied". */
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/str.h"
#include "box/aio/call.h"
#include "box/aio/file.h"

#define SCRIPT_S 20
#define SCRIPT_NS ((SCRIPT_S + 10) * NS_PER_S)
#define CLEAN_NS (5 * NS_PER_S)

void aio_quote(struct buf *out, const char *word)
{
    buf_putc(out, '\'');
    for (; *word != '\0'; word++) {
        if (*word == '\'')
            buf_puts(out, "'\\''");
        else
            buf_putc(out, *word);
    }
    buf_putc(out, '\'');
}

/* The last line that is not empty, without the program's name. */
static void last_line(const char *text, char *dst, size_t cap)
{
    size_t end = strlen(text);
    size_t start;

    while (end > 0 && (text[end - 1] == '\n' || text[end - 1] == '\r'))
        end--;
    for (start = end; start > 0 && text[start - 1] != '\n'; start--)
        continue;
    if (!str_copy_n(dst, cap, text + start, end - start))
        str_copy_cut(dst, cap, "a long error"); /* nobody needs all of it */
}

static void note_session(struct aio_call *c, const struct json *data)
{
    const char *id = json_str(json_get(data, "session_id"));

    /* What has other characters would need quoting in a path, and is a session nobody can close. */
    if (id != NULL && c->session_count < AIO_SCRIPTS_MAX &&
        str_is_name(id, AIO_NAME_MAX - 1, "-_."))
        str_copy_cut(c->sessions[c->session_count++], AIO_NAME_MAX, id);
}

static void take_output(struct aio_call *c, const char *text)
{
    struct buf out;

    buf_init(&out, AIO_ANSWER_MAX);
    if (base64_decode(text, strlen(text), &out) && !buf_failed(&out))
        c->on_script(c, &out);
    else
        aio_fail(c, SP_BACKEND_FAILED, "the shell of the sandbox wrote something unexpected");
    buf_fini(&out);
}

static void on_answer(struct aio_call *c, const struct aio_answer *a)
{
    const char *status = json_str(json_get(a->data, "status"));
    const char *text = json_str(json_get(a->data, "stdout"));
    const char *errors = json_str(json_get(a->data, "stderr"));
    const struct json *code = json_get(a->data, "exit_code");
    char line[400];

    if (!a->is_ok) {
        aio_fail_answer(c, "the shell of the sandbox", a);
        return;
    }
    note_session(c, a->data);
    last_line(errors != NULL ? errors : "", line, sizeof(line));
    if (status != NULL && strcmp(status, "timed_out") == 0)
        aio_fail(c, SP_TIMEOUT, "this took the sandbox longer than %d s", SCRIPT_S);
    else if (status == NULL || strcmp(status, "completed") != 0 || code == NULL ||
             !json_is_num(code))
        aio_fail(c, SP_BACKEND_FAILED, "the sandbox does not say how its shell ended");
    else if (json_num(code) != 0)
        aio_file_fail(c, line);
    else
        take_output(c, text != NULL ? text : "");
}

void aio_script(struct aio_call *c, void (*on_script)(struct aio_call *c, const struct buf *out))
{
    struct json_out o;

    c->on_script = on_script;
    c->clean = aio_script_clean;
    if (buf_failed(&c->said)) {
        aio_fail(c, SP_INVALID_FIELD, "the path is too long");
        return;
    }
    aio_say_begin(&o);
    json_put_str(&o, "command", buf_str(&c->said));
    json_put_u64(&o, "hard_timeout", SCRIPT_S);
    json_put_u64(&o, "max_output_length", 0); /* all of it */
    aio_say(c, &o);
    aio_ask(c, "POST", "/v1/bash/exec", SCRIPT_NS, false, on_answer);
}

bool aio_script_clean(struct aio_call *c)
{
    char path[AIO_NAME_MAX + 48];
    struct json_out o;

    if (c->session_count == 0)
        return false;
    (void) snprintf(path, sizeof(path), "/v1/bash/sessions/%s/close",
                    c->sessions[--c->session_count]);
    aio_say_begin(&o);
    aio_say(c, &o);
    aio_ask(c, "POST", path, CLEAN_NS, true, NULL);
    return true;
}
