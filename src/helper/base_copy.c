/* base_copy.c - copies from the host's /etc by an allow-list. Only what everybody may read is
 * copied, so that nothing kept from users can get into a box; and of that only what is named. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "helper/base.h"

#define DEPTH_MAX 12
#define FILE_MAX (32 * 1024 * 1024)

/* Not in the list on purpose: files where people keep passwords and names of their own servers
 * (profile.d, gitconfig, pip.conf, npmrc, maven, wgetrc, hosts, resolv.conf). */
static const char *const etc_names[] = {
    "alternatives",
    "bash.bashrc",
    "bash_completion.d",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "ethertypes",
    "fonts",
    "gai.conf",
    "host.conf",
    "inputrc",
    "java-*-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "lsb-release",
    "magic",
    "magic.mime",
    "mime.types",
    "mtab",
    "networks",
    "os-release",
    "perl",
    "profile",
    "protocols",
    "python3*",
    "redhat-release",
    "rpc",
    "services",
    "shells",
    "skel",
    "system-release",
    "terminfo",
    "timezone",
    "vim",
};

/* Below a directory whose rest stays out. */
static const char *const etc_parts[][2] = {
    {"default", "locale"},      {"ssl", "certs"},
    {"ssl", "openssl.cnf"},     {"ca-certificates", "extracted"},
    {"pki", "ca-trust"},        {"pki/tls", "certs"},
    {"pki/tls", "openssl.cnf"},
};

struct copy {
    uint32_t owner;
    unsigned depth;
    struct base_look *look; /* NULL: copy */
};

static int copy_entry(const struct copy *c, int from, int to, const char *name, struct err *err);

static int copy_bytes(int in, int out, const char *name, struct err *err)
{
    char chunk[65536];

    for (;;) {
        ssize_t n = read(in, chunk, sizeof(chunk));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, SP_IO, errno, "read '%.100s'", name);
        if (n == 0)
            return SP_OK;
        if (write(out, chunk, (size_t) n) != n)
            return err_sys(err, SP_IO, errno, "write '%.100s'", name);
    }
}

static int copy_file(const struct copy *c, int from, int to, const char *name, mode_t mode,
                     struct err *err)
{
    AUTO_CLOSE int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    AUTO_CLOSE int out = -1;

    if (in < 0)
        return err_sys(err, SP_IO, errno, "open '%.100s'", name);
    out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0 || fchown(out, c->owner, c->owner) != 0 ||
        fchmod(out, (mode & 0111) != 0 ? 0755 : 0644) != 0)
        return err_sys(err, SP_IO, errno, "make '%.100s'", name);
    return copy_bytes(in, out, name, err);
}

static int copy_link(const struct copy *c, int from, int to, const char *name, struct err *err)
{
    char target[1024];
    ssize_t len = readlinkat(from, name, target, sizeof(target) - 1);

    if (len < 0)
        return err_sys(err, SP_IO, errno, "read the symlink '%.100s'", name);
    target[len] = '\0';
    if (symlinkat(target, to, name) != 0 ||
        fchownat(to, name, c->owner, c->owner, AT_SYMLINK_NOFOLLOW) != 0)
        return err_sys(err, SP_IO, errno, "make the symlink '%.100s'", name);
    return SP_OK;
}

static int copy_all(const struct copy *c, int from, int to, struct err *err)
{
    int copy = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    int rc = SP_OK;

    if (d == NULL)
        return err_sys(err, SP_IO, errno, "read a directory");
    while (rc == SP_OK) {
        const struct dirent *e = readdir(d);

        if (e == NULL)
            break;
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = copy_entry(c, from, to, e->d_name, err);
    }
    (void) closedir(d); /* only read */
    return rc;
}

static int make_dir(const struct copy *c, int to, const char *name, int *ret_fd, struct err *err)
{
    if (c->look != NULL)
        return SP_OK;
    if (mkdirat(to, name, 0755) != 0 && errno != EEXIST)
        return err_sys(err, SP_IO, errno, "make '%.100s'", name);
    *ret_fd = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*ret_fd < 0 || fchown(*ret_fd, c->owner, c->owner) != 0)
        return err_sys(err, SP_IO, errno, "open '%.100s'", name);
    return SP_OK;
}

static int copy_tree(const struct copy *c, int from, int to, const char *name, struct err *err)
{
    struct copy below = {.owner = c->owner, .depth = c->depth + 1, .look = c->look};
    AUTO_CLOSE int in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    AUTO_CLOSE int out = -1;
    int rc;

    if (in < 0)
        return err_sys(err, SP_IO, errno, "open '%.100s'", name);
    if ((rc = make_dir(c, to, name, &out, err)) != SP_OK)
        return rc;
    rc = copy_all(&below, in, out, err);
    if (c->look != NULL)
        base_look_add_text(c->look, ""); /* the end of a directory */
    return rc;
}

static int copy_entry(const struct copy *c, int from, int to, const char *name, struct err *err)
{
    struct stat st;

    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? SP_OK : err_sys(err, SP_IO, errno, "look at '%.100s'", name);
    if (c->look != NULL) {
        base_look_add(c->look, name, &st);
        if (!S_ISDIR(st.st_mode))
            return SP_OK;
    }
    if (S_ISLNK(st.st_mode))
        return copy_link(c, from, to, name, err);
    if (S_ISDIR(st.st_mode) && (st.st_mode & 0005) == 0005 && c->depth < DEPTH_MAX)
        return copy_tree(c, from, to, name, err);
    if (S_ISREG(st.st_mode) && (st.st_mode & 0004) != 0 && st.st_size <= FILE_MAX)
        return copy_file(c, from, to, name, st.st_mode, err);
    return SP_OK; /* a secret, or nothing that can be copied */
}

static bool is_listed(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(etc_names); i++) {
        if (fnmatch(etc_names[i], name, 0) == 0)
            return true;
    }
    return false;
}

static int copy_listed(const struct copy *c, int host, int etc, struct err *err)
{
    int copy = openat(host, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    int rc = SP_OK;

    if (d == NULL)
        return err_sys(err, SP_IO, errno, "read /etc");
    while (rc == SP_OK) {
        const struct dirent *e = readdir(d);

        if (e == NULL)
            break;
        if (is_listed(e->d_name))
            rc = copy_entry(c, host, etc, e->d_name, err);
    }
    (void) closedir(d); /* only read */
    return rc;
}

/* `top` has one or two names; both are made only if there is something to put below. */
static int copy_part(const struct copy *c, int host, int etc, const char *top, const char *name,
                     struct err *err)
{
    AUTO_CLOSE int from = openat(host, top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int middle = -1;
    AUTO_CLOSE int to = -1;
    const char *slash = strchr(top, '/');
    char first[32];
    struct stat st;
    int rc;

    if (from < 0 || fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return SP_OK;
    if (!str_copy_n(first, sizeof(first), top,
                    slash == NULL ? strlen(top) : (size_t) (slash - top)))
        return err_set(err, SP_INTERNAL, "a name in the list is too long");
    rc = make_dir(c, etc, first, slash == NULL ? &to : &middle, err);
    if (rc == SP_OK && slash != NULL)
        rc = make_dir(c, middle, slash + 1, &to, err);
    return rc == SP_OK ? copy_entry(c, from, to, name, err) : rc;
}

int base_copy_etc(int etc, struct base_look *look, struct err *err)
{
    struct copy c = {.look = look};
    AUTO_CLOSE int host = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc;

    if (host < 0)
        return err_sys(err, SP_IO, errno, "open /etc");
    rc = copy_listed(&c, host, etc, err);
    for (size_t i = 0; rc == SP_OK && i < ARRAY_LEN(etc_parts); i++)
        rc = copy_part(&c, host, etc, etc_parts[i][0], etc_parts[i][1], err);
    return rc == SP_OK ? SP_OK : err_wrap(err, "copy /etc");
}

int base_copy_dir(const char *from, int to, uint32_t owner, struct base_look *look, struct err *err)
{
    struct copy c = {.owner = owner, .look = look};
    AUTO_CLOSE int fd = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc;

    if (fd < 0)
        return errno == ENOENT ? SP_OK : err_sys(err, SP_IO, errno, "open '%.100s'", from);
    rc = copy_all(&c, fd, to, err);
    return rc == SP_OK ? SP_OK : err_wrap(err, "copy '%.100s'", from);
}
