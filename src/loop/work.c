/* work.c - libuv's thread pool as operations. */
#include "loop/work.h"

#include <stdlib.h>

#include "base/mem.h"

struct job {
    uv_work_t req;
    struct work *work;
    int result;
    struct err err;
};

static void on_thread(uv_work_t *req)
{
    struct job *j = container_of(req, struct job, req);

    j->result = j->work->run(j->work, &j->err);
}

static void on_over(uv_work_t *req, int status)
{
    struct job *j = container_of(req, struct job, req);
    struct work *w = j->work;
    int result = status == 0 ? j->result : SP_CANCELLED;
    struct err err = j->err;

    w->priv = NULL;
    free(j);
    op_finish(&w->op, result, result == SP_CANCELLED ? NULL : &err);
}

static void on_cancel(struct op *op)
{
    const struct work *w = container_of(op, struct work, op);
    struct job *j = w->priv;

    (void) uv_cancel((uv_req_t *) &j->req); /* busy: it has begun and will end by itself */
}

void work_start(struct loop *l, struct work *w, struct list *owner, uint64_t deadline_ns,
                void (*on_done)(struct op *))
{
    struct job *j = xcalloc(1, sizeof(*j));
    int rc;

    op_begin(&w->op, &l->rt, owner, deadline_ns, on_cancel, on_done);
    j->work = w;
    w->priv = j;
    rc = uv_queue_work(&l->uv, &j->req, on_thread, on_over);
    assert(rc == 0); /* only refuses a missing function */
}
