/* destroy.c - the end of a box, whoever asks for it: one removal per box at a time, and everybody who
 * wants the box gone is notified of its end. A caller that leaves does not stop it. */
#include <stdlib.h>
#include <string.h>

#include "backends/docker/internal.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"

enum { REMOVE_S = 2 }; /* of a destroy's time are left for the removal after a grace */

enum removal_step {
    REMOVAL_AT_STOPS, /* waits for its turn, if the box has a grace */
    REMOVAL_STOPS,
    REMOVAL_AT_REMOVES,
    REMOVAL_COUNTS, /* at the first turn, when the container is known */
    REMOVAL_LOOKS,  /* only when the container is not known */
    REMOVAL_DELETES,
    REMOVAL_WAITS, /* somebody else removes it at this moment */
    REMOVAL_ENDS,
    REMOVAL_STEP_COUNT
};

struct removal {
    enum removal_step step;
    int result;
    struct err err;
    struct waiter waiter;
    struct call call;
    struct docker_list look;
    struct docker *docker;
    struct docker_box *box;
    uint64_t deadline_ns;
    struct docker_counting counting;
    bool was_there;
    bool has_looked;
    bool has_counted;
    bool is_inside; /* of the gate `removes` */
};

struct volume {
    struct call call;
    char name[DOCKER_NAME_MAX + 1];
};

/* --- owners --- */

static void on_volume_gone(struct op *op)
{
    struct volume *v = container_of(op, struct volume, call.op);
    struct err err;
    int rc = docker_call_result(&v->call, &err);

    FAULT_POINT("docker.after_disown");
    if (rc != SP_OK && rc != SP_NOT_FOUND) { /* a listing tries again */
        log_warn("docker.volume_left", LF_STR("volume", v->name), LF_STR("reason", err.msg));
        docker_look_later(docker_of_call(&v->call));
    }
    call_fini(&v->call);
    free(v);
}

void docker_remove_volume(struct docker *d, const char *name)
{
    struct volume *v = xcalloc(1, sizeof(*v));

    str_copy_cut(v->name, sizeof(v->name), name);
    docker_call_init(d, &v->call, "DELETE");
    buf_puts(&v->call.path, "/volumes/");
    call_put(&v->call, name);
    docker_call_start(&v->call, RT_NEVER, on_volume_gone);
}

/* --- the container --- */

static void tick(struct removal *m);

static void go(struct removal *m, enum removal_step step)
{
    m->step = step;
    tick(m);
}

static void go_end(struct removal *m, int rc, const struct err *err)
{
    m->result = rc;
    if (rc != SP_OK)
        m->err = *err;
    go(m, REMOVAL_ENDS);
}

static void put_released(const struct removal *m, struct backend_released *ret)
{
    str_copy_cut(ret->text, sizeof(ret->text),
                 m->was_there ? "the container was ended and removed, with its anonymous volumes"
                              : "the box was not there");
    ret->processes = m->counting.processes;
    ret->mounts = m->counting.mounts;
    ret->layers = backend_counted(m->was_there ? 1 : 0); /* a container has one of its own */
    if (!m->was_there)
        ret->processes = ret->mounts = backend_counted(0);
}

static void end(struct removal *m)
{
    struct backend_released released = {.text = ""};
    struct docker *d = m->docker;
    struct docker_box *b = m->box;
    int rc = m->result;
    struct list removers;
    struct list joiners;

    if (rc != SP_OK)
        log_warn("docker.remove_failed", LF_HEX("box", b->entry.id), LF_STR("reason", m->err.msg));
    else if (!str_is_empty(b->owner))
        docker_remove_volume(d, b->owner);
    /* Not of a box that this backend never had: it may be that of another engine. */
    if (rc == SP_OK && !b->is_foreign &&
        (m->was_there || b->is_known || !str_is_empty(b->container)))
        docker_relay_end(d, b->entry.id);
    if (rc == SP_OK && (b->is_marked || docker_disk_is_unfinished(d, b->entry.id)))
        docker_disk_unmark(d, b->entry.id);
    list_move(&b->entry.removers, &removers);
    list_move(&b->entry.joiners, &joiners);
    if (rc == SP_OK)
        docker_box_drop(b);
    else
        boxes_set(&b->entry, BOX_DEAD); /* the next destroy, or the next look, tries again */
    if (m->is_inside)
        gate_leave(&d->removes);
    put_released(m, &released);
    boxes_removed(&removers, rc, &m->err, &released);
    waiter_resume_all(&joiners);
    docker_list_fini(&m->look);
    docker_count_fini(&m->counting);
    call_fini(&m->call);
    free(m);
    closing_settle(&d->closing);
}

static void on_gone(struct op *op)
{
    struct removal *m = container_of(op, struct removal, call.op);
    struct err err;
    int rc = docker_call_result(&m->call, &err);

    FAULT_POINT("docker.after_remove");
    m->was_there = m->was_there || rc == SP_OK;
    if (rc == SP_OK && m->has_looked) { /* it was found by its labels: is there another? */
        m->box->container[0] = '\0';
        go(m, REMOVAL_LOOKS);
        return;
    }
    go_end(m, rc == SP_NOT_FOUND ? SP_OK : rc, &err);
}

static void wait_gone(struct removal *m)
{
    docker_call_init(m->docker, &m->call, "POST");
    buf_printf(&m->call.path, "/containers/%s/wait?condition=removed", m->box->container);
    docker_call_start(&m->call, m->deadline_ns, on_gone);
}

static void on_deleted(struct op *op)
{
    struct removal *m = container_of(op, struct removal, call.op);

    if (op->result == SP_OK && m->call.http.status == 409)
        go(m, REMOVAL_WAITS);
    else
        on_gone(op);
}

static void delete_it(struct removal *m)
{
    FAULT_POINT("docker.before_remove");
    docker_call_init(m->docker, &m->call, "DELETE");
    buf_printf(&m->call.path, "/containers/%s?force=1&v=1", m->box->container);
    docker_call_start(&m->call, m->deadline_ns, on_deleted);
}

static void on_looked(struct op *op)
{
    struct removal *m = container_of(op, struct removal, look.op);
    struct err err = op->err;
    int rc = op->result;

    if (rc == SP_OK && m->look.count > 0)
        str_copy_cut(m->box->container, sizeof(m->box->container), m->look.found[0].box.ref);
    docker_list_fini(&m->look);
    if (rc == SP_OK && !str_is_empty(m->box->container))
        go(m, m->has_counted ? REMOVAL_DELETES : REMOVAL_COUNTS);
    else
        go_end(m, rc, &err);
}

static void look(struct removal *m)
{
    m->has_looked = true;
    m->look.only = m->box->entry.id;
    docker_list_start(m->docker, &m->look, m->deadline_ns, on_looked);
}

/* --- what runs in it --- */

static void on_counted(struct op *op)
{
    struct removal *m = container_of(op, struct removal, counting.op);

    m->has_counted = true;
    go(m, m->is_inside ? REMOVAL_DELETES : REMOVAL_STOPS);
}

static void count(struct removal *m)
{
    docker_count_start(m->docker, &m->counting, m->box->container, m->deadline_ns, on_counted);
}

/* --- a grace before --- */

/* Whatever came of it, the removal that follows is a kill. */
static void on_stopped(struct op *op)
{
    struct removal *m = container_of(op, struct removal, call.op);

    gate_leave(&m->docker->stops);
    go(m, REMOVAL_AT_REMOVES);
}

static void stop(struct removal *m)
{
    uint64_t grace_s = m->box->grace_s;

    docker_call_init(m->docker, &m->call, "POST");
    buf_printf(&m->call.path, "/containers/%s/stop?t=%u", m->box->container, (unsigned) grace_s);
    docker_call_start_long(&m->call, grace_s * NS_PER_S, m->deadline_ns, on_stopped);
}

/* --- the steps --- */

/* It is inside of the gate it waited at. */
static void on_turn(struct waiter *w)
{
    struct removal *m = container_of(w, struct removal, waiter);

    m->is_inside = m->step == REMOVAL_AT_REMOVES;
    if (str_is_empty(m->box->container))
        go(m, REMOVAL_LOOKS);
    else if (!m->has_counted)
        go(m, REMOVAL_COUNTS);
    else
        go(m, m->is_inside ? REMOVAL_DELETES : REMOVAL_STOPS);
}

static void enter(struct removal *m, struct gate *gate)
{
    m->waiter.resume = on_turn;
    if (gate_enter(gate, &m->waiter))
        on_turn(&m->waiter);
}

static void tick(struct removal *m)
{
    switch (m->step) {
    case REMOVAL_AT_STOPS:
        enter(m, &m->docker->stops);
        return;
    case REMOVAL_STOPS:
        stop(m);
        return;
    case REMOVAL_AT_REMOVES:
        enter(m, &m->docker->removes);
        return;
    case REMOVAL_COUNTS:
        count(m);
        return;
    case REMOVAL_LOOKS:
        look(m);
        return;
    case REMOVAL_DELETES:
        delete_it(m);
        return;
    case REMOVAL_WAITS:
        wait_gone(m);
        return;
    case REMOVAL_ENDS:
        end(m);
        return;
    case REMOVAL_STEP_COUNT:
        break;
    }
    assert(false && "no such step");
}

void docker_remove_box(struct docker_box *b)
{
    struct docker *d = b->docker;
    struct removal *m = xcalloc(1, sizeof(*m));

    assert(b->entry.state != BOX_REMOVING && b->entry.state != BOX_MAKING);
    boxes_set(&b->entry, BOX_REMOVING);
    docker_hoard_remove(b);
    m->docker = d;
    m->box = b;
    m->deadline_ns = rt_after(rt_now(&d->loop->rt), DOCKER_REMOVE_NS + b->grace_s * NS_PER_S);
    if (b->was_never_made)
        go_end(m, SP_OK, NULL);
    else if (b->grace_s == 0 || str_is_empty(b->container))
        go(m, REMOVAL_AT_REMOVES);
    else
        go(m, REMOVAL_AT_STOPS);
}

/* --- destroy --- */

/* What the profile gives, as far as the caller's time reaches beyond it. */
static uint64_t grace_of(const struct docker *d, const struct backend_destroy *r,
                         uint64_t deadline_ns)
{
    uint64_t now_ns = rt_now(&d->loop->rt);
    uint64_t left_s = deadline_ns > now_ns ? (deadline_ns - now_ns) / NS_PER_S : 0;

    if (r->profile == NULL || left_s <= REMOVE_S)
        return 0;
    return MIN_OF(r->profile->docker.stop_grace_s, left_s - REMOVE_S);
}

void docker_destroy(struct backend *backend, struct backend_destroy *r, uint64_t deadline_ns,
                    void (*on_done)(struct op *))
{
    struct docker *d = docker_of(backend);
    struct docker_box *b = docker_box_find(d, r->box.labels.box_id);

    if (b == NULL && docker_is_foreign(&r->box) && list_is_empty(&d->adoptions)) {
        op_begin(&r->op, &d->loop->rt, &d->closing.ops, deadline_ns, NULL, on_done);
        str_copy_cut(r->released.text, sizeof(r->released.text),
                     "nothing is adopted any more: it is left alone");
        closing_finish(&d->closing, &r->op, SP_OK, NULL);
        return;
    }
    if (b == NULL)
        b = docker_box_add(d, r->box.labels.box_id, BOX_DEAD);
    b->is_known = b->is_known || !str_is_empty(r->box.ref);
    if (str_is_empty(b->container) && docker_is_foreign(&r->box)) /* no label would lead to it */
        str_copy_cut(b->container, sizeof(b->container), r->box.ref);
    boxes_destroy(&b->entry, r, deadline_ns, on_done);
    if (b->entry.state == BOX_RUNNING)
        b->grace_s = grace_of(d, r, deadline_ns);
    if (b->entry.state == BOX_RUNNING || b->entry.state == BOX_DEAD)
        docker_remove_box(
            b); /* one being made is removed when it is made, one being removed soon */
}
