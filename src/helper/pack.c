/* pack.c - the head says how much is in it, so that whoever unpacks it can make a disk that is large enough, and no larger. */
#include "helper/pack.h"

#include "base/bundle.h"
#include "helper/base.h"
#include "helper/bundle_file.h"
#include "helper/layers.h"
#include "helper/tar_tree.h"

static int measure(const struct plan *p, const struct merge_layer *layers, struct bundle_head *ret,
                   struct err *err)
{
    int rc = layers_measure(layers, p->layer_count, &ret->bytes, &ret->files, err);

    return rc == SP_OK && p->lower != NULL ? base_digest_of(p->lower, ret->base, err) : rc;
}

static int put_all(const struct plan *p, const struct merge_layer *layers, int fd, struct err *err)
{
    struct bundle_writer w = {.out = NULL};
    struct tar_tree tree = {.put = bundle_put, .ctx = &w, .prefix = BUNDLE_FILES};
    const struct merge_sink sink = {.put = tar_tree_item, .leave = tar_tree_leave, .ctx = &tree};
    struct bundle_head head = {.bytes = 0};
    int rc = measure(p, layers, &head, err);

    tar_tree_init(&tree);
    if (rc == SP_OK)
        rc = bundle_begin(&w, fd, p->about, &head, err);
    if (rc == SP_OK)
        rc = merge_layers(layers, p->layer_count, &sink, err);
    if (rc == SP_OK)
        rc = bundle_end(&w, err);
    bundle_free(&w);
    tar_tree_fini(&tree);
    return rc;
}

int pack_snapshot(const struct plan *p, int fd, struct buf *answer, struct err *err)
{
    struct merge_layer layers[PLAN_LAYERS_MAX];
    size_t count = 0;
    int rc = layers_open(p, layers, &count, err);

    if (rc == SP_OK)
        rc = put_all(p, layers, fd, err);
    layers_close(layers, count);
    if (rc == SP_OK)
        buf_puts(answer, "{}");
    return rc;
}
