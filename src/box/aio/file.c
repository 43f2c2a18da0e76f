/* file.c - what a path is, what is in a directory, and changes of both: by scripts, whose format is that of GNU find. */
#include "box/aio/file.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"

enum { LIST_DEFAULT = 10000, LIST_MAX = 20000, DEPTH_MAX = 128 };

/* --- stat --- */

static void put_stat(struct aio_call *c, const char *name, bool want_follow)
{
    if (want_follow)
        buf_printf(&c->said, "stat -L -- \"$%s\" >/dev/null || exit 1\n", name);
    buf_printf(
        &c->said,
        "o=$(find %s \"$%s\" -maxdepth 0 -printf \"$f\" | base64) || exit 1\n[ -n \"$o\" ] || exit 1\nprintf '%%s' \"$o\"\n",
        want_follow ? "-L" : "-P", name);
}

void aio_file_stat(struct aio_call *c)
{
    struct aio_file *f = aio_file_of_query(c);

    if (f == NULL || !aio_file_switch(c, "follow", &f->want_follow))
        return;
    aio_file_script(c);
    aio_file_put_path(c, "p", f->path);
    put_stat(c, "p", f->want_follow);
    aio_script(c, aio_file_reply_entry);
}

/* --- list --- */

/* The first is the directory itself. */
static void reply_list(struct aio_call *c, const struct buf *out)
{
    const char *at = buf_str(out);
    const char *end = at + out->len;
    struct aio_entry e;
    struct json_out o;
    uint64_t count = 0;

    if (!aio_file_next(&at, end, &e)) {
        aio_fail(c, SP_BACKEND_FAILED, "the shell of the sandbox wrote something unexpected");
        return;
    }
    aio_say_begin(&o);
    json_put_str(&o, "path", e.path);
    json_begin_arr(&o, "entries");
    for (; count < c->file->limit && aio_file_next(&at, end, &e); count++) {
        json_begin_obj(&o, NULL);
        aio_file_put_entry(&o, &e);
        json_end(&o);
    }
    json_end(&o);
    json_put_bool(&o, "truncated", at < end);
    json_put_u64(&o, "unreadable", 0);
    json_end(&o);
    aio_reply(c, &o);
}

static bool read_number(struct aio_call *c, const char *name, uint64_t max, uint64_t *ret)
{
    char text[24];

    if (!http_query(c->g.ex, name, text, sizeof(text)) || str_parse_u64(text, 1, max, ret))
        return true;
    aio_fail(c, SP_INVALID_FIELD, "'%s' must be a number from 1 to %llu", name,
             (unsigned long long) max);
    return false;
}

void aio_file_list(struct aio_call *c)
{
    struct aio_file *f = aio_file_of_query(c);
    bool is_recursive = false;
    uint64_t depth = 0;

    if (f == NULL)
        return;
    f->limit = LIST_DEFAULT;
    if (!aio_file_switch(c, "recursive", &is_recursive) ||
        !read_number(c, "depth", DEPTH_MAX, &depth) || !read_number(c, "limit", 100000, &f->limit))
        return;
    f->limit = MIN_OF(f->limit, (uint64_t) LIST_MAX);
    if (depth == 0)
        depth = is_recursive ? DEPTH_MAX : 1;
    aio_file_script(c);
    aio_file_put_path(c, "p", f->path);
    buf_puts(&c->said, "stat -L -- \"$p/.\" >/dev/null || exit 1\n");
    buf_puts(&c->said, "ls -U -- \"$p\" >/dev/null || exit 1\n"); /* may it be read? */
    buf_printf(
        &c->said,
        "find -H \"$p\" -maxdepth %llu -printf \"$f\" 2>/dev/null | head -z -n %llu | base64\n",
        (unsigned long long) depth, (unsigned long long) (2 * (f->limit + 2)));
    aio_script(c, reply_list);
}

/* --- changes --- */

static void reply_removed(struct aio_call *c, const struct buf *out)
{
    uint64_t removed;
    struct json_out o;

    if (!str_parse_u64(buf_str(out), 0, INT64_MAX, &removed))
        removed = 1;
    aio_say_begin(&o);
    json_put_str(&o, "path", c->file->path);
    json_put_u64(&o, "removed", removed);
    json_end(&o);
    aio_reply(c, &o);
}

void aio_file_delete(struct aio_call *c)
{
    struct aio_file *f = aio_file_of_query(c);
    bool is_recursive = false;

    if (f == NULL || !aio_file_switch(c, "recursive", &is_recursive))
        return;
    aio_file_script(c);
    aio_file_put_path(c, "p", f->path);
    buf_puts(&c->said, "stat -- \"$p\" >/dev/null || exit 1\nn=1\n");
    if (is_recursive)
        buf_puts(&c->said, "n=$(find -P \"$p\" -printf . 2>/dev/null | wc -c)\n"
                           "rm -rf -- \"$p\" || exit 1\n");
    else
        buf_puts(&c->said, "if [ -d \"$p\" ] && [ ! -L \"$p\" ]; then rmdir -- \"$p\"; "
                           "else rm -f -- \"$p\"; fi || exit 1\n");
    buf_puts(&c->said, "printf '%s' $n | base64\n");
    aio_script(c, reply_removed);
}

/* Octal, as text for chmod. */
static bool read_mode(struct aio_call *c, char dst[8])
{
    const struct json *v = json_get(json_root(c->doc), "mode");
    const char *text = json_str(v);

    if (v == NULL || json_is_null(v))
        return true;
    if (text != NULL && !str_is_empty(text) && strlen(text) <= 5 &&
        strspn(text, "01234567") == strlen(text)) {
        str_copy_cut(dst, 8, text);
        return true;
    }
    aio_fail(c, SP_INVALID_FIELD, "'mode' must be octal, like \"0755\"");
    return false;
}

static bool read_bool(struct aio_call *c, const char *name, bool *ret)
{
    struct err err;

    if (json_field_bool(json_root(c->doc), name, ret, &err) == SP_OK)
        return true;
    aio_fail(c, err.code, "%s", err.msg);
    return false;
}

static void make_directory(struct aio_call *c)
{
    struct aio_file *f = c->file;
    bool want_parents = true;

    if (!aio_file_of_body(c, "path", f->path) || !read_mode(c, f->mode) ||
        !read_bool(c, "parents", &want_parents))
        return;
    aio_file_script(c);
    aio_file_put_path(c, "p", f->path);
    buf_printf(&c->said, "mkdir %s", want_parents ? "-p " : "");
    if (!str_is_empty(f->mode))
        buf_printf(&c->said, "-m %s ", f->mode);
    buf_puts(&c->said, "-- \"$p\" || exit 1\n");
    put_stat(c, "p", true);
    aio_script(c, aio_file_reply_entry);
}

/* `command` moves or copies "$p" to "$t", whose directory is made. */
static void change_two(struct aio_call *c, const char *plain, const char *recursive)
{
    struct aio_file *f = c->file;
    bool want_overwrite = true;
    bool is_recursive = true;

    if (!aio_file_of_body(c, "from", f->path) || !aio_file_of_body(c, "to", f->to) ||
        !read_bool(c, "overwrite", &want_overwrite) || !read_bool(c, "recursive", &is_recursive))
        return;
    aio_file_script(c);
    aio_file_put_path(c, "p", f->path);
    aio_file_put_path(c, "t", f->to);
    buf_puts(&c->said, "stat -- \"$p\" >/dev/null || exit 1\n");
    if (!want_overwrite)
        buf_puts(&c->said, "if [ -e \"$t\" ] || [ -L \"$t\" ]; then echo \"$t: File exists\" >&2; "
                           "exit 1; fi\n");
    if (!is_recursive)
        buf_puts(&c->said, "if [ -d \"$p\" ]; then echo \"$p: Is a directory\" >&2; exit 1; fi\n");
    buf_puts(&c->said, "d=${t%/*}\n");
    aio_file_put_parents(c);
    buf_printf(&c->said, "%s -- \"$p\" \"$t\" || exit 1\n", is_recursive ? recursive : plain);
    put_stat(c, "t", false);
    aio_script(c, aio_file_reply_entry);
}

static void move(struct aio_call *c)
{
    change_two(c, "mv -fT", "mv -fT");
}

static void copy(struct aio_call *c)
{
    change_two(c, "cp -fT --preserve=mode,timestamps", "cp -fRHT --preserve=mode,timestamps,links");
}

void aio_file_mkdir(struct aio_call *c)
{
    c->file = xcalloc(1, sizeof(*c->file));
    aio_read_given(c, make_directory);
}

void aio_file_move(struct aio_call *c)
{
    c->file = xcalloc(1, sizeof(*c->file));
    aio_read_given(c, move);
}

void aio_file_copy(struct aio_call *c)
{
    c->file = xcalloc(1, sizeof(*c->file));
    aio_read_given(c, copy);
}
