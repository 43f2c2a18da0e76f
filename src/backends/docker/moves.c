/* moves.c - snapshots that leave this engine as one file or as an image, and come as one. The engine saves and loads an archive of its
 * own; sandpool-helper is between it and the file, in both directions: it takes out of the engine's archive what says whose the
 * snapshot is, and gives to the engine only what is written by itself, under the one name that is ours. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/docker/internal.h"
#include "base/fault.h"
#include "base/fdpass.h"
#include "base/mem.h"
#include "base/str.h"
#include "helper/plan.h"
#include "loop/tcp_stream.h"

#define IMAGE_MAX (64ULL << 30) /* bytes of its layers */

enum { PLAN_MAX = 512 * 1024, LABELS_MAX = 128 * 1024, PIECE_MAX = 64 * 1024 };

/* `priv` of the request: one of the two. */
struct moving {
    struct docker *docker;
    struct op *op; /* of the request */
    struct backend_export *export;
    struct backend_import *import;
    struct call call;
    struct child child;
    struct buf plan;
    const char *argv[3];
    struct tcp_stream *stream; /* to the helper; NULL: closed */
    int fd;                    /* its end; -1: only its own */
    bool has_child;            /* it runs */
    bool has_call;             /* it is under way */
    bool has_started;          /* the load */
    bool is_full;              /* the whole archive has been given to the engine */
    bool may_exist;            /* it has loaded it, or could have */
    bool is_checked;
    char image[SNAPSHOT_DIGEST_MAX + 1]; /* what it has to be then */
    int result;                          /* the first thing that went wrong */
    struct err err;
};

static void fail(struct moving *m, int rc, const struct err *err)
{
    if (m->result != SP_OK || rc == SP_OK)
        return;
    m->result = rc;
    m->err = *err;
    m->err.code = rc;
}

static void drop_stream(struct moving *m)
{
    if (m->stream != NULL)
        tcp_stream_close(m->stream);
    m->stream = NULL;
    if (m->fd >= 0)
        (void) close(m->fd); /* a socket that the helper has, too */
    m->fd = -1;
}

static void ask_image(struct moving *m);

/* When neither the helper nor the engine is at work any more. */
static void settle(struct moving *m)
{
    struct docker *d = m->docker;

    if (m->has_child || m->has_call)
        return;
    drop_stream(m);
    if (m->import != NULL && m->result == SP_OK && !m->is_checked) {
        ask_image(m);
        return;
    }
    if (m->import != NULL && m->result != SP_OK && m->may_exist)
        docker_snapshot_remove(d, m->import->snapshot.id);
    if (m->import != NULL)
        m->import->priv = NULL;
    else
        m->export->priv = NULL;
    closing_finish(&d->closing, m->op, m->result, &m->err);
    call_fini(&m->call);
    buf_fini(&m->plan);
    free(m);
}

/* An engine that has got all of it is not cut off: what becomes of it has to be known. */
static void stop(struct moving *m)
{
    if (m->has_child && op_is_active(&m->child.op))
        op_cancel(&m->child.op);
    if (m->has_call && !m->is_full && op_is_active(&m->call.op))
        op_cancel(&m->call.op);
}

/* --- what is there after a load --- */

static void on_image(struct op *op)
{
    struct moving *m = container_of(op, struct moving, call.op);
    char found[SNAPSHOT_DIGEST_MAX + 1] = "";
    struct json_doc *doc = NULL;
    struct err err;
    int rc = docker_call_json(&m->call, &doc, &err);
    const char *id = rc == SP_OK ? json_str(json_get(json_root(doc), "Id")) : NULL;

    m->has_call = false;
    if (rc == SP_OK &&
        (id == NULL || !docker_image_digest(id, found) || strcmp(found, m->image) != 0))
        rc = err_set(&err, SP_PROTOCOL, "the engine has loaded another image (%.71s)", found);
    (void) json_doc_free(doc);
    fail(m, rc == SP_NOT_FOUND ? SP_BACKEND_FAILED : rc, &err);
    str_copy_cut(m->import->snapshot.digest, sizeof(m->import->snapshot.digest), m->image);
    settle(m);
}

static void ask_image(struct moving *m)
{
    char name[DOCKER_SNAPSHOT_NAME_MAX];

    m->is_checked = true;
    m->has_call = true;
    docker_snapshot_name(m->import->snapshot.id, name);
    docker_call_init(m->docker, &m->call, "GET");
    buf_printf(&m->call.path, "/images/%s/json", name);
    docker_call_start(&m->call, RT_NEVER, on_image);
}

/* --- the engine --- */

/* It answers 200 before it has read the archive, and then says in lines of JSON what went wrong. */
static int find_error(const struct buf *answer, struct err *err)
{
    static const char key[] = "\"error\":\"";
    const char *text = answer->len > 0 ? strstr(buf_str(answer), key) : NULL;
    size_t len;

    if (text == NULL)
        return SP_OK;
    text += strlen(key);
    len = strcspn(text, "\"\n");
    return err_set(err, SP_BACKEND_FAILED, "the engine cannot load it: %.*s",
                   (int) MIN_OF(len, 160), text);
}

static void on_call(struct op *op)
{
    struct moving *m = container_of(op, struct moving, call.op);
    struct err err;
    int rc = docker_call_result(&m->call, &err);

    m->has_call = false;
    if (rc == SP_OK && m->import != NULL) {
        FAULT_POINT("snapshot.loaded");
        rc = find_error(&m->call.http.response, &err);
    }
    if (rc == SP_NOT_FOUND && m->export == NULL)
        rc = SP_BACKEND_FAILED;
    fail(m, rc == ERR_TAKEN ? SP_BACKEND_FAILED : rc, &err);
    if (m->result != SP_OK)
        stop(m);
    else if (m->export != NULL && m->stream != NULL)
        tcp_stream_shut(m->stream); /* that was all of it */
    settle(m);
}

static void on_saved(struct httpc_request *r)
{
    struct call *c = container_of(r, struct call, http);
    struct moving *m = container_of(c, struct moving, call);

    if (r->status != 200)
        return; /* what it says is its error */
    if (m->stream != NULL &&
        tcp_stream_write(m->stream, buf_str(&r->response), r->response.len) > TCP_STREAM_HIGH)
        httpc_pause(r);
    buf_consume(&r->response, r->response.len);
}

static void start_save(struct moving *m)
{
    char name[DOCKER_SNAPSHOT_NAME_MAX];

    m->has_call = true;
    docker_snapshot_name(m->export->id, name);
    docker_call_init(m->docker, &m->call, "GET");
    buf_printf(&m->call.path, "/images/%s/get", name);
    m->call.http.on_data = on_saved;
    m->call.http.response_max = PIECE_MAX;
    docker_call_start(&m->call, RT_NEVER, on_call);
}

static void on_taken(struct httpc_request *r)
{
    struct call *c = container_of(r, struct call, http);
    struct moving *m = container_of(c, struct moving, call);

    if (m->stream != NULL)
        tcp_stream_resume(m->stream);
}

static void start_load(struct moving *m)
{
    m->has_call = m->has_started = true;
    m->may_exist = true;
    docker_call_init(m->docker, &m->call, "POST");
    buf_puts(&m->call.path, "/images/load?quiet=1");
    call_header(&m->call, "Content-Type: application/x-tar");
    m->call.http.is_body_streamed = true;
    m->call.http.body_size = -1;
    m->call.http.on_body_drain = on_taken;
    docker_call_start_long(&m->call, 3600 * NS_PER_S, RT_NEVER, on_call); /* ours cancels it */
}

/* --- the helper --- */

static void on_piece(void *ctx, const char *data, size_t len)
{
    struct moving *m = ctx;

    if (m->import == NULL || m->result != SP_OK)
        return;
    if (!m->has_started)
        start_load(m);
    if (m->has_call && httpc_body_write(&m->call.http, data, len) > TCP_STREAM_HIGH)
        tcp_stream_pause(m->stream);
}

/* Whether it did what it should is known: our copy of its end is closed then. */
static void on_end(void *ctx)
{
    struct moving *m = ctx;

    if (m->import == NULL || m->result != SP_OK || !m->has_call)
        return;
    m->is_full = true;
    FAULT_POINT("snapshot.sent");
    httpc_body_end(&m->call.http);
}

static void on_drain(void *ctx)
{
    struct moving *m = ctx;

    if (m->export != NULL && m->has_call && op_is_active(&m->call.http.op))
        httpc_resume(&m->call.http);
}

/* Why is what the helper says. */
static void on_broken(void *ctx)
{
    struct moving *m = ctx;

    tcp_stream_close(m->stream);
    m->stream = NULL;
    if (m->export != NULL && m->has_call && op_is_active(&m->call.http.op))
        httpc_resume(&m->call.http);
}

static int read_answer(struct moving *m, struct err *err)
{
    struct json_doc *doc;
    const char *image;
    int rc = SP_OK;

    if (m->child.exit_code != 0) {
        (void) child_explain(&m->child,
                             m->import != NULL ? "sandpool-helper load" : "sandpool-helper repack",
                             err); /* it is an error for sure */
        return err->code = helper_code(m->child.exit_code);
    }
    if (m->import == NULL)
        return SP_OK;
    doc = json_parse(buf_str(&m->child.out), m->child.out.len, CHILD_OUTPUT_MAX, err);
    image = doc != NULL ? json_str(json_get(json_root(doc), "image")) : NULL;
    if (image == NULL || !docker_image_digest(image, m->image))
        rc = err_set(err, SP_PROTOCOL, "sandpool-helper load gave no answer");
    (void) json_doc_free(doc);
    return rc;
}

static void on_child(struct op *op)
{
    struct moving *m = container_of(op, struct moving, child.op);
    struct err err = op->err;
    int rc = op->result == SP_OK ? read_answer(m, &err) : op->result;

    child_fini(&m->child);
    m->has_child = false;
    fail(m, rc, &err);
    if (m->fd >= 0)
        (void) close(m->fd); /* so that there is an end */
    m->fd = -1;
    if (m->result != SP_OK)
        stop(m);
    settle(m);
}

/* --- the start --- */

static bool put_labels(const struct moving *m, struct json_out *j)
{
    const struct snapshot *s = &m->import->snapshot;
    struct json_out o;
    struct buf coded;
    struct buf text;
    bool is_good;

    buf_init(&coded, LABELS_MAX);
    buf_init(&text, LABELS_MAX);
    is_good = docker_snapshot_code(s, "", &coded);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, LABEL("snapshot"), s->instance);
    json_put_str(&o, LABEL("record"), buf_str(&coded));
    json_end(&o);
    json_out_finish(&o, &text);
    json_put_str(j, "labels", buf_str(&text));
    is_good = is_good && !buf_failed(&text);
    buf_fini(&coded);
    buf_fini(&text);
    return is_good;
}

static bool put_plan(struct moving *m)
{
    const char *repository = m->export != NULL ? "sandpool-image" : "sandpool-snapshot";
    bool is_good = true;
    struct json_out j;
    char text[64];
    char hex[17];

    str_hex64(hex, m->export != NULL ? m->export->id : m->import->snapshot.id);
    json_out_init(&j);
    json_begin_obj(&j, NULL);
    (void) snprintf(text, sizeof(text), "localhost/%s:%s", repository, hex); /* fits by its size */
    json_put_str(&j, "name", text);
    str_iso8601(text, m->export != NULL ? m->export->created_ms : m->import->snapshot.created_ms);
    json_put_str(&j, "created", text);
    if (m->import != NULL) {
        json_put_u64(&j, "max_bytes", m->import->max_bytes);
        is_good = put_labels(m, &j);
    } else {
        json_put_u64(&j, "max_bytes", IMAGE_MAX);
        json_put_str(&j, "dir", m->docker->dir);
        json_put_u64(&j, "reserve", m->docker->reserve);
        if (!m->export->is_image)
            json_put_str(&j, "about", m->export->about);
    }
    json_end(&j);
    buf_init(&m->plan, PLAN_MAX);
    json_out_finish(&j, &m->plan);
    return is_good && !buf_failed(&m->plan);
}

static int start(struct moving *m, struct err *err)
{
    static const struct tcp_stream_events events = {
        .on_data = on_piece, .on_end = on_end, .on_drain = on_drain, .on_broken = on_broken};
    struct docker *d = m->docker;
    bool is_passed;
    int fds[2];
    int rc;

    if (str_is_empty(d->helper) || str_is_empty(d->dir))
        return err_set(
            err, SP_UNSUPPORTED,
            "snapshots are exported and imported by sandpool-helper, which is missing, in "
            "the state directory");
    if (!put_plan(m))
        return err_set(err, SP_TOO_BIG, "the record of the snapshot is too long");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        return err_sys(err, SP_IO, errno, "a socket between two processes");
    is_passed = fdpass_send(fds[0], m->export != NULL ? m->export->fd : m->import->fd);
    m->fd = fds[1];
    rc = is_passed ? SP_OK : err_sys(err, SP_IO, errno, "pass a descriptor");
    if (rc == SP_OK)
        rc = tcp_stream_take(d->loop, fds[0], &events, m, &m->stream, err);
    else
        (void) close(fds[0]); /* nothing was written */
    if (rc != SP_OK)
        return rc;
    m->argv[0] = d->helper;
    m->argv[1] = m->export != NULL ? "repack" : "load";
    m->child = (struct child){
        .argv = m->argv, .input = buf_str(&m->plan), .input_len = m->plan.len, .pass_fd = m->fd};
    m->has_child = true;
    child_start(d->loop, &m->child, NULL, RT_NEVER, on_child); /* our end cancels it */
    if (m->export != NULL)
        start_save(m);
    return SP_OK;
}

static void begin(struct moving *m)
{
    struct err err;

    m->fd = -1;
    fail(m, start(m, &err), &err);
    settle(m);
}

static void cancel(struct moving *m)
{
    struct err err;

    fail(m, err_set(&err, SP_CANCELLED, "%s", err_text(SP_CANCELLED)), &err);
    stop(m);
}

static void on_cancel_export(struct op *op)
{
    cancel(container_of(op, struct backend_export, op)->priv);
}

static void on_cancel_import(struct op *op)
{
    cancel(container_of(op, struct backend_import, op)->priv);
}

void docker_export(struct backend *backend, struct backend_export *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *))
{
    struct docker *d = docker_of(backend);
    struct moving *m = xcalloc(1, sizeof(*m));

    op_begin(&r->op, &d->loop->rt, &d->closing.ops, deadline_ns, on_cancel_export, on_done);
    m->docker = d;
    m->op = &r->op;
    m->export = r;
    r->priv = m;
    begin(m);
}

void docker_import(struct backend *backend, struct backend_import *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *))
{
    struct docker *d = docker_of(backend);
    struct moving *m = xcalloc(1, sizeof(*m));

    op_begin(&r->op, &d->loop->rt, &d->closing.ops, deadline_ns, on_cancel_import, on_done);
    m->docker = d;
    m->op = &r->op;
    m->import = r;
    r->priv = m;
    r->snapshot.layers = 1;
    r->snapshot.size = r->bytes;
    begin(m);
}
