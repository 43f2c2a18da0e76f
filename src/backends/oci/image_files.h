/* image_files.h - what oci/image.c does with files, on another thread; see image.h for what lies
 * where. Every function touches only the object it is given. */
#ifndef OCI_IMAGE_FILES_H
#define OCI_IMAGE_FILES_H

#include <stdbool.h>

#include "base/err.h"
#include "config/config.h"

struct image_files {
    /* What is wanted. */
    char reference[CONFIG_PATH_MAX + 32]; /* as skopeo wants it */
    char source[CONFIG_PATH_MAX + 32];    /* the file that shows a change; "": a registry */
    char dir[400];                        /* <cache_dir>/images */
    char user[CONFIG_NAME_MAX + 1];
    unsigned user_id;

    /* While it is made. */
    char stamp[160]; /* the source as it was at the beginning */
    char digest[65]; /* of the manifest */
    char tmp[440];
    int lock_fd; /* -1: not ours */

    /* Results. */
    bool is_found;
    bool is_busy; /* somebody else makes it: ask again */
    char rootfs[512];
    char **env; /* owned */
    char workdir[256];
};

/* SP_INVALID_FIELD for what no such kind of reference is. Sets reference and source. */
MUST_CHECK int image_files_init(struct image_files *f, const char *image, struct err *err);
void image_files_fini(struct image_files *f);

/* Is it there already (is_found)? If not, takes the lock (or is_busy) and makes tmp with an empty
 * bundle. */
MUST_CHECK int image_files_prepare(struct image_files *f, struct err *err);
/* Is there an image of `digest`? Then it is what the reference stands for from now on. */
MUST_CHECK int image_files_known(struct image_files *f, struct err *err);
/* <tmp>/layout (with the one image "box") and <tmp>/bundle/rootfs become the image. */
MUST_CHECK int image_files_settle(struct image_files *f, struct err *err);
/* Removes tmp; whatever cannot be removed is left for the next one. */
void image_files_clean(struct image_files *f);

void image_env_free(char **env);

#endif
