/* saved_image.h - an image as an engine saves it (`docker save`): names of what is in the archive, the data of all of it in a file
 * without a name. The order of such an archive is up to the engine: what says which layer is which comes last. */
#ifndef HELPER_SAVED_IMAGE_H
#define HELPER_SAVED_IMAGE_H

#include "base/json.h"
#include "helper/disk_digest.h"

enum { SAVED_FILES_MAX = 4096, SAVED_TEXT_MAX = 4 * 1024 * 1024 };

struct saved_file {
    char *name;
    char *link; /* a symlink to that name; NULL: it has data */
    uint64_t at;
    uint64_t size;
    char digest[DISK_DIGEST_MAX];
};

struct saved_image {
    int data;
    struct saved_file *files;
    size_t count;
    uint64_t used;
};

/* Reads the archive from `fd` to its end; the file lies in `dir`. SP_BODY_TOO_LARGE: it has more than `max` bytes. */
MUST_CHECK int saved_image_read(struct saved_image *s, int fd, const char *dir, uint64_t max,
                                uint64_t reserve, struct err *err);
void saved_image_free(struct saved_image *s);
/* Follows links; NULL: there is none. */
const struct saved_file *saved_image_find(const struct saved_image *s, const char *name);
MUST_CHECK int saved_image_json(const struct saved_image *s, const char *name,
                                struct json_doc **ret, struct err *err);

#endif
