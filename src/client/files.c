/* files.c - files of a box as calls that wait. */
#include "sandpool/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "client/box_internal.h"

enum { TARGET_MAX = 64 * 1024, REQUEST_MAX = 256 * 1024 };

/* Into a buffer that is initialised here. */
static int build(struct buf *out, const char *call, const char *path,
                 const struct sp_file_options *o, struct sp_failure *f)
{
    buf_init(out, TARGET_MAX);
    buf_printf(out, "/files%s?path=", call);
    buf_put_escaped(out, path);
    if (o != NULL && o->user != NULL) {
        buf_puts(out, "&user=");
        buf_put_escaped(out, o->user);
    }
    return buf_failed(out) ? client_fail(f, SP_TOO_BIG, "the path is too long") : SP_OK;
}

static void put_attributes(struct buf *out, const struct sp_file_options *o)
{
    if (o == NULL)
        return;
    if (o->mode != 0)
        buf_printf(out, "&mode=0%o", o->mode & 07777);
    if (o->owner != NULL) {
        buf_puts(out, "&owner=");
        buf_put_escaped(out, o->owner);
    }
}

/* A call without a body; its answer is sp_box_answer(). */
static int call(struct sp_box *b, const char *method, const struct buf *target,
                struct sp_failure *f)
{
    struct sp_box_call c = {.method = method, .target = buf_str(target)};
    int r = sp_box_begin(b, &c, f);

    return r == SP_OK ? box_finish(b, f) : r;
}

/* --- content --- */

static bool on_data(void *ctx, const char *data, size_t len)
{
    struct buf *out = ctx;

    buf_append(out, data, len);
    return !buf_failed(out);
}

static int read_all(struct sp_box *b, const struct buf *target, struct buf *out,
                    struct sp_failure *f)
{
    struct sp_box_call c = {
        .method = "GET", .target = buf_str(target), .on_data = on_data, .ctx = out};
    int r = sp_box_begin(b, &c, f);

    if (r == SP_OK)
        r = box_finish(b, f);
    if (r == SP_OK && buf_failed(out))
        r = client_fail(f, SP_TOO_BIG, "the file is larger than %d MB",
                        CLIENT_BODY_MAX / (1024 * 1024));
    return r;
}

int sp_file_read(struct sp_box *b, const char *path, const struct sp_file_options *o,
                 char **ret_data, size_t *ret_len, struct sp_failure *failure)
{
    struct buf target;
    struct buf out;
    int r = build(&target, "", path, o, failure);

    buf_init(&out, CLIENT_BODY_MAX);
    if (r == SP_OK)
        r = read_all(b, &target, &out, failure);
    buf_fini(&target);
    if (r == SP_OK) {
        *ret_len = out.len;
        *ret_data = out.data != NULL ? buf_take(&out, NULL) : calloc(1, 1);
        if (*ret_data == NULL)
            r = client_fail(failure, SP_NO_MEMORY, "no memory for the file");
    }
    buf_fini(&out);
    return r;
}

int sp_file_write(struct sp_box *b, const char *path, const struct sp_file_options *o,
                  const void *data, size_t len, struct sp_failure *failure)
{
    struct sp_transfer t = {.data = data != NULL ? data : "", .len = data != NULL ? len : 0};
    struct buf target;
    int r = build(&target, "", path, o, failure);

    put_attributes(&target, o);
    if (r == SP_OK)
        r = sp_box_send(b, buf_str(&target), &t, failure);
    buf_fini(&target);
    return r;
}

static int transfer(struct sp_box *b, const char *what, const char *path,
                    const struct sp_file_options *o, int fd, bool is_put, struct sp_failure *f)
{
    struct sp_transfer t = {.fd = fd,
                            .on_progress = o != NULL ? o->on_progress : NULL,
                            .ctx = o != NULL ? o->ctx : NULL};
    struct buf target;
    int r = build(&target, what, path, o, f);

    if (is_put)
        put_attributes(&target, o);
    if (r == SP_OK && is_put)
        r = sp_box_send(b, buf_str(&target), &t, f);
    else if (r == SP_OK)
        r = sp_box_receive(b, buf_str(&target), &t, f);
    buf_fini(&target);
    return r;
}

int sp_file_get(struct sp_box *b, const char *path, const struct sp_file_options *o, int fd,
                struct sp_failure *failure)
{
    return transfer(b, "", path, o, fd, false, failure);
}

int sp_file_put(struct sp_box *b, const char *path, const struct sp_file_options *o, int fd,
                struct sp_failure *failure)
{
    return transfer(b, "", path, o, fd, true, failure);
}

int sp_tree_get(struct sp_box *b, const char *path, const struct sp_file_options *o, int fd,
                struct sp_failure *failure)
{
    return transfer(b, "/tar", path, o, fd, false, failure);
}

int sp_tree_put(struct sp_box *b, const char *path, const struct sp_file_options *o, int fd,
                struct sp_failure *failure)
{
    struct sp_file_options same = {0};

    if (o != NULL)
        same = *o;
    same.mode = 0; /* modes and owners are in the archive */
    same.owner = NULL;
    return transfer(b, "/tar", path, &same, fd, true, failure);
}

/* --- what is there --- */

static int decode_stat(const char *text, struct sp_file_stat *ret, struct sp_failure *f)
{
    struct json_doc *doc = json_parse(text, strlen(text), CLIENT_BODY_MAX, NULL);
    const struct json *root = json_root(doc);
    const char *type = json_str(json_get(root, "type"));
    const char *mode = json_str(json_get(root, "mode"));
    bool is_good;

    memset(ret, 0, sizeof(*ret));
    is_good = type != NULL && mode != NULL && json_u64(json_get(root, "size"), &ret->size) &&
              json_u64(json_get(root, "uid"), &ret->uid) &&
              json_u64(json_get(root, "gid"), &ret->gid);
    if (is_good) {
        ret->type = strcmp(type, "file") == 0        ? SP_FILE_REGULAR
                    : strcmp(type, "directory") == 0 ? SP_FILE_DIRECTORY
                                                     : SP_FILE_OTHER;
        ret->mode = (unsigned) strtoul(mode, NULL, 8);
    }
    (void) json_doc_free(doc);
    return is_good ? SP_OK : client_fail(f, SP_PROTOCOL, "the answer is not about a file");
}

int sp_file_stat(struct sp_box *b, const char *path, const struct sp_file_options *o,
                 struct sp_file_stat *ret, struct sp_failure *failure)
{
    struct buf target;
    int r = build(&target, "/stat", path, o, failure);

    buf_puts(&target, "&follow=1");
    if (r == SP_OK)
        r = call(b, "GET", &target, failure);
    buf_fini(&target);
    return r == SP_OK ? decode_stat(sp_box_answer(b), ret, failure) : r;
}

int sp_file_exists(struct sp_box *b, const char *path, const struct sp_file_options *o, bool *ret,
                   struct sp_failure *failure)
{
    struct sp_file_stat st;
    struct sp_failure f = {0};
    int r = sp_file_stat(b, path, o, &st, &f);

    *ret = r == SP_OK;
    if (r == SP_OK || strcmp(f.name, "file_not_found") == 0 || strcmp(f.name, "not_directory") == 0)
        return SP_OK;
    if (failure != NULL)
        *failure = f;
    return r;
}

int sp_file_list(struct sp_box *b, const char *path, const struct sp_file_options *o,
                 bool is_recursive, char **ret_json, struct sp_failure *failure)
{
    struct buf target;
    int r = build(&target, "/list", path, o, failure);

    if (is_recursive)
        buf_puts(&target, "&recursive=1");
    if (r == SP_OK)
        r = call(b, "GET", &target, failure);
    buf_fini(&target);
    if (r != SP_OK)
        return r;
    *ret_json = strdup(sp_box_answer(b));
    return *ret_json != NULL ? SP_OK : client_fail(failure, SP_NO_MEMORY, "no memory for a list");
}

/* --- changes --- */

int sp_file_make_directory(struct sp_box *b, const char *path, const struct sp_file_options *o,
                           struct sp_failure *failure)
{
    struct sp_box_call c = {.method = "POST"};
    struct json_out out;
    struct buf target;
    struct buf body;
    char mode[16];
    int r;

    buf_init(&target, TARGET_MAX);
    buf_init(&body, REQUEST_MAX);
    buf_puts(&target, "/files/mkdir");
    if (o != NULL && o->user != NULL) {
        buf_puts(&target, "?user=");
        buf_put_escaped(&target, o->user);
    }
    json_out_init(&out);
    json_begin_obj(&out, NULL);
    json_put_str(&out, "path", path);
    if (o != NULL && o->mode != 0) {
        (void) snprintf(mode, sizeof(mode), "0%o", o->mode & 07777);
        json_put_str(&out, "mode", mode);
    }
    json_end(&out);
    json_out_finish(&out, &body);
    c.target = buf_str(&target);
    c.body = buf_str(&body);
    c.len = body.len;
    r = buf_failed(&body) || buf_failed(&target)
            ? client_fail(failure, SP_TOO_BIG, "the path is too long")
            : sp_box_begin(b, &c, failure);
    if (r == SP_OK)
        r = box_finish(b, failure);
    buf_fini(&target);
    buf_fini(&body);
    return r;
}

int sp_file_remove(struct sp_box *b, const char *path, const struct sp_file_options *o,
                   bool is_recursive, struct sp_failure *failure)
{
    struct buf target;
    int r = build(&target, "", path, o, failure);

    if (is_recursive)
        buf_puts(&target, "&recursive=1");
    if (r == SP_OK)
        r = call(b, "DELETE", &target, failure);
    buf_fini(&target);
    return r;
}
