/* unpack_files.c - every name is looked up from the top without following a link (tree_write.h); what exists already is never
 * written to; of devices there are none; attributes are those of boxes only. How much fits is up to the disk below. */
#include "helper/unpack_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bundle.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/tar_read.h"
#include "helper/attrs.h"
#include "helper/bundle_file.h"
#include "helper/start.h"
#include "helper/tree_write.h"

enum { PIECE = 256 * 1024, RUNS_MAX = 65536, ATTRS_MAX = 1024 * 1024 };

struct open_dir {
    char *path;
    struct stat st;
};

struct unpacking {
    struct unpack_from from;
    struct tree_writer writer;
    struct tar_reader reader;
    struct tar_entry entry;
    /* Of the entry's pax header. */
    bool is_whiteout;
    bool is_opaque;
    bool is_sparse;
    uint64_t real_size;
    struct buf attrs; /* name, NUL, length, value; again */
    /* Directories that more may come for: their times are set when they are left. */
    struct open_dir dirs[MERGE_DEPTH_MAX + 1];
    unsigned depth;
};

static ssize_t read_archive(void *ctx, void *dst, size_t cap)
{
    struct unpacking *u = ctx;
    ssize_t n = zstd_read(u->from.in, dst, cap);

    if (n > 0)
        sha256_add(u->from.sum, dst, (size_t) n);
    return n;
}

static int bad(struct err *err, const char *text, const char *name)
{
    return err_set(err, SP_PROTOCOL, "%s: '%.120s'", text, name);
}

/* What the kernel or tree_write.h refused: is it the archive's fault? */
static int judge(int rc, struct err *err)
{
    static const int faults[] = {EEXIST, ENOTDIR, EMLINK, ENAMETOOLONG, ELOOP,
                                 ENOENT, EINVAL,  E2BIG,  ERANGE};

    if (rc == SP_INVALID_FIELD)
        err->code = SP_PROTOCOL;
    for (size_t i = 0; rc == SP_IO && i < ARRAY_LEN(faults); i++)
        if (err->sys == faults[i])
            err->code = SP_PROTOCOL;
    if (rc == SP_IO && (err->sys == ENOSPC || err->sys == EDQUOT || err->sys == EFBIG)) {
        err->code = SP_BODY_TOO_LARGE;
        return err_wrap(err, "more is in the file than it says");
    }
    return err->code;
}

/* --- records --- */

static bool is_key(const char *key, size_t len, const char *name)
{
    return len == strlen(name) && memcmp(key, name, len) == 0;
}

static bool keep_attr(struct unpacking *u, const char *name, size_t name_len, const char *value,
                      size_t len)
{
    if (name_len == 0 || name_len > ATTR_NAME_MAX || memchr(name, '\0', name_len) != NULL)
        return false;
    buf_append(&u->attrs, name, name_len);
    buf_putc(&u->attrs, '\0');
    buf_append(&u->attrs, &len, sizeof(len));
    buf_append(&u->attrs, value, len);
    return !buf_failed(&u->attrs);
}

static bool on_record(void *ctx, const char *key, size_t key_len, const char *value, size_t len)
{
    struct unpacking *u = ctx;
    char text[24];

    if (is_key(key, key_len, BUNDLE_WHITEOUT))
        return u->is_whiteout = true;
    if (is_key(key, key_len, BUNDLE_OPAQUE))
        return u->is_opaque = true;
    if (is_key(key, key_len, "GNU.sparse.realsize"))
        return (u->is_sparse = str_copy_n(text, sizeof(text), value, len) &&
                               str_parse_u64(text, 0, INT64_MAX, &u->real_size));
    if (key_len > strlen(BUNDLE_XATTR) && memcmp(key, BUNDLE_XATTR, strlen(BUNDLE_XATTR)) == 0)
        return keep_attr(u, key + strlen(BUNDLE_XATTR), key_len - strlen(BUNDLE_XATTR), value, len);
    return true;
}

static int put_attrs(struct unpacking *u, const char *path, struct err *err)
{
    size_t at = 0;
    int rc = SP_OK;

    while (rc == SP_OK && at < u->attrs.len) {
        const char *name = u->attrs.data + at;
        size_t len;

        at += strlen(name) + 1;
        memcpy(&len, u->attrs.data + at, sizeof(len));
        at += sizeof(len);
        rc =
            tree_write_attr(&u->writer, path, name, (unsigned char *) u->attrs.data + at, len, err);
        at += len;
    }
    return rc;
}

/* --- data --- */

/* `len` bytes of the entry's data to the file, from `at` on. */
static int copy_data(struct unpacking *u, int fd, uint64_t at, uint64_t len, struct err *err)
{
    static char piece[PIECE];

    while (len > 0) {
        ssize_t n = tar_reader_data(&u->reader, piece, MIN_OF((size_t) len, sizeof(piece)));

        if (n <= 0)
            return bad(err, "the archive ends in the middle of a file", u->entry.name);
        if (pwrite(fd, piece, (size_t) n, (off_t) at) != n)
            return err_sys(err, SP_IO, errno == 0 ? ENOSPC : errno, "write '%.120s'",
                           u->entry.name);
        at += (uint64_t) n;
        len -= (uint64_t) n;
    }
    return SP_OK;
}

/* The next number of the map; false: there is none. */
static bool read_number(struct unpacking *u, uint64_t *used, uint64_t *ret)
{
    char text[24];
    size_t len = 0;

    while (len < sizeof(text)) {
        if (tar_reader_data(&u->reader, text + len, 1) != 1)
            return false;
        (*used)++;
        if (text[len] == '\n')
            break;
        len++;
    }
    if (len == sizeof(text))
        return false;
    text[len] = '\0';
    return str_parse_u64(text, 0, INT64_MAX, ret);
}

struct run {
    uint64_t at;
    uint64_t len;
};

/* In ascending order, all in the file, and together what follows. */
static bool read_map(struct unpacking *u, struct run **ret, uint64_t *ret_count)
{
    uint64_t used = 0;
    uint64_t end = 0;
    uint64_t sum = 0;
    char scrap[TAR_BLOCK];
    size_t rest;

    if (!read_number(u, &used, ret_count) || *ret_count > RUNS_MAX)
        return false;
    *ret = xcalloc((size_t) *ret_count + 1, sizeof(**ret));
    for (uint64_t i = 0; i < *ret_count; i++) {
        struct run *r = &(*ret)[i];

        if (!read_number(u, &used, &r->at) || !read_number(u, &used, &r->len) || r->at < end ||
            r->at > u->real_size || r->len > u->real_size - r->at)
            return false;
        end = r->at + r->len;
        sum += r->len;
    }
    for (rest = tar_padding(used); rest > 0;) {
        ssize_t n = tar_reader_data(&u->reader, scrap, rest);

        if (n <= 0)
            return false;
        rest -= (size_t) n;
    }
    return sum == u->reader.left;
}

static int copy_sparse(struct unpacking *u, int fd, struct err *err)
{
    AUTO_FREE struct run *runs = NULL;
    uint64_t count = 0;
    int rc = SP_OK;

    if (!read_map(u, &runs, &count))
        return bad(err, "the map of a sparse file is malformed", u->entry.name);
    if (ftruncate(fd, (off_t) u->real_size) != 0)
        return err_sys(err, SP_IO, errno, "size '%.120s'", u->entry.name);
    for (uint64_t i = 0; rc == SP_OK && i < count; i++)
        rc = copy_data(u, fd, runs[i].at, runs[i].len, err);
    return rc;
}

static int put_file(struct unpacking *u, const char *path, const struct stat *st, struct err *err)
{
    AUTO_CLOSE int fd = -1;
    int rc = tree_write_file(&u->writer, path, st, &fd, err);

    if (rc != SP_OK)
        return rc;
    return u->is_sparse ? copy_sparse(u, fd, err) : copy_data(u, fd, 0, u->entry.size, err);
}

/* --- directories --- */

/* Those that `path` is not in are left. */
static int leave_dirs(struct unpacking *u, const char *path, struct err *err)
{
    int rc = SP_OK;

    while (u->depth > 0) {
        struct open_dir *d = &u->dirs[u->depth - 1];
        size_t len = strlen(d->path);

        if (path != NULL && (len == 0 || (strncmp(path, d->path, len) == 0 && path[len] == '/')))
            return SP_OK;
        if (rc == SP_OK)
            rc = tree_write_times(&u->writer, d->path, &d->st, err);
        free(d->path);
        u->depth--;
    }
    return rc;
}

static int put_dir(struct unpacking *u, const char *path, const struct stat *st, struct err *err)
{
    int rc;

    if (u->depth > MERGE_DEPTH_MAX || (*path == '\0' && u->depth > 0))
        return bad(err, "a directory is too deep, or there twice", path);
    rc = *path != '\0' && tree_write_exists(&u->writer, path) ? bad(err, "it is there twice", path)
                                                              : SP_OK;
    if (rc == SP_OK)
        rc = tree_write_dir(&u->writer, path, st, u->is_opaque && *path != '\0', err);
    if (rc == SP_OK)
        u->dirs[u->depth++] = (struct open_dir){.path = xstrdup(path), .st = *st};
    return rc;
}

/* --- entries --- */

/* The path behind "files/"; NULL: it is not there. */
static const char *below_files(char *name)
{
    size_t len = strlen(name);

    if (len > 0 && name[len - 1] == '/')
        name[len - 1] = '\0';
    if (strcmp(name, BUNDLE_FILES) == 0)
        return "";
    return strncmp(name, BUNDLE_FILES "/", sizeof(BUNDLE_FILES)) == 0 ? name + sizeof(BUNDLE_FILES)
                                                                      : NULL;
}

static int make(struct unpacking *u, const char *path, const struct stat *st, struct err *err)
{
    const char *target;

    switch (u->entry.type) {
    case TAR_DIRECTORY:
        return put_dir(u, path, st, err);
    case TAR_FILE:
        return u->is_whiteout ? tree_write_whiteout(&u->writer, path, err)
                              : put_file(u, path, st, err);
    case TAR_SYMLINK:
        if (str_is_empty(u->entry.link))
            return bad(err, "a link leads nowhere", path);
        return tree_write_symlink(&u->writer, path, u->entry.link, st, err);
    case TAR_HARD_LINK:
        target = below_files(u->entry.link);
        if (target == NULL || str_is_empty(target))
            return bad(err, "a hard link leads out of the archive", path);
        return tree_write_link(&u->writer, path, target, err);
    case TAR_FIFO:
        return tree_write_node(&u->writer, path, st, err);
    default:
        return bad(err, "it is a device", path);
    }
}

static int put_entry(struct unpacking *u, struct err *err)
{
    struct tar_entry *e = &u->entry;
    struct stat st = {.st_mode = e->mode, .st_uid = (uid_t) e->uid, .st_gid = (gid_t) e->gid};
    const char *path = below_files(e->name);
    bool is_new = e->type != TAR_HARD_LINK && !(e->type == TAR_FILE && u->is_whiteout);
    int rc;

    if (path == NULL || (*path == '\0' && e->type != TAR_DIRECTORY))
        return bad(err, "an entry is not below " BUNDLE_FILES, e->name);
    if (u->depth == 0 && *path != '\0')
        return bad(err, "an entry comes before " BUNDLE_FILES, e->name);
    if (e->uid >= MERGE_IDS || e->gid >= MERGE_IDS)
        return bad(err, "it has an owner that no box has", path);
    if (u->is_whiteout && (e->type != TAR_FILE || e->size > 0))
        return bad(err, "a mark of something deleted has content", path);
    st.st_mtim.tv_sec = (time_t) e->mtime_s;
    st.st_mtim.tv_nsec = (long) e->mtime_ns;
    st.st_atim = st.st_mtim;
    if (e->type == TAR_FIFO)
        st.st_mode |= S_IFIFO;
    if ((rc = leave_dirs(u, path, err)) != SP_OK || (rc = make(u, path, &st, err)) != SP_OK)
        return rc;
    if (is_new)
        rc = put_attrs(u, path, err);
    if (rc == SP_OK && is_new && e->type != TAR_DIRECTORY)
        rc = tree_write_times(&u->writer, path, &st, err);
    return rc;
}

/* --- the end --- */

static int check_digest(struct unpacking *u, struct err *err)
{
    int rc = bundle_check_digest(&u->reader, u->entry.size, u->from.sum, err);

    if (rc != SP_OK)
        return rc;
    if (tar_reader_next(&u->reader, &u->entry) != TAR_END)
        return zstd_reader_problem(u->from.in, err) != SP_OK
                   ? err->code
                   : err_set(err, SP_PROTOCOL, "something follows the digest");
    return SP_OK;
}

static int read_entries(struct unpacking *u, struct err *err)
{
    for (;;) {
        enum tar_result result;
        int rc;

        u->is_whiteout = u->is_opaque = u->is_sparse = false;
        buf_reset(&u->attrs);
        if (start_is_stopped())
            return err_set(err, SP_CANCELLED, "stopped by a signal");
        result = tar_reader_next(&u->reader, &u->entry);
        if (result != TAR_ENTRY) {
            if (zstd_reader_problem(u->from.in, err) != SP_OK)
                return err->code;
            return err_set(err, SP_PROTOCOL, "%s",
                           result == TAR_BAD ? u->reader.problem : "the archive has no digest");
        }
        if (u->entry.type == TAR_FILE && strcmp(u->entry.name, BUNDLE_DIGEST) == 0)
            return u->depth > 0 ? check_digest(u, err)
                                : err_set(err, SP_PROTOCOL, "the archive has no files");
        if ((rc = put_entry(u, err)) != SP_OK) {
            struct err problem;

            return zstd_reader_problem(u->from.in, &problem) != SP_OK ? (*err = problem).code
                                                                      : judge(rc, err);
        }
    }
}

int unpack_files(const struct unpack_from *from, int top, uint32_t id_base, struct err *err)
{
    struct unpacking *u = xcalloc(1, sizeof(*u));
    struct err second;
    int rc;

    u->from = *from;
    buf_init(&u->attrs, ATTRS_MAX);
    tree_writer_init(&u->writer, top, id_base);
    tar_reader_init(&u->reader, read_archive, u);
    u->reader.on_record = on_record;
    rc = read_entries(u, err);
    if (leave_dirs(u, NULL, rc == SP_OK ? err : &second) != SP_OK && rc == SP_OK)
        rc = err->code;
    tar_reader_fini(&u->reader);
    tree_writer_fini(&u->writer);
    buf_fini(&u->attrs);
    free(u);
    return rc;
}
