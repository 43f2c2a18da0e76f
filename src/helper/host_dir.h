/* host_dir.h - directories that are made as root where others may have put links: of the host for a thread's own
 * data, and in a box.
 *
 * Callers choose the names in its path and boxes write into it, so the way from the base is gone name by
 * name, and no link is followed: not one in the path, not one that a box has put in the place of a part. */
#ifndef HELPER_HOST_DIR_H
#define HELPER_HOST_DIR_H

#include "helper/plan_read.h"

/* m->base, as it is named: the daemon's own choice. */
MUST_CHECK int host_dir_base(const struct plan_mount *m, int *ret_fd, struct err *err);
/* m->from, below m->base (which is open as `base`), with m->parts in it. What is made belongs to the owner of the base, or to user and group
 * 1000 where that is root; so does the directory itself where it was root's, since no box stands for
 * root. SP_FORBIDDEN: a link, or no directory, is in the way; or another holder than m->holder has used it before. */
MUST_CHECK int host_dir_open(const struct plan_mount *m, int base, int *ret_fd, struct err *err);
/* The directory m->to below `root`, a box's: for the box's user, or everybody where our agent is not in it. Where
 * a link, a file or something read-only is in the way nothing is done: the box's programs may have put it
 * there. */
MUST_CHECK int host_dir_inside(const struct plan *p, const struct plan_mount *m, int root,
                               struct err *err);
/* For a file system that cannot show other owners: everybody may write there, as DeerFlow itself has it. */
MUST_CHECK int host_dir_loosen(const struct plan_mount *m, int fd, struct err *err);

#endif
