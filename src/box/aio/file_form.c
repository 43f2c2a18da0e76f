/* file_form.c - paths, entries and errors of file calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/aio/file.h"

/* --- paths --- */

static bool is_utf8(const char *text)
{
    while (*text != '\0') {
        size_t len = str_utf8_len(text);

        if (len == 0)
            return false;
        text += len;
    }
    return true;
}

/* False: it has been answered. */
static bool check_path(struct aio_call *c, const char *field, const char *path)
{
    if (str_is_empty(path))
        aio_fail(c, SP_INVALID_FIELD, "'%s' is required", field);
    else if (!is_utf8(path))
        aio_fail(c, SP_INVALID_FIELD, "'%s' is too long or no UTF-8, which this sandbox needs",
                 field);
    else
        return true;
    return false;
}

static bool is_other_user(struct aio_call *c, bool is_given)
{
    if (is_given)
        aio_fail(c, SP_UNSUPPORTED,
                 "this sandbox has no agent of sandpool: 'user' cannot be chosen, files are those "
                 "of its own user");
    return is_given;
}

struct aio_file *aio_file_of_query(struct aio_call *c)
{
    char user[8];

    c->file = xcalloc(1, sizeof(*c->file));
    if (is_other_user(c, http_query(c->g.ex, "user", user, sizeof(user))))
        return NULL;
    (void) http_query(c->g.ex, "path", c->file->path, sizeof(c->file->path));
    return check_path(c, "path", c->file->path) ? c->file : NULL;
}

bool aio_file_of_body(struct aio_call *c, const char *field, char dst[AIO_PATH_MAX])
{
    const char *path = json_str(json_get(json_root(c->doc), field));

    if (is_other_user(c, json_str(json_get(json_root(c->doc), "user")) != NULL))
        return false;
    if (path != NULL && !str_copy(dst, AIO_PATH_MAX, path)) {
        aio_fail(c, SP_INVALID_FIELD, "'%s' is too long", field);
        return false;
    }
    return check_path(c, field, dst);
}

bool aio_file_switch(struct aio_call *c, const char *name, bool *ret)
{
    char text[8];

    if (!http_query(c->g.ex, name, text, sizeof(text)))
        return true;
    *ret = strcmp(text, "1") == 0 || strcmp(text, "true") == 0;
    if (*ret || strcmp(text, "0") == 0 || strcmp(text, "false") == 0)
        return true;
    aio_fail(c, SP_INVALID_FIELD, "a switch of the query is 1, 0, true or false");
    return false;
}

void aio_file_script(struct aio_call *c)
{
    buf_reset(&c->said);
    buf_puts(&c->said, "exec </dev/null\nexport LC_ALL=C\nf=" AIO_FILE_FORMAT "\n");
}

void aio_file_put_path(struct aio_call *c, const char *name, const char *path)
{
    size_t len = strlen(path);
    AUTO_FREE char *copy = xstrdup(path);
    const char *rest = copy;

    while (len > 1 && copy[len - 1] == '/')
        copy[--len] = '\0';
    buf_printf(&c->said, "%s=", name);
    if (copy[0] == '~' && (copy[1] == '/' || copy[1] == '\0')) {
        buf_puts(&c->said, "\"$HOME\"");
        rest++;
    } else if (copy[0] != '/') {
        buf_puts(&c->said, "\"${PWD%/}/\"");
        for (; strncmp(rest, "./", 2) == 0; rest += 2)
            continue;
        if (strcmp(rest, ".") == 0)
            rest = "";
    }
    aio_quote(&c->said, rest);
    buf_printf(&c->said, "\n[ ${#%s} -lt 2 ] || %s=${%s%%/}\n", name, name, name);
}

void aio_file_put_parents(struct aio_call *c)
{
    buf_puts(&c->said,
             "mkdir -p -- \"${d:-/}\" || { [ ! -e \"$d\" ] || echo \"$d: Not a directory\" >&2; "
             "exit 1; }\n");
}

/* --- entries --- */

static const char *type_of(char letter)
{
    switch (letter) {
    case 'f':
        return "file";
    case 'd':
        return "directory";
    case 'l':
        return "symlink";
    default:
        return "other";
    }
}

/* The next word, which a blank ends; false: there is none, or it is no number. */
static bool next_number(const char **at, unsigned base, uint64_t *ret)
{
    char *end;

    if (**at < '0' || **at > '9')
        return false;
    *ret = strtoull(*at, &end, (int) base);
    *at = end;
    return true;
}

static bool read_facts(const char *at, struct aio_entry *ret)
{
    uint64_t mode;
    uint64_t seconds = 0;
    char *end;

    if (at[0] == '\0' || at[1] != ' ')
        return false;
    ret->type = type_of(at[0]);
    at += 2;
    if (!next_number(&at, 10, &ret->size) || *at++ != ' ' || !next_number(&at, 8, &mode) ||
        *at++ != ' ' || !next_number(&at, 10, &ret->uid) || *at++ != ' ' ||
        !next_number(&at, 10, &ret->gid) || *at++ != ' ')
        return false;
    (void) snprintf(ret->mode, sizeof(ret->mode), "%04o", (unsigned) mode & 07777U);
    if (*at == '-')
        at += strcspn(at, " ."); /* before 1970 */
    else if (!next_number(&at, 10, &seconds))
        return false;
    ret->mtime_ms = seconds * 1000;
    if (*at == '.') {
        uint64_t ms = strtoull(at + 1, &end, 10);

        for (const char *digits = at + 4; digits < end; digits++)
            ms /= 10;
        ret->mtime_ms += MIN_OF(ms, (uint64_t) 999);
        at = end;
    }
    if (*at != ' ')
        return false;
    ret->path = at + 1;
    return true;
}

bool aio_file_next(const char **at, const char *end, struct aio_entry *ret)
{
    const char *first = memchr(*at, '\0', (size_t) (end - *at));
    const char *second = first != NULL ? memchr(first + 1, '\0', (size_t) (end - first - 1)) : NULL;
    const char *slash;

    if (second == NULL || !read_facts(*at, ret))
        return false;
    slash = strrchr(ret->path, '/');
    ret->name = slash != NULL && slash[1] != '\0' ? slash + 1 : ret->path;
    ret->target = strcmp(ret->type, "symlink") == 0 ? first + 1 : NULL;
    *at = second + 1;
    return true;
}

void aio_file_put_entry(struct json_out *o, const struct aio_entry *e)
{
    char time[32];

    json_put_str(o, "name", e->name);
    json_put_str(o, "path", e->path);
    json_put_str(o, "type", e->type);
    json_put_u64(o, "size", e->size);
    json_put_str(o, "mode", e->mode);
    json_put_u64(o, "uid", e->uid);
    json_put_u64(o, "gid", e->gid);
    str_iso8601(time, e->mtime_ms);
    json_put_str(o, "mtime", time);
    json_put_str(o, "target", e->target);
}

void aio_file_reply_entry(struct aio_call *c, const struct buf *out)
{
    const char *at = buf_str(out);
    struct aio_entry e;
    struct json_out o;

    if (!aio_file_next(&at, at + out->len, &e)) {
        aio_fail(c, SP_BACKEND_FAILED, "the shell of the sandbox wrote something unexpected");
        return;
    }
    aio_say_begin(&o);
    aio_file_put_entry(&o, &e);
    json_end(&o);
    aio_reply(c, &o);
}

/* --- errors --- */

void aio_file_refuse(struct aio_call *c, int status, const char *code, const char *message)
{
    struct json_out o;

    if (c->g.ex == NULL) {
        aio_end(c);
        return;
    }
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_begin_obj(&o, "error");
    json_put_str(&o, "code", code);
    json_put_str(&o, "message", message);
    if (c->file != NULL)
        json_put_str(&o, "path", c->file->path);
    json_end(&o);
    json_end(&o);
    http_reply_json(c->g.ex, status, &o);
    aio_end(c);
}

void aio_file_fail(struct aio_call *c, const char *line)
{
    static const struct {
        const char *text;
        int status;
        const char *code;
    } kinds[] = {
        {"No such file or directory", 404, "file_not_found"},
        {"Permission denied", 403, "permission_denied"},
        {"Operation not permitted", 403, "permission_denied"},
        {"Read-only file system", 403, "read_only"},
        {"Is a directory", 400, "is_directory"},
        {"Not a directory", 400, "not_directory"},
        {"Not a regular file", 400, "not_regular"},
        {"File name too long", 400, "name_too_long"},
        {"Too many levels of symbolic links", 400, "too_many_links"},
        {"File exists", 409, "file_exists"},
        {"Directory not empty", 409, "not_empty"},
        {"Device or resource busy", 409, "busy"},
        {"No space left on device", 507, "no_space"},
        {"Disk quota exceeded", 507, "no_space"},
    };

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (strstr(line, kinds[i].text) != NULL) {
            aio_file_refuse(c, kinds[i].status, kinds[i].code, line);
            return;
        }
    }
    if (strstr(line, "not found") != NULL || strstr(line, "unrecognized") != NULL)
        aio_fail(c, SP_UNSUPPORTED,
                 "files of a sandbox without an agent of sandpool need GNU coreutils and findutils "
                 "in its image: %.200s",
                 line);
    else
        aio_file_refuse(c, 500, "io", line);
}
