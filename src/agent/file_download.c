/* file_download.c - GET /v1/file/download: one chunk is read on the pool while none is waiting to be
 * sent, so that a slow reader costs one chunk. Once the headers are out, a file that got shorter (or
 * changed, with change_policy=abort) can only be told by breaking the connection. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/api_file_calls.h"
#include "agent/byte_range.h"
#include "agent/envelope.h"
#include "agent/serve.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"

enum {
    CHUNK = 256 * 1024,
    WHOLE_MAX = 8 * 1024 * 1024 /* read before the answer begins, where that decides something */
};

struct download {
    uv_work_t work;
    struct http_exchange *ex; /* NULL when the client has gone */
    struct loop *loop;
    const struct identity *user; /* lives as long as the agent */
    char path[FILE_PATH_MAX];
    char range[64]; /* header, "" for none */
    bool want_abort;
    bool is_head;
    bool is_working;
    bool is_begun;
    int fd;
    struct stat st; /* as it was opened */
    struct byte_range bytes;
    uint64_t next; /* offset of the next chunk */
    struct buf chunk;
    struct file_error error;
};

static const char operation[] = "download";

/* --- on the pool --- */

static bool has_changed(const struct download *d)
{
    struct stat st;

    return fstat(d->fd, &st) != 0 || st.st_size != d->st.st_size ||
           st.st_mtim.tv_sec != d->st.st_mtim.tv_sec || st.st_mtim.tv_nsec != d->st.st_mtim.tv_nsec;
}

static void read_chunk(struct download *d, size_t max)
{
    uint64_t left = d->bytes.end - d->next;

    buf_reset(&d->chunk);
    max = (size_t) MIN_OF(left, (uint64_t) max);
    if (!buf_reserve(&d->chunk, max)) {
        (void) file_error_sys(&d->error, operation, d->path, ENOMEM);
        return;
    }
    while (d->chunk.len < max) {
        ssize_t n = pread(d->fd, d->chunk.data + d->chunk.len, max - d->chunk.len,
                          (off_t) (d->next + d->chunk.len));

        if (n < 0) {
            (void) file_error_sys(&d->error, operation, d->path, errno);
            return;
        }
        if (n == 0)
            break;
        d->chunk.len += (size_t) n;
    }
    if (d->chunk.len < max || (d->want_abort && has_changed(d)))
        (void) file_error_set(&d->error, 409, "changed", operation, d->path,
                              "the file changed while it was read");
    d->next += d->chunk.len;
}

/* Files of the kernel have no size until they are read. */
static void learn_size(struct download *d)
{
    char data[4096];
    off_t size = 0;

    for (;;) {
        ssize_t n = pread(d->fd, data, sizeof(data), size);

        if (n <= 0 || size >= WHOLE_MAX)
            break;
        size += n;
    }
    d->st.st_size = size;
}

static void open_file(struct download *d)
{
    struct file_error *e = &d->error;

    d->fd = open(d->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (d->fd < 0 || fstat(d->fd, &d->st) != 0)
        (void) file_error_sys(e, operation, d->path, errno);
    else if (S_ISDIR(d->st.st_mode))
        (void) file_error_sys(e, operation, d->path, EISDIR);
    else if (!S_ISREG(d->st.st_mode))
        (void) file_error_set(e, 400, "not_regular", operation, d->path, "not a regular file");
    if (e->status != 0)
        return;
    if (d->st.st_size == 0)
        learn_size(d);
    if (!byte_range_parse(&d->bytes, d->range, (uint64_t) d->st.st_size)) {
        (void) file_error_set(e, 416, "no_range", operation, d->path, "the file has no such range");
        return;
    }
    d->next = d->bytes.start;
    if (d->is_head)
        return;
    read_chunk(d, d->want_abort && d->st.st_size <= WHOLE_MAX ? WHOLE_MAX : CHUNK);
}

static void run(uv_work_t *work)
{
    struct download *d = container_of(work, struct download, work);

    if (d->fd < 0) {
        int sys = identity_enter(d->user);

        if (sys != 0) {
            (void) file_error_sys(&d->error, operation, d->path, sys);
            return;
        }
        open_file(d);
        identity_leave(d->user);
    } else
        read_chunk(d, CHUNK);
}

/* --- on the loop --- */

static void free_download(struct download *d)
{
    if (d->fd >= 0)
        (void) close(d->fd); /* it was only read */
    buf_fini(&d->chunk);
    free(d);
}

static void on_gone(void *ctx)
{
    struct download *d = ctx;

    d->ex = NULL;
    if (!d->is_working)
        free_download(d);
}

/* The file's name for the client to save it under, in the form that takes every character. */
static void add_disposition(const struct download *d)
{
    const char *slash = strrchr(d->path, '/');
    struct buf value;

    buf_init(&value, 4096);
    buf_puts(&value, "attachment; filename*=UTF-8''");
    buf_put_escaped(&value, slash + 1);
    http_add_header(d->ex, "Content-Disposition", buf_str(&value));
    buf_fini(&value);
}

static void begin(struct download *d)
{
    char text[96];
    unsigned long long size = (unsigned long long) d->st.st_size;

    if (d->bytes.is_partial) {
        (void) snprintf(text, sizeof(text), "bytes %llu-%llu/%llu",
                        (unsigned long long) d->bytes.start, (unsigned long long) d->bytes.end - 1,
                        size);
        http_add_header(d->ex, "Content-Range", text);
    }
    (void) snprintf(text, sizeof(text), "\"%llx-%llx-%llx\"",
                    (unsigned long long) d->st.st_mtim.tv_sec,
                    (unsigned long long) d->st.st_mtim.tv_nsec, size);
    http_add_header(d->ex, "ETag", text);
    http_add_header(d->ex, "Accept-Ranges", "bytes");
    add_disposition(d);
    http_begin_sized(d->ex, d->bytes.is_partial ? 206 : 200, "application/octet-stream",
                     d->bytes.end - d->bytes.start);
    d->is_begun = true;
}

static void fail(struct download *d)
{
    char text[48];

    if (d->is_begun) {
        http_abort(d->ex);
        return;
    }
    if (d->error.status == 416) {
        (void) snprintf(text, sizeof(text), "bytes */%llu", (unsigned long long) d->st.st_size);
        http_add_header(d->ex, "Content-Range", text);
    }
    file_error_reply(d->ex, &d->error);
}

static void start_work(struct download *d);

static void on_drain(struct http_exchange *ex)
{
    struct download *d = http_ctx(ex);

    if (!d->is_working)
        start_work(d);
}

static void after(uv_work_t *work, int status)
{
    struct download *d = container_of(work, struct download, work);
    size_t unsent = 0;

    assert(status == 0); /* never cancelled */
    d->is_working = false;
    if (d->ex == NULL || d->error.status != 0) {
        if (d->ex != NULL)
            fail(d);
        free_download(d);
        return;
    }
    if (!d->is_begun)
        begin(d);
    if (d->chunk.len > 0)
        unsent = http_write(d->ex, buf_str(&d->chunk), d->chunk.len);
    if (d->next == d->bytes.end || d->is_head) {
        http_end(d->ex);
        free_download(d);
    } else if (unsent < HTTP_HIGH_WATER) {
        start_work(d);
    }
}

static void start_work(struct download *d)
{
    int r;

    d->is_working = true;
    r = uv_queue_work(&d->loop->uv, &d->work, run, after);
    assert(r == 0); /* it fails only without a callback */
}

void file_handle_download(struct http_exchange *ex)
{
    const struct agent *a = http_server_ctx(ex);
    const char *range = http_header(ex, "range");
    char path[FILE_PATH_MAX];
    char policy[16];
    struct download *d;

    if (!http_query(ex, "path", path, sizeof(path)) || path[0] == '\0') {
        envelope_fail(ex, 422, "'path' is required");
        return;
    }
    if (!http_query(ex, "change_policy", policy, sizeof(policy)))
        str_copy_cut(policy, sizeof(policy), "ignore");
    if (strcmp(policy, "ignore") != 0 && strcmp(policy, "abort") != 0) {
        envelope_fail(ex, 422, "'change_policy' must be ignore or abort");
        return;
    }
    d = xcalloc(1, sizeof(*d));
    d->fd = -1;
    d->ex = ex;
    d->loop = http_loop(ex);
    d->user = &a->user;
    d->want_abort = strcmp(policy, "abort") == 0;
    d->is_head = http_method(ex) == HTTP_METHOD_HEAD;
    buf_init(&d->chunk, WHOLE_MAX);
    if (range != NULL && !str_copy(d->range, sizeof(d->range), range))
        d->range[0] = '\0'; /* a long list of ranges: the whole file is a right answer, too */
    if (!file_path_resolve(agent_directory(a, d->user), d->user->home, path, d->path,
                           sizeof(d->path))) {
        free_download(d);
        envelope_fail(ex, 422, "'path' is too long");
        return;
    }
    http_set_ctx(ex, d, on_gone);
    http_set_drain(ex, on_drain);
    start_work(d);
}
