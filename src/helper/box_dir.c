/* box_dir.c - makes and locks the directory of a box. The lock is the proof of life: whoever gets
 * it knows that nothing of the box runs. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "helper/box_dir.h"
#include "helper/proc.h"

/* Opened for reading only: the box gets the descriptor, and could fill the host's disk with it. */
#define LOCK_NAME "lock"
#define LOOKERS_MS 10

/* The lock counts only while it is the file that others would open too. */
static bool is_current(const char *path, int lock)
{
    AUTO_CLOSE int dir = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat mine;
    struct stat seen;

    return dir >= 0 && fstat(lock, &mine) == 0 &&
           fstatat(dir, LOCK_NAME, &seen, AT_SYMLINK_NOFOLLOW) == 0 && mine.st_dev == seen.st_dev &&
           mine.st_ino == seen.st_ino;
}

/* Whoever only asks whether the lock is held has it for a moment: he is no reason to give up. */
static bool take(int lock)
{
    for (int i = 0; flock(lock, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK || i == LOOKERS_MS)
            return false;
        proc_sleep_ms(1);
    }
    return true;
}

/* SP_NOT_FOUND: the directory went away under our hands. */
static int try_make(const char *path, struct box_dir *ret, bool *ret_is_leftover, struct err *err)
{
    AUTO_CLOSE int fd = -1;
    AUTO_CLOSE int lock = -1;

    *ret_is_leftover = mkdir(path, 0700) != 0;
    if (*ret_is_leftover && errno != EEXIST)
        return err_sys(err, SP_IO, errno, "make '%.150s'", path);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno == ENOENT ? SP_NOT_FOUND : SP_IO, errno, "open '%.150s'", path);
    lock = openat(fd, LOCK_NAME, O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (lock < 0)
        return err_sys(err, errno == ENOENT ? SP_NOT_FOUND : SP_IO, errno, "open '%.150s/lock'",
                       path);
    if (!take(lock)) {
        if (errno == EWOULDBLOCK)
            return err_set(err, SP_LOCKED, "the box at '%.150s' exists and runs", path);
        return err_sys(err, SP_IO, errno, "lock '%.150s'", path);
    }
    if (!is_current(path, lock))
        return err_set(err, SP_NOT_FOUND, "'%.150s' is being removed", path);
    *ret = (struct box_dir){.fd = TAKE_FD(fd), .lock = TAKE_FD(lock)};
    return SP_OK;
}

int box_dir_make(const char *path, struct box_dir *ret, bool *ret_is_leftover, struct err *err)
{
    int rc = SP_NOT_FOUND;

    *ret = (struct box_dir){.fd = -1, .lock = -1};
    for (int i = 0; i < 10 && rc == SP_NOT_FOUND; i++)
        rc = try_make(path, ret, ret_is_leftover, err);
    return rc == SP_NOT_FOUND ? err_wrap(err, "given up") : rc;
}

int box_dir_open(const char *path, struct box_dir *ret, struct err *err)
{
    *ret = (struct box_dir){.fd = -1, .lock = -1};
    ret->fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (ret->fd < 0)
        return err_sys(err, errno == ENOENT ? SP_NOT_FOUND : SP_IO, errno, "open '%.150s'", path);
    return SP_OK;
}

int box_dir_lock(struct box_dir *d, unsigned wait_ms, struct err *err)
{
    AUTO_CLOSE int lock =
        openat(d->fd, LOCK_NAME, O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    uint64_t deadline = proc_now_ms() + wait_ms;
    struct stat st;

    if (lock < 0)
        return err_sys(err, errno == ENOENT ? SP_NOT_FOUND : SP_IO, errno, "open the box's lock");
    while (flock(lock, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return err_sys(err, SP_IO, errno, "lock the box");
        if (proc_now_ms() >= deadline)
            return err_set(err, SP_LOCKED, "the box's lock is held");
        proc_sleep_ms(1);
    }
    if (fstat(d->fd, &st) == 0 && st.st_nlink == 0)
        return err_set(err, SP_NOT_FOUND, "the box was removed meanwhile");
    d->lock = TAKE_FD(lock);
    return SP_OK;
}

void box_dir_unlock(struct box_dir *d)
{
    if (d->lock >= 0)
        (void) close(TAKE_FD(d->lock)); /* nothing was written to it */
}

void box_dir_close(struct box_dir *d)
{
    box_dir_unlock(d);
    if (d->fd >= 0)
        (void) close(TAKE_FD(d->fd)); /* a directory */
}

int box_dir_write(const struct box_dir *d, const char *name, const char *text, struct err *err)
{
    AUTO_CLOSE int fd =
        openat(d->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int sys;

    if (fd < 0)
        return err_sys(err, SP_IO, errno, "make '%s'", name);
    sys = file_write_all(fd, text, strlen(text));
    return sys == 0 ? SP_OK : err_sys(err, SP_IO, sys, "write '%s'", name);
}

void box_dir_numbers(const struct box_dir *d, const char *name, unsigned long long ret[2])
{
    char text[64];

    ret[0] = 0;
    ret[1] = 0;
    if (file_read_start(d->fd, name, text, sizeof(text)) > 0 &&
        sscanf(text, "%20llu %20llu", &ret[0], &ret[1]) < 2)
        ret[1] = 0;
}
