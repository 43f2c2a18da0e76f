/* image.h - `image:` of a profile to a directory, once. */
#ifndef OCI_IMAGE_H
#define OCI_IMAGE_H

#include "loop/loop.h"
#include "base/op.h"

struct oci_image {
    struct op op;
    const char *image; /* borrowed until on_done() */
    const char *cache_dir;
    const char *user;
    unsigned user_id;
    char rootfs[512]; /* results */
    char **env;       /* NAME=value, ends with NULL; owned */
    char workdir[256];
    void *priv;
};

void oci_image_start(struct loop *l, struct oci_image *r, struct list *owner, uint64_t deadline_ns,
                     void (*on_done)(struct op *));
void oci_image_fini(struct oci_image *r);

#endif
