/* backup.c - a copy of the database for an operator: made by the store's thread as a file without a name,
 * then read piece by piece on a thread of the loop. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "engine/internal.h"

enum { PIECE = 128 * 1024 };

struct engine_backup {
    struct store_write write;
    struct store_backup copy;
    struct work work; /* reads the next piece */
    struct engine *engine;
    char path[CONFIG_PATH_MAX + 32];
    char piece[PIECE];
    size_t piece_len;
    uint64_t at;
    bool is_busy; /* the store or a thread has it */
    bool is_closed;
    void (*on_ready)(void *ctx, const struct err *err);
    void (*on_piece)(void *ctx, const char *data, size_t len, const struct err *err);
    void *ctx;
};

static void backup_free(struct engine_backup *b)
{
    if (b->copy.fd >= 0)
        (void) close(b->copy.fd); /* was only read */
    free(b);
}

/* True: nobody wants it any more, and it is gone. */
static bool end_step(struct engine_backup *b)
{
    bool is_closed = b->is_closed;

    b->is_busy = false;
    if (is_closed)
        backup_free(b);
    return is_closed;
}

static void on_made(struct op *op)
{
    struct engine_backup *b = container_of(op, struct engine_backup, write.op);
    struct engine *e = b->engine;
    bool was_closed = b->is_closed;

    if (op->result != SP_OK)
        log_warn("store.backup_failed", LF_STR("reason", op->err.msg));
    else
        log_info("store.backup_made", LF_U64("bytes", b->copy.bytes));
    b->is_busy = false;
    if (was_closed)
        backup_free(b);
    else
        b->on_ready(b->ctx, op->result == SP_OK ? NULL : &op->err);
    engine_op_ended(e);
}

struct engine_backup *
engine_backup_start(struct engine *e, void (*on_ready)(void *ctx, const struct err *err), void *ctx)
{
    struct engine_backup *b = xcalloc(1, sizeof(*b));

    b->engine = e;
    b->on_ready = on_ready;
    b->ctx = ctx;
    b->copy.fd = -1;
    b->copy.path = b->path;
    b->is_busy = true;
    (void) snprintf(b->path, sizeof(b->path), "%s/backup.tmp", e->config->config->state_dir);
    b->write.kind = STORE_BACKUP;
    b->write.u.backup = &b->copy;
    engine_op_begun(e);
    store_submit(e->store, &b->write, on_made);
    return b;
}

uint64_t engine_backup_size(const struct engine_backup *b)
{
    return b->copy.bytes;
}

static int read_piece(struct work *work, struct err *err)
{
    struct engine_backup *b = container_of(work, struct engine_backup, work);
    ssize_t n = pread(b->copy.fd, b->piece, PIECE, (off_t) b->at);

    if (n < 0)
        return err_sys(err, SP_IO, errno, "the copy cannot be read");
    b->piece_len = (size_t) n;
    return SP_OK;
}

static void on_read(struct op *op)
{
    struct engine_backup *b = container_of(op, struct engine_backup, work.op);
    struct engine *e = b->engine;
    struct err err = op->err;
    int r = op->result;

    if (!end_step(b)) {
        b->at += b->piece_len;
        b->on_piece(b->ctx, b->piece, b->piece_len, r == SP_OK ? NULL : &err);
    }
    engine_op_ended(e);
}

void engine_backup_next(struct engine_backup *b,
                        void (*on_piece)(void *ctx, const char *data, size_t len,
                                         const struct err *err))
{
    b->on_piece = on_piece;
    b->is_busy = true;
    b->piece_len = 0;
    b->work.run = read_piece;
    engine_op_begun(b->engine);
    work_start(b->engine->loop, &b->work, NULL, RT_NEVER, on_read);
}

void engine_backup_close(struct engine_backup *b)
{
    b->is_closed = true;
    if (!b->is_busy)
        backup_free(b);
}
