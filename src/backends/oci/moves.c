/* moves.c - snapshots that leave this machine as one file, and come as one. sandpool-helper writes and reads it, by a socket of
 * the caller's. What comes is made in a directory that does not count yet, and becomes a snapshot as in capture.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/oci/env.h"
#include "backends/oci/internal.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "helper/plan.h"

enum { PLAN_MAX = 1024 * 1024, CONFIG_MAX = 256 * 1024 };

#define IMAGE_MAX (64ULL << 30) /* bytes of its layers */

enum move_step {
    MOVE_WAITS, /* until what its boxes are built on is there */
    MOVE_PREPARES,
    MOVE_RUNS, /* sandpool-helper */
    MOVE_SEALS,
    MOVE_STEP_COUNT
};

/* `priv` of the request: one of the two. */
struct moving {
    struct oci *oci;
    struct op *op; /* of the request */
    struct backend_export *export;
    struct backend_import *import;
    enum move_step step;
    struct waiter waiter;
    struct work work;
    struct oci_helper helper;
    char rootfs[OCI_PATH_MAX];
    char **env;
    const char *lower;             /* NULL: not known */
    uint64_t held[OCI_LAYERS_MAX]; /* of an export */
    unsigned held_count;
};

static void end(struct moving *m, int rc, const struct err *err)
{
    struct oci *o = m->oci;

    if (m->import != NULL && rc == SP_OK)
        oci_snapshot_add(o, &m->import->snapshot, o->id_base);
    else if (m->import != NULL)
        oci_snapshot_discard(o, m->import->snapshot.id);
    oci_snapshot_release(o, m->held, m->held_count);
    oci_env_free(m->env);
    oci_helper_fini(&m->helper);
    if (m->import != NULL)
        m->import->priv = NULL;
    else
        m->export->priv = NULL;
    closing_finish(&o->closing, m->op, rc, err);
    free(m);
}

/* --- it becomes a snapshot --- */

static int run_seal(struct work *w, struct err *err)
{
    const struct moving *m = container_of(w, struct moving, work);

    return oci_snapshot_seal(m->oci, &m->import->snapshot, m->oci->id_base, err);
}

static void on_sealed(struct op *op)
{
    end(container_of(op, struct moving, work.op), op->result, &op->err);
}

/* --- sandpool-helper --- */

static void on_moved(struct op *op)
{
    struct moving *m = container_of(op, struct moving, helper.op);
    const struct json *answer = op->result == SP_OK ? json_root(m->helper.answer) : NULL;
    const char *digest = answer != NULL ? json_str(json_get(answer, "digest")) : NULL;
    struct err err = op->err;
    int rc = op->result;

    if (rc != SP_OK && rc != SP_CANCELLED && m->helper.exit_code > 0)
        rc = err.code = helper_code(m->helper.exit_code);
    if (m->import == NULL || rc != SP_OK) {
        end(m, rc, &err);
        return;
    }
    FAULT_POINT("snapshot.unpacked");
    if (digest == NULL ||
        !str_copy(m->import->snapshot.digest, sizeof(m->import->snapshot.digest), digest) ||
        !json_u64(json_get(answer, "size"), &m->import->snapshot.size)) {
        rc = err_set(&err, SP_PROTOCOL, "sandpool-helper unpack gave no answer");
        end(m, rc, &err);
        return;
    }
    if (m->op->state == OP_CANCELING) {
        rc = err_set(&err, SP_CANCELLED, "%s", err_text(SP_CANCELLED));
        end(m, rc, &err);
        return;
    }
    m->import->snapshot.layers = 1;
    m->step = MOVE_SEALS;
    m->work.run = run_seal;
    work_start(m->oci->loop, &m->work, &m->oci->closing.inner, RT_NEVER, on_sealed);
}

/* What programs in the image are started with. Nothing that only the profile or the lease gave: that may be secret. */
static void put_config(const struct moving *m, const struct config_profile *p, struct json_out *j)
{
    bool is_root = strcmp(p->user, "root") == 0;
    struct oci_env env = {0};
    struct json_out c;
    struct buf text;

    buf_init(&text, CONFIG_MAX);
    json_out_init(&c);
    json_begin_obj(&c, NULL);
    oci_env_begin(&env, p->user, (const char *const *) m->env);
    oci_env_put(&env, "Env", &c);
    json_begin_arr(&c, "Cmd");
    json_put_str(&c, NULL, "/bin/sh");
    json_end(&c);
    json_put_str(&c, "User", is_root ? "0:0" : OCI_USER);
    json_put_str(&c, "WorkingDir", OCI_WORKSPACE);
    json_end(&c);
    json_out_finish(&c, &text);
    json_put_str(j, "config", buf_str(&text));
    buf_fini(&text);
}

static void put_image(const struct moving *m, struct json_out *j)
{
    const struct config_profile *p = m->export->profile;
    const struct oci *o = m->oci;
    char text[64];
    char hex[17];

    put_config(m, p, j);
    str_hex64(hex, m->export->id);
    (void) snprintf(text, sizeof(text), "localhost/sandpool-image:%s", hex); /* fits by its size */
    json_put_str(j, "name", text);
    str_iso8601(text, m->export->created_ms);
    json_put_str(j, "created", text);
    json_put_u64(j, "max_bytes", IMAGE_MAX);
    if (!str_is_empty(p->image) || strcmp(p->rootfs, "host") != 0)
        return;
    json_begin_arr(j, "host");
    json_put_str(j, NULL, "/usr");
    for (unsigned i = 0; i < o->extra_bind_count; i++)
        json_put_str(j, NULL, o->extra_binds[i]);
    json_end(j);
}

static const char *verb_of(const struct moving *m)
{
    if (m->import != NULL)
        return "unpack";
    return m->export->is_image ? "image" : "pack";
}

static void run(struct moving *m)
{
    struct oci *o = m->oci;
    char path[OCI_PATH_MAX + 64];
    struct json_out j;

    m->step = MOVE_RUNS;
    buf_init(&m->helper.plan, PLAN_MAX);
    json_out_init(&j);
    json_begin_obj(&j, NULL);
    json_put_str(&j, "stage", o->stage);
    if (m->lower != NULL)
        json_put_str(&j, "lower", m->lower);
    if (m->export != NULL) {
        oci_snapshot_put_layers(o, m->export->id, &j);
        if (m->export->is_image)
            put_image(m, &j);
        else
            json_put_str(&j, "about", m->export->about);
    } else {
        oci_snapshot_path(o, m->import->snapshot.id, true, "disk", path, sizeof(path));
        json_put_str(&j, "to", path);
        json_put_u64(&j, "id_base", o->id_base);
        json_put_u64(&j, "reserve", o->snapshots.reserve);
        json_put_u64(&j, "max_bytes", m->import->max_bytes);
        json_put_bool(&j, "any_base", m->import->is_any_base);
    }
    json_end(&j);
    json_out_finish(&j, &m->helper.plan);
    m->helper.verb = verb_of(m);
    m->helper.pass_fd = m->export != NULL ? m->export->fd : m->import->fd;
    oci_helper_start(o, &m->helper, RT_NEVER, on_moved); /* our own deadline cancels it */
}

/* --- before --- */

static int run_prepare(struct work *w, struct err *err)
{
    const struct moving *m = container_of(w, struct moving, work);
    char dir[OCI_PATH_MAX + 64];

    oci_snapshot_path(m->oci, m->import->snapshot.id, true, NULL, dir, sizeof(dir));
    return file_make_dir(dir, err);
}

static void on_prepared(struct op *op)
{
    struct moving *m = container_of(op, struct moving, work.op);
    struct err err = op->err;
    int rc = op->result;

    if (rc == SP_OK && m->op->state == OP_CANCELING)
        rc = err_set(&err, SP_CANCELLED, "%s", err_text(SP_CANCELLED));
    if (rc == SP_OK)
        run(m);
    else
        end(m, rc, &err);
}

/* From the start, or from where it had to wait. */
static void look(struct moving *m)
{
    const struct config_profile *p = m->export != NULL ? m->export->profile : m->import->profile;
    struct err err;
    int rc = SP_OK;

    if (m->op->state == OP_CANCELING)
        rc = err_set(&err, SP_CANCELLED, "%s", err_text(SP_CANCELLED));
    else if (p != NULL)
        rc = oci_lower(m->oci, p, m->rootfs, &m->env, &m->lower, &err);
    else if (m->export != NULL && m->export->is_image)
        rc = err_set(
            &err, SP_SPEC_CONFLICT,
            "the profile of the snapshot is gone, and what its boxes are built on has to be "
            "in an image: export it without a format");
    if (rc == ERR_NOT_READY) {
        m->step = MOVE_WAITS;
        list_push_back(&m->oci->waiters, &m->waiter.link);
    } else if (rc != SP_OK) {
        end(m, rc, &err);
    } else if (m->export != NULL) {
        run(m);
    } else {
        m->step = MOVE_PREPARES;
        m->work.run = run_prepare;
        work_start(m->oci->loop, &m->work, &m->oci->closing.inner, RT_NEVER, on_prepared);
    }
}

static void resume(struct waiter *w)
{
    look(container_of(w, struct moving, waiter));
}

static void cancel(struct moving *m)
{
    if (m->step == MOVE_WAITS && list_is_linked(&m->waiter.link)) {
        list_remove(&m->oci->waiters, &m->waiter.link);
        look(m);
    } else if (m->step == MOVE_RUNS && op_is_active(&m->helper.op)) {
        op_cancel(&m->helper.op); /* the other steps are short, and end by themselves */
    }
}

static void on_cancel_export(struct op *op)
{
    cancel(container_of(op, struct backend_export, op)->priv);
}

static void on_cancel_import(struct op *op)
{
    cancel(container_of(op, struct backend_import, op)->priv);
}

static struct moving *make(struct oci *o, struct op *op)
{
    struct moving *m = xcalloc(1, sizeof(*m));

    m->oci = o;
    m->op = op;
    m->waiter.resume = resume;
    return m;
}

void oci_export(struct backend *backend, struct backend_export *r, uint64_t deadline_ns,
                void (*on_done)(struct op *))
{
    struct oci *o = oci_of(backend);
    struct moving *m = make(o, &r->op);
    struct err err;

    op_begin(&r->op, &o->loop->rt, &o->closing.ops, deadline_ns, on_cancel_export, on_done);
    r->priv = m;
    m->export = r;
    m->held_count = oci_snapshot_hold(o, r->id, m->held);
    if (m->held_count == 0)
        end(m, err_set(&err, SP_NOT_FOUND, "the snapshot is gone"), &err);
    else
        look(m);
}

void oci_import(struct backend *backend, struct backend_import *r, uint64_t deadline_ns,
                void (*on_done)(struct op *))
{
    struct oci *o = oci_of(backend);
    struct moving *m = make(o, &r->op);
    struct err err;

    op_begin(&r->op, &o->loop->rt, &o->closing.ops, deadline_ns, on_cancel_import, on_done);
    r->priv = m;
    m->import = r;
    if (o->is_rootless || !o->has_loop)
        end(m,
            err_set(&err, SP_UNSUPPORTED,
                    "snapshots need a daemon that runs as root, with loop devices"),
            &err);
    else
        look(m);
}
