/* zstd_pipe.c - what is read is a stranger's: a window that needs much memory is refused, and so is what follows the frame. */
#include "helper/zstd_pipe.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <zstd.h>

#include "base/file.h"
#include "base/mem.h"
#include "helper/start.h"

enum { LEVEL = 3, WINDOW_LOG_MAX = 23 }; /* of the reader: 8 MB */

/* --- writing --- */

struct zstd_writer {
    int fd;
    ZSTD_CCtx *ctx;
    size_t cap;
    char out[];
};

int zstd_writer_new(int fd, struct zstd_writer **ret, struct err *err)
{
    size_t cap = ZSTD_CStreamOutSize();
    struct zstd_writer *w = xcalloc(1, sizeof(*w) + cap);

    w->fd = fd;
    w->cap = cap;
    w->ctx = ZSTD_createCCtx();
    if (w->ctx == NULL ||
        ZSTD_isError(ZSTD_CCtx_setParameter(w->ctx, ZSTD_c_compressionLevel, LEVEL)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(w->ctx, ZSTD_c_checksumFlag, 1))) {
        zstd_writer_free(w);
        return err_set(err, SP_NO_MEMORY, "no memory for compression");
    }
    *ret = w;
    return SP_OK;
}

static int push(struct zstd_writer *w, const void *data, size_t len, ZSTD_EndDirective end,
                struct err *err)
{
    ZSTD_inBuffer in = {.src = data, .size = len};
    bool is_done = false;

    while (!is_done) {
        ZSTD_outBuffer out = {.dst = w->out, .size = w->cap};
        size_t left = ZSTD_compressStream2(w->ctx, &out, &in, end);
        int sys = ZSTD_isError(left) ? 0 : file_write_all(w->fd, w->out, out.pos);

        if (ZSTD_isError(left))
            return err_set(err, SP_IO, "compress: %s", ZSTD_getErrorName(left));
        if (sys != 0)
            return err_sys(err, SP_IO, sys, "write the file");
        is_done = end == ZSTD_e_end ? left == 0 : in.pos == in.size;
    }
    return SP_OK;
}

int zstd_write(struct zstd_writer *w, const void *data, size_t len, struct err *err)
{
    return len > 0 ? push(w, data, len, ZSTD_e_continue, err) : SP_OK;
}

int zstd_writer_end(struct zstd_writer *w, struct err *err)
{
    return push(w, NULL, 0, ZSTD_e_end, err);
}

void zstd_writer_free(struct zstd_writer *w)
{
    if (w != NULL)
        (void) ZSTD_freeCCtx(w->ctx); /* always 0 */
    free(w);
}

/* --- reading --- */

struct zstd_reader {
    int fd;
    ZSTD_DCtx *ctx;
    uint64_t left;    /* may still come out, */
    uint64_t in_left; /* and in: a block may be empty */
    bool has_begun;
    bool is_over;
    struct err problem;
    ZSTD_inBuffer in;
    size_t cap;
    char space[];
};

int zstd_reader_new(int fd, uint64_t max, struct zstd_reader **ret, struct err *err)
{
    size_t cap = ZSTD_DStreamInSize();
    struct zstd_reader *r = xcalloc(1, sizeof(*r) + cap);

    r->fd = fd;
    r->left = max;
    r->in_left = max + cap;
    r->cap = cap;
    r->in.src = r->space;
    r->ctx = ZSTD_createDCtx();
    if (r->ctx == NULL ||
        ZSTD_isError(ZSTD_DCtx_setParameter(r->ctx, ZSTD_d_windowLogMax, WINDOW_LOG_MAX))) {
        zstd_reader_free(r);
        return err_set(err, SP_NO_MEMORY, "no memory for decompression");
    }
    *ret = r;
    return SP_OK;
}

/* More of the file: false at its end, or when it cannot be read. */
static bool fill(struct zstd_reader *r)
{
    ssize_t n;

    do
        n = read(r->fd, r->space, r->cap);
    while (n < 0 && errno == EINTR && !start_is_stopped());
    if (n < 0)
        (void) err_sys(&r->problem, SP_IO, errno, "read the file");
    r->in.size = n > 0 ? (size_t) n : 0;
    r->in.pos = 0;
    if (r->in.size > r->in_left)
        (void) err_set(&r->problem, SP_BODY_TOO_LARGE, "the file is longer than its head allows");
    r->in_left -= MIN_OF(r->in.size, r->in_left);
    return n > 0 && r->problem.code == SP_OK;
}

static ssize_t fail(struct zstd_reader *r, int code, const char *text)
{
    if (r->problem.code == SP_OK)
        (void) err_set(&r->problem, code, "%s", text);
    return -1;
}

/* The frame is over: then the file is, too. */
static ssize_t finish(struct zstd_reader *r)
{
    if (r->in.pos < r->in.size || fill(r))
        return fail(r, SP_PROTOCOL, "something follows the end of the archive");
    return r->problem.code == SP_OK ? 0 : -1;
}

ssize_t zstd_read(struct zstd_reader *r, void *dst, size_t cap)
{
    ZSTD_outBuffer out = {.dst = dst, .size = cap};

    if (r->problem.code != SP_OK)
        return -1;
    while (out.pos == 0) {
        size_t state;

        if (r->is_over)
            return finish(r);
        if (r->in.pos == r->in.size && !fill(r))
            return fail(r, SP_PROTOCOL, "the file is cut");
        state = ZSTD_decompressStream(r->ctx, &out, &r->in);
        if (ZSTD_isError(state))
            return fail(r, SP_PROTOCOL,
                        r->has_begun ? "the compressed data is damaged"
                                     : "what follows its head is not compressed with zstd");
        r->has_begun = true;
        r->is_over = state == 0;
    }
    if (out.pos > r->left)
        return fail(r, SP_BODY_TOO_LARGE, "the archive is longer than its head allows");
    r->left -= out.pos;
    return (ssize_t) out.pos;
}

int zstd_reader_problem(const struct zstd_reader *r, struct err *err)
{
    *err = r->problem;
    return err->code;
}

void zstd_reader_free(struct zstd_reader *r)
{
    if (r != NULL)
        (void) ZSTD_freeDCtx(r->ctx); /* always 0 */
    free(r);
}
