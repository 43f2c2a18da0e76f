/* idmap.h - detached copies of mounts with other owners and stricter flags. */
#ifndef HELPER_IDMAP_H
#define HELPER_IDMAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* On disk `from`, in the mount `to`, for `count` ids each. */
struct idmap {
    uint32_t from_uid;
    uint32_t from_gid;
    uint32_t to_uid;
    uint32_t to_gid;
    uint32_t count;
};

/* A detached copy of the mount at an O_PATH descriptor; with `is_deep` all that is mounted below
 * comes along. *ret_fd is for move_mount(). */
MUST_CHECK int idmap_copy(int at, bool is_deep, int *ret_fd, struct err *err);
/* nosuid, nodev, and read-only if `is_ro`; nothing is propagated to or from it. */
MUST_CHECK int idmap_restrict(int tree, bool is_ro, bool is_deep, struct err *err);
/* SP_UNSUPPORTED: this kernel or this file system cannot. */
MUST_CHECK int idmap_apply(int tree, const struct idmap *map, struct err *err);

/* A new user namespace with these ids. The kernel counts what its users have (inotify instances,
 * message queues, pending signals) for user `owner` of this machine as well. */
MUST_CHECK int idmap_user_ns(const struct idmap *map, uint32_t owner, int *ret_fd, struct err *err);

#endif
