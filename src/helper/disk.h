/* disk.h - a file system of a fixed size for one box, in a file. */
#ifndef HELPER_DISK_H
#define HELPER_DISK_H

#include "base/json.h"
#include "helper/box_dir.h"
#include "helper/plan_read.h"

/* Makes <dir>/disk from the template (made on first use) and mounts it at `target`. The loop device
 * goes when the mount does; its number is kept in the file "loop". */
MUST_CHECK int disk_mount(const struct plan *p, const struct box_dir *d, const char *target,
                          struct err *err);

/* Makes the file what the template is, which is made on first use: an empty file system of p->disk bytes. */
MUST_CHECK int disk_fill(const struct plan *p, int to, struct err *err);

/* A new file with an empty file system of this size, sparse; a durable one has a journal. *ret_fd is the caller's, also
 * after a failure. */
MUST_CHECK int disk_make(const char *path, uint64_t size, bool is_durable, int *ret_fd,
                         struct err *err);

/* Sets aside what a file of disk_make() may ever take: what is written to it then finds a place, whoever else fills the file
 * system. One that cannot do that is left alone. */
MUST_CHECK int disk_reserve(int fd, uint64_t size, struct err *err);
/* Gives back what of it was not used. */
MUST_CHECK int disk_trim(int fd, struct err *err);

/* Makes `to` what `from` is, of `size` bytes, holes included; shares the blocks where the file system can. */
MUST_CHECK int disk_copy(int from, int to, off_t size, struct err *err);

/* A loop device for `file`, which goes when its last user does. */
MUST_CHECK int disk_attach(int file, bool is_ro, char *ret_path, size_t cap, int *ret_number,
                           int *ret_fd, struct err *err);

/* Before <dir>/disk is removed: gives its space back in steps, each of them short. A host that discards at once needs
 * a request for each piece, and one unlink of a file in 100,000 pieces takes a minute in which nothing can end it. `freed` is
 * increased. A file that has another name is left alone. */
MUST_CHECK int disk_shrink(const struct box_dir *d, uint64_t *freed, struct err *err);

/* From here on what is mounted is seen by nobody else, and goes with this process. */
MUST_CHECK int disk_leave_host(struct err *err);

/* A file system that was not unmounted has the rest in its journal, and cannot be mounted read-only: puts it in its
 * place. Mounts it at `target`, so disk_leave_host() comes first. `file` is open for writing. */
MUST_CHECK int disk_settle(int file, const char *target, struct err *err);

/* Writes the file at `path` out: it is taken as whole from then on. Begins the answer of the call, an object with its
 * "size". */
MUST_CHECK int disk_finish(int file, const char *path, struct json_out *answer, struct err *err);

#endif
