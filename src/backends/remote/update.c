/* update.c - late binding: variables, if the box has our agent. Mounts and limits are the provisioner's. */
#include "backend/update.h"

#include "backends/remote/internal.h"
#include "base/mem.h"

static int check(const struct remote_box *b, const struct backend_extras *x, struct err *err)
{
    if (b != NULL && b->entry.state != BOX_RUNNING)
        return err_set(err, ERR_BOX_DEAD, "the box does not run");
    if (x->mount_count > 0)
        return err_set(err, SP_UNSUPPORTED, "a provisioner mounts nothing into a running box");
    if ((backend_extras_kinds(x) & BACKEND_LATE_LIMITS) != 0)
        return err_set(err, SP_UNSUPPORTED, "the provisioner decides the limits of its boxes");
    return SP_OK;
}

void remote_update(struct backend *backend, struct backend_update *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *))
{
    static const struct updating_ops ops = {.has_look = false}; /* neither is let through */
    struct remote *remote = remote_of(backend);
    struct updating *u = xcalloc(1, sizeof(*u));
    struct err err;
    int rc = check(remote_box_find(remote, r->box.labels.box_id), &r->extras, &err);

    updating_begin(u, &ops, r, &remote->closing, remote->http, deadline_ns, on_done);
    updating_next(u, rc, &err);
}
