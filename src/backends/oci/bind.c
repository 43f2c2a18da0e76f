/* bind.c - whose a box is, written into its box.json: one at a time, in order. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "backends/oci/internal.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"

/* The row in the store is the first record of an owner, box.json the second: it is written when the
 * caller has its box, not while it waits. */
#define BIND_PAUSE_NS (20 * NS_PER_MS)

struct binding {
    struct work work;
    struct list_node link;
    struct oci *oci;
    struct backend_bind *request;
};

static int run_bind(struct work *w, struct err *err)
{
    struct binding *b = container_of(w, struct binding, work);
    const struct backend_labels *labels = &b->request->box.labels;
    struct oci_record record;
    char path[OCI_PATH_MAX + 32];
    AUTO_CLOSE int fd = -1;
    int rc;

    oci_box_dir(b->oci, labels->box_id, path, sizeof(path));
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return err_sys(err, errno == ENOENT ? SP_NOT_FOUND : SP_IO, errno, "box to bind");
    rc = oci_record_read(fd, &record, err);
    if (rc != SP_OK)
        return rc;
    record.box.labels = *labels;
    str_copy_cut(record.box.labels.instance, sizeof(record.box.labels.instance), b->oci->instance);
    return oci_record_write(fd, &record, err);
}

static void bind_next(struct oci *o);

static void on_bound(struct op *op)
{
    struct binding *b = container_of(op, struct binding, work.op);
    struct oci *o = b->oci;

    list_remove(&o->record_writes, &b->link);
    closing_finish(&o->closing, &b->request->op, op->result, &op->err);
    free(b);
    bind_next(o);
}

/* One at a time, in order: a later owner must not be overwritten by an earlier one. */
static void bind_next(struct oci *o)
{
    struct list_node *first = list_first(&o->record_writes);

    if (first != NULL)
        work_start(o->loop, &container_of(first, struct binding, link)->work, &o->closing.inner,
                   RT_NEVER, on_bound);
}

static void on_bind_due(struct rt_timer *timer)
{
    bind_next(container_of(timer, struct oci, bind_timer));
}

void oci_bind(struct backend *backend, struct backend_bind *r, uint64_t deadline_ns,
              void (*on_done)(struct op *))
{
    struct oci *o = oci_of(backend);
    struct binding *b = xcalloc(1, sizeof(*b));

    op_begin(&r->op, &o->loop->rt, &o->closing.ops, deadline_ns, NULL, on_done);
    b->oci = o;
    b->request = r;
    b->work.run = run_bind;
    list_push_back(&o->record_writes, &b->link);
    if (o->record_writes.len == 1)
        rt_timer_set(&o->loop->rt, &o->bind_timer, rt_after(rt_now(&o->loop->rt), BIND_PAUSE_NS),
                     on_bind_due);
}
