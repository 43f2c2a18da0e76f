/* download.c - a helper opens the file and sends it. While the client is slow, nothing is read from
 * the helper, so that a slow reader costs one buffer. Once the headers are sent, breaking the
 * connection is the only way to report that a file got shorter (or changed, if the caller wants to
 * know). */
#include "agent/file/download.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/agent.h"
#include "agent/core/helper.h"
#include "agent/core/plain.h"
#include "agent/file/byte_range.h"
#include "agent/file/lane.h"
#include "agent/file/result.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"

#define STALL_NS (60 * NS_PER_S) /* a file system that gives nothing for so long */

enum {
    CHUNK = 64 * 1024,
    WHOLE_MAX = 8 * 1024 * 1024 /* read before the answer begins, where that decides something */
};

struct download {
    struct http_exchange *ex;
    struct agent *agent;
    const struct file_dialect *dialect;
    const struct identity *user;
    struct helper *helper;
    struct rt_timer stall;
    struct file_result result;
    bool is_begun;
    bool is_waiting; /* for the client */
    char path[FILE_PATH_MAX];
    char range[64]; /* header, "" for none */
    bool want_abort;
    bool is_head;
    /* The helper's. */
    int fd;
    struct stat st; /* as it was opened */
    struct byte_range bytes;
    struct file_error error;
};

static const char operation[] = "download";

/* --- in the helper --- */

static const struct identity *choose(void *ctx)
{
    const struct download *d = ctx;

    return d->user;
}

static bool has_changed(const struct download *d)
{
    struct stat st;

    return fstat(d->fd, &st) != 0 || st.st_size != d->st.st_size ||
           st.st_mtim.tv_sec != d->st.st_mtim.tv_sec || st.st_mtim.tv_nsec != d->st.st_mtim.tv_nsec;
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

static int open_file(struct download *d)
{
    d->fd = plain_open_file(AT_FDCWD, d->path, O_RDONLY, 0, &d->st);
    if (d->fd < 0)
        return file_error_sys(&d->error, operation, d->path, errno);
    if (d->st.st_size == 0)
        learn_size(d);
    if (!byte_range_parse(&d->bytes, d->range, (uint64_t) d->st.st_size))
        return file_error_set(&d->error, 416, "no_range", operation, d->path,
                              "the file has no such range");
    return SP_OK;
}

/* At most `max` bytes from `at`; false when that many are not there, or it changed. */
static bool read_some(const struct download *d, uint64_t at, struct buf *chunk, size_t max)
{
    buf_reset(chunk);
    if (!buf_reserve(chunk, max))
        return false;
    while (chunk->len < max) {
        ssize_t n =
            pread(d->fd, chunk->data + chunk->len, max - chunk->len, (off_t) (at + chunk->len));

        if (n <= 0)
            return false;
        chunk->len += (size_t) n;
    }
    return !d->want_abort || !has_changed(d);
}

static bool send_head(const struct download *d, int fd, uint64_t len)
{
    struct file_head head;

    file_head_init(&head, d->bytes.is_partial ? 206 : 200, len);
    head.form = FILE_FORM_SIZED;
    head.size = (uint64_t) d->st.st_size;
    head.start = d->bytes.start;
    head.end = d->bytes.end;
    head.mtime_s = d->st.st_mtim.tv_sec;
    head.mtime_ns = (uint32_t) d->st.st_mtim.tv_nsec;
    head.is_partial = d->bytes.is_partial;
    return helper_send(fd, &head, sizeof(head));
}

static void send_error(const struct download *d, int fd)
{
    struct file_head head;
    struct buf text;

    buf_init(&text, 64 * 1024);
    d->dialect->print_error(&text, &d->error);
    file_head_init(&head, d->error.status, text.len);
    head.size = d->error.status == 416 ? (uint64_t) d->st.st_size : 0;
    if (helper_send(fd, &head, sizeof(head)))
        (void) helper_send(fd, buf_str(&text), text.len); /* the agent notices its end */
    buf_fini(&text);
}

/* A failure before the head is sent is answered; afterwards the helper only exits. */
static void send_file(struct download *d, int fd)
{
    uint64_t len = d->bytes.end - d->bytes.start;
    uint64_t at = d->bytes.start;
    size_t step = d->want_abort && len <= WHOLE_MAX ? WHOLE_MAX : CHUNK;
    bool is_first = true;
    struct buf chunk;

    buf_init(&chunk, WHOLE_MAX);
    while (is_first || at < d->bytes.end) {
        bool is_good =
            read_some(d, at, &chunk, (size_t) MIN_OF(d->bytes.end - at, (uint64_t) step));

        if (!is_good && is_first) {
            (void) file_error_set(&d->error, 409, "changed", operation, d->path,
                                  "the file changed while it was read");
            send_error(d, fd);
        }
        if (!is_good || (is_first && !send_head(d, fd, len)) ||
            !helper_send(fd, buf_str(&chunk), chunk.len))
            break;
        is_first = false;
        at += chunk.len;
    }
    buf_fini(&chunk);
}

static void run(void *ctx, int fd)
{
    struct download *d = ctx;

    if (open_file(d) != SP_OK)
        send_error(d, fd);
    else if (d->is_head)
        (void) send_head(d, fd, 0); /* the agent notices its end */
    else
        send_file(d, fd);
    if (d->fd >= 0)
        (void) close(TAKE_FD(d->fd)); /* it was only read */
}

/* --- in the agent --- */

static void free_download(struct download *d)
{
    rt_timer_cancel(&d->agent->loop.rt, &d->stall);
    if (d->helper != NULL) {
        helper_leave(d->helper);
        d->agent->files->transfers--;
    }
    file_result_fini(&d->result);
    free(d);
}

static void on_gone(void *ctx)
{
    free_download(ctx);
}

/* The file name that the client saves it under, in the form that allows every character. */
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
    const struct file_head *h = &d->result.head;
    char text[96];

    if (h->is_partial != 0) {
        (void) snprintf(text, sizeof(text), "bytes %llu-%llu/%llu", (unsigned long long) h->start,
                        (unsigned long long) h->end - 1, (unsigned long long) h->size);
        http_add_header(d->ex, "Content-Range", text);
    }
    (void) snprintf(text, sizeof(text), "\"%llx-%llx-%llx\"", (unsigned long long) h->mtime_s,
                    (unsigned long long) h->mtime_ns, (unsigned long long) h->size);
    http_add_header(d->ex, "ETag", text);
    http_add_header(d->ex, "Accept-Ranges", "bytes");
    add_disposition(d);
    http_begin_sized(d->ex, h->is_partial != 0 ? 206 : 200, "application/octet-stream",
                     h->end - h->start);
    d->is_begun = true;
}

static void fail(struct download *d, int status, const char *message)
{
    if (d->is_begun)
        http_abort(d->ex);
    else
        d->dialect->refuse(d->ex, status, message);
    free_download(d);
}

static void reply_error(struct download *d)
{
    const struct file_result *r = &d->result;
    char text[48];

    if (r->head.status == 416) {
        (void) snprintf(text, sizeof(text), "bytes */%llu", (unsigned long long) r->head.size);
        http_add_header(d->ex, "Content-Range", text);
    }
    http_reply(d->ex, (int) r->head.status, "application/json", buf_str(&r->body), r->body.len);
    free_download(d);
}

static void on_stall(struct rt_timer *timer)
{
    fail(container_of(timer, struct download, stall), 504,
         "the file system did not answer in time");
}

static void listen_to(struct download *d, bool is_on)
{
    struct rt *rt = &d->agent->loop.rt;

    d->is_waiting = !is_on;
    helper_read(d->helper, is_on);
    if (is_on)
        rt_timer_set(rt, &d->stall, rt_after(rt_now(rt), STALL_NS), on_stall);
    else
        rt_timer_cancel(rt, &d->stall);
}

static void on_drain(struct http_exchange *ex)
{
    struct download *d = http_ctx(ex);

    if (d->is_waiting)
        listen_to(d, true);
}

static void on_data(void *ctx, const char *data, size_t len)
{
    struct download *d = ctx;
    struct file_result *r = &d->result;
    size_t unsent = 0;

    len = file_result_feed(r, data, len, &data);
    if (r->is_bad ||
        (file_result_has_head(r) && r->head.status < 400 && r->head.form != FILE_FORM_SIZED)) {
        fail(d, 500, "the file helper gave no valid answer");
        return;
    }
    if (!file_result_has_head(r))
        return;
    if (r->head.status >= 400) {
        if (file_result_is_done(r))
            reply_error(d);
        return;
    }
    if (!d->is_begun)
        begin(d);
    if (len > 0)
        unsent = http_write(d->ex, data, len);
    if (file_result_is_done(r)) {
        http_end(d->ex);
        free_download(d);
    } else {
        listen_to(d, unsent < HTTP_HIGH_WATER);
    }
}

static void on_end(void *ctx)
{
    fail(ctx, 500, "the file helper died before its answer was complete (out of memory?)");
}

static void start(struct download *d)
{
    const struct helper_job work = {
        .choose = choose, .run = run, .on_data = on_data, .on_end = on_end, .ctx = d};

    if (d->agent->files->transfers >= FILE_TRANSFERS_MAX)
        errno = EAGAIN;
    else
        d->helper = helper_start(d->agent->helpers, &work);
    if (d->helper == NULL) {
        fail(d, 503, "too many transfers, or no process or memory for one");
        return;
    }
    d->agent->files->transfers++;
    http_set_ctx(d->ex, d, on_gone);
    http_set_drain(d->ex, on_drain);
    listen_to(d, true);
}

void file_download_start(struct http_exchange *ex, const struct file_download *request)
{
    const char *range = http_header(ex, "range");
    struct download *d = xcalloc(1, sizeof(*d));

    d->fd = -1;
    d->ex = ex;
    d->agent = http_server_ctx(ex);
    d->dialect = request->dialect;
    d->user = request->user;
    d->want_abort = request->want_abort;
    d->is_head = http_method(ex) == HTTP_METHOD_HEAD;
    str_copy_cut(d->path, sizeof(d->path), request->path);
    file_result_init(&d->result, true);
    if (range != NULL && !str_copy(d->range, sizeof(d->range), range))
        d->range[0] = '\0'; /* a long list of ranges: the whole file is a correct answer, too */
    start(d);
}
