/* host_dir.c - makes directories, one name at a time. */
#include "helper/host_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

enum { NOT_ROOT = 1000, PART_MAX = 255, TRIES = 1000 };

struct owner {
    uid_t uid;
    gid_t gid;
};

/* One name, a directory and no link. */
static int open_part(int at, const char *name)
{
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    int fd = -1;

    for (int i = 0; fd < 0 && i < TRIES && (i == 0 || errno == EAGAIN); i++)
        fd = (int) syscall(SYS_openat2, at, name, &how, sizeof(how));
    return fd;
}

/* What is root's becomes the owner's: nobody in a box stands for root. */
static int give_away(int fd, const struct owner *owner)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return -1;
    if (st.st_uid != 0 && st.st_gid != 0)
        return 0;
    return fchown(fd, st.st_uid == 0 ? owner->uid : st.st_uid,
                  st.st_gid == 0 ? owner->gid : st.st_gid);
}

/* Opens or makes it; -1 and errno. What was there already keeps its mode. */
static int make_part(int at, const char *name, const struct owner *owner, bool must_give)
{
    AUTO_CLOSE int fd = open_part(at, name);
    bool is_made = false;

    if (fd < 0 && errno == ENOENT) {
        if (mkdirat(at, name, 0755) == 0)
            is_made = true;
        else if (errno != EEXIST) /* somebody else was quicker */
            return -1;
        fd = open_part(at, name);
    }
    if (fd < 0 || (is_made && fchmod(fd, 0755) != 0) ||
        ((is_made || must_give) && give_away(fd, owner) != 0))
        return -1;
    return TAKE_FD(fd);
}

/* Takes the next name of a list; false at its end. */
static bool next_part(const char **list, const char *separator, char *part, struct err *err)
{
    size_t len;

    *list += strspn(*list, separator);
    len = strcspn(*list, separator);
    if (len == 0)
        return false;
    if (!str_copy_n(part, PART_MAX + 1, *list, len)) {
        (void) err_set(err, SP_TOO_BIG, "a name of more than %d bytes", (int) PART_MAX);
        return false;
    }
    *list += len;
    return true;
}

static int explain(int sys, const char *name, const struct plan_mount *m, struct err *err)
{
    if (sys == ELOOP || sys == ENOTDIR || sys == EXDEV)
        return err_set(
            err, SP_FORBIDDEN,
            "links are not followed there, and '%.60s' is one or no directory, in '%.120s'", name,
            m->from);
    return err_sys(err, SP_IO, sys, "make '%.60s' of '%.100s'", name, m->from);
}

int host_dir_base(const struct plan_mount *m, int *ret_fd, struct err *err)
{
    *ret_fd = open(m->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*ret_fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return err_set(err, SP_NOT_FOUND,
                       "make it, for the user who shall own what threads leave there: there is no "
                       "'%.100s'",
                       m->base);
    return *ret_fd >= 0 ? SP_OK : err_sys(err, SP_IO, errno, "open '%.120s'", m->base);
}

static int find_owner(const struct plan_mount *m, int base, struct owner *ret, struct err *err)
{
    struct stat st;

    if (fstat(base, &st) != 0)
        return err_sys(err, SP_IO, errno, "look at '%.120s'", m->base);
    ret->uid = st.st_uid != 0 ? st.st_uid : NOT_ROOT;
    ret->gid = st.st_gid != 0 ? st.st_gid : NOT_ROOT;
    return SP_OK;
}

/* Whoever uses a directory first has it from then on. The note of it is one that no box can change. */
static int claim(const struct plan_mount *m, int fd, struct err *err)
{
    static const char name[] = "trusted.sandpool.holder";
    char seen[PART_MAX + 1];
    ssize_t len;

    if (m->holder == NULL || str_is_empty(m->holder) ||
        fsetxattr(fd, name, m->holder, strlen(m->holder), XATTR_CREATE) == 0)
        return SP_OK;
    if (errno != EEXIST)
        return err_sys(err, SP_UNSUPPORTED, errno,
                       "note whose '%.80s' is (a template with {principal} needs no note)",
                       m->from);
    len = fgetxattr(fd, name, seen, sizeof(seen));
    if (len >= 0 && (size_t) len == strlen(m->holder) && memcmp(seen, m->holder, (size_t) len) == 0)
        return SP_OK;
    return err_set(err, SP_FORBIDDEN, "'%.120s' has data of another caller", m->from);
}

/* A link or file that a box has put there is its own affair: what is mounted is the directory above. */
static int make_parts(const struct plan_mount *m, int at, const struct owner *owner,
                      struct err *err)
{
    const char *list = m->parts != NULL ? m->parts : "";
    char part[PART_MAX + 1];

    while (next_part(&list, ",", part, err)) {
        int fd = make_part(at, part, owner, true);

        if (fd < 0 && errno != ELOOP && errno != ENOTDIR)
            return explain(errno, part, m, err);
        if (fd >= 0)
            (void) close(fd); /* only read */
    }
    return SP_OK;
}

int host_dir_open(const struct plan_mount *m, int base, int *ret_fd, struct err *err)
{
    const char *rest = m->from + strlen(m->base);
    char part[PART_MAX + 1];
    AUTO_CLOSE int at = -1;
    struct owner owner;
    int rc;

    err->code = SP_OK;
    rc = find_owner(m, base, &owner, err);
    while (rc == SP_OK && next_part(&rest, "/", part, err)) {
        int next = make_part(at >= 0 ? at : base, part, &owner, *rest == '\0');

        if (next < 0)
            return explain(errno, part, m, err);
        if (at >= 0)
            (void) close(at); /* only read */
        at = next;
    }
    if (rc == SP_OK && *rest != '\0')
        return err->code; /* a name is too long */
    if (rc == SP_OK)
        rc = claim(m, at, err);
    if (rc == SP_OK)
        rc = make_parts(m, at, &owner, err);
    if (rc == SP_OK)
        *ret_fd = TAKE_FD(at);
    return rc;
}

int host_dir_loosen(const struct plan_mount *m, int fd, struct err *err)
{
    const char *list = m->parts != NULL ? m->parts : "";
    char part[PART_MAX + 1];

    if (fchmod(fd, 0777) != 0)
        return err_sys(err, SP_IO, errno, "open '%.120s' to all", m->from);
    while (next_part(&list, ",", part, err)) {
        AUTO_CLOSE int at = open_part(fd, part);

        if (at >= 0 && fchmod(at, 0777) != 0)
            return err_sys(err, SP_IO, errno, "open '%.60s' of '%.100s' to all", part, m->from);
    }
    return SP_OK;
}

/* An ordinary obstacle. */
static bool is_in_the_way(int sys)
{
    return sys == ELOOP || sys == ENOTDIR || sys == EXDEV || sys == EROFS || sys == ENOSPC ||
           sys == EDQUOT || sys == EPERM || sys == EACCES || sys == EOVERFLOW;
}

int host_dir_inside(const struct plan *p, const struct plan_mount *m, int root, struct err *err)
{
    const struct owner top = {p->id_base, p->id_base};
    const struct owner user = {p->owner_uid, p->owner_gid};
    const char *rest = m->to;
    char part[PART_MAX + 1];
    AUTO_CLOSE int at = open_part(root, ".");
    struct stat st;

    while (at >= 0 && next_part(&rest, "/", part, err)) {
        bool is_last = *rest == '\0';
        int next = make_part(at, part, is_last ? &user : &top, is_last);

        (void) close(at); /* only read */
        at = next;
    }
    if (at >= 0 && p->container != NULL && p->program == NULL && fstat(at, &st) == 0 &&
        st.st_uid == user.uid && (st.st_mode & 0777) == 0755 && fchmod(at, 0777) != 0 &&
        !is_in_the_way(errno))
        return err_sys(err, SP_IO, errno, "open '%.120s' in the box to all", m->to);
    if (at < 0 && !is_in_the_way(errno))
        return err_sys(err, SP_IO, errno, "make '%.120s' in the box", m->to);
    return SP_OK;
}
