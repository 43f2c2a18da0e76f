/* images.h - images that boxes are made from: of registries, and those that are snapshots. A part of internal.h. */
#ifndef DOCKER_IMAGES_H
#define DOCKER_IMAGES_H

#include "backend/backend.h"
#include "backend/snapshot.h"
#include "backend/waiter.h"
#include "backends/docker/limits.h"
#include "base/buf.h"
#include "base/json.h"
#include "config/config.h"

struct docker;

/* --- images (image.c) --- */

struct docker_image {
    char work_dir[DOCKER_PATH_MAX];
    char user[CONFIG_PATH_MAX + 1];   /* "": root */
    char id[SNAPSHOT_DIGEST_MAX + 1]; /* "sha256:…"; "": the engine does not say */
};

/* Which image, and how it is to be had. */
struct docker_source {
    char image[CONFIG_PATH_MAX + 1];
    char auth_file[CONFIG_PATH_MAX + 1];
    enum config_pull pull;
};

void docker_source_of(const struct config_profile *p, struct docker_source *ret);
bool docker_source_equal(const struct docker_source *a, const struct docker_source *b);

/* The image is asked for, and pulled where the source says so; `w` is resumed when that has ended,
 * never from inside: then docker_image_result() returns the result. One job for all who want the same. */
struct docker_pull;
struct docker_pull *docker_image_get(struct docker *d, const struct docker_source *source,
                                     struct waiter *w);
/* Valid while the waiters are resumed. */
MUST_CHECK int docker_image_result(const struct docker_pull *p, struct docker_image *ret,
                                   struct err *err);
void docker_image_leave(struct docker_pull *p, struct waiter *w);
/* "image 'a' is still being pulled (3 of 10 MB)". */
void docker_image_describe(const struct docker_pull *p, struct err *err);
void docker_images_cancel(struct docker *d);

/* --- snapshots (snapshots.c, capture.c) --- */

enum { DOCKER_SNAPSHOT_NAME_MAX = 48 };

/* Of its image. */
void docker_snapshot_name(uint64_t id, char ret[DOCKER_SNAPSHOT_NAME_MAX]);
/* Of a snapshot with these labels: how many lie on each other (0: not known), and the image below all of them ("": likewise).
 * `ret_is_hibernated` may be NULL. */
uint64_t docker_snapshot_layers(const struct json *labels, char ret_base[SNAPSHOT_DIGEST_MAX + 1],
                                bool *ret_is_hibernated);
/* "sha256:..." from what an engine calls an image; false: it is no id. */
MUST_CHECK bool docker_image_digest(const char *id, char ret[SNAPSHOT_DIGEST_MAX + 1]);
/* Nobody waits. */
void docker_snapshot_remove(struct docker *d, uint64_t id);
/* After a listing: removes images of deleted snapshots that nothing needs any more. */
void docker_snapshots_collect(struct docker *d);
void docker_capture(struct backend *b, struct backend_capture *r, uint64_t deadline_ns,
                    void (*on_done)(struct op *));
void docker_list_snapshots(struct backend *b, struct backend_snapshots *r, uint64_t deadline_ns,
                           void (*on_done)(struct op *));
void docker_drop(struct backend *b, struct backend_drop *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *));
/* moves.c */
void docker_export(struct backend *b, struct backend_export *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *));
void docker_import(struct backend *b, struct backend_import *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *));
/* capture.c: what the label of its image says; false: that is too long. `base`: "" when it is not known. */
MUST_CHECK bool docker_snapshot_code(const struct snapshot *s, const char *base, struct buf *ret);

/* auth.c: appends the header a pull of this image needs, or nothing. For a thread of its own. */
MUST_CHECK int docker_auth_read(const char *path, const char *image, struct buf *out,
                                struct err *err);

/* prefetch.c: images of profiles, before anybody waits for them */
void docker_prepare(struct backend *b, const struct config_profile *profile);
/* What could not be had when the engine was away. */
void docker_prefetch_again(struct docker *d);
void docker_prefetch_free(struct docker *d);

#endif
