/* limits.h - sizes, times and names of the `docker` backend. */
#ifndef DOCKER_LIMITS_H
#define DOCKER_LIMITS_H

#include "base/rt.h"
#include "config/config.h"

enum {
    DOCKER_PATH_MAX = 512,
    DOCKER_NAME_MAX = 255,
    DOCKER_CONTAINER_MAX = 64, /* length of a container's id */
    DOCKER_ANSWER_MAX = 32 * 1024 * 1024,
    DOCKER_BODY_MAX = 64 * 1024 * 1024,
    DOCKER_REMOVES_MAX = 16, /* at once */
    DOCKER_STOPS_MAX = 64,   /* likewise: the engine only waits */
    DOCKER_MOUNTS_MAX = 4,   /* processes of the helper at once */
    DOCKER_COPIES_MAX = 4,   /* likewise, for snapshots */
    DOCKER_PORT = 8080,      /* of the agent, where a port is published */
    DOCKER_FETCHED_MAX = CONFIG_PROFILES_MAX,
};

#define DOCKER_REMOVE_NS (60 * NS_PER_S) /* a removal that nobody waits for */
#define DOCKER_CLOSE_NS (5 * NS_PER_S)   /* what is under way may take this long at the end */
#define DOCKER_AGENT_DIR "/.sandpool"
#define DOCKER_RELAYS_GROUP "relays" /* no box's id */

#endif
