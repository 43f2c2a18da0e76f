/* upload.c - a helper writes the file (receive.c). One buffer is sent to it while the next one
 * fills; if both are full, the client is paused. */
#include "agent/file/upload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/agent.h"
#include "agent/core/helper.h"
#include "agent/file/lane.h"
#include "agent/file/multipart.h"
#include "agent/file/receive.h"
#include "agent/file/result.h"
#include "base/mem.h"
#include "base/str.h"

#define STALL_NS (60 * NS_PER_S) /* a file system that takes nothing for so long */

enum { FLUSH = 256 * 1024, BUFFER_MAX = 2 * FLUSH };

enum part { PART_NONE, PART_FILE, PART_PATH, PART_COUNT };

struct upload {
    struct http_exchange *ex;
    struct agent *agent;
    struct file_upload request;
    struct helper *helper; /* NULL: nothing was written yet */
    struct rt_timer stall;
    struct file_result result;
    struct multipart parser;
    enum part part;
    bool has_file;
    bool has_path; /* complete */
    bool is_sending;
    bool is_paused;
    bool is_complete; /* the body is */
    bool is_over;     /* the last frame was sent: its answer is awaited */
    char filename[MULTIPART_FILENAME_MAX];
    char path[FILE_PATH_MAX];
    size_t path_len;
    struct buf fill;
    struct buf flight; /* being sent */
    struct file_frame frame;
    struct err err;
};

/* --- in the helper --- */

static const struct identity *choose(void *ctx)
{
    const struct upload *u = ctx;

    return u->request.user;
}

static void run(void *ctx, int fd)
{
    const struct upload *u = ctx;
    const struct file_receive receive = {.user = u->request.user,
                                         .dialect = u->request.dialect,
                                         .base = u->request.base,
                                         .filename = u->filename,
                                         .path = u->path,
                                         .knows_path = u->has_path || u->is_complete};

    file_receive_run(&receive, fd);
}

/* --- in the agent --- */

static void free_upload(struct upload *u)
{
    rt_timer_cancel(&u->agent->loop.rt, &u->stall);
    if (u->helper != NULL) {
        helper_leave(u->helper);
        u->agent->files->transfers--;
    }
    multipart_fini(&u->parser);
    file_result_fini(&u->result);
    buf_fini(&u->fill);
    buf_fini(&u->flight);
    free(u);
}

static void on_gone(void *ctx)
{
    free_upload(ctx);
}

static void fail(struct upload *u, int status, const char *message)
{
    u->request.dialect->refuse(u->ex, status, message);
    free_upload(u);
}

static void fail_err(struct upload *u)
{
    u->request.dialect->refuse_err(u->ex, &u->err);
    free_upload(u);
}

static void send_next(struct upload *u);

static void on_answer(void *ctx, const char *data, size_t len)
{
    struct upload *u = ctx;
    struct file_result *r = &u->result;

    (void) file_result_feed(r, data, len, &data); /* all of it is kept */
    if (r->is_bad || buf_failed(&r->body)) {
        fail(u, 500, "the file helper gave no valid answer");
    } else if (file_result_is_done(r)) {
        http_reply(u->ex, (int) r->head.status, "application/json", buf_str(&r->body), r->body.len);
        free_upload(u);
    }
}

static void on_end(void *ctx)
{
    fail(ctx, 500, "the file helper died before its answer was complete (out of memory?)");
}

static void on_stall(struct rt_timer *timer)
{
    fail(container_of(timer, struct upload, stall), 504, "the file system did not answer in time");
}

static void set_stall(struct upload *u)
{
    struct rt *rt = &u->agent->loop.rt;

    rt_timer_set(rt, &u->stall, rt_after(rt_now(rt), STALL_NS), on_stall);
}

static void on_sent(void *ctx, bool is_ok)
{
    struct upload *u = ctx;

    if (!is_ok)
        return; /* it has ended: its answer, or its end, comes next */
    u->is_sending = false;
    rt_timer_cancel(&u->agent->loop.rt, &u->stall);
    buf_reset(&u->flight);
    if (u->err.code != SP_OK) {
        fail_err(u);
        return;
    }
    if (u->is_over)
        set_stall(u);
    else if (u->is_complete || u->fill.len >= FLUSH) {
        assert(u->helper != NULL); /* it has sent, so no new one can fail to start and free this */
        send_next(u);
    }
    if (u->is_paused && u->fill.len < FLUSH) {
        u->is_paused = false;
        http_body_resume(u->ex);
    }
}

/* False: an error was answered. */
static bool start_helper(struct upload *u)
{
    const struct helper_job work = {.choose = choose,
                                    .run = run,
                                    .on_data = on_answer,
                                    .on_end = on_end,
                                    .on_written = on_sent,
                                    .ctx = u};

    if (u->helper != NULL)
        return true;
    if (u->agent->files->transfers < FILE_TRANSFERS_MAX)
        u->helper = helper_start(u->agent->helpers, &work);
    if (u->helper == NULL) {
        fail(u, 503, "too many transfers, or no process or memory for one");
        return false;
    }
    u->agent->files->transfers++;
    return true;
}

/* Sends what has arrived or, when all has been sent, the end. */
static void send_next(struct upload *u)
{
    struct buf empty = u->flight;
    bool is_end = u->is_complete && u->fill.len == 0;

    if (!start_helper(u))
        return;
    u->flight = u->fill;
    u->fill = empty;
    u->frame.kind = is_end ? FILE_FRAME_END : FILE_FRAME_DATA;
    u->frame.len = (uint32_t) (is_end ? u->path_len : u->flight.len);
    u->is_over = is_end;
    u->is_sending = true;
    set_stall(u);
    helper_write(u->helper, (const char *) &u->frame, sizeof(u->frame),
                 is_end ? u->path : buf_str(&u->flight), u->frame.len);
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
    if (u->is_sending) {
        if (u->fill.len >= FLUSH || u->err.code != SP_OK) {
            u->is_paused = true;
            http_body_pause(ex);
        }
        return;
    }
    if (u->err.code != SP_OK)
        fail_err(u);
    else if (u->fill.len >= FLUSH)
        send_next(u);
}

static void on_body_end(struct http_exchange *ex)
{
    struct upload *u = http_ctx(ex);

    u->is_complete = true;
    if (u->err.code == SP_OK && multipart_finish(&u->parser, &u->err) == SP_OK && !u->has_file)
        (void) err_set(&u->err, SP_INVALID_FIELD, "the part 'file' is required");
    if (u->is_sending)
        return;
    if (u->err.code != SP_OK)
        fail_err(u);
    else
        send_next(u);
}

void file_upload_start(struct http_exchange *ex, const struct file_upload *request)
{
    struct upload *u = xcalloc(1, sizeof(*u));

    u->parser.on_part = on_part;
    u->parser.on_data = on_part_data;
    u->parser.on_part_end = on_part_end;
    u->parser.ctx = u;
    u->ex = ex;
    u->agent = http_server_ctx(ex);
    u->request = *request;
    file_result_init(&u->result, false);
    buf_init(&u->fill, BUFFER_MAX);
    buf_init(&u->flight, BUFFER_MAX);
    if (multipart_init(&u->parser, http_header(ex, "content-type"), &u->err) != SP_OK) {
        fail_err(u);
        return;
    }
    http_set_ctx(ex, u, on_gone);
    http_body_start(ex, on_data, on_body_end);
}
