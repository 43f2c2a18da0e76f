/* check.c - does a box live? No answer is never taken for "no such box", and Pending is not dead. */
#include <stdio.h>
#include <stdlib.h>

#include "backends/remote/internal.h"
#include "base/mem.h"

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

static void on_cancel(struct op *op)
{
    struct check *c = container_of(op, struct backend_check, op)->priv;

    op_cancel(&c->call.op);
}

void remote_is_alive(struct backend *backend, struct backend_check *r, uint64_t deadline_ns,
                     void (*on_done)(struct op *))
{
    struct remote *remote = remote_of(backend);
    struct check *c = xcalloc(1, sizeof(*c));

    op_begin(&r->op, &remote->loop->rt, &remote->closing.ops, deadline_ns, on_cancel, on_done);
    c->remote = remote;
    c->request = r;
    r->priv = c;
    remote_find_name(remote, &r->box, c->name, c->uid);
    remote_call_name(remote, &c->call, "GET", c->name, "");
    remote_call_start(&c->call, remote->get_ns, on_checked);
}
