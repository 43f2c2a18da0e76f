/* disk.h - the limit of what a container writes: see disk.c. */
#ifndef DOCKER_DISK_H
#define DOCKER_DISK_H

#include "backend/backend.h"

struct docker;
struct docker_mounting;

/* Whether the engine's storage driver can limit a container. */
enum docker_storage { DOCKER_STORAGE_UNTRIED, DOCKER_STORAGE_CAN, DOCKER_STORAGE_CANNOT };

/* How limits.disk of a box is kept. */
enum docker_disk { DOCKER_DISK_NONE, DOCKER_DISK_ENGINE, DOCKER_DISK_PLACES };

enum docker_disk docker_disk_first(const struct docker *d, const struct config_profile *p);
/* Where the engine cannot. */
enum docker_disk docker_disk_second(const struct docker *d, const struct config_profile *p);
/* The first box of a profile that leaves it to us could not be limited: true, if no other one will be tried. */
bool docker_disk_give_up(struct docker *d, const struct config_profile *p, const struct err *why);
/* SP_CONFIG: places cannot be limited here. `err` may be NULL. */
MUST_CHECK int docker_disk_check(const struct docker *d, const struct config_profile *p,
                                 struct err *err);
const char *docker_disk_limit(struct backend *b, const struct config_profile *p);
void docker_disk_report(struct backend_exam *r, const struct docker *d, const char *driver);
/* Reads the marks of an earlier daemon. */
void docker_disk_open(struct docker *d, const char *state_dir);
/* A container is about to run whose places have no limit yet, */
MUST_CHECK int docker_disk_mark(const struct docker *d, uint64_t box, struct err *err);
/* they have one, or it is gone. */
void docker_disk_unmark(struct docker *d, uint64_t box);
bool docker_disk_is_unfinished(const struct docker *d, uint64_t box);
void docker_disk_plan(const struct docker *d, const struct docker_mounting *m, struct json_out *j);

#endif
