/* capturing.h - one snapshot in the making. capture.c looks at the box and has the engine make the image; gather.c makes the container that
 * it is made of.
 *
 *  looks -> (at gate -> copy made -> seen -> box paused -> files copied -> box goes on -> (layers made one)) -> commit -> copies removed
 */
#ifndef DOCKER_CAPTURING_H
#define DOCKER_CAPTURING_H

#include "backends/docker/internal.h"

/* Labels of a container that is to become a snapshot: our instance, and the container that it is a copy of. */
#define DOCKER_COPY LABEL("copy")
#define DOCKER_COPY_OF LABEL("copy_of")
/* After a listing: removes what an earlier daemon has left of them, and lets their boxes go on. */
void docker_copies_sweep(struct docker *d);

/* The files of the box, and the same without the snapshots that lie below them. */
enum { COPY_OF_BOX, COPY_FLAT, COPY_COUNT };

struct docker_copy {
    bool may_exist;
    struct json_doc *shown; /* as the engine shows it */
};

enum gather_step {
    GATHER_AT_GATE,
    GATHER_MAKES,
    GATHER_LOOKS,
    GATHER_PAUSES,
    GATHER_COPIES,
    GATHER_RESUMES,
    GATHER_WEIGHS, /* how many snapshots lie on each other */
    GATHER_REMOVES,
    GATHER_STEP_COUNT
};

/* `priv` of the request. */
struct capturing {
    struct docker *docker;
    struct backend_capture *request;
    struct list_node link; /* d->captures */
    struct call call;
    struct json_doc *container;         /* the box, as the engine shows it */
    struct json_doc *image;             /* that it was made from; NULL: it is not known any more */
    char base[SNAPSHOT_DIGEST_MAX + 1]; /* the image below all snapshots; "": not known */
    bool has_places;                    /* docker.disk: places */
    bool is_committing;

    struct docker_copy copies[COPY_COUNT];
    unsigned which; /* of them */
    enum gather_step step;
    struct waiter waiter;
    bool is_inside; /* of the gate */
    bool has_paused;
    bool
        is_left_paused; /* it could not be resumed: docker_copies_sweep() does it, while a copy exists */
    uint64_t paused_ns; /* since when */
    struct child child;
    struct buf plan;
    const char *argv[3];
    size_t flat_layers; /* that are made one */

    int result;
    struct err err;
    void (*on_gathered)(struct capturing *c);
    void (*on_removed)(struct capturing *c);
};

/* Whether a copy of the box can be made here. */
bool gather_is_possible(const struct capturing *c);
/* Then c->on_gathered(); result SP_OK: c->copies[c->which] is to be the image. SP_UNSUPPORTED: not of this box. */
void gather_start(struct capturing *c);
/* Nobody wants it any more; what must be done to its end is. */
void gather_cancel(struct capturing *c);
/* Removes the copies; then c->on_removed(). */
void gather_remove(struct capturing *c);
/* Layers of an image. */
size_t gather_depth(const struct json *image);

#endif
