/* closed.h - a directory of the host that is not for everybody, although it is below one that may be mounted. */
#ifndef HELPER_CLOSED_H
#define HELPER_CLOSED_H

#include <sys/stat.h>

#include "helper/plan_read.h"

/* Refuses (SP_FORBIDDEN) the open source of a mount that is in one of m->closed and not in m->own, or that has one of them in it.
 * Judged by where it is, by devices and inodes on the way up: no link and no other name leads past it. */
MUST_CHECK int closed_check(const struct plan_mount *m, int fd, const struct stat *st,
                            struct err *err);

#endif
