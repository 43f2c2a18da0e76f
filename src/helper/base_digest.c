/* base_digest.c - one digest for a whole tree, in an order that does not depend on the disk. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "helper/base.h"
#include "helper/disk_digest.h"

struct names {
    char **list;
    size_t count;
    size_t cap;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

static void names_fini(struct names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->list[i]);
    free(n->list);
}

static int names_read(int dir, struct names *ret, struct err *err)
{
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);

    if (d == NULL)
        return err_sys(err, SP_IO, errno, "read a directory");
    for (;;) {
        const struct dirent *e = readdir(d);

        if (e == NULL)
            break;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (ret->count == ret->cap) {
            ret->cap = ret->cap == 0 ? 64 : ret->cap * 2;
            ret->list = xrealloc(ret->list, ret->cap * sizeof(*ret->list));
        }
        ret->list[ret->count++] = xstrdup(e->d_name);
    }
    (void) closedir(d); /* only read */
    if (ret->count > 0)
        qsort(ret->list, ret->count, sizeof(*ret->list), by_name);
    return SP_OK;
}

static int add_file(struct sha256 *s, int dir, const char *name, struct err *err)
{
    AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char chunk[65536];
    ssize_t n = -1;

    while (fd >= 0 && (n = read(fd, chunk, sizeof(chunk))) > 0)
        sha256_add(s, chunk, (size_t) n);
    return n < 0 ? err_sys(err, SP_IO, errno, "read '%.100s'", name) : SP_OK;
}

static int add_dir(struct sha256 *s, int dir, bool want_content, struct err *err);

static int add_entry(struct sha256 *s, int dir, const char *name, bool want_content,
                     struct err *err)
{
    AUTO_CLOSE int fd = -1;
    char text[1100];
    struct stat st;
    ssize_t n;
    int len;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return err_sys(err, SP_IO, errno, "look at '%.100s'", name);
    len = snprintf(text, sizeof(text), "%o %u %lld %s", (unsigned) st.st_mode, (unsigned) st.st_uid,
                   S_ISREG(st.st_mode) ? (long long) st.st_size : 0, name);
    sha256_add(s, text, (size_t) len + 1);
    if (S_ISREG(st.st_mode))
        return want_content ? add_file(s, dir, name, err) : SP_OK;
    if (S_ISLNK(st.st_mode)) {
        n = readlinkat(dir, name, text, sizeof(text) - 1);
        if (n < 0)
            return err_sys(err, SP_IO, errno, "read the symlink '%.100s'", name);
        text[n] = '\0';
        sha256_add(s, text, (size_t) n + 1);
        return SP_OK;
    }
    if (!S_ISDIR(st.st_mode))
        return SP_OK;
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, SP_IO, errno, "open '%.100s'", name);
    return add_dir(s, fd, want_content, err);
}

static int add_dir(struct sha256 *s, int dir, bool want_content, struct err *err)
{
    struct names names = {0};
    int rc = names_read(dir, &names, err);

    for (size_t i = 0; rc == SP_OK && i < names.count; i++)
        rc = add_entry(s, dir, names.list[i], want_content, err);
    names_fini(&names);
    sha256_add(s, "", 1); /* the end of a directory */
    return rc;
}

int base_digest(int dir, bool want_content, char *ret, struct err *err)
{
    unsigned char digest[32];
    struct sha256 s;
    int rc;

    sha256_init(&s);
    rc = add_dir(&s, dir, want_content, err);
    sha256_end(&s, digest);
    str_hex(ret, digest, sizeof(digest));
    return rc == SP_OK ? SP_OK : err_wrap(err, "digest of the base");
}

int base_digest_of(const char *path, char *ret, struct err *err)
{
    AUTO_CLOSE int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir < 0)
        return err_sys(err, SP_IO, errno, "open '%.150s'", path);
    str_copy_cut(ret, DISK_DIGEST_MAX, "sha256:");
    return base_digest(dir, false, ret + strlen(ret), err);
}
