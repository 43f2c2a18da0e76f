/* store.c - replacing a file by renaming a new one over it, and the cases where that is not
 * possible: then the file is emptied and written in place. */
#include "agent/file/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/plain.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/rand.h"
#include "base/str.h"

bool file_is_temp_name(const char *name)
{
    static const char prefix[] = ".sandpool-";
    uint64_t id;

    return strncmp(name, prefix, sizeof(prefix) - 1) == 0 &&
           str_parse_hex64(name + sizeof(prefix) - 1, &id);
}

void file_store_init(struct file_store *s)
{
    s->target.dir = -1;
    s->temp_dir = -1;
    s->temp[0] = '\0';
    s->fd = -1;
    s->is_new = true;
}

/* A new file with an unpredictable name in `dir`. */
static int make_temp(struct file_store *s, int dir)
{
    uint64_t id;
    char hex[17];

    rand_secure(&id, sizeof(id));
    str_hex64(hex, id);
    s->temp_dir = fcntl(dir, F_DUPFD_CLOEXEC, 3);
    if (s->temp_dir < 0)
        return errno;
    (void) snprintf(s->temp, sizeof(s->temp), ".sandpool-%s", hex);
    s->fd = plain_open_file(dir, s->temp, O_RDWR | O_CREAT | O_EXCL, 0666, NULL);
    if (s->fd >= 0)
        return 0;
    s->temp[0] = '\0';
    return errno;
}

static int open_in_place(struct file_store *s)
{
    s->fd =
        plain_open_file(s->target.dir, s->target.name, O_WRONLY | O_CREAT | O_NOFOLLOW, 0666, NULL);
    if (s->fd < 0)
        return errno;
    return ftruncate(s->fd, 0) == 0 ? 0 : errno;
}

/* Sets owner and mode; false if the owner cannot be set: then the file would get another owner. */
static bool copy_rights(int fd, const struct stat *st)
{
    struct stat own;

    if (fchown(fd, st->st_uid, st->st_gid) != 0 && fchown(fd, (uid_t) -1, st->st_gid) != 0)
        errno = 0;                          /* the writer's own group */
    (void) fchmod(fd, st->st_mode & 07777); /* the file is ours: it can */
    return fstat(fd, &own) == 0 && own.st_uid == st->st_uid;
}

static void drop_temp(struct file_store *s)
{
    if (s->fd >= 0)
        (void) close(TAKE_FD(s->fd)); /* it is of no use any more */
    if (s->temp[0] != '\0')
        (void) unlinkat(s->temp_dir, s->temp, 0); /* it may have been removed by others */
    s->temp[0] = '\0';
}

/* Decides by what is there. */
static int open_beside(struct file_store *s)
{
    struct stat st;
    bool is_there = fstatat(s->target.dir, s->target.name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    int sys;

    s->is_new = !is_there;
    if (is_there && !S_ISREG(st.st_mode))
        return S_ISDIR(st.st_mode) ? EISDIR : ENOTSUP;
    if (is_there && faccessat(s->target.dir, s->target.name, W_OK, 0) != 0)
        return errno; /* renaming would get around the file's own permissions */
    if (is_there && st.st_nlink > 1)
        return open_in_place(s); /* other hard links must still name the same file */
    sys = make_temp(s, s->target.dir);
    if (sys == EACCES || sys == EPERM)
        return open_in_place(s);
    if (sys != 0 || !is_there)
        return sys;
    if (copy_rights(s->fd, &st))
        return 0;
    drop_temp(s);
    return open_in_place(s);
}

int file_store_open(struct file_store *s, const char *path)
{
    int sys;

    file_store_init(s);
    sys = file_place_find(&s->target, path);
    return sys != 0 ? sys : open_beside(s);
}

int file_store_open_at(struct file_store *s, int dir, const char *name)
{
    file_store_init(s);
    if (!str_copy(s->target.name, sizeof(s->target.name), name))
        return ENAMETOOLONG;
    s->target.dir = fcntl(dir, F_DUPFD_CLOEXEC, 3);
    return s->target.dir < 0 ? errno : open_beside(s);
}

int file_store_open_loose(struct file_store *s, const char *dir)
{
    AUTO_CLOSE int fd = plain_open(AT_FDCWD, dir, O_PATH | O_DIRECTORY, 0);

    file_store_init(s);
    return fd < 0 ? errno : make_temp(s, fd);
}

int file_open_append(const char *path)
{
    struct file_place place;
    int sys = file_place_find(&place, path);
    int fd = -1;

    if (sys == 0) {
        fd = plain_open_file(place.dir, place.name, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW,
                             0666, NULL);
        sys = fd < 0 ? errno : 0;
    }
    file_place_close(&place);
    errno = sys;
    return fd;
}

static int copy_all(int from, int to)
{
    char data[64 * 1024];

    if (lseek(from, 0, SEEK_SET) < 0)
        return errno;
    for (;;) {
        ssize_t n = read(from, data, sizeof(data));
        int sys;

        if (n <= 0)
            return n < 0 ? errno : 0;
        sys = file_write_all(to, data, (size_t) n);
        if (sys != 0)
            return sys;
    }
}

/* The target cannot be renamed over (it is a mount point): its contents are replaced. */
static int copy_in_place(struct file_store *s)
{
    AUTO_CLOSE int to =
        plain_open_file(s->target.dir, s->target.name, O_WRONLY | O_TRUNC | O_NOFOLLOW, 0, NULL);

    return to < 0 ? errno : copy_all(s->fd, to);
}

static int rename_to(struct file_store *s, const struct file_place *target)
{
    if (renameat(s->temp_dir, s->temp, target->dir, target->name) != 0)
        return errno;
    s->temp[0] = '\0';
    return 0;
}

int file_store_commit(struct file_store *s)
{
    int sys = 0;

    if (s->temp[0] != '\0') {
        sys = rename_to(s, &s->target);
        if (sys == EBUSY || sys == EPERM)
            sys = copy_in_place(s);
    }
    if (s->temp[0] == '\0' && close(TAKE_FD(s->fd)) != 0 && sys == 0)
        sys = errno;
    file_store_drop(s);
    return sys;
}

int file_store_commit_to(struct file_store *s, const char *path)
{
    struct file_store final;
    int sys = file_store_open(&final, path);

    if (sys == 0 && final.temp[0] != '\0' && rename_to(s, &final.target) == 0) {
        struct stat st;

        if (fstat(final.fd, &st) == 0)
            (void) copy_rights(s->fd, &st); /* it has what could be given */
        file_store_drop(&final);
        file_store_drop(s);
        return 0;
    }
    if (sys == 0)
        sys = copy_all(s->fd, final.fd);
    if (sys == 0)
        sys = file_store_commit(&final);
    file_store_drop(&final);
    file_store_drop(s);
    return sys;
}

void file_store_drop(struct file_store *s)
{
    drop_temp(s);
    if (s->temp_dir >= 0)
        (void) close(TAKE_FD(s->temp_dir)); /* it was only named */
    file_place_close(&s->target);
}

int file_store_put(const char *path, const char *data, size_t len)
{
    struct file_store s;
    int sys = file_store_open(&s, path);

    if (sys == 0)
        sys = file_write_all(s.fd, data, len);
    if (sys == 0)
        sys = file_store_commit(&s);
    file_store_drop(&s);
    return sys;
}

int file_append(const char *path, const char *data, size_t len)
{
    AUTO_CLOSE int fd = file_open_append(path);

    return fd < 0 ? errno : file_write_all(fd, data, len);
}
