/* read.c - what is asked of one box: does it live, is there one of this id. No answer is never taken for
 * "no such box", and Pending is not dead. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/remote/internal.h"
#include "base/mem.h"
#include "base/str.h"

/* --- is it alive --- */

/* `priv` of the request. */
struct check {
    struct call call;
    struct remote *remote;
    struct backend_check *request;
    char name[REMOTE_NAME_MAX + 1];
    char uid[REMOTE_UID_MAX + 1];
};

/* NotFound is also said when the Pod could not be read. */
static enum backend_verdict judge(const struct check *c, const struct remote_seen *seen)
{
    if (seen->status == REMOTE_STATUS_NOT_FOUND)
        return BACKEND_ABSENT;
    if (!remote_status_may_run(seen->status) || remote_is_other(c->uid, seen->uid))
        return BACKEND_DEAD;
    return seen->status == REMOTE_STATUS_RUNNING ? BACKEND_ALIVE : BACKEND_UNKNOWN;
}

static void describe(struct backend_check *r, const char *name, const struct remote_seen *seen)
{
    static const char *const hints[REMOTE_STATUS_COUNT] = {
        [REMOTE_STATUS_PENDING] =
            "look at its image, its mounts and room on the nodes: kubectl describe",
        [REMOTE_STATUS_RUNNING] = "but it does not answer: look at its Service, and kubectl logs",
        [REMOTE_STATUS_SUCCEEDED] = "its server has ended: kubectl logs",
        [REMOTE_STATUS_FAILED] = "its server has ended: kubectl logs",
        [REMOTE_STATUS_UNKNOWN] = "its node may be away: kubectl describe",
        [REMOTE_STATUS_NOT_FOUND] = "its Pod is gone or cannot be read: kubectl get",
        [REMOTE_STATUS_TERMINATING] = "somebody has deleted it: kubectl describe",
    };

    (void) snprintf(r->status, sizeof(r->status), "the provisioner says %s",
                    remote_status_name(seen->status));
    (void) snprintf(r->hint, sizeof(r->hint), "%s pod/sandbox-%.50s", hints[seen->status], name);
}

static void on_checked(struct op *op)
{
    struct check *c = container_of(op, struct check, call.op);
    struct backend_check *r = c->request;
    struct remote_seen seen;
    struct err err;
    enum remote_word word = remote_call_word(&c->call, &err);
    int rc = SP_OK;

    r->verdict = BACKEND_UNKNOWN;
    if (word == REMOTE_MISSING)
        r->verdict = BACKEND_ABSENT;
    else if (word != REMOTE_DONE)
        rc = err.code;
    else
        rc = remote_call_seen(&c->call, c->name, &seen, &err);
    if (word == REMOTE_DONE && rc == SP_OK) {
        r->verdict = judge(c, &seen);
        describe(r, c->name, &seen);
    }
    r->priv = NULL;
    closing_finish(&c->remote->closing, &r->op, rc, &err);
    call_fini(&c->call);
    free(c);
}

static void on_check_cancel(struct op *op)
{
    struct check *c = container_of(op, struct backend_check, op)->priv;

    op_cancel(&c->call.op);
}

void remote_is_alive(struct backend *backend, struct backend_check *r, uint64_t deadline_ns,
                     void (*on_done)(struct op *))
{
    struct remote *remote = remote_of(backend);
    struct check *c = xcalloc(1, sizeof(*c));

    op_begin(&r->op, &remote->loop->rt, &remote->closing.ops, deadline_ns, on_check_cancel,
             on_done);
    c->remote = remote;
    c->request = r;
    r->priv = c;
    remote_find_name(remote, &r->box, c->name, c->uid);
    remote_call_name(remote, &c->call, "GET", c->name, "");
    remote_call_start(&c->call, remote->get_ns, on_checked);
}

/* --- is there one of this id --- */

struct search {
    struct call call;
    struct remote *remote;
    struct backend_discover *request;
};

static void take(struct search *s, const struct remote_seen *seen)
{
    struct backend_discover *r = s->request;
    const struct remote_box *b = remote_box_named(s->remote, seen->name);
    const struct remote_gone *g = remote_gone_find(s->remote, seen->name);

    if (b != NULL && b->entry.state != BOX_RUNNING)
        return; /* being made, or on its way out */
    if (b == NULL && g != NULL && !remote_is_other(g->uid, seen->uid))
        return; /* it may be the one that was deleted */
    r->is_found = true;
    r->want_probe = true; /* the provisioner vouches for nothing */
    r->box = (struct backend_box){.is_ready = false};
    if (b != NULL && !remote_is_other(b->uid, seen->uid))
        r->box = b->box;
    str_copy_cut(r->box.labels.sandbox_id, sizeof(r->box.labels.sandbox_id), seen->name);
    str_copy_cut(r->box.url, sizeof(r->box.url), seen->url);
    remote_put_ref(r->box.ref, seen->name, seen->uid);
}

static void on_found(struct op *op)
{
    struct search *s = container_of(op, struct search, call.op);
    struct backend_discover *r = s->request;
    struct remote_seen seen;
    struct err err;
    enum remote_word word = remote_call_word(&s->call, &err);
    int rc = SP_OK;

    if (word == REMOTE_DONE)
        rc = remote_call_seen(&s->call, r->sandbox_id, &seen, &err);
    else if (word != REMOTE_MISSING)
        rc = err.code;
    if (word == REMOTE_DONE && rc == SP_OK &&
        (seen.status == REMOTE_STATUS_RUNNING || seen.status == REMOTE_STATUS_PENDING))
        take(s, &seen);
    r->priv = NULL;
    closing_finish(&s->remote->closing, &r->op, rc, &err);
    call_fini(&s->call);
    free(s);
}

static void on_search_cancel(struct op *op)
{
    struct search *s = container_of(op, struct backend_discover, op)->priv;

    op_cancel(&s->call.op);
}

void remote_discover(struct backend *backend, struct backend_discover *r, uint64_t deadline_ns,
                     void (*on_done)(struct op *))
{
    struct remote *remote = remote_of(backend);
    struct search *s;

    op_begin(&r->op, &remote->loop->rt, &remote->closing.ops, deadline_ns, on_search_cancel,
             on_done);
    r->is_found = false;
    r->want_probe = false;
    if (!str_is_name(r->sandbox_id, REMOTE_NAME_MAX, "._-")) { /* no provisioner can have it */
        r->priv = NULL;
        closing_finish(&remote->closing, &r->op, SP_OK, NULL);
        return;
    }
    s = xcalloc(1, sizeof(*s));
    s->remote = remote;
    s->request = r;
    r->priv = s;
    remote_call_name(remote, &s->call, "GET", r->sandbox_id, "");
    remote_call_start(&s->call, remote->get_ns, on_found);
}
