/* make.c - the engine's part of making a box, step by step, and undoing it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/docker/making.h"
#include "base/cleanup.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

static void free_making(struct making *m)
{
    if (m->is_inside)
        gate_leave(&m->docker->creates);
    docker_relay_free(m->relay);
    call_fini(&m->call);
    buf_fini(&m->body);
    buf_fini(&m->fallback);
    docker_mount_fini(&m->disk);
    rebase_fini(m);
    free(m);
}

void making_answer(struct making *m, int rc, const struct err *err)
{
    struct backend_create *r = m->request;

    if (r == NULL)
        return;
    if (rc == SP_OK)
        r->box = m->made;
    r->priv = NULL;
    m->request = NULL;
    closing_finish(&m->docker->closing, &r->op, rc, err);
}

/* Nothing of it is with the engine, or all is well. */
void making_finish(struct making *m, int rc, const struct err *err)
{
    struct docker *d = m->docker;
    struct docker_box *b = m->box;
    bool was_never_made = !m->may_exist;
    struct list joined;

    making_answer(m, rc, err);
    free_making(m);
    if (b == NULL) {
        closing_settle(&d->closing);
        return;
    }
    b->on_death = NULL;
    list_move(&b->entry.joiners, &joined);
    boxes_set(&b->entry, rc == SP_OK ? BOX_RUNNING : BOX_DEAD);
    if (rc == SP_OK)
        docker_hoard_add(b);
    b->was_never_made = was_never_made; /* its destroy comes, and needs no engine then */
    if (!list_is_empty(&b->entry.removers))
        docker_remove_box(b);
    else if (rc != SP_OK && !was_never_made)
        docker_box_drop(b);
    waiter_resume_all(&joined);
    closing_settle(&d->closing);
}

/* --- undoing --- */

static void on_undone(struct remover *w, int rc UNUSED, const struct err *err UNUSED,
                      const struct backend_released *released UNUSED)
{
    struct making *m = container_of(w, struct making, undo);

    m->box = NULL; /* gone, or dead and handled by the next look */
    making_finish(m, m->result, &m->err);
}

/* Those who joined begin anew when it is gone: what failed for us may work for them. */
void making_undo(struct making *m, int rc, const struct err *err)
{
    struct docker_box *b = m->box;

    if (!m->may_exist) {
        making_finish(m, rc, err);
        return;
    }
    m->step = MAKING_UNDOES;
    m->result = rc;
    m->err = *err;
    m->undo.on_removed = on_undone;
    b->on_death = NULL;
    list_push_back(&b->entry.removers, &m->undo.link);
    boxes_set(&b->entry, BOX_DEAD);
    docker_remove_box(b);
}

/* True when there is a reason not to go on, and making_undo() has begun. */
bool making_is_over(struct making *m)
{
    struct err err;

    if (m->request == NULL)
        making_undo(m, err_set(&err, SP_CANCELLED, "nobody waits for the box"), &err);
    else if (m->box->has_died)
        making_undo(m, err_set(&err, SP_BACKEND_FAILED, "the container ended at once"), &err);
    else
        return false;
    return true;
}

/* --- it runs --- */

void making_died(struct docker_box *b UNUSED, void *ctx)
{
    struct making *m = ctx;

    if (m->step == MAKING_AT_RELAY)
        (void) making_is_over(m); /* else the end of the call sees it */
}

/* Not a box of a snapshot, whose owner may have chosen what fails: its directories are limited, or there is no such box. */
static bool is_unlimited(const struct making *m, const struct op *op)
{
    if (m->request == NULL || m->fit.is_wanted)
        return false;
    if (op->result == SP_INVALID_FIELD) /* its image has no such directories */
        return m->request->profile->docker.disk == CONFIG_DISK_AUTO;
    return op->result == SP_UNSUPPORTED &&
           docker_disk_give_up(m->docker, m->request->profile, &op->err);
}

static void on_disk(struct op *op)
{
    struct making *m = container_of(op, struct making, disk.op);

    FAULT_POINT("places.after_limit");
    m->docker->has_limited_places |= op->result == SP_OK;
    if (op->result != SP_OK && !is_unlimited(m, op)) {
        making_undo(m, op->result == ERR_BOX_DEAD ? SP_BACKEND_FAILED : op->result, &op->err);
        return;
    }
    docker_disk_unmark(m->docker, m->box->entry.id);
    m->box->is_marked = false;
    if (!making_is_over(m))
        making_finish(m, SP_OK, NULL);
}

/* It runs, and nobody has it yet. */
static void limit_disk(struct making *m)
{
    if (m->disk_way != DOCKER_DISK_PLACES) {
        making_finish(m, SP_OK, NULL);
        return;
    }
    FAULT_POINT("places.before_limit");
    m->step = MAKING_CALLS; /* who leaves does not end it */
    docker_mount_start(m->docker, &m->disk, m->box->container, on_disk);
}

/* What is known by now of the socket that its relay took. True: it is settled, one way or the other. */
static bool settle_relay(struct making *m)
{
    if (m->relay_err.code != SP_OK)
        making_undo(m, m->relay_err.code, &m->relay_err);
    else if (m->is_taken)
        limit_disk(m);
    else
        return false;
    return true;
}

void making_taken(void *ctx, int rc, const struct err *err)
{
    struct making *m = ctx;

    FAULT_POINT("docker.after_relay");
    m->is_taken = rc == SP_OK;
    if (rc != SP_OK)
        m->relay_err = *err;
    if (m->step == MAKING_AT_RELAY)
        (void) settle_relay(m); /* it is: one of the two was just noted */
}

static void on_seen(struct op *op)
{
    struct making *m = container_of(op, struct making, call.op);
    struct json_doc *doc = NULL;
    struct docker_found f;
    struct err err;
    int rc = docker_call_json(&m->call, &doc, &err);

    if (rc == SP_OK)
        rc = docker_read_inspect(m->docker, json_root(doc), &f, &err);
    (void) json_doc_free(doc);
    if (rc == SP_OK && !f.is_running)
        rc = err_set(&err, SP_BACKEND_FAILED, "the container ended at once");
    if (rc == SP_OK && str_is_empty(f.box.url))
        rc = err_set(&err, SP_BACKEND_FAILED,
                     "the engine has published no port and reports no address");
    if (rc == SP_OK)
        m->made = f.box;
    if (m->box == NULL) { /* it existed */
        making_finish(m, rc, &err);
    } else if (rc != SP_OK) {
        making_undo(m, rc, &err);
    } else if (!making_is_over(m)) {
        limit_disk(m);
    }
}

void making_see(struct making *m, const char *container)
{
    m->step = MAKING_CALLS;
    docker_call_init(m->docker, &m->call, "GET");
    buf_printf(&m->call.path, "/containers/%s/json", container);
    docker_call_start(&m->call, RT_NEVER, on_seen);
}

static bool is_lost(const struct op *op)
{
    return op->result != SP_OK && op->result != SP_CONNECT_FAILED && op->result != SP_PROTOCOL;
}

static void on_started(struct op *op)
{
    struct making *m = container_of(op, struct making, call.op);
    struct err err;
    int rc = docker_call_result(&m->call, &err);

    FAULT_POINT("docker.after_start");
    if (is_lost(op)) {
        making_see(m, m->box->container);
        return;
    }
    if (rc != SP_OK)
        making_undo(m, making_explain(m, rc, &err), &err);
    else if (making_is_over(m))
        return;
    else if (m->relay == NULL)
        making_see(m, m->box->container);
    else if (!settle_relay(m))
        m->step = MAKING_AT_RELAY;
}

static void start_container(struct making *m)
{
    struct err err;
    int rc = SP_OK;

    if (m->disk_way == DOCKER_DISK_PLACES)
        rc = docker_disk_mark(m->docker, m->box->entry.id, &err);
    if (rc != SP_OK) {
        making_undo(m, rc, &err);
        return;
    }
    m->box->is_marked = m->disk_way == DOCKER_DISK_PLACES;
    FAULT_POINT("docker.before_start");
    docker_call_init(m->docker, &m->call, "POST");
    buf_printf(&m->call.path, "/containers/%s/start", m->box->container);
    docker_call_start(&m->call, RT_NEVER, on_started);
}

/* --- the agent, where it cannot be mounted --- */

static void on_uploaded(struct op *op)
{
    struct making *m = container_of(op, struct making, call.op);
    struct err err;
    int rc = docker_call_result(&m->call, &err);

    FAULT_POINT("docker.after_upload");
    if (rc != SP_OK)
        making_undo(m, rc, &err);
    else if (!making_is_over(m))
        start_container(m);
}

static int read_agent(struct work *w, struct err *err)
{
    struct making *m = container_of(w, struct making, work);
    AUTO_CLOSE int fd = open(m->docker->agent, O_RDONLY | O_CLOEXEC);
    struct buf data;
    bool is_read;

    if (fd < 0)
        return err_sys(err, SP_IO, errno, "agent '%.160s'", m->docker->agent);
    buf_init(&data, DOCKER_BODY_MAX / 2);
    is_read = file_read_rest(fd, &data) == 0;
    tar_put_dir(&m->call.body, ".sandpool/", 0755);
    tar_put_file(&m->call.body, ".sandpool/agent", 0755, data.data, data.len);
    tar_end(&m->call.body);
    buf_fini(&data);
    return is_read && !buf_failed(&m->call.body)
               ? SP_OK
               : err_set(err, SP_IO, "agent '%.160s' cannot be read", m->docker->agent);
}

static void on_agent_read(struct op *op)
{
    struct making *m = container_of(op, struct making, work.op);

    if (op->result != SP_OK) {
        making_undo(m, op->result, &op->err);
        return;
    }
    if (making_is_over(m))
        return;
    buf_printf(&m->call.path, "/containers/%s/archive?path=/", m->box->container);
    call_header(&m->call, "Content-Type: application/x-tar");
    docker_call_start(&m->call, RT_NEVER, on_uploaded);
}

static void upload(struct making *m)
{
    docker_call_init(m->docker, &m->call, "PUT");
    m->work.run = read_agent;
    work_start(m->docker->loop, &m->work, &m->docker->closing.inner, RT_NEVER, on_agent_read);
}

void making_go_on(struct making *m)
{
    if (making_is_over(m) || making_rebases(m) || making_looks(m))
        return;
    if (m->want_upload)
        upload(m);
    else
        start_container(m);
}

/* --- the container --- */

static void on_old_removed(struct op *op)
{
    struct making *m = container_of(op, struct making, call.op);
    struct err err;
    int rc = docker_call_result(&m->call, &err);

    if (rc != SP_OK && rc != SP_NOT_FOUND)
        making_undo(m, rc, &err);
    else if (!making_is_over(m))
        making_create(m);
}

void making_again(struct making *m, const char *container)
{
    docker_call_init(m->docker, &m->call, "DELETE");
    buf_printf(&m->call.path, "/containers/%s?force=1&v=1", container);
    m->box->container[0] = '\0'; /* that it ends is not the end of this one */
    docker_call_start(&m->call, RT_NEVER, on_old_removed);
}

/* A container of ours with this name that does not run: from this create, whose answer was lost, or
 * from one whose daemon died. */
static void take_found(struct making *m, const struct docker_found *f)
{
    if (m->relay == NULL || strcmp(f->box.url, m->made.url) == 0) {
        str_copy_cut(m->box->container, sizeof(m->box->container), f->box.ref);
        making_go_on(m);
        return;
    }
    making_again(m, f->box.ref);
}

static void on_found(struct op *op)
{
    struct making *m = container_of(op, struct making, call.op);
    struct json_doc *doc = NULL;
    struct docker_found f;
    struct err err;
    int rc = docker_call_json(&m->call, &doc, &err);

    if (rc == SP_NOT_FOUND)
        rc = err_set(&err, SP_BACKEND_FAILED, "the engine gave no answer and made no container");
    if (rc == SP_OK && (docker_read_inspect(m->docker, json_root(doc), &f, &err) != SP_OK ||
                        f.box.labels.box_id != m->box->entry.id))
        rc = err_set(&err, SP_BACKEND_FAILED,
                     "the name %.120s belongs to a container that is not ours", m->name);
    (void) json_doc_free(doc);
    if (rc == SP_OK && f.is_running && m->disk_way == DOCKER_DISK_PLACES)
        rc = err_set(&err, SP_BACKEND_FAILED, "it runs, and its disk may have no limit");
    if (rc != SP_OK) {
        making_undo(m, rc, &err);
    } else if (f.is_running) {
        str_copy_cut(m->box->container, sizeof(m->box->container), f.box.ref);
        m->made = f.box;
        if (!making_is_over(m))
            making_finish(m, SP_OK, NULL);
    } else {
        take_found(m, &f);
    }
}

static void find_out(struct making *m)
{
    m->is_second = true;
    docker_call_init(m->docker, &m->call, "GET");
    buf_printf(&m->call.path, "/containers/%s/json", m->name);
    docker_call_start(&m->call, RT_NEVER, on_found);
}

/* Podman has no code of its own for it. */
static bool is_name_taken(const struct call *c)
{
    return c->op.result == SP_OK && docker_of_call(c)->is_podman && c->http.status == 500 &&
           strstr(buf_str(&c->http.response), "is already in use") != NULL;
}

/* The engine refuses: perhaps because of the limit of the disk. What it says to the same without shows that. */
static bool is_refused(const struct making *m)
{
    int status = m->call.http.status;

    return m->fallback.len > 0 && m->call.op.result == SP_OK && (status == 400 || status >= 500) &&
           !is_name_taken(&m->call);
}

static void fall_back(struct making *m)
{
    struct buf body = m->body;

    m->body = m->fallback;
    m->fallback = body;
    buf_reset(&m->fallback);
    m->has_fallen_back = true;
    m->disk_way = m->fallback_way;
    making_create(m);
}

static void note_storage(struct making *m)
{
    struct docker *d = m->docker;

    if (d->storage != DOCKER_STORAGE_UNTRIED)
        return;
    if (m->has_fallen_back) {
        d->storage = DOCKER_STORAGE_CANNOT;
        log_warn("docker.no_disk_limit", LF_STR("engine", d->address),
                 LF_STR("effect", m->disk_way == DOCKER_DISK_PLACES
                                      ? "limits.disk counts for some directories only"
                                      : "limits.disk has no effect"));
    } else if (m->disk_way == DOCKER_DISK_ENGINE) {
        d->storage = DOCKER_STORAGE_CAN;
    }
}

static void on_created(struct op *op)
{
    struct making *m = container_of(op, struct making, call.op);
    struct json_doc *doc = NULL;
    const char *id;
    struct err err;
    int rc = docker_call_json(&m->call, &doc, &err);

    FAULT_POINT("docker.after_create");
    if (!docker_call_is_unsent(&m->call))
        m->may_exist = true;
    id = rc == SP_OK ? json_str(json_get(json_root(doc), "Id")) : NULL;
    if (rc == SP_OK && (id == NULL || !str_copy(m->box->container, sizeof(m->box->container), id)))
        rc = err_set(&err, SP_PROTOCOL, "the engine named no container");
    (void) json_doc_free(doc);
    if (rc != SP_OK && is_refused(m)) {
        fall_back(m);
        return;
    }
    if (rc != SP_OK && is_name_taken(&m->call))
        rc = ERR_TAKEN;
    if ((rc == ERR_TAKEN || is_lost(op)) && !m->is_second) {
        find_out(m);
        return;
    }
    if (m->call.http.status == 400 && m->has_extras) /* the profile's own part was made before */
        rc = SP_INVALID_FIELD;
    if (rc != SP_OK) {
        rc = making_explain(m, rc, &err);
        making_undo(m, rc == ERR_TAKEN || rc == SP_NOT_FOUND ? SP_BACKEND_FAILED : rc, &err);
        return;
    }
    str_copy_cut(m->made.ref, sizeof(m->made.ref), m->box->container);
    note_storage(m);
    making_go_on(m);
}

void making_create(struct making *m)
{
    FAULT_POINT("docker.before_create");
    m->step = MAKING_CALLS;
    docker_call_init(m->docker, &m->call, "POST");
    buf_printf(&m->call.path, "/containers/create?name=%s", m->name);
    buf_append(&m->call.body, m->body.data, m->body.len);
    docker_call_start(&m->call, RT_NEVER, on_created);
}
