/* fit.c - looks at the files that runtimes open in a box's root by themselves, before one is started. Whoever had a box, and
 * made a snapshot of it, has chosen what they are: a named pipe would keep runc waiting, a device or a file without end would
 * keep it reading. Only named here are files that no runtime can do without; what we put into the root is replaced, and
 * targets of mounts are only ever looked up. */
#include "helper/fit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "helper/inside.h"

#define READ_MAX (4 << 20) /* bytes: runtimes read the whole file */

static const char *const read_by_runtimes[] = {"/etc/passwd", "/etc/group"};
/* They make them when they are not there, and fail when they are something else. And ours, through which a runtime goes to the
 * agent: a link there could lead by way of /proc/self/fd to what the runtime has open. */
static const char *const plain_directories[] = {"/proc", "/sys", "/dev", "/.sandpool"};
static const char *const plain_files[] = {"/.sandpool/agent"};

static const char *kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFIFO:
        return "a named pipe";
    case S_IFDIR:
        return "a directory";
    case S_IFREG:
        return "a file";
    case S_IFLNK:
        return "a link";
    case S_IFSOCK:
        return "a socket";
    case S_IFCHR:
    case S_IFBLK:
        return "a device";
    default:
        return "something else";
    }
}

/* Not there by its name. A link to nowhere is not that: what the runtime mounts may be where it leads to. */
static bool is_absent(int root, const char *path)
{
    AUTO_CLOSE int fd = inside_open(root, path, O_NOFOLLOW, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);

    return fd < 0 && errno == ENOENT;
}

static int check_file(int root, int fds, const char *path, struct err *err)
{
    AUTO_CLOSE int fd = inside_open(root, path, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
    struct err where;
    struct stat st;

    if (fd < 0 && is_absent(root, path))
        return SP_OK;
    if (fd < 0)
        return err_set(err, SP_PROGRAM_NOT_EXECUTABLE, "'%s' is a link that leads to no file",
                       path);
    if (fstat(fd, &st) != 0)
        return err_sys(err, SP_IO, errno, "look at '%s' in the box", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, SP_PROGRAM_NOT_EXECUTABLE, "'%s' is %s, not a file", path,
                       kind_of(st.st_mode));
    if (st.st_size > READ_MAX)
        return err_set(err, SP_PROGRAM_NOT_EXECUTABLE, "'%s' is larger than %d MiB", path,
                       READ_MAX >> 20);
    if (inside_is_free(fds, root, fd, path, &where) != SP_OK)
        return err_set(err, SP_PROGRAM_NOT_EXECUTABLE,
                       "'%s' is a link into a file system of the runtime", path);
    return SP_OK;
}

/* `is_dir`: it has to be a directory, if it is there, else a file; by its own name in either case. */
static int check_plain(int root, const char *path, bool is_dir, struct err *err)
{
    AUTO_CLOSE int fd = inside_open(root, path, O_NOFOLLOW, RESOLVE_IN_ROOT);
    struct stat st;

    if (fd < 0 && errno == ENOENT)
        return SP_OK;
    if (fd < 0 || fstat(fd, &st) != 0)
        return err_sys(err, SP_IO, errno, "look at '%s' in the box", path);
    if (is_dir ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode))
        return SP_OK;
    return err_set(err, SP_PROGRAM_NOT_EXECUTABLE, "'%s' is %s, not a %s", path,
                   kind_of(st.st_mode), is_dir ? "directory" : "file");
}

int fit_check(int root, struct err *err)
{
    AUTO_CLOSE int fds = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fds >= 0 ? SP_OK : err_sys(err, SP_IO, errno, "/proc/self");

    for (size_t i = 0; rc == SP_OK && i < ARRAY_LEN(read_by_runtimes); i++)
        rc = check_file(root, fds, read_by_runtimes[i], err);
    for (size_t i = 0; rc == SP_OK && i < ARRAY_LEN(plain_directories); i++)
        rc = check_plain(root, plain_directories[i], true, err);
    for (size_t i = 0; rc == SP_OK && i < ARRAY_LEN(plain_files); i++)
        rc = check_plain(root, plain_files[i], false, err);
    return rc;
}
