/* image_user.c - adds a line to passwd and group of an unpacked image. The tree is a stranger's:
 * every name in it is resolved by the kernel as if the tree were the root. */
#include "backends/oci/image_user.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"

#define FILE_MAX (1024U * 1024U)

enum { TRIES = 1000 };

static int open_inside(int root_fd, const char *path, int flags, mode_t mode)
{
    struct open_how how = {.flags = (unsigned) (flags | O_CLOEXEC),
                           .mode = mode,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    int fd = -1;

    /* A rename or a mount anywhere on the machine makes the kernel unsure of a "..". */
    for (int i = 0; fd < 0 && i < TRIES && (i == 0 || errno == EAGAIN); i++)
        fd = (int) syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
    return fd;
}

static bool has_entry(int root_fd, const char *path)
{
    AUTO_CLOSE int fd = open_inside(root_fd, path, O_PATH, 0);
    return fd >= 0;
}

/* A line that begins with "name:". */
static bool has_name(const char *text, const char *name)
{
    size_t len = strlen(name);

    while (text != NULL && *text != '\0') {
        if (strncmp(text, name, len) == 0 && text[len] == ':')
            return true;
        text = strchr(text, '\n');
        if (text != NULL)
            text++;
    }
    return false;
}

/* Opening a device of the image's own making could already do something. */
static bool is_file_or_missing(int root_fd, const char *path)
{
    AUTO_CLOSE int fd = open_inside(root_fd, path, O_PATH, 0);
    struct stat st;

    return fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode));
}

/* Adds `line` unless `name` is there; an empty file begins with `first`. */
static int add_line(int root_fd, const char *path, const char *name, const char *first,
                    const char *line)
{
    AUTO_CLOSE int fd = -1;
    struct buf text;
    struct buf more;
    struct stat st;
    int failed = 0;

    if (!is_file_or_missing(root_fd, path))
        return EINVAL;
    fd = open_inside(root_fd, path, O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK, 0644);
    if (fd < 0 || fstat(fd, &st) != 0)
        return errno;
    if (!S_ISREG(st.st_mode))
        return EINVAL;
    buf_init(&text, FILE_MAX);
    buf_init(&more, 4096);
    failed = file_read_rest(fd, &text);
    if (failed == 0 && text.len == 0) {
        buf_puts(&more, first);
        (void) fchmod(fd, 0644); /* whatever our umask is: the box's user reads it */
    }
    if (failed == 0 && text.len > 0 && text.data[text.len - 1] != '\n')
        buf_putc(&more, '\n');
    if (failed == 0 && !has_name(buf_str(&text), name) && !has_name(buf_str(&more), name))
        buf_puts(&more, line);
    if (failed == 0 && more.len > 0 && write(fd, more.data, more.len) != (ssize_t) more.len)
        failed = errno;
    buf_fini(&text);
    buf_fini(&more);
    return failed;
}

int image_user_add(const char *rootfs, const char *user, unsigned id, struct err *err)
{
    AUTO_CLOSE int root_fd = open(rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    const char *shell = "/bin/sh";
    bool is_root = strcmp(user, "root") == 0;
    char line[256];
    int failed;

    if (root_fd < 0)
        return err_sys(err, SP_IO, errno, "'%.150s'", rootfs);
    if (!has_entry(root_fd, "etc") && mkdirat(root_fd, "etc", 0755) != 0)
        return err_sys(err, SP_IO, errno, "its directory etc");
    if (has_entry(root_fd, "bin/bash"))
        shell = "/bin/bash";
    if (is_root)
        id = 0;
    (void) snprintf(line, sizeof(line), "%s:x:%u:%u::%s/%s:%s\n", user, id, id,
                    is_root ? "" : "/home", user, shell); /* fits: a name has at most 64 bytes */
    failed = add_line(root_fd, "etc/passwd", user, "root:x:0:0:root:/root:/bin/sh\n", line);
    if (failed != 0)
        return err_sys(err, SP_IO, failed, "its file etc/passwd");
    (void) snprintf(line, sizeof(line), "%s:x:%u:\n", user, id);
    failed = add_line(root_fd, "etc/group", user, "root:x:0:\n", line);
    if (failed != 0)
        return err_sys(err, SP_IO, failed, "its file etc/group");
    return SP_OK;
}
