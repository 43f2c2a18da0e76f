/* image_out.h - a container image as one tar archive. It is an OCI image layout (oci-layout, blobs/sha256/…, index.json) and has
 * the manifest.json of `docker save` beside it, so that engines that read only one of the two can load it. Layers are not
 * compressed: every engine takes that, and the digest of a blob is the one in the config, too. */
#ifndef HELPER_IMAGE_OUT_H
#define HELPER_IMAGE_OUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sha256.h"
#include "helper/disk_digest.h"

enum { IMAGE_LAYERS_MAX = 128 };

struct image_layer {
    char digest[DISK_DIGEST_MAX];
    uint64_t size;
};

/* What its config and its manifests say; texts are JSON where that is said. */
struct image_about {
    const char *name;    /* "localhost/name:tag" */
    const char *tag;     /* that part of it */
    const char *config;  /* the member `config` of the image's config, JSON */
    const char *created; /* RFC 3339 */
    const struct image_layer *layers;
    size_t layer_count;
};

struct image_out {
    /* Where the bytes go. */
    int (*put)(void *ctx, const void *data, size_t len, struct err *err);
    void *ctx;
    /* Its own. */
    size_t used;
    char *buffer;
};

void image_out_init(struct image_out *o);
void image_out_fini(struct image_out *o);
MUST_CHECK int image_out_begin(struct image_out *o, struct err *err);
/* The header of a blob: `size` bytes by image_out_write() follow, then image_out_pad(). */
MUST_CHECK int image_out_blob(struct image_out *o, const char *digest, uint64_t size,
                              struct err *err);
MUST_CHECK int image_out_write(struct image_out *o, const void *data, size_t len, struct err *err);
MUST_CHECK int image_out_pad(struct image_out *o, uint64_t size, struct err *err);
/* Something that changes nothing, and all that is held back: so that whoever reads sees that we are alive. */
MUST_CHECK int image_out_pulse(struct image_out *o, struct err *err);
/* Config and manifests; *ret_config: the digest of the former, which engines call the image by. */
MUST_CHECK int image_out_about(struct image_out *o, const struct image_about *a,
                               char ret_config[DISK_DIGEST_MAX], struct err *err);
/* The end of the archive. */
MUST_CHECK int image_out_end(struct image_out *o, struct err *err);
/* All that is held back goes on. */
MUST_CHECK int image_out_flush(struct image_out *o, struct err *err);
/* For image_out.put: `ctx` is the address of a descriptor. */
MUST_CHECK int image_out_to_fd(void *ctx, const void *data, size_t len, struct err *err);

#endif
