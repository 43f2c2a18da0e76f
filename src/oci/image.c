/* image.c - to be replaced by the real one. */
#include "oci/image.h"

void oci_image_start(struct loop *l, struct oci_image *r, struct list *owner, uint64_t deadline_ns,
                     void (*on_done)(struct op *))
{
    op_begin(&r->op, &l->rt, owner, deadline_ns, NULL, on_done);
    op_finish(&r->op, SP_UNSUPPORTED, NULL);
}

void oci_image_fini(struct oci_image *r)
{
    r->priv = NULL;
}
