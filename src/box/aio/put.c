/* put.c - a file with the caller's bytes. They are uploaded beside it under another name and put in its place when they are
 * whole: look and make room, upload, rename. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rand.h"
#include "base/str.h"
#include "box/aio/file.h"

enum { BODY_HIGH = 128 * 1024 };
#define CLEAN_NS (5 * NS_PER_S)

/* --- the end --- */

/* What was uploaded and has no name goes, then the sessions. */
static bool clean(struct aio_call *c)
{
    struct aio_file *f = c->file;
    struct json_out o;
    struct buf text;

    c->headers[0] = "Content-Type: application/json";
    if (str_is_empty(f->place) || c->session_count == 0)
        return aio_script_clean(c);
    buf_init(&text, 16 * AIO_PATH_MAX);
    /* Twice: a server that has not read yet what it was sent may make the file after the first. */
    buf_puts(&text, "rm -f -- ");
    aio_quote(&text, f->place);
    buf_puts(&text, "; sleep 1; rm -f -- ");
    aio_quote(&text, f->place);
    f->place[0] = '\0';
    aio_say_begin(&o);
    json_put_str(&o, "session_id", c->sessions[0]);
    json_put_str(&o, "command", buf_str(&text));
    aio_say(c, &o);
    buf_fini(&text);
    aio_ask(c, "POST", "/v1/bash/exec", CLEAN_NS, false, NULL);
    return true;
}

/* --- rename --- */

static void on_named(struct aio_call *c, const struct buf *out)
{
    struct aio_file *f = c->file;
    const char *at = buf_str(out);
    struct aio_entry e;
    struct json_out o;

    f->place[0] = '\0';
    c->clean = clean;
    if (!aio_file_next(&at, at + out->len, &e)) {
        aio_fail(c, SP_BACKEND_FAILED, "the shell of the sandbox wrote something unexpected");
        return;
    }
    aio_say_begin(&o);
    json_put_str(&o, "path", e.path);
    json_put_u64(&o, "size", e.size);
    json_put_bool(&o, "created", f->is_new);
    json_end(&o);
    aio_reply(c, &o);
}

static void name(struct aio_call *c)
{
    struct aio_file *f = c->file;

    c->headers[0] = "Content-Type: application/json";
    aio_file_script(c);
    aio_file_put_path(c, "t", f->place);
    aio_file_put_path(c, "p", f->target);
    buf_printf(
        &c->said,
        "n=$(stat -c %%s -- \"$t\") || exit 1\n"
        "[ \"$n\" = %llu ] || { echo 'the sandbox has kept another number of bytes' >&2; exit 1; }\n",
        (unsigned long long) f->sent);
    if (!str_is_empty(f->owner))
        buf_printf(&c->said, "chown %s -- \"$t\" || exit 1\n", f->owner);
    buf_printf(&c->said, "chmod %s -- \"$t\" %s\n", f->mode,
               f->is_mode_given ? "|| exit 1" : "2>/dev/null");
    buf_puts(&c->said, "mv -fT -- \"$t\" \"$p\" || exit 1\n"
                       "find -P \"$p\" -maxdepth 0 -printf \"$f\" | base64\n");
    aio_script(c, on_named);
    c->clean = clean;
}

/* --- upload --- */

static void on_uploaded(struct aio_call *c, const struct aio_answer *a)
{
    const char *type = json_str(json_get(a->data, "error_type"));

    if (a->status == 413)
        aio_file_refuse(c, 413, "too_large", "the sandbox takes no file of that size");
    else if (!a->is_ok && type != NULL)
        aio_file_fail(c, a->message);
    else if (!a->is_ok)
        aio_fail_answer(c, "the upload", a);
    else
        name(c);
}

static void end_body(struct aio_call *c)
{
    struct aio_file *f = c->file;

    (void) httpc_body_write(&c->g.up, buf_str(&f->tail), f->tail.len); /* little */
    httpc_body_end(&c->g.up);
}

static void on_body(struct http_exchange *ex, const char *data, size_t len)
{
    struct aio_call *c = http_ctx(ex);

    passage_moved(&c->g);
    c->file->sent += len;
    if (httpc_body_write(&c->g.up, data, len) > BODY_HIGH)
        http_body_pause(ex);
}

static void on_body_end(struct http_exchange *ex)
{
    end_body(http_ctx(ex));
}

static void on_body_drain(struct httpc_request *up)
{
    struct aio_call *c = aio_of(container_of(up, struct passage, up));

    passage_moved(&c->g);
    if (c->g.ex != NULL)
        http_body_resume(c->g.ex);
}

static void upload(struct aio_call *c)
{
    struct aio_file *f = c->file;
    int64_t length = http_body_length(c->g.ex);
    unsigned char bits[16];
    char boundary[64] = "sandpool-";
    struct buf head;

    rand_secure(bits, sizeof(bits));
    str_hex(boundary + strlen(boundary), bits, sizeof(bits));
    (void) snprintf(f->type, sizeof(f->type), "Content-Type: multipart/form-data; boundary=%s",
                    boundary);
    c->headers[0] = f->type;
    buf_init(&head, 2 * AIO_PATH_MAX);
    buf_printf(&head,
               "--%s\r\nContent-Disposition: form-data; name=\"path\"\r\n\r\n%s\r\n"
               "--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file\"\r\n"
               "Content-Type: application/octet-stream\r\n\r\n",
               boundary, f->place, boundary);
    buf_printf(&f->tail, "\r\n--%s--\r\n", boundary);
    aio_ask_streamed(c, "/v1/file/upload",
                     length >= 0 ? length + (int64_t) (head.len + f->tail.len) : -1, on_body_drain,
                     on_uploaded);
    (void) httpc_body_write(&c->g.up, buf_str(&head), head.len); /* little */
    buf_fini(&head);
    if (length != 0)
        http_body_resume(c->g.ex);
    else
        end_body(c);
}

/* --- look --- */

/* The next text of a script, which a NUL ends; NULL: there is none. */
static const char *next_text(const char **at, const char *end)
{
    const char *text = *at;
    const char *nul = memchr(text, '\0', (size_t) (end - text));

    *at = nul != NULL ? nul + 1 : end;
    return nul != NULL ? text : NULL;
}

/* "new 644" or "old 644": the mode it will have. */
static bool is_mode(const char *text)
{
    size_t len = strlen(text);

    return len >= 5 && len <= 9 && strspn(text + 4, "01234567") == len - 4;
}

static void on_looked(struct aio_call *c, const struct buf *out)
{
    struct aio_file *f = c->file;
    const char *at = buf_str(out);
    const char *end = at + out->len;
    const char *mode = next_text(&at, end);
    const char *target = next_text(&at, end);
    const char *place = next_text(&at, end);

    c->clean = clean;
    c->want_answer = false;
    if (mode == NULL || place == NULL || !is_mode(mode) || strpbrk(place, "\r\n") != NULL ||
        !str_copy(f->target, sizeof(f->target), target) ||
        !str_copy(f->place, sizeof(f->place), place)) {
        aio_fail(c, SP_BACKEND_FAILED, "the shell of the sandbox wrote something unexpected");
        return;
    }
    f->is_new = strncmp(mode, "new ", 4) == 0;
    if (!f->is_mode_given)
        str_copy_cut(f->mode, sizeof(f->mode), mode + 4);
    if (c->g.ex != NULL)
        upload(c);
    else
        aio_end(c);
}

static bool read_rights(struct aio_call *c)
{
    struct aio_file *f = c->file;
    size_t len;

    f->is_mode_given = http_query(c->g.ex, "mode", f->mode, sizeof(f->mode));
    len = strlen(f->mode);
    if (f->is_mode_given && (len == 0 || len > 5 || strspn(f->mode, "01234567") != len)) {
        aio_fail(c, SP_INVALID_FIELD, "'mode' must be octal, like 0644");
        return false;
    }
    if (http_query(c->g.ex, "owner", f->owner, sizeof(f->owner)) &&
        (strspn(f->owner, "0123456789:") != strlen(f->owner) || strchr(f->owner, ':') == NULL)) {
        aio_fail(c, SP_INVALID_FIELD, "'owner' must be numbers, like 1000:1000");
        return false;
    }
    return true;
}

static void look(struct aio_call *c, bool want_parents)
{
    unsigned char bits[8];
    char part[2 * sizeof(bits) + 1];

    rand_secure(bits, sizeof(bits));
    str_hex(part, bits, sizeof(bits));
    aio_file_script(c);
    aio_file_put_path(c, "p", c->file->path);
    buf_puts(
        &c->said,
        "[ ! -L \"$p\" ] || p=$(readlink -m -- \"$p\") || exit 1\n"
        "if [ -d \"$p\" ]; then echo \"$p: Is a directory\" >&2; exit 1; fi\n"
        "if [ -e \"$p\" ] && [ ! -f \"$p\" ]; then echo \"$p: Not a regular file\" >&2; exit 1; fi\n"
        "d=${p%/*}\n");
    if (want_parents)
        aio_file_put_parents(c);
    buf_printf(&c->said,
               "t=\"$d/.sandpool-%s\"\n"
               "touch -- \"$t\" || exit 1\n"
               "if [ -e \"$p\" ]; then m=$(stat -c 'old %%a' -- \"$p\"); "
               "else m=$(stat -c 'new %%a' -- \"$t\"); fi || exit 1\n"
               "printf '%%s\\0%%s\\0%%s\\0' \"$m\" \"$p\" \"$t\" | base64\n",
               part);
    c->want_answer = true; /* or nobody knows what to remove */
    aio_script(c, on_looked);
}

void aio_file_put(struct aio_call *c)
{
    struct aio_file *f = aio_file_of_query(c);
    bool want_parents = true;

    if (f == NULL || !read_rights(c) || !aio_file_switch(c, "parents", &want_parents))
        return;
    buf_init(&f->tail, 256);
    if (http_body_length(c->g.ex) != 0) {
        http_body_start(c->g.ex, on_body, on_body_end);
        http_body_pause(c->g.ex);
    }
    look(c, want_parents);
}
