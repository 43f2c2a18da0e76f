/* discover.c - is there a box with this public id? No answer is never taken for "no such box". */
#include <stdlib.h>

#include "backends/remote/internal.h"
#include "base/mem.h"
#include "base/str.h"

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

static void on_cancel(struct op *op)
{
    struct search *s = container_of(op, struct backend_discover, op)->priv;

    op_cancel(&s->call.op);
}

void remote_discover(struct backend *backend, struct backend_discover *r, uint64_t deadline_ns,
                     void (*on_done)(struct op *))
{
    struct remote *remote = remote_of(backend);
    struct search *s;

    op_begin(&r->op, &remote->loop->rt, &remote->closing.ops, deadline_ns, on_cancel, on_done);
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
