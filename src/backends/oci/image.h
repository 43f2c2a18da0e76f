/* image.h - `image:` of a profile to a directory, once.
 *
 * References: "docker-archive:/path.tar[:name]", "oci:/path[:tag]" (a layout), "docker://..." (a
 * registry); a bare absolute path is an archive if it ends in ".tar" and a layout if not. skopeo
 * fetches, umoci unpacks, both as children.
 *
 * <cache_dir>/images holds
 *   <digest>.<user id>.<user>/rootfs      an unpacked image; never changed again
 *   <digest>.<user id>.<user>/image.json  its environment and working directory
 *   <key>.ref    what a reference stood for: a file that has not changed since is not asked again.
 *                A registry is asked once: to follow a tag, name another one or remove the file
 *   <key>.lock   held (flock) by whoever makes that image and by the programs it started; others
 *                wait. Also between daemons
 *   <key>.tmp    work in progress; a leftover is removed by the next one who makes that image
 * An image that nothing names any more stays until somebody removes its directory. */
#ifndef OCI_IMAGE_H
#define OCI_IMAGE_H

#include "base/op.h"
#include "loop/loop.h"

struct oci_image {
    struct op op;
    const char *image;     /* borrowed until on_done(), like the next two */
    const char *cache_dir; /* its parent exists */
    const char *user;      /* is added to the image's passwd and group if it has no such name */
    unsigned user_id;
    void (*on_step)(struct oci_image *r, const char *what); /* what takes long begins; or NULL */

    char rootfs[512]; /* results */
    char **env;       /* NAME=value of the image, ends with NULL; owned, see oci_image_fini() */
    char workdir[256];
    void *priv;
};

/* SP_UNSUPPORTED: a program is missing; SP_INVALID_FIELD: no such kind of reference;
 * SP_BACKEND_FAILED with the program's own words. A cancel ends the children and cleans up. */
void oci_image_start(struct loop *l, struct oci_image *r, struct list *owner, uint64_t deadline_ns,
                     void (*on_done)(struct op *));
/* After on_done(), or of a zeroed object. */
void oci_image_fini(struct oci_image *r);

#endif
