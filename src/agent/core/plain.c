/* plain.c - uses openat2(2) where the kernel has it. gVisor and old kernels do not: there
 * plain_walk.c does the same. */
#include "agent/core/plain.h"

#include <ctype.h>
#include <errno.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "agent/core/plain_walk.h"
#include "base/cleanup.h"

static int open_how(int dir, const char *path, int flags, mode_t mode, uint64_t resolve)
{
    struct open_how how = {.flags = (unsigned) flags, .resolve = resolve};

    if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE)
        how.mode = mode;
    return (int) syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

static bool has_openat2(void)
{
    static int is_there = -1;

    if (is_there < 0) {
        int fd = open_how(AT_FDCWD, "/", O_PATH | O_CLOEXEC, 0, RESOLVE_NO_MAGICLINKS);

        is_there = fd >= 0;
        if (fd >= 0)
            (void) close(fd);
    }
    return is_there == 1;
}

/* Whether the name has a part that is a number: "/proc/17/maps", "/elsewhere/17". */
static bool has_number(const char *name)
{
    for (const char *part = strchr(name, '/'); part != NULL; part = strchr(part, '/')) {
        size_t digits = strspn(++part, "0123456789");

        if (digits > 0 && (part[digits] == '/' || part[digits] == '\0' || part[digits] == ' '))
            return true;
    }
    return false;
}

/* Whether it is below the directory of a process. */
static bool is_process(int fd)
{
    static const char top[] = "/proc/";
    struct statfs fs;
    char path[64];
    char name[512];
    ssize_t n;
    bool is_proc = fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;

    if (!is_proc && has_openat2())
        return false;
    (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    n = readlink(path, name, sizeof(name) - 1);
    if (n <= 0)
        return is_proc; /* without its name it is not known */
    name[n] = '\0';
    if (strncmp(name, top, strlen(top)) == 0)
        return isdigit((unsigned char) name[strlen(top)]) != 0;
    return is_proc && has_number(name);
}

/* A loop of links and a magic link give the same error: find out which it was. */
static int explain(int dir, const char *path, int flags, int sys)
{
    int fd;

    if (sys != ELOOP || (flags & O_NOFOLLOW) != 0 || !has_openat2())
        return sys;
    fd = openat(dir, path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno;
    (void) close(fd);
    return EPERM;
}

int plain_open(int dir, const char *path, int flags, mode_t mode)
{
    AUTO_CLOSE int fd = -1;

    flags |= O_CLOEXEC;
    if ((flags & O_PATH) == 0)
        flags |= O_NONBLOCK | O_NOCTTY;
    if (has_openat2())
        fd = open_how(dir, path, flags, mode, RESOLVE_NO_MAGICLINKS);
    else
        fd = plain_walk_open(dir, path, flags, mode, is_process);
    if (fd < 0) {
        errno = explain(dir, path, flags, errno);
        return -1;
    }
    if (is_process(fd)) {
        (void) close(TAKE_FD(fd));
        errno = EPERM;
        return -1;
    }
    return TAKE_FD(fd);
}

int plain_stat(int dir, const char *path, struct stat *ret)
{
    AUTO_CLOSE int fd = plain_open(dir, path, O_PATH, 0);

    return fd < 0 ? -1 : fstat(fd, ret);
}

static int refuse_kind(mode_t mode)
{
    if (S_ISREG(mode))
        return 0;
    return S_ISDIR(mode) ? EISDIR : ENOTSUP;
}

int plain_open_file(int dir, const char *path, int flags, mode_t mode, struct stat *ret)
{
    AUTO_CLOSE int fd = -1;
    struct stat st;
    int sys = 0;

    /* Opening a FIFO would already wake up a process that waits for a reader or a writer. */
    if ((flags & O_NOFOLLOW) != 0
            ? fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISLNK(st.st_mode)
            : plain_stat(dir, path, &st) == 0)
        sys = refuse_kind(st.st_mode);
    if (sys == 0) {
        fd = plain_open(dir, path, flags, mode);
        if (fd < 0 || fstat(fd, &st) != 0)
            return -1;
        sys = refuse_kind(st.st_mode);
    }
    if (sys != 0) {
        errno = sys;
        return -1;
    }
    if (ret != NULL)
        *ret = st;
    return TAKE_FD(fd);
}

int plain_open_device(const char *path, int flags, unsigned major_id, unsigned minor_id)
{
    AUTO_CLOSE int fd = plain_open(AT_FDCWD, path, flags, 0);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) != 0)
        return -1;
    if (!S_ISCHR(st.st_mode) || major(st.st_rdev) != major_id || minor(st.st_rdev) != minor_id) {
        errno = ENODEV;
        return -1;
    }
    if (fcntl(fd, F_SETFL, flags & O_NONBLOCK) != 0)
        return -1;
    return TAKE_FD(fd);
}
