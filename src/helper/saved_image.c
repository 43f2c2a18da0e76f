/* saved_image.c - see saved_image.h. */
#include "helper/saved_image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/tar_read.h"
#include "helper/start.h"

#define MB (1024ULL * 1024)

enum { PIECE = 256 * 1024, LINKS_MAX = 4 };

struct source {
    int fd;
    int sys; /* why no more comes; 0: the end */
};

static ssize_t read_some(void *ctx, void *dst, size_t cap)
{
    struct source *s = ctx;
    ssize_t n;

    do
        n = read(s->fd, dst, cap);
    while (n < 0 && errno == EINTR && !start_is_stopped());
    s->sys = n < 0 ? errno : 0;
    return n;
}

static int check_space(int dir_of, uint64_t reserve, struct err *err)
{
    struct statvfs fs;

    if (fstatvfs(dir_of, &fs) != 0)
        return err_sys(err, SP_IO, errno, "measure the state directory");
    if ((uint64_t) fs.f_bavail * fs.f_frsize < reserve + 64 * MB)
        return err_set(err, SP_IO,
                       "the image does not fit beside the %llu MB that have to stay free",
                       (unsigned long long) (reserve / MB));
    return SP_OK;
}

static int keep_data(struct saved_image *s, struct tar_reader *r, struct saved_file *f,
                     uint64_t reserve, struct err *err)
{
    static char piece[PIECE];
    unsigned char digest[32];
    uint64_t left = f->size;
    struct sha256 sum;
    int rc = SP_OK;

    f->at = s->used;
    sha256_init(&sum);
    while (rc == SP_OK && left > 0) {
        ssize_t n = tar_reader_data(r, piece, sizeof(piece));
        int sys;

        if (n <= 0)
            return err_set(err, SP_PROTOCOL, "the engine's archive is cut");
        sha256_add(&sum, piece, (size_t) n);
        if ((s->used + (uint64_t) n) / (64 * MB) != s->used / (64 * MB))
            rc = check_space(s->data, reserve, err);
        sys = file_write_all(s->data, piece, (size_t) n);
        if (sys != 0)
            return err_sys(err, SP_IO, sys, "keep the image");
        s->used += (uint64_t) n;
        left -= (uint64_t) n;
    }
    sha256_end(&sum, digest);
    digest_text(digest, f->digest);
    return rc;
}

/* "a/b/layer.tar" with a link to "../c/layer.tar" is "a/c/layer.tar". */
static char *link_target(const char *name, const char *link)
{
    size_t len = strlen(name) + strlen(link) + 2;
    char *path = xcalloc(1, len);
    const char *slash = strrchr(name, '/');
    size_t dir = slash != NULL ? (size_t) (slash - name) : 0;

    while (strncmp(link, "../", 3) == 0) {
        link += 3;
        while (dir > 0 && name[dir - 1] != '/')
            dir--;
        dir -= dir > 0;
    }
    (void) snprintf(path, len, "%.*s%s%s", (int) dir, name, dir > 0 ? "/" : "", link);
    return path;
}

static int add_entry(struct saved_image *s, struct tar_reader *r, const struct tar_entry *e,
                     uint64_t max, uint64_t reserve, struct err *err)
{
    struct saved_file *f;

    if (e->type == TAR_DIRECTORY)
        return SP_OK;
    if (e->type != TAR_FILE && e->type != TAR_SYMLINK && e->type != TAR_HARD_LINK)
        return err_set(err, SP_PROTOCOL, "the engine's archive has '%.100s'", e->name);
    if (s->count == SAVED_FILES_MAX)
        return err_set(err, SP_UNSUPPORTED, "the image has more than %d files", SAVED_FILES_MAX);
    if (e->size > max || s->used > max - e->size)
        return err_set(err, SP_BODY_TOO_LARGE, "the image has more than %llu MB",
                       (unsigned long long) (max / MB));
    f = &s->files[s->count++];
    *f = (struct saved_file){.name = xstrdup(e->name), .size = e->size};
    if (e->type == TAR_SYMLINK)
        f->link = link_target(e->name, e->link);
    else if (e->type == TAR_HARD_LINK)
        f->link = xstrdup(e->link);
    return f->link == NULL ? keep_data(s, r, f, reserve, err) : SP_OK;
}

int saved_image_read(struct saved_image *s, int fd, const char *dir, uint64_t max, uint64_t reserve,
                     struct err *err)
{
    struct source from = {.fd = fd};
    struct tar_reader r;
    struct tar_entry *e = xcalloc(1, sizeof(*e));
    enum tar_result result = TAR_ENTRY;
    char scrap[4096];
    int rc;

    *s = (struct saved_image){.data = -1};
    s->files = xcalloc(SAVED_FILES_MAX, sizeof(*s->files));
    s->data = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    rc = s->data < 0 ? err_sys(err, SP_IO, errno, "make a file in '%.150s'", dir)
                     : check_space(s->data, reserve, err);
    tar_reader_init(&r, read_some, &from);
    while (rc == SP_OK && (result = tar_reader_next(&r, e)) == TAR_ENTRY)
        rc = start_is_stopped() ? err_set(err, SP_CANCELLED, "stopped by a signal")
                                : add_entry(s, &r, e, max, reserve, err);
    while (rc == SP_OK && result == TAR_END && read_some(&from, scrap, sizeof(scrap)) > 0)
        continue; /* engines fill up their last block */
    if (rc == SP_OK && result != TAR_END)
        rc = err_set(err, SP_PROTOCOL, "the engine's archive: %s",
                     result == TAR_BAD ? r.problem : "it is cut");
    tar_reader_fini(&r);
    free(e);
    return rc;
}

void saved_image_free(struct saved_image *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free(s->files[i].name);
        free(s->files[i].link);
    }
    free(s->files);
    if (s->data >= 0)
        (void) close(s->data); /* it has no name */
    *s = (struct saved_image){.data = -1};
}

const struct saved_file *saved_image_find(const struct saved_image *s, const char *name)
{
    for (unsigned links = 0; name != NULL && links <= LINKS_MAX; links++) {
        const struct saved_file *found = NULL;

        for (size_t i = 0; i < s->count && found == NULL; i++)
            if (strcmp(s->files[i].name, name) == 0)
                found = &s->files[i];
        if (found == NULL || found->link == NULL)
            return found;
        name = found->link;
    }
    return NULL;
}

int saved_image_json(const struct saved_image *s, const char *name, struct json_doc **ret,
                     struct err *err)
{
    const struct saved_file *f = saved_image_find(s, name);
    char *text;

    if (f == NULL || f->size > SAVED_TEXT_MAX)
        return err_set(err, SP_PROTOCOL, "the engine's archive has no %.100s", name);
    text = xcalloc(1, f->size + 1);
    if (pread(s->data, text, f->size, (off_t) f->at) != (ssize_t) f->size) {
        free(text);
        return err_sys(err, SP_IO, errno, "read the image");
    }
    *ret = json_parse(text, f->size, SAVED_TEXT_MAX, err);
    free(text);
    return *ret != NULL ? SP_OK : err_wrap(err, "the engine's archive");
}
