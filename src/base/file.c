/* file.c - small files and directories as a whole. */
#include "base/file.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { PIECE = 16 * 1024 };

int file_make_dir(const char *path, struct err *err)
{
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return err_sys(err, SP_IO, errno, "directory '%.160s'", path);
    return SP_OK;
}

const char *file_boot_dir(void)
{
    const char *own = getenv("XDG_RUNTIME_DIR");

    if (access("/run", W_OK) == 0)
        return "/run";
    return own != NULL && own[0] == '/' ? own : NULL;
}

int file_open_regular(const char *path, int *ret_fd)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) != 0)
        return errno;
    if (!S_ISREG(st.st_mode))
        return FILE_NOT_REGULAR;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int file_read_rest(int fd, struct buf *out)
{
    char piece[PIECE];

    for (;;) {
        ssize_t n = read(fd, piece, sizeof(piece));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : 0;
        buf_append(out, piece, (size_t) n);
        if (buf_failed(out))
            return out->len + (size_t) n > out->max ? EFBIG : ENOMEM;
    }
}

ssize_t file_read_start(int dir_fd, const char *path, char *dst, size_t cap)
{
    AUTO_CLOSE int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -1 : read(fd, dst, cap - 1);

    dst[n > 0 ? n : 0] = '\0';
    return n;
}

bool file_read_exact(int fd, void *dst, size_t len, bool (*is_stopped)(void))
{
    char *at = dst;

    while (len > 0) {
        ssize_t n = read(fd, at, len);

        if (n < 0 && errno == EINTR && !is_stopped())
            continue;
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t) n;
    }
    return true;
}

int file_write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        data += n;
        len -= (size_t) n;
    }
    return 0;
}
