/* source.c - opens paths of the host for a box. The rule about what may leave the host is kept here
 * and by the kernel (RESOLVE_BENEATH), not by comparing names. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "helper/closed.h"
#include "helper/host_dir.h"
#include "helper/idmap.h"
#include "helper/inside.h"
#include "helper/source.h"

static int open_beneath(const char *top, const char *path)
{
    AUTO_CLOSE int dir = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const char *rest = path + strlen(top);

    if (dir < 0)
        return -1;
    rest += strspn(rest, "/");
    return inside_open(dir, *rest == '\0' ? "." : rest, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
}

static int open_allowed(const struct plan *p, const char *path, int *ret_fd, struct err *err)
{
    int sys = 0;

    for (size_t i = 0; i < p->allow_count; i++) {
        if (!plan_path_is_below(path, p->allow[i]))
            continue;
        *ret_fd = open_beneath(p->allow[i], path);
        if (*ret_fd >= 0)
            return SP_OK;
        sys = errno;
    }
    if (sys == 0)
        return err_set(err, SP_FORBIDDEN, "'%.120s' is not below a directory that may be mounted",
                       path);
    if (sys == EXDEV || sys == ELOOP)
        return err_set(err, SP_FORBIDDEN,
                       "'%.110s' leads out of the directory that may be mounted, or has an "
                       "absolute symlink in it",
                       path);
    if (sys == ENOENT || sys == ENOTDIR)
        return err_sys(err, SP_NOT_FOUND, sys, "mount '%.120s'", path);
    return err_sys(err, SP_IO, sys, "open '%.120s'", path);
}

/* What begins with a template's base is opened below "allow", like every other mount. */
static int open_made(const struct plan *p, const struct plan_mount *m, int *ret_fd, struct err *err)
{
    AUTO_CLOSE int base = -1;
    int rc =
        m->holder != NULL ? open_allowed(p, m->base, &base, err) : host_dir_base(m, &base, err);

    return rc == SP_OK ? host_dir_open(m, base, ret_fd, err) : rc;
}

static int describe(int fd, const char *path, struct source *ret, struct stat *ret_st,
                    struct err *err)
{
    if (fstat(fd, ret_st) != 0)
        return err_sys(err, SP_IO, errno, "look at '%.120s'", path);
    if (!S_ISDIR(ret_st->st_mode) && !S_ISREG(ret_st->st_mode))
        return err_set(err, SP_FORBIDDEN, "'%.120s' is neither a directory nor a file", path);
    *ret = (struct source){.tree = -1, .is_dir = S_ISDIR(ret_st->st_mode)};
    ret->dev = ret_st->st_dev;
    ret->ino = ret_st->st_ino;
    return SP_OK;
}

/* Mounts by Docker itself show what root owns as it is, for writing too, and so do these: whoever lets
 * callers mount such a directory has chosen it. */
static bool is_container(const struct plan *p)
{
    return p->container != NULL;
}

/* Whoever stands for the owner can make a program of the owner's with the setuid bit. So nobody
 * stands for root: what root owns is shown as it is, to a stranger, and never for writing. */
static int check_owner(const struct plan *p, const struct plan_mount *m, const struct stat *st,
                       struct err *err)
{
    if ((st->st_uid == 0 || st->st_gid == 0) && !m->is_ro && !is_container(p))
        return err_set(err, SP_FORBIDDEN,
                       "'%.100s' belongs to root: mount it read-only, or give it to the user and "
                       "group the box shall act as",
                       m->from);
    return SP_OK;
}

static int source_open(const struct plan *p, const struct plan_mount *m, struct source *ret,
                       struct err *err)
{
    struct idmap map = {.to_uid = p->owner_uid, .to_gid = p->owner_gid, .count = 1};
    AUTO_CLOSE int fd = -1;
    AUTO_CLOSE int tree = -1;
    struct stat st;
    int rc;

    *ret = (struct source){.tree = -1};
    rc = m->base != NULL ? open_made(p, m, &fd, err) : open_allowed(p, m->from, &fd, err);
    if (rc != SP_OK && m->base != NULL)
        return err_wrap(err, m->holder != NULL ? "directory of the thread" : "thread_data");
    if (rc != SP_OK || (rc = describe(fd, m->from, ret, &st, err)) != SP_OK ||
        (rc = closed_check(m, fd, &st, err)) != SP_OK ||
        (rc = check_owner(p, m, &st, err)) != SP_OK)
        return rc;
    map.from_uid = st.st_uid;
    map.from_gid = st.st_gid;
    rc = idmap_copy(fd, false, &tree, err);
    if (rc == SP_OK && m->base != NULL && is_container(p) && p->program == NULL)
        rc = host_dir_loosen(m, fd, err); /* who writes there is not who the container runs as */
    else if (is_container(p) && st.st_uid == p->owner_uid && st.st_gid == p->owner_gid)
        ret->is_mapped = true; /* it is the box's user already, and other owners are seen */
    else if (rc == SP_OK && st.st_uid != 0 && st.st_gid != 0) {
        rc = idmap_apply(tree, &map, err);
        ret->is_mapped = rc == SP_OK;
        if (rc == SP_UNSUPPORTED) /* then owners stay as they are: strangers */
            rc = m->base != NULL ? host_dir_loosen(m, fd, err) : SP_OK;
    }
    if (rc == SP_OK)
        rc = idmap_restrict(tree, m->is_ro, false, err);
    if (rc != SP_OK)
        return err_wrap(err, "mount '%.100s'", m->from);
    ret->tree = TAKE_FD(tree);
    return SP_OK;
}

int source_open_all(const struct plan *p, struct source *ret, unsigned *ret_unmapped,
                    struct err *err)
{
    int rc = SP_OK;

    *ret_unmapped = 0;
    for (size_t i = 0; i < p->mount_count; i++)
        ret[i] = (struct source){.tree = -1};
    for (size_t i = 0; rc == SP_OK && i < p->mount_count; i++) {
        if (p->mounts[i].from == NULL)
            continue; /* only a directory in the box */
        rc = source_open(p, &p->mounts[i], &ret[i], err);
        *ret_unmapped += rc == SP_OK && !ret[i].is_mapped ? 1 : 0;
    }
    return rc;
}

int source_open_own(const struct plan_mount *m, struct source *ret, struct err *err)
{
    AUTO_CLOSE int fd = open(m->from, O_PATH | O_CLOEXEC);
    AUTO_CLOSE int tree = -1;
    struct stat st;
    int rc;

    *ret = (struct source){.tree = -1};
    if (fd < 0)
        return err_sys(err, SP_IO, errno, "open '%.150s'", m->from);
    if ((rc = describe(fd, m->from, ret, &st, err)) != SP_OK)
        return rc;
    if ((rc = idmap_copy(fd, true, &tree, err)) != SP_OK ||
        (rc = idmap_restrict(tree, m->is_ro, true, err)) != SP_OK)
        return err_wrap(err, "mount '%.100s'", m->from);
    ret->tree = TAKE_FD(tree);
    return SP_OK;
}

void source_close(struct source *s)
{
    if (s->tree >= 0)
        (void) close(TAKE_FD(s->tree)); /* a detached mount goes with it */
}
