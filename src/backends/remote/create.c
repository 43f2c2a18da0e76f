/* create.c - one box from nothing. A POST is idempotent by the id, and its answer may be lost: then the
 * provisioner is asked for the id until the deadline, and asked to make it again only when it says
 * that there is none. A POST that was sent is never cut off by a caller that leaves: whoever destroys
 * the box waits for its end.
 *
 *   joins -> post -> taken: Pending or Running
 *             | no answer, 5xx          | 409 still terminating      | dead leftover of the id
 *             v                         v                            v
 *            look (GET) until known     pause, post                  delete, post
 *
 * When a box of this name was deleted a short while ago, what is taken must be another one: by its
 * container_id; else it is Pending, which one that has run never is again; else by its life, which it
 * is asked for. Until then it is looked at again and again: the old one ends, and is then a leftover. */
#include <stdlib.h>
#include <string.h>

#include "backends/remote/internal.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/probe.h"

enum { MISSES_MAX = 2, REDOS_MAX = 2 };

#define ASK_NS (2 * NS_PER_S)

enum making_step {
    MAKING_JOINS,
    MAKING_POSTS, /* its end is awaited, whoever leaves */
    MAKING_LOOKS,
    MAKING_PAUSES,
    MAKING_ASKS,
    MAKING_STEP_COUNT
};

/* `priv` of the request, which may leave before this ends. */
struct making {
    struct remote *remote;
    struct backend_create *request; /* NULL: it has left */
    struct remote_box *box;         /* NULL: it is not ours to make */
    struct remote_box *joined;      /* while it waits for another to end */
    enum making_step step;
    struct waiter waiter;
    struct call call;
    struct remote_pause pause;
    struct probe probe;
    struct remote_seen seen;         /* what is asked */
    void (*again)(struct making *m); /* after the pause */
    uint64_t deadline_ns;
    struct buf body;
    struct err err;    /* why nothing has come of it so far */
    uint64_t sessions; /* that the box must have */
    unsigned misses;   /* GETs in a row that found nothing */
    unsigned redos;    /* dead leftovers that were deleted */
    bool has_failed;   /* the provisioner has said so: if nothing is there, that is the end */
    bool may_exist;
    bool has_waited;
    char name[REMOTE_NAME_MAX + 1];
};

static void post(struct making *m);
static void look(struct making *m);

/* --- the end --- */

static void answer(struct making *m, int rc, const struct err *err)
{
    struct backend_create *r = m->request;

    if (r == NULL)
        return;
    r->priv = NULL;
    m->request = NULL;
    closing_finish(&m->remote->closing, &r->op, rc, err);
}

static void end(struct making *m, int rc, const struct err *err)
{
    struct remote *remote = m->remote;
    struct remote_box *b = m->box;
    bool is_kept = rc == SP_OK && m->request != NULL;
    struct list joined;

    answer(m, rc, err);
    if (is_kept)
        remote_gone_forget(remote, m->name);
    if (b != NULL) {
        boxes_set(&b->entry, is_kept ? BOX_RUNNING : BOX_DEAD); /* its destroy comes, or has come */
        b->was_never_made = !m->may_exist;
        list_move(&b->entry.joiners, &joined);
        if (!list_is_empty(&b->entry.removers))
            remote_remove_box(b);
        waiter_resume_all(&joined);
    }
    call_fini(&m->call);
    buf_fini(&m->body);
    free(m);
    closing_settle(&remote->closing);
}

/* --- what the provisioner says --- */

static void on_paused(struct op *op)
{
    struct making *m = container_of(op, struct making, pause.op);

    if (m->request == NULL || m->remote->closing.is_closing)
        end(m, SP_CANCELLED, NULL);
    else
        m->again(m);
}

/* The deadline would not report what went wrong: that is done here. */
static void give_up(struct making *m)
{
    struct err err = m->err;

    (void) err_set(&m->err, SP_TIMEOUT, "not made in time: %.200s", err.msg);
    end(m, SP_TIMEOUT, &m->err);
}

static void wait_then(struct making *m, void (*again)(struct making *m))
{
    if (rt_now(&m->remote->loop->rt) + 2 * m->pause.backoff_ns >= m->deadline_ns) {
        give_up(m);
        return;
    }
    m->step = MAKING_PAUSES;
    m->again = again;
    remote_pause_start(m->remote, &m->pause, on_paused);
}

static void on_cleared(struct op *op)
{
    struct making *m = container_of(op, struct making, call.op);

    if (m->request == NULL)
        end(m, SP_CANCELLED, NULL);
    else
        wait_then(m, post);
}

/* Under this id lies something that will not run any more; it is this thread's own, or nobody's. */
static void redo(struct making *m, const struct remote_seen *seen)
{
    (void) err_set(&m->err, SP_BACKEND_FAILED, "the provisioner says that the box is %s",
                   remote_status_name(seen->status));
    if (seen->status == REMOTE_STATUS_TERMINATING) {
        wait_then(m, post);
        return;
    }
    if (m->redos == REDOS_MAX) {
        end(m, m->err.code, &m->err);
        return;
    }
    m->redos++;
    m->step = MAKING_POSTS;
    remote_call_name(m->remote, &m->call, "DELETE", m->name, "");
    remote_call_start(&m->call, m->remote->destroy_ns, on_cleared);
}

static void keep(struct making *m, const struct remote_seen *seen)
{
    struct remote_box *b = m->box;

    str_copy_cut(b->uid, sizeof(b->uid), seen->uid);
    str_copy_cut(b->box.url, sizeof(b->box.url), seen->url);
    remote_put_ref(b->box.ref, seen->name, seen->uid);
    if (m->request != NULL)
        m->request->box = b->box;
    end(m, SP_OK, NULL);
}

static void on_asked(struct op *op)
{
    struct making *m = container_of(op, struct making, probe.op);
    const struct remote_gone *g = remote_gone_find(m->remote, m->name);
    bool did_answer = op->result == SP_OK;

    if (m->request == NULL) {
        end(m, SP_CANCELLED, NULL);
    } else if (g == NULL || (did_answer && life_is_other(g->life, m->probe.life))) {
        keep(m, &m->seen);
    } else {
        (void) err_set(&m->err, SP_BACKEND_FAILED,
                       did_answer ? "the deleted box of this name still answers"
                                  : "the box of this name that was deleted may still be ending, "
                                    "and nothing else answers");
        wait_then(m, look);
    }
}

/* Is it another one than `g`? */
static void ask(struct making *m, const struct remote_seen *seen, const struct remote_gone *g)
{
    struct remote *r = m->remote;
    uint64_t until_ns = rt_after(rt_now(&r->loop->rt), ASK_NS);

    if (!str_is_empty(g->uid) && strcmp(g->uid, seen->uid) == 0) {
        (void) err_set(&m->err, SP_BACKEND_FAILED, "the box of this name that was deleted is %s",
                       remote_status_name(seen->status));
        wait_then(m, post);
        return;
    }
    m->step = MAKING_ASKS;
    m->seen = *seen;
    m->probe = (struct probe){.is_once = true, .want_life = true};
    str_copy_cut(m->probe.url, sizeof(m->probe.url), seen->url);
    str_copy_cut(m->probe.token, sizeof(m->probe.token), m->box->box.token);
    probe_start(r->http, &r->loop->rt, &m->probe, &r->closing.inner,
                MIN_OF(until_ns, m->deadline_ns), on_asked);
}

/* It need not be asked. */
static bool is_new(const struct remote_seen *seen, const struct remote_gone *g)
{
    bool has_run = !str_is_empty(g->life);

    if (!str_is_empty(g->uid) && !str_is_empty(seen->uid))
        return remote_is_other(g->uid, seen->uid);
    return !has_run || seen->status == REMOTE_STATUS_PENDING;
}

static void take(struct making *m, const struct remote_seen *seen)
{
    const struct remote_gone *g = remote_gone_find(m->remote, m->name);

    if (!remote_status_may_run(seen->status)) {
        redo(m, seen);
        return;
    }
    if (seen->sessions > 0 && seen->sessions < m->sessions) {
        end(m,
            err_set(&m->err, SP_BACKEND_FAILED,
                    "the box has %llu shell sessions, remote.max_shell_sessions asks for %llu",
                    (unsigned long long) seen->sessions, (unsigned long long) m->sessions),
            &m->err);
        return;
    }
    if (g != NULL && m->request != NULL && !is_new(seen, g))
        ask(m, seen, g);
    else
        keep(m, seen);
}

static void on_looked(struct op *op)
{
    struct making *m = container_of(op, struct making, call.op);
    struct remote_seen seen;
    struct err err;
    enum remote_word word = remote_call_word(&m->call, &err);

    if (word == REMOTE_DONE && remote_call_seen(&m->call, m->name, &seen, &err) == SP_OK) {
        take(m, &seen);
        return;
    }
    if (!m->has_failed)
        m->err = err; /* else what the provisioner said of the create is worth more */
    if (m->request == NULL)
        end(m, SP_CANCELLED, NULL);
    else if (word == REMOTE_REFUSED || (word == REMOTE_MISSING && m->has_failed))
        end(m, m->err.code, &m->err);
    else if (word == REMOTE_MISSING && ++m->misses == MISSES_MAX)
        post(m); /* it is there to answer, and has nothing */
    else
        wait_then(m, look);
}

static void look(struct making *m)
{
    m->step = MAKING_LOOKS;
    remote_call_name(m->remote, &m->call, "GET", m->name, "");
    remote_call_start(&m->call, m->remote->get_ns, on_looked);
}

static void on_posted(struct op *op)
{
    struct making *m = container_of(op, struct making, call.op);
    enum remote_word word = remote_call_word(&m->call, &m->err);
    struct remote_seen seen;

    FAULT_POINT("remote.after_create");
    if (word != REMOTE_REFUSED && word != REMOTE_UNSENT && word != REMOTE_MISSING &&
        word != REMOTE_BUSY)
        m->may_exist = true;
    if (word == REMOTE_DONE && remote_call_seen(&m->call, m->name, &seen, &m->err) == SP_OK) {
        take(m, &seen);
    } else if (m->request == NULL) {
        end(m, SP_CANCELLED, NULL);
    } else if (word == REMOTE_BUSY) {
        wait_then(m, post);
    } else if (word == REMOTE_FAILED || word == REMOTE_NO_ANSWER) {
        m->has_failed = word == REMOTE_FAILED;
        look(m);
    } else { /* refused, not sent, or a malformed response */
        end(m, m->err.code == SP_NOT_FOUND ? SP_BACKEND_FAILED : m->err.code, &m->err);
    }
}

static void post(struct making *m)
{
    m->step = MAKING_POSTS;
    m->misses = 0;
    remote_call_init(m->remote, &m->call, "POST", "/api/sandboxes");
    buf_append(&m->call.body, m->body.data, m->body.len);
    remote_call_start(&m->call, m->remote->create_ns, on_posted);
}

/* --- who comes first --- */

static void make(struct making *m)
{
    const struct backend_create *r = m->request;
    struct remote *remote = m->remote;
    struct remote_box *b = remote_box_add(remote, r->labels.box_id, m->name, BOX_MAKING);
    int rc;

    m->box = b;
    m->sessions = r->profile->remote.max_shell_sessions;
    b->box.labels = r->labels;
    str_copy_cut(b->box.labels.instance, sizeof(b->box.labels.instance), remote->instance);
    str_copy_cut(b->box.token, sizeof(b->box.token), r->token);
    buf_init(&m->body, REMOTE_BODY_MAX);
    rc = remote_put_body(r, m->name, &m->body, &m->err);
    if (rc != SP_OK) {
        end(m, rc, &m->err);
        return;
    }
    FAULT_POINT("remote.before_create");
    post(m);
}

/* A box of this id, or another of its name, may exist, be made or be deleted right now. */
static void enter(struct waiter *w)
{
    struct making *m = container_of(w, struct making, waiter);
    struct backend_create *r = m->request;
    struct remote_box *b = remote_box_find(m->remote, r->labels.box_id);

    m->joined = NULL;
    if (b == NULL)
        b = remote_box_named(m->remote, m->name);
    if (b == NULL) {
        make(m);
        return;
    }
    if (b->entry.id == r->labels.box_id && b->entry.state == BOX_RUNNING) {
        r->box = b->box;
        end(m, SP_OK, NULL);
        return;
    }
    if (b->entry.state == BOX_DEAD && m->has_waited) {
        end(m, err_set(&m->err, SP_BACKEND_FAILED, "the remains under this id cannot be deleted"),
            &m->err);
        return;
    }
    m->has_waited = b->entry.state == BOX_DEAD;
    m->step = MAKING_JOINS;
    m->joined = b;
    list_push_back(&b->entry.joiners, &m->waiter.link);
    if (b->entry.state == BOX_DEAD)
        remote_remove_box(b);
}

static void on_cancel(struct op *op)
{
    struct making *m = container_of(op, struct backend_create, op)->priv;

    switch (m->step) {
    case MAKING_JOINS:
        list_remove(&m->joined->entry.joiners, &m->waiter.link);
        end(m, SP_CANCELLED, NULL);
        return;
    case MAKING_POSTS:
        answer(m, SP_CANCELLED, NULL);
        return;
    case MAKING_LOOKS:
        answer(m, SP_CANCELLED, NULL);
        op_cancel(&m->call.op);
        return;
    case MAKING_PAUSES:
        answer(m, SP_CANCELLED, NULL);
        op_cancel(&m->pause.op);
        return;
    case MAKING_ASKS:
        answer(m, SP_CANCELLED, NULL);
        op_cancel(&m->probe.op);
        return;
    case MAKING_STEP_COUNT:
        break;
    }
    assert(false && "no such step");
}

void remote_create(struct backend *backend, struct backend_create *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *))
{
    struct remote *remote = remote_of(backend);
    struct making *m = xcalloc(1, sizeof(*m));

    op_begin(&r->op, &remote->loop->rt, &remote->closing.ops, deadline_ns, on_cancel, on_done);
    m->remote = remote;
    m->request = r;
    m->deadline_ns = deadline_ns;
    m->waiter.resume = enter;
    remote_name_of(remote, &r->labels, m->name);
    r->priv = m;
    enter(&m->waiter);
}
