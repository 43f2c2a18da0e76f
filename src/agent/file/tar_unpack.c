/* tar_unpack.c - every name is taken apart, and followed one directory at a time. */
#include "agent/file/tar_unpack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/core/plain.h"
#include "agent/file/place.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/str.h"
#include "base/tar_read.h"

enum {
    CHUNK = 256 * 1024,
    DIRS_MAX =
        65536,   /* whose mode and time are set at the end; others keep those they were made with */
    UNSAFE = -2, /* instead of errno */
};

static const char operation[] = "untar";

/* Modes and times come last: a directory may be for reading only, and every entry in it changes its time. */
struct late {
    struct late *next;
    mode_t mode;
    struct timespec mtime;
    char name[];
};

struct state {
    struct tar_unpack *request;
    struct tar_reader reader;
    int root;
    struct late *late; /* the last first */
    size_t late_count;
};

/* The parent of `name`, one part after the other; `name` is changed, `ret_last` is in it. -1 and errno. */
static int open_parent(int root, char *name, bool want_parents, const char **ret_last)
{
    AUTO_CLOSE int at = fcntl(root, F_DUPFD_CLOEXEC, 3);
    char *part = name;
    char *slash;

    while (at >= 0 && (slash = strchr(part, '/')) != NULL) {
        int next;

        *slash = '\0';
        next = plain_open(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
        if (next < 0 && errno == ENOENT && want_parents &&
            (mkdirat(at, part, 0777) == 0 || errno == EEXIST))
            next = plain_open(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
        (void) close(at);
        at = next;
        part = slash + 1;
    }
    *ret_last = part;
    return TAKE_FD(at);
}

/* Removes "." and empty parts. False for a name that leaves the directory. */
static bool clean_name(char *name)
{
    char *to = name;
    const char *from = name;

    if (name[0] == '/')
        return false;
    while (*from != '\0') {
        size_t len = strcspn(from, "/");

        if (len == 2 && memcmp(from, "..", 2) == 0)
            return false;
        if (len > 0 && !(len == 1 && from[0] == '.')) {
            if (to != name)
                *to++ = '/';
            memmove(to, from, len);
            to += len;
        }
        from += len;
        from += *from == '/' ? 1 : 0;
    }
    *to = '\0';
    return true;
}

static struct timespec time_of(const struct tar_entry *e)
{
    return (struct timespec){.tv_sec = e->mtime_s, .tv_nsec = e->mtime_ns};
}

/* Root may give files away; where that is not possible they stay its own. */
static void give(const struct state *s, const struct tar_entry *e, int dir, const char *name)
{
    if (s->request->want_owners && e->uid < UINT32_MAX && e->gid < UINT32_MAX)
        (void) !fchownat(dir, name, (uid_t) e->uid, (gid_t) e->gid, AT_SYMLINK_NOFOLLOW);
}

static void set_time(const struct tar_entry *e, int dir, const char *name)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, time_of(e)};

    (void) utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW); /* a time that cannot be set is left */
}

/* Removes what is no directory. */
static int make_room(int dir, const char *name)
{
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : errno;
    if (S_ISDIR(st.st_mode))
        return EISDIR;
    return unlinkat(dir, name, 0) == 0 || errno == ENOENT ? 0 : errno;
}

/* --- files --- */

/* 0, errno or -1 when the archive ends in it. */
static int write_data(struct state *s, int fd)
{
    static char data[CHUNK];

    for (;;) {
        ssize_t n = tar_reader_data(&s->reader, data, sizeof(data));
        int sys;

        if (n <= 0)
            return (int) n;
        sys = file_write_all(fd, data, (size_t) n);
        if (sys != 0)
            return sys;
        s->request->bytes += (uint64_t) n;
    }
}

static int put_file(struct state *s, const struct tar_entry *e, int dir, const char *name)
{
    char hex[17];
    char temp[40];
    uint64_t id;
    int fd;
    int sys;

    rand_secure(&id, sizeof(id));
    str_hex64(hex, id);
    (void) snprintf(temp, sizeof(temp), ".sandpool-%s", hex);
    fd = plain_open_file(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, NULL);
    if (fd < 0)
        return errno;
    sys = write_data(s, fd);
    if (sys == 0) {
        give(s, e, dir, temp);
        set_time(e, dir, temp);
        if (fchmod(fd, e->mode & 0777) != 0)
            sys = errno;
    }
    if (close(fd) != 0 && sys == 0)
        sys = errno;
    if (sys == 0 && renameat(dir, temp, dir, name) != 0)
        sys = errno;
    if (sys != 0)
        (void) unlinkat(dir, temp, 0); /* it is of no use any more */
    return sys;
}

/* --- directories --- */

static int put_dir(struct state *s, const struct tar_entry *e, int dir, const char *name,
                   const char *full)
{
    struct stat st;
    struct late *l;

    if (mkdirat(dir, name, 0700) != 0 && errno != EEXIST)
        return errno;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno;
    if (!S_ISDIR(st.st_mode))
        return S_ISLNK(st.st_mode) ? UNSAFE : EEXIST;
    give(s, e, dir, name);
    if (s->late_count == DIRS_MAX)
        return 0;
    l = xcalloc(1, sizeof(*l) + strlen(full) + 1);
    l->mode = e->mode & 01777;
    l->mtime = time_of(e);
    memcpy(l->name, full, strlen(full) + 1);
    l->next = s->late;
    s->late = l;
    s->late_count++;
    return 0;
}

static void set_late(const struct state *s, struct late *l)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, l->mtime};
    const char *name;
    AUTO_CLOSE int dir = open_parent(s->root, l->name, false, &name);
    AUTO_CLOSE int fd =
        dir >= 0 ? plain_open(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0) : -1;

    if (fd < 0)
        return;                  /* somebody has removed it */
    (void) futimens(fd, times);  /* a time that cannot be set is left */
    (void) !fchmod(fd, l->mode); /* so is a mode */
}

/* Those that were named last are deepest: they come first. */
static void finish_dirs(struct state *s)
{
    while (s->late != NULL) {
        struct late *l = s->late;

        s->late = l->next;
        if (s->root >= 0)
            set_late(s, l);
        free(l);
    }
}

/* --- links --- */

static int put_symlink(const struct state *s, const struct tar_entry *e, int dir, const char *name)
{
    int sys = make_room(dir, name);

    if (sys != 0)
        return sys;
    if (symlinkat(e->link, dir, name) != 0)
        return errno;
    give(s, e, dir, name);
    set_time(e, dir, name);
    return 0;
}

static int put_hard_link(const struct state *s, struct tar_entry *e, int dir, const char *name)
{
    AUTO_CLOSE int from = -1;
    const char *first;
    struct stat old;
    struct stat new;
    int sys;

    if (!clean_name(e->link) || e->link[0] == '\0')
        return UNSAFE;
    from = open_parent(s->root, e->link, false, &first);
    if (from < 0)
        return errno;
    if (fstatat(from, first, &old, AT_SYMLINK_NOFOLLOW) != 0)
        return errno;
    if (fstatat(dir, name, &new, AT_SYMLINK_NOFOLLOW) == 0 && old.st_dev == new.st_dev &&
        old.st_ino == new.st_ino)
        return 0;
    sys = make_room(dir, name);
    if (sys != 0)
        return sys;
    return linkat(from, first, dir, name, 0) == 0 ? 0 : errno;
}

/* --- entries --- */

static int put_entry(struct state *s, struct tar_entry *e)
{
    char parts[FILE_PATH_MAX];
    const char *name;
    AUTO_CLOSE int dir = -1;

    if (!clean_name(e->name))
        return UNSAFE;
    if (e->name[0] == '\0')
        return e->type == TAR_DIRECTORY ? 0 : UNSAFE; /* the directory itself */
    str_copy_cut(parts, sizeof(parts), e->name);
    dir = open_parent(s->root, parts, true, &name);
    if (dir < 0)
        return errno == ENOTDIR || errno == ELOOP ? UNSAFE : errno;
    switch (e->type) {
    case TAR_FILE:
        return put_file(s, e, dir, name);
    case TAR_DIRECTORY:
        return put_dir(s, e, dir, name, e->name);
    case TAR_SYMLINK:
        return put_symlink(s, e, dir, name);
    case TAR_HARD_LINK:
        return put_hard_link(s, e, dir, name);
    default:
        s->request->skipped++;
        return 0;
    }
}

static int fail_entry(struct file_error *error, const char *name, int sys)
{
    if (sys != UNSAFE)
        return file_error_sys(error, operation, name, sys);
    (void) file_error_set(error, 400, "unsafe_entry", operation, name, "");
    (void) snprintf(
        error->message, sizeof(error->message),
        "an entry leaves the directory, or goes through something that is not one: %.150s", name);
    return SP_IO;
}

static int unpack(struct state *s, struct file_error *error)
{
    static struct tar_entry entry;

    for (;;) {
        enum tar_result result = tar_reader_next(&s->reader, &entry);
        char name[FILE_PATH_MAX];
        int sys;

        if (result == TAR_END)
            return SP_OK;
        if (result == TAR_BAD)
            return file_error_set(error, 400, "bad_archive", operation, entry.name,
                                  s->reader.problem);
        if (result != TAR_ENTRY)
            return SP_CANCELLED;
        str_copy_cut(name, sizeof(name), entry.name);
        sys = put_entry(s, &entry);
        if (sys == -1)
            return file_error_set(error, 400, "bad_archive", operation, name,
                                  "the archive ends in the middle of a file");
        if (sys != 0)
            return fail_entry(error, name, sys);
        s->request->entries++;
    }
}

int tar_unpack_run(struct tar_unpack *u, struct file_error *error)
{
    static struct state s;
    int sys = file_place_make(u->path);
    int rc;

    memset(&s, 0, sizeof(s));
    s.request = u;
    s.root = sys == 0 ? plain_open(AT_FDCWD, u->path, O_RDONLY | O_DIRECTORY, 0) : -1;
    if (s.root < 0)
        return file_error_sys(error, operation, u->path, sys != 0 ? sys : errno);
    tar_reader_init(&s.reader, u->read, u->ctx);
    rc = unpack(&s, error);
    finish_dirs(&s);
    tar_reader_fini(&s.reader);
    (void) close(s.root); /* it was only named */
    return rc;
}
