/* backup.c - GET /v1/backup: the whole database as a file, of one moment, while it is in use. It is
 * sent to the caller, who stores it: the daemon, which may be root, writes to no path that a caller
 * names. */
#include <stdlib.h>

#include "base/mem.h"
#include "dialects/native/internal.h"

struct sending {
    struct engine_backup *backup;
    struct http_exchange *ex;
    bool is_full; /* waits for on_drain */
};

static void next(struct sending *s);

static void on_gone(void *ctx)
{
    struct sending *s = ctx;

    engine_backup_close(s->backup);
    free(s);
}

static void on_drain(struct http_exchange *ex)
{
    struct sending *s = http_ctx(ex);

    if (!s->is_full)
        return;
    s->is_full = false;
    next(s);
}

static void on_piece(void *ctx, const char *data, size_t len, const struct err *err)
{
    struct sending *s = ctx;

    if (err != NULL || len == 0) {
        if (err != NULL)
            http_abort(s->ex);
        else
            http_end(s->ex);
        engine_backup_close(s->backup);
        free(s);
        return;
    }
    s->is_full = http_write(s->ex, data, len) >= HTTP_HIGH_WATER;
    if (!s->is_full)
        next(s);
}

static void next(struct sending *s)
{
    engine_backup_next(s->backup, on_piece);
}

static void on_ready(void *ctx, const struct err *err)
{
    struct sending *s = ctx;

    if (err != NULL) {
        http_reply_err(s->ex, err);
        engine_backup_close(s->backup);
        free(s);
        return;
    }
    http_set_drain(s->ex, on_drain);
    http_add_header(s->ex, "Cache-Control", "no-store");
    http_begin_sized(s->ex, 200, "application/vnd.sqlite3", engine_backup_size(s->backup));
    if (http_method(s->ex) == HTTP_METHOD_HEAD) {
        http_end(s->ex);
        engine_backup_close(s->backup);
        free(s);
        return;
    }
    next(s);
}

void api_backup(struct http_exchange *ex)
{
    struct sending *s = xcalloc(1, sizeof(*s));

    s->ex = ex;
    http_set_ctx(ex, s, on_gone);
    s->backup = engine_backup_start(api_of(ex)->engine, on_ready, s);
}
