/* freeze.c - a box stands still, or goes on: its control group is written by sandpool-helper. One that is parked then gives its
 * memory back. */
#include <stdlib.h>

#include "backends/oci/internal.h"
#include "base/json.h"
#include "base/mem.h"
#include "helper/plan.h"

void oci_freeze_start(struct oci *o, struct oci_helper *h, uint64_t box_id, bool is_frozen,
                      uint64_t deadline_ns, void (*on_done)(struct op *))
{
    char cgroup[OCI_GROUP_MAX];
    struct json_out j;

    oci_cgroup(o, box_id, cgroup, sizeof(cgroup));
    buf_init(&h->plan, OCI_GROUP_MAX + 256);
    json_out_init(&j);
    json_begin_obj(&j, NULL);
    json_put_str(&j, "cgroup", cgroup);
    json_put_bool(&j, "frozen", is_frozen);
    json_end(&j);
    json_out_finish(&j, &h->plan);
    h->verb = "freeze";
    h->pass_fd = -1;
    oci_helper_start(o, h, deadline_ns, on_done);
}

/* `priv` of the request. */
struct freezing {
    struct oci_helper helper;
    struct oci *oci;
    struct backend_freeze *request;
};

static void reclaim(struct oci *o, uint64_t box_id)
{
    char cgroup[OCI_GROUP_MAX];
    struct json_out j;
    struct buf plan;

    oci_cgroup(o, box_id, cgroup, sizeof(cgroup));
    buf_init(&plan, OCI_GROUP_MAX + 256);
    json_out_init(&j);
    json_begin_obj(&j, NULL);
    json_put_str(&j, "cgroup", cgroup);
    json_end(&j);
    json_out_finish(&j, &plan);
    reclaims_add(&o->reclaims, box_id, &plan);
}

static void on_frozen(struct op *op)
{
    struct freezing *f = container_of(op, struct freezing, helper.op);
    struct oci *o = f->oci;
    struct backend_freeze *r = f->request;
    struct err err = op->err;
    int rc = op->result;

    if (rc != SP_OK && f->helper.exit_code == HELPER_EXIT_UNABLE)
        rc = err_set(&err, SP_UNSUPPORTED, "the box has no control group that can be frozen");
    if (rc != SP_OK && f->helper.exit_code == HELPER_EXIT_INVALID)
        rc = err_set(&err, ERR_BOX_DEAD, "the box does not run");
    if (rc == SP_OK && r->is_frozen && r->is_unused)
        reclaim(o, r->box.labels.box_id);
    r->priv = NULL;
    oci_helper_fini(&f->helper);
    closing_finish(&o->closing, &r->op, rc, &err);
    free(f);
}

static void on_cancel(struct op *op)
{
    struct freezing *f = container_of(op, struct backend_freeze, op)->priv;

    op_cancel(&f->helper.op);
}

void oci_freeze(struct backend *backend, struct backend_freeze *r, uint64_t deadline_ns,
                void (*on_done)(struct op *))
{
    struct oci *o = oci_of(backend);
    struct freezing *f = xcalloc(1, sizeof(*f));

    op_begin(&r->op, &o->loop->rt, &o->closing.ops, deadline_ns, on_cancel, on_done);
    f->oci = o;
    f->request = r;
    r->priv = f;
    oci_freeze_start(o, &f->helper, r->box.labels.box_id, r->is_frozen, RT_NEVER, on_frozen);
}
