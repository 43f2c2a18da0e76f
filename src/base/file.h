/* file.h - small files and directories as a whole. These calls wait for the disk: they are for threads, for programs
 * that do one thing and for the start of the daemon. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <fcntl.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

enum { FILE_NOT_REGULAR = -1 };

/* One directory for us alone (0700), in one that exists. It may be there already. */
MUST_CHECK int file_make_dir(const char *path, struct err *err);
/* A directory of files that a start of the machine removes; NULL: none that we may write to. */
const char *file_boot_dir(void);
/* For reading. 0, an errno or FILE_NOT_REGULAR: a pipe, say, for whose writer nobody waits. */
MUST_CHECK int file_open_regular(const char *path, int *ret_fd);
/* Appends all that follows in `fd`. 0 or an errno; EFBIG: it is more than `out` takes. */
MUST_CHECK int file_read_rest(int fd, struct buf *out);
/* The first `cap` - 1 bytes of a file below `dir_fd` (or AT_FDCWD) as text: by one read(), which is how the kernel's own
 * files are to be read. No link as its last name. Its length, or -1 and errno; `dst` is "" then. */
ssize_t file_read_start(int dir_fd, const char *path, char *dst, size_t cap);
/* All of `len` bytes, from a pipe or socket, too; false: they did not come, or a signal came and is_stopped() says that the
 * program is to end. */
MUST_CHECK bool file_read_exact(int fd, void *dst, size_t len, bool (*is_stopped)(void));
/* 0 or an errno. */
MUST_CHECK int file_write_all(int fd, const char *data, size_t len);

#endif
