/* file_upload.c - POST /v1/file/upload: a part `file` and, before or after it, a part `path`. One
 * buffer is written on the pool while the next fills; when both are full the client is paused. The
 * file appears under its name only when it is complete. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/api_file_calls.h"
#include "agent/envelope.h"
#include "agent/file_store.h"
#include "agent/multipart.h"
#include "agent/serve.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"

enum { FLUSH = 256 * 1024, BUFFER_MAX = 2 * FLUSH };

enum part { PART_NONE, PART_FILE, PART_PATH, PART_COUNT };

struct upload {
    uv_work_t work;
    struct http_exchange *ex; /* NULL when the client has gone or is answered */
    struct loop *loop;
    /* These live as long as the agent. */
    const struct identity *user;
    const char *base;
    struct multipart parser;
    enum part part;
    bool has_file;
    bool has_path; /* complete */
    bool is_working;
    bool is_paused;
    bool is_complete; /* the body is */
    char filename[MULTIPART_FILENAME_MAX];
    char path[FILE_PATH_MAX];
    size_t path_len;
    struct buf fill;
    uint64_t size;
    struct err err;
    /* The pool's while is_working. */
    struct buf flight;
    struct file_store store;
    char target[FILE_PATH_MAX]; /* "": not known when the file was opened */
    bool is_open;
    bool knows_path; /* u->path will not change any more */
    bool want_commit;
    struct file_error error;
};

static const char operation[] = "upload";

/* --- on the pool --- */

/* The path as it was given; below it, when it is a directory. */
static int find_target(struct upload *u)
{
    char path[FILE_PATH_MAX];
    const char *slash = strrchr(u->filename, '/');
    const char *name = slash != NULL ? slash + 1 : u->filename;
    size_t len;
    struct stat st;
    int n;

    if (!file_path_resolve(u->base, u->user->home, u->path, path, sizeof(path)))
        return ENAMETOOLONG;
    len = strlen(path);
    if ((stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) && path[len - 1] != '/')
        return str_copy(u->target, sizeof(u->target), path) ? 0 : ENAMETOOLONG;
    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return EISDIR;
    n = snprintf(u->target, sizeof(u->target), "%s%s%s", path, path[len - 1] == '/' ? "" : "/",
                 name);
    return n > 0 && (size_t) n < sizeof(u->target) ? 0 : ENAMETOOLONG;
}

static int open_store(struct upload *u)
{
    int sys = u->knows_path ? find_target(u) : 0;

    if (sys != 0)
        return sys;
    u->is_open = true;
    if (u->target[0] != '\0')
        return file_store_open(&u->store, u->target);
    sys = file_store_open_loose(&u->store, u->base);
    return sys == EACCES || sys == EROFS ? file_store_open_loose(&u->store, "/tmp") : sys;
}

static int commit(struct upload *u)
{
    int sys;

    if (u->target[0] != '\0')
        return file_store_commit(&u->store);
    sys = find_target(u);
    return sys != 0 ? sys : file_store_commit_to(&u->store, u->target);
}

static int write_flight(struct upload *u)
{
    int sys = u->is_open ? 0 : open_store(u);

    if (sys == 0)
        sys = file_write_all(u->store.fd, buf_str(&u->flight), u->flight.len);
    if (sys == 0 && u->want_commit)
        sys = commit(u);
    return sys;
}

static void run(uv_work_t *work)
{
    struct upload *u = container_of(work, struct upload, work);
    int sys = identity_enter(u->user);

    if (sys == 0) {
        sys = write_flight(u);
        identity_leave(u->user);
    }
    if (sys != 0)
        (void) file_error_sys(&u->error, operation, u->target[0] != '\0' ? u->target : u->base,
                              sys);
    buf_reset(&u->flight);
}

static void run_drop(uv_work_t *work)
{
    struct upload *u = container_of(work, struct upload, work);

    /* What could be made by the user can be removed by the user. */
    if (identity_enter(u->user) == 0) {
        file_store_drop(&u->store);
        identity_leave(u->user);
    }
}

/* --- on the loop --- */

static void free_upload(struct upload *u)
{
    multipart_fini(&u->parser);
    buf_fini(&u->fill);
    buf_fini(&u->flight);
    free(u);
}

static void after_drop(uv_work_t *work, int status)
{
    (void) status;
    free_upload(container_of(work, struct upload, work));
}

static void queue(struct upload *u, uv_work_cb work, uv_after_work_cb after)
{
    int r = uv_queue_work(&u->loop->uv, &u->work, work, after);

    assert(r == 0); /* it fails only without a callback */
}

/* Nobody waits any more: what was not committed is removed. */
static void finish(struct upload *u)
{
    u->ex = NULL;
    if (u->is_working)
        return;
    if (u->is_open)
        queue(u, run_drop, after_drop);
    else
        free_upload(u);
}

static void on_gone(void *ctx)
{
    finish(ctx);
}

static void answer(struct upload *u)
{
    struct http_exchange *ex = u->ex;
    struct json_out o;

    if (u->error.status != 0) {
        file_error_reply(ex, &u->error);
    } else if (u->err.code != SP_OK) {
        envelope_fail_err(ex, &u->err);
    } else {
        envelope_ok_begin(&o, NULL);
        json_put_str(&o, "file_path", u->target);
        json_put_u64(&o, "file_size", u->size);
        json_put_bool(&o, "success", true);
        envelope_ok_end(ex, &o);
    }
    finish(u);
}

static void start_work(struct upload *u);

static void after(uv_work_t *work, int status)
{
    struct upload *u = container_of(work, struct upload, work);

    assert(status == 0); /* never cancelled */
    u->is_working = false;
    if (u->ex == NULL) {
        finish(u);
        return;
    }
    if (u->error.status != 0 || u->want_commit || u->err.code != SP_OK) {
        answer(u);
        return;
    }
    if (u->is_complete || u->fill.len >= FLUSH)
        start_work(u);
    if (u->is_paused && u->fill.len < FLUSH) {
        u->is_paused = false;
        http_body_resume(u->ex);
    }
}

static void start_work(struct upload *u)
{
    struct buf empty = u->flight;

    u->flight = u->fill;
    u->fill = empty;
    u->want_commit = u->is_complete;
    u->knows_path = u->has_path || u->is_complete;
    u->is_working = true;
    queue(u, run, after);
}

static void on_part(void *ctx, const char *name, const char *filename)
{
    struct upload *u = ctx;

    u->part = PART_NONE;
    if (strcmp(name, "file") == 0 && !u->has_file) {
        u->part = PART_FILE;
        u->has_file = true;
        str_copy_cut(u->filename, sizeof(u->filename), filename);
    } else if (strcmp(name, "path") == 0 && !u->has_path) {
        u->part = PART_PATH;
    }
}

static void on_part_data(void *ctx, const char *data, size_t len)
{
    struct upload *u = ctx;

    if (u->part == PART_FILE) {
        buf_append(&u->fill, data, len);
        u->size += len;
    } else if (u->part == PART_PATH) {
        if (u->path_len + len >= sizeof(u->path) || memchr(data, '\0', len) != NULL) {
            (void) err_set(&u->err, SP_INVALID_FIELD, "'path' is too long or has a NUL");
            return;
        }
        memcpy(u->path + u->path_len, data, len);
        u->path_len += len;
    }
}

static void on_part_end(void *ctx)
{
    struct upload *u = ctx;

    if (u->part == PART_PATH)
        u->has_path = true;
    u->part = PART_NONE;
}

static void on_data(struct http_exchange *ex, const char *data, size_t len)
{
    struct upload *u = http_ctx(ex);

    if (u->err.code == SP_OK && multipart_feed(&u->parser, data, len, &u->err) == SP_OK &&
        buf_failed(&u->fill))
        (void) err_set(&u->err, SP_NO_MEMORY, "no memory for the upload");
    if (u->is_working) {
        if (u->fill.len >= FLUSH || u->err.code != SP_OK) {
            u->is_paused = true;
            http_body_pause(ex);
        }
        return;
    }
    if (u->err.code != SP_OK)
        answer(u);
    else if (u->fill.len >= FLUSH)
        start_work(u);
}

static void on_end(struct http_exchange *ex)
{
    struct upload *u = http_ctx(ex);

    u->is_complete = true;
    if (u->err.code == SP_OK && multipart_finish(&u->parser, &u->err) == SP_OK && !u->has_file)
        (void) err_set(&u->err, SP_INVALID_FIELD, "the part 'file' is required");
    if (u->is_working)
        return;
    if (u->err.code != SP_OK)
        answer(u);
    else
        start_work(u);
}

void file_handle_upload(struct http_exchange *ex)
{
    const struct agent *a = http_server_ctx(ex);
    struct upload *u = xcalloc(1, sizeof(*u));

    u->parser.on_part = on_part;
    u->parser.on_data = on_part_data;
    u->parser.on_part_end = on_part_end;
    u->parser.ctx = u;
    u->store.fd = -1;
    u->loop = http_loop(ex);
    u->user = &a->user;
    u->base = agent_directory(a, u->user);
    if (multipart_init(&u->parser, http_header(ex, "content-type"), &u->err) != SP_OK) {
        envelope_fail_err(ex, &u->err);
        free_upload(u);
        return;
    }
    u->ex = ex;
    buf_init(&u->fill, BUFFER_MAX);
    buf_init(&u->flight, BUFFER_MAX);
    http_set_ctx(ex, u, on_gone);
    http_body_start(ex, on_data, on_end);
}
