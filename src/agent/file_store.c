/* file_store.c - replacing a file by renaming a new one over it, and the cases where that is not
 * possible: then the file is emptied and written in place. */
#include "agent/file_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/identity.h"
#include "base/cleanup.h"
#include "base/rand.h"
#include "base/str.h"

int file_make_parents(const char *path)
{
    char dir[FILE_PATH_MAX];

    if (!str_copy(dir, sizeof(dir), path))
        return ENAMETOOLONG;
    for (char *p = strchr(dir + 1, '/'); p != NULL; p = strchr(p + 1, '/')) {
        *p = '\0';
        if (mkdir(dir, 0777) != 0 && errno != EEXIST) {
            int sys = errno;
            struct stat st;

            /* A directory that is there may be above us in a way that forbids to make it. */
            if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode))
                return sys;
        }
        *p = '/';
    }
    return 0;
}

/* A link is followed, so that it stays one and what it names is replaced. */
static int find_target(struct file_store *s, const char *path)
{
    char *real = realpath(path, NULL);
    bool is_fitting;

    if (real == NULL)
        return errno == ENOENT && str_copy(s->target, sizeof(s->target), path) ? 0 : errno;
    is_fitting = str_copy(s->target, sizeof(s->target), real);
    free(real);
    return is_fitting ? 0 : ENAMETOOLONG;
}

/* A new file with a name nobody guesses in `dir`, of dir_len bytes. */
static int make_temp(struct file_store *s, const char *dir, size_t dir_len)
{
    uint64_t id;
    char hex[17];
    int n;

    rand_secure(&id, sizeof(id));
    str_hex64(hex, id);
    n = snprintf(s->temp, sizeof(s->temp), "%.*s/.sandpool-%s", (int) dir_len, dir, hex);
    if (n < 0 || (size_t) n >= sizeof(s->temp)) {
        s->temp[0] = '\0';
        return ENAMETOOLONG;
    }
    s->fd = open(s->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (s->fd >= 0)
        return 0;
    s->temp[0] = '\0';
    return errno;
}

static int open_in_place(struct file_store *s)
{
    struct stat st;

    s->temp[0] = '\0';
    s->fd = open(s->target, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    if (s->fd < 0)
        return errno;
    if (fstat(s->fd, &st) == 0 && S_ISREG(st.st_mode) && ftruncate(s->fd, 0) != 0)
        return errno;
    return 0;
}

/* Owner and mode; false when the owner cannot be given: then it would become another's file. */
static bool copy_rights(int fd, const struct stat *st)
{
    struct stat own;

    if (fchown(fd, st->st_uid, st->st_gid) != 0 && fchown(fd, (uid_t) -1, st->st_gid) != 0)
        errno = 0;                          /* the writer's own group */
    (void) fchmod(fd, st->st_mode & 07777); /* the file is ours: it can */
    return fstat(fd, &own) == 0 && own.st_uid == st->st_uid;
}

int file_store_open(struct file_store *s, const char *path)
{
    struct stat st;
    bool is_there;
    int sys;

    s->fd = -1;
    s->temp[0] = '\0';
    sys = find_target(s, path);
    if (sys == 0)
        sys = file_make_parents(s->target);
    if (sys != 0)
        return sys;
    is_there = stat(s->target, &st) == 0;
    if (is_there && S_ISDIR(st.st_mode))
        return EISDIR;
    sys = is_there ? identity_access(s->target, W_OK) : 0;
    if (sys != 0)
        return sys; /* renaming would get around the file's own permissions */
    /* A link that leads nowhere makes what it names; other names must go on naming the same file. */
    if ((is_there && (!S_ISREG(st.st_mode) || st.st_nlink > 1)) ||
        (!is_there && lstat(s->target, &st) == 0))
        return open_in_place(s);
    sys = make_temp(s, s->target, (size_t) (strrchr(s->target, '/') - s->target));
    if (sys == EACCES || sys == EPERM || sys == ENAMETOOLONG)
        return open_in_place(s);
    if (sys != 0 || !is_there)
        return sys;
    if (copy_rights(s->fd, &st))
        return 0;
    file_store_drop(s);
    return open_in_place(s);
}

int file_store_open_loose(struct file_store *s, const char *dir)
{
    s->target[0] = '\0';
    s->temp[0] = '\0';
    s->fd = -1;
    return make_temp(s, dir, strlen(dir));
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
    AUTO_CLOSE int to = open(s->target, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY);

    return to < 0 ? errno : copy_all(s->fd, to);
}

int file_store_commit(struct file_store *s)
{
    int sys = 0;

    if (s->temp[0] != '\0' && rename(s->temp, s->target) == 0)
        s->temp[0] = '\0';
    else if (s->temp[0] != '\0')
        sys = errno == EBUSY || errno == EPERM ? copy_in_place(s) : errno;
    if (s->temp[0] == '\0' && close(TAKE_FD(s->fd)) != 0 && sys == 0)
        sys = errno;
    file_store_drop(s);
    return sys;
}

int file_store_commit_to(struct file_store *s, const char *path)
{
    struct file_store final;
    int sys = file_store_open(&final, path);

    if (sys == 0 && final.temp[0] != '\0' && rename(s->temp, final.target) == 0) {
        struct stat st;

        s->temp[0] = '\0';
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
    if (s->fd >= 0)
        (void) close(TAKE_FD(s->fd)); /* it is of no use any more */
    if (s->temp[0] != '\0')
        (void) unlink(s->temp); /* it may have been removed by others */
    s->temp[0] = '\0';
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
