/* snapshot_moves.c - see snapshot_moves.h. Few run at once, since each is a process of its own and takes as long as its caller
 * lets it; one that stands still or is too slow is given up. */
#include "engine/snapshot_moves.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/rand.h"
#include "base/str.h"
#include "engine/internal.h"
#include "engine/snapshot_side.h"
#include "loop/tcp_stream.h"

enum { MOVES_MAX = 8, MOVES_PER_CALLER = 2, ABOUT_MAX = 16 * 1024 };

#define MOVE_NS (3600 * NS_PER_S)

/* --- what both share --- */

static int check_room(const struct engine *e, uint64_t principal, struct err *err)
{
    size_t own = 0;

    for (struct list_node *n = list_first(&e->moves); n != NULL; n = list_next(&e->moves, n))
        own += container_of(n, struct engine_move, link)->principal == principal;
    if (e->is_closing)
        return err_set(err, SP_DRAINING, "the daemon is stopping");
    if (own >= MOVES_PER_CALLER || e->moves.len >= MOVES_MAX)
        return err_set(err, SP_TOO_MANY_CALLS,
                       "%zu snapshots are being exported or imported, the limit%s",
                       own >= MOVES_PER_CALLER ? own : e->moves.len,
                       own >= MOVES_PER_CALLER ? " of one caller" : "");
    return SP_OK;
}

static void stop(struct engine_move *m)
{
    if (op_is_active(m->op))
        op_cancel(m->op);
    else /* packed, and not read to its end */
        engine_export_cancel(container_of(m, struct engine_export, move));
}

static void on_slow(struct pace *p)
{
    struct engine_move *m = container_of(p, struct engine_move, pace);

    m->is_slow = true;
    stop(m);
}

static void drop_fd(struct engine_move *m)
{
    if (m->fd >= 0)
        (void) close(m->fd); /* the process has its own */
    m->fd = -1;
}

static void drop_stream(struct engine_move *m)
{
    pace_end(&m->pace);
    if (m->stream != NULL)
        tcp_stream_close(m->stream);
    m->stream = NULL;
}

static int begin(struct engine_move *m, struct op *op, const struct tcp_stream_events *events,
                 void *ctx, struct err *err)
{
    struct engine *e = m->engine;
    int fds[2];
    int rc;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        return err_sys(err, SP_IO, errno, "a socket between two processes");
    rc = tcp_stream_take(e->loop, fds[0], events, ctx, &m->stream, err);
    if (rc != SP_OK) {
        (void) close(fds[1]); /* nothing was written */
        return rc;
    }
    m->fd = fds[1];
    m->op = op;
    m->config = config_ref_get(e->config);
    list_push_back(&e->moves, &m->link);
    engine_op_begun(e);
    pace_begin(&m->pace, e->rt, on_slow);
    return SP_OK;
}

static void end(struct engine_move *m)
{
    drop_stream(m);
    drop_fd(m);
    list_remove(&m->engine->moves, &m->link);
    config_ref_put(m->config);
}

/* Why, for its caller. */
static int explain(const struct engine_move *m, int rc, const struct err *err, char *dst,
                   size_t cap)
{
    if (rc == SP_CANCELLED && m->is_slow) {
        (void) snprintf(dst, cap, "less than %d KB a second have moved for %d s, or nothing",
                        PACE_RATE / 1024, PACE_PATIENCE_S);
        return SP_TIMEOUT;
    }
    str_copy_cut(dst, cap, rc != SP_OK ? err->msg : "");
    return err_for_caller(rc);
}

/* --- export --- */

static void finish_export(struct engine_export *x, int code, const char *reason)
{
    struct engine *e = x->move.engine;

    end(&x->move);
    buf_fini(&x->about);
    if (code == SP_OK)
        log_info("snapshot.exported", LF_HEX("snapshot", x->request.id));
    else
        log_warn("snapshot.not_exported", LF_HEX("snapshot", x->request.id),
                 LF_STR("reason", reason));
    x->on_done(x, code, reason);
    engine_op_ended(e);
}

static void on_packed(struct op *op)
{
    struct engine_export *x = container_of(op, struct engine_export, request.op);
    char reason[sizeof(op->err.msg)];
    int code = explain(&x->move, op->result, &op->err, reason, sizeof(reason));

    drop_fd(&x->move); /* so that there is an end */
    x->is_packed = true;
    if (code != SP_OK || x->is_read)
        finish_export(x, code, reason);
}

static void on_export_data(void *ctx, const char *data, size_t len)
{
    struct engine_export *x = ctx;

    pace_moved(&x->move.pace, len, false);
    x->on_data(x, data, len);
}

static void on_export_end(void *ctx)
{
    struct engine_export *x = ctx;

    x->is_read = true;
    if (x->is_packed)
        finish_export(x, SP_OK, "");
}

static void on_nothing(void *ctx UNUSED)
{
}

static void on_export_refused(struct rt_task *task)
{
    struct engine_export *x = container_of(task, struct engine_export, move.refusal);

    x->on_done(x, x->move.err.code, x->move.err.msg);
}

static void put_about(const struct engine *e, const struct engine_snapshot *s, struct buf *out)
{
    char time[40];
    struct json_out o;

    str_iso8601(time, s->info.created_ms);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "name", s->info.name);
    json_put_str(&o, "profile", s->info.profile);
    json_put_str(&o, "backend", e->backends[s->backend].ops->name);
    json_put_str(&o, "created_at", time);
    if (!str_is_empty(s->info.metadata))
        json_put_raw(&o, "metadata", s->info.metadata);
    json_end(&o);
    json_out_finish(&o, out);
}

static int prepare_export(struct engine *e, struct engine_export *x,
                          const struct engine_snapshot *s, struct err *err)
{
    static const struct tcp_stream_events events = {.on_data = on_export_data,
                                                    .on_end = on_export_end,
                                                    .on_drain = on_nothing,
                                                    .on_broken = on_export_end};
    int rc = check_room(e, x->move.principal, err);

    if (rc == SP_OK && e->backends[s->backend].ops->export == NULL)
        rc = err_set(err, SP_UNSUPPORTED, "snapshots of backend %s cannot be exported",
                     e->backends[s->backend].ops->name);
    if (rc == SP_OK)
        rc = begin(&x->move, &x->request.op, &events, x, err);
    if (rc == SP_OK)
        pace_moved(&x->move.pace, 0, false); /* the backend's turn */
    return rc;
}

void engine_export_start(struct engine *e, struct engine_export *x, const struct engine_snapshot *s,
                         uint64_t principal)
{
    x->move.engine = e;
    x->move.principal = principal;
    x->move.backend = s->backend;
    x->move.fd = -1;
    if (prepare_export(e, x, s, &x->move.err) != SP_OK) {
        rt_defer(e->rt, &x->move.refusal, on_export_refused);
        return;
    }
    buf_init(&x->about, ABOUT_MAX);
    put_about(e, s, &x->about);
    x->request.id = s->info.id;
    x->request.created_ms = s->info.created_ms;
    x->request.about = buf_str(&x->about);
    x->request.profile = config_find_profile(x->move.config->config, s->info.profile);
    x->request.fd = x->move.fd;
    e->backends[s->backend].ops->export(e->backends[s->backend].backend, &x->request,
                                        rt_after(rt_now(e->rt), MOVE_NS), on_packed);
}

void engine_export_pause(struct engine_export *x)
{
    if (x->move.stream == NULL)
        return;
    pace_moved(&x->move.pace, 0, true);
    tcp_stream_pause(x->move.stream);
}

void engine_export_resume(struct engine_export *x)
{
    if (x->move.stream == NULL)
        return;
    pace_moved(&x->move.pace, 0, false);
    tcp_stream_resume(x->move.stream);
}

static void on_export_cancelled(struct rt_task *task)
{
    struct engine_export *x = container_of(task, struct engine_export, move.refusal);
    struct err err;
    char reason[sizeof(err.msg)];
    int rc = err_set(&err, SP_CANCELLED, "%s", err_text(SP_CANCELLED));

    rc = explain(&x->move, rc, &err, reason, sizeof(reason));
    finish_export(x, rc, reason);
}

void engine_export_cancel(struct engine_export *x)
{
    drop_stream(&x->move);
    x->is_read = true;
    if (op_is_active(&x->request.op))
        op_cancel(&x->request.op);
    else if (x->is_packed)
        rt_defer(x->move.engine->rt, &x->move.refusal, on_export_cancelled);
}

/* --- import --- */

static void on_dropped(void *ctx UNUSED, int code, const char *reason)
{
    if (code != SP_OK)
        log_warn("snapshot.not_dropped", LF_STR("reason", reason));
}

static void on_unpacked(struct op *op)
{
    struct engine_import *x = container_of(op, struct engine_import, request.op);
    struct engine *e = x->move.engine;
    const struct snapshot *s = &x->request.snapshot;
    struct snapshot_side none = {0};
    char reason[sizeof(op->err.msg)];
    int code = explain(&x->move, op->result, &op->err, reason, sizeof(reason));

    end(&x->move);
    quota_end(e, s->principal, x->counted);
    if (code == SP_OK) {
        snapshots_add(e, s, x->move.backend, &none, false);
        log_info("snapshot.imported", LF_HEX("snapshot", s->id), LF_U64("bytes", s->size));
    } else {
        log_warn("snapshot.not_imported", LF_STR("reason", reason));
    }
    if (code == SP_OK && x->is_unwanted)
        engine_snapshot_drop(e, engine_snapshot_find(e, s->id), on_dropped, NULL);
    x->on_done(x, code, reason);
    engine_op_ended(e);
}

static void on_import_drain(void *ctx)
{
    struct engine_import *x = ctx;

    pace_moved(&x->move.pace, 0, true);
    x->on_drain(x);
}

/* It takes no more: why is what it says itself. */
static void on_import_broken(void *ctx)
{
    struct engine_import *x = ctx;

    pace_end(&x->move.pace);
    x->on_drain(x);
}

static void on_import_data(void *ctx UNUSED, const char *data UNUSED, size_t len UNUSED)
{
}

static void on_import_refused(struct rt_task *task)
{
    struct engine_import *x = container_of(task, struct engine_import, move.refusal);

    x->on_done(x, x->move.err.code, x->move.err.msg);
}

static int prepare_import(struct engine *e, struct engine_import *x,
                          const struct engine_import_options *w, struct err *err)
{
    static const struct tcp_stream_events events = {.on_data = on_import_data,
                                                    .on_end = on_nothing,
                                                    .on_drain = on_import_drain,
                                                    .on_broken = on_import_broken};
    int rc;

    if ((rc = check_room(e, w->principal, err)) != SP_OK ||
        (rc = import_check_head(e, x, w, err)) != SP_OK ||
        (rc = quota_check(e, w->principal, x->counted, err)) != SP_OK)
        return rc;
    if (e->disk.is_low)
        return err_set(err, SP_POOL_EXHAUSTED, "%s", e->disk.reason);
    return begin(&x->move, &x->request.op, &events, x, err);
}

void engine_import_start(struct engine *e, struct engine_import *x,
                         const struct engine_import_options *w)
{
    struct snapshot *s = &x->request.snapshot;

    x->move.engine = e;
    x->move.principal = w->principal;
    x->move.fd = -1;
    if (prepare_import(e, x, w, &x->move.err) != SP_OK) {
        rt_defer(e->rt, &x->move.refusal, on_import_refused);
        return;
    }
    rand_secure(&s->id, sizeof(s->id));
    str_copy_cut(s->instance, sizeof(s->instance), e->instance);
    s->principal = w->principal;
    s->created_ms = (uint64_t) rt_wall_at(e->rt, rt_now(e->rt));
    quota_begin(e, w->principal, x->counted);
    x->request.profile = config_find_profile(x->move.config->config, s->profile);
    x->request.is_any_base = w->is_any_base;
    x->request.max_bytes = e->config->config->snapshots.import_max;
    x->request.fd = x->move.fd;
    e->backends[x->move.backend].ops->import(e->backends[x->move.backend].backend, &x->request,
                                             rt_after(rt_now(e->rt), MOVE_NS), on_unpacked);
}

bool engine_import_write(struct engine_import *x, const char *data, size_t len)
{
    bool is_full;

    if (x->move.stream == NULL)
        return false;
    is_full = tcp_stream_write(x->move.stream, data, len) > TCP_STREAM_HIGH;
    pace_moved(&x->move.pace, len, !is_full);
    return is_full;
}

void engine_import_end(struct engine_import *x)
{
    pace_end(&x->move.pace); /* the rest is up to the backend */
    if (x->move.stream != NULL)
        tcp_stream_shut(x->move.stream);
}

void engine_import_cancel(struct engine_import *x)
{
    x->is_unwanted = true;
    drop_stream(&x->move);
    if (op_is_active(&x->request.op))
        op_cancel(&x->request.op);
}

/* --- the end --- */

void moves_close(struct engine *e)
{
    for (struct list_node *n = list_first(&e->moves); n != NULL; n = list_next(&e->moves, n))
        stop(container_of(n, struct engine_move, link));
}
