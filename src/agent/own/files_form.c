/* files_form.c - entries and errors of /v1/agent/files. */
#include "agent/own/files_form.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/helper.h"
#include "agent/core/plain.h"
#include "agent/file/place.h"
#include "base/str.h"

enum { TEXT_MAX = 256 * 1024 };

const char *files_type_name(mode_t mode)
{
    if (S_ISREG(mode))
        return "file";
    if (S_ISDIR(mode))
        return "directory";
    return S_ISLNK(mode) ? "symlink" : "other";
}

void files_put_entry(struct json_out *o, int dir, const char *name, const char *path,
                     const struct stat *st)
{
    char text[FILE_PATH_MAX];
    ssize_t len = -1;

    json_put_str(o, "name", name);
    json_put_str(o, "path", path);
    json_put_str(o, "type", files_type_name(st->st_mode));
    json_put_u64(o, "size", (uint64_t) st->st_size);
    (void) snprintf(text, sizeof(text), "%04o", st->st_mode & 07777);
    json_put_str(o, "mode", text);
    json_put_u64(o, "uid", st->st_uid);
    json_put_u64(o, "gid", st->st_gid);
    str_iso8601(text, st->st_mtim.tv_sec > 0 ? (uint64_t) st->st_mtim.tv_sec * 1000 +
                                                   (uint64_t) st->st_mtim.tv_nsec / NS_PER_MS
                                             : 0);
    json_put_str(o, "mtime", text);
    if (S_ISLNK(st->st_mode))
        len = readlinkat(dir, name, text, sizeof(text) - 1);
    text[len > 0 ? len : 0] = '\0';
    json_put_str(o, "target", len >= 0 ? text : NULL);
}

/* The names that clients of this interface know; others have the engine's. */
static const char *code_of(const struct file_error *e)
{
    if (strcmp(e->type, "not_found") == 0)
        return "file_not_found";
    return strcmp(e->type, "exists") == 0 ? "file_exists" : e->type;
}

static void print(struct buf *out, const char *code, const char *message, const char *path)
{
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_begin_obj(&o, "error");
    json_put_str(&o, "code", code);
    json_put_str(&o, "message", message);
    if (path != NULL)
        json_put_str(&o, "path", path);
    json_end(&o);
    json_end(&o);
    json_out_finish(&o, out);
}

void files_print_error(struct buf *out, const struct file_error *e)
{
    print(out, code_of(e), e->message, e->path);
}

/* Of the agent itself: there is no helper. */
static void refuse(struct http_exchange *ex, int status, const char *message)
{
    struct buf text;

    buf_init(&text, TEXT_MAX);
    print(&text, status == 503 ? "busy" : status == 504 ? "timeout" : "io", message, NULL);
    http_reply(ex, status, "application/json", buf_str(&text), text.len);
    buf_fini(&text);
}

const struct file_dialect files_dialect = {
    .refuse = refuse, .refuse_err = http_reply_err, .print_error = files_print_error};

void files_send_error(struct file_wire *wire, const struct file_error *e, uint64_t size)
{
    struct file_head head;
    struct buf text;

    buf_init(&text, TEXT_MAX);
    files_print_error(&text, e);
    file_head_init(&head, e->status, text.len);
    head.size = size;
    if (helper_send(wire->fd, &head, sizeof(head)))
        (void) helper_send(wire->fd, buf_str(&text), text.len); /* the agent notices its end */
    buf_fini(&text);
}

void files_send_sys(struct file_wire *wire, const char *operation, const char *path, int sys)
{
    static struct file_error error;

    (void) file_error_sys(&error, operation, path, sys);
    files_send_error(wire, &error, 0);
}

void files_send_err(struct file_wire *wire, const struct err *err)
{
    struct buf text;

    buf_init(&text, TEXT_MAX);
    print(&text, sp_error_info(err->code)->name, err->msg, NULL);
    file_result_send(wire->fd, sp_error_info(err->code)->http_status, &text);
    buf_fini(&text);
}

void files_send_json(struct file_wire *wire, struct json_out *o)
{
    struct buf text;

    buf_init(&text, TEXT_MAX);
    json_out_finish(o, &text);
    file_result_send(wire->fd, 200, &text);
    buf_fini(&text);
}

static int look(struct file_place *place, const char *path, bool want_follow, struct stat *ret)
{
    int sys;

    place->dir = -1;
    str_copy_cut(place->name, sizeof(place->name), path);
    if (want_follow || strcmp(path, "/") == 0)
        return plain_stat(AT_FDCWD, path, ret) == 0 ? 0 : errno;
    sys = file_place_name(place, path, false);
    if (sys == EINVAL) /* ends with "..": no link */
        return plain_stat(AT_FDCWD, path, ret) == 0 ? 0 : errno;
    if (sys == 0 && fstatat(place->dir, place->name, ret, AT_SYMLINK_NOFOLLOW) != 0)
        sys = errno;
    return sys;
}

void files_send_entry(struct file_wire *wire, const char *operation, const char *path,
                      bool want_follow, uint64_t skipped)
{
    struct file_place place;
    struct json_out o;
    struct stat st;
    int sys = look(&place, path, want_follow, &st);
    const char *slash = strrchr(path, '/');

    if (sys != 0) {
        files_send_sys(wire, operation, path, sys);
    } else {
        json_out_init(&o);
        json_begin_obj(&o, NULL);
        files_put_entry(&o, place.dir,
                        place.dir >= 0                      ? place.name
                        : slash != NULL && slash[1] != '\0' ? slash + 1
                                                            : path,
                        path, &st);
        if (skipped > 0)
            json_put_u64(&o, "skipped", skipped);
        json_end(&o);
        files_send_json(wire, &o);
    }
    file_place_close(&place);
}
