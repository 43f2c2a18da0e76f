/* container_places.h - the directories of a container that container_disk() has limited, found again. */
#ifndef HELPER_CONTAINER_PLACES_H
#define HELPER_CONTAINER_PLACES_H

#include <linux/loop.h>

#include "helper/plan_read.h"

#define CONTAINER_OVERLAY "sandpool" /* the source of their mounts */

struct container_place {
    char path[PLAN_PATH_MAX + 1]; /* where it is now, below the root of the container: "home/ann" */
    int upper;                    /* what was written to it */
};

struct container_places {
    struct container_place of[PLAN_PLACES_MAX + 1];
    size_t count;
};

/* Of its loop device. */
void container_disk_name(const struct plan *p, char ret[LO_NAME_SIZE]);
/* After container_open(). SP_UNSUPPORTED: it has no disk that is known as its own. */
MUST_CHECK int container_places_open(const struct plan *p, struct container_places *ret,
                                     struct err *err);
void container_places_close(struct container_places *ps);

#endif
