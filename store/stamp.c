/* stamp.c - a number that grows, to know an older copy of the database when one was put back. It is in the
 * database, and in files that are written after the commit: so a file is never ahead of the
 * database it belongs to, and a database that is behind a file is not the last one.
 *
 * In the database it is the highest of those in the rows of boxes, each of which has the one that was
 * current when it was written, and of one in `meta`. A batch with a lease writes a box's row anyway,
 * so the number costs it nothing; only where no row is left that has it does it go into `meta`.
 *
 * The number grows at each open and with each batch that has a lease in it. The file beside the database
 * gets it at each open and with leases whose owner is recorded nowhere else. It is synced at open only:
 * a crash of the process loses nothing of it, and a power cut only makes it smaller, so that a copy
 * passes for new which was made within the seconds before.
 *
 * The other file gets every number. It is in a directory that lasts until the machine starts anew, so
 * that it is not put back with the state directory. There are two of them. One is named after the path of
 * the database as it was given: a link that is moved to a copy changes the database, too. The other one is
 * named after what links make of the path, which may be given in another way next time. Whichever is ahead
 * of the database counts. Nobody removes them: they have 21 bytes each. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sha256.h"
#include "base/str.h"
#include "store/internal.h"

enum {
    FILE_LEN = 21
}; /* 20 digits and a line end, always: no write can leave part of an older one */

static int put_meta(struct store *s, uint64_t stamp)
{
    char text[FILE_LEN + 1];

    (void) snprintf(text, sizeof(text), "%" PRIu64, stamp);
    sql_bind_str(&s->db, SQL_PUT_META, 1, STORE_META_STAMP);
    sql_bind_str(&s->db, SQL_PUT_META, 2, text);
    return sql_run(&s->db, SQL_PUT_META);
}

/* What cannot be written leaves the older number: then less is noticed. */
static void put_file(int fd, uint64_t stamp)
{
    char text[FILE_LEN + 1];

    (void) snprintf(text, sizeof(text), "%020" PRIu64 "\n", stamp);
    if (fd >= 0)
        (void) !pwrite(fd, text, FILE_LEN, 0);
}

/* False: there is none, or nobody knows what it says. */
static bool read_file(int fd, uint64_t *ret)
{
    char text[FILE_LEN + 1] = "";

    *ret = 0;
    if (fd < 0 || pread(fd, text, FILE_LEN, 0) != FILE_LEN || text[FILE_LEN - 1] != '\n')
        return false;
    text[FILE_LEN - 1] = '\0';
    return str_parse_u64(text, 1, UINT64_MAX - 1, ret);
}

static bool is_empty_file(int fd)
{
    char byte;

    return fd >= 0 && pread(fd, &byte, 1, 0) == 0;
}

static int open_file(const char *path)
{
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* "a//b" and "a/./b" are "a/b". */
static void add_path(struct sha256 *sum, const char *path)
{
    while (*path != '\0') {
        size_t len = strcspn(path, "/");

        if (len > 1 || (len == 1 && path[0] != '.')) {
            sha256_add(sum, "/", 1);
            sha256_add(sum, path, len);
        }
        path += len + (path[len] == '/' ? 1 : 0);
    }
}

/* Of the absolute path, so that it does not matter where the daemon was started. */
static void hash_path(const char *path, char ret[17])
{
    unsigned char digest[32];
    struct sha256 sum;
    char *cwd = path[0] != '/' ? realpath(".", NULL) : NULL;

    sha256_init(&sum);
    if (cwd != NULL)
        add_path(&sum, cwd);
    free(cwd);
    add_path(&sum, path);
    sha256_end(&sum, digest);
    str_hex(ret, digest, 8);
}

static int open_named(const struct store *s, const char *name)
{
    char path[STORE_PATH_MAX];
    int fd = -1;

    if (snprintf(path, sizeof(path), "%s/sandpool-stamp-%s", s->config.boot_dir, name) <
        (int) sizeof(path))
        fd = open_file(path);
    if (fd < 0)
        log_warn("store.no_boot_stamp", LF_STR("directory", s->config.boot_dir),
                 LF_STR("effect", "an older copy of the whole state directory is not recognised"));
    return fd;
}

static void open_boot_files(struct store *s)
{
    char given[17];
    char resolved[17];
    char *whole;

    if (s->config.boot_dir == NULL || stamp_has_boot(s))
        return;
    hash_path(s->path, given);
    s->boot_fds[0] = open_named(s, given);
    whole = realpath(s->path, NULL); /* open by now, so it is there */
    if (whole == NULL)
        return;
    hash_path(whole, resolved);
    free(whole);
    if (strcmp(given, resolved) != 0)
        s->boot_fds[1] = open_named(s, resolved);
}

/* No file: the machine has started since, and boxes that only a file below the state directory names the
 * owner of have ended with it; or the database was never opened by this path. */
static bool is_behind_boot(const struct store *s, uint64_t in_db, uint64_t *ret_stamp)
{
    bool is_behind = false;

    *ret_stamp = 0;
    for (size_t i = 0; i < STORE_BOOT_FILES; i++) {
        uint64_t stamp = 0;

        if (read_file(s->boot_fds[i], &stamp))
            is_behind = is_behind || in_db < stamp;
        else if (s->boot_fds[i] >= 0 && !is_empty_file(s->boot_fds[i]))
            is_behind = true;
        *ret_stamp = MAX_OF(*ret_stamp, stamp);
    }
    return is_behind;
}

static void put_boot_files(const struct store *s)
{
    for (size_t i = 0; i < STORE_BOOT_FILES; i++)
        put_file(s->boot_fds[i], s->stamp);
}

bool stamp_has_boot(const struct store *s)
{
    for (size_t i = 0; i < STORE_BOOT_FILES; i++)
        if (s->boot_fds[i] >= 0)
            return true;
    return false;
}

/* The next open can no longer detect that the rows are old: each of them is marked as old until it is
 * written again. */
static int commit_stamp(struct store *s, uint64_t stamp)
{
    int rc = upkeep_set_full(&s->db, true);

    if (rc == SQLITE_OK)
        rc = sql_run(&s->db, SQL_BEGIN);
    if (rc == SQLITE_OK && !s->is_fresh)
        rc = sql_exec(&s->db, "UPDATE boxes SET is_stale = 1");
    if (rc == SQLITE_OK)
        rc = put_meta(s, stamp);
    if (rc == SQLITE_OK)
        rc = sql_run(&s->db, SQL_COMMIT);
    return rc;
}

int stamp_at_open(struct store *s, struct err *err)
{
    static const char sql[] = "SELECT max(coalesce((SELECT CAST(value AS INTEGER) FROM meta "
                              "WHERE key = '" STORE_META_STAMP "'), 0), "
                              "coalesce((SELECT max(stamp) FROM boxes), 0))";
    char path[STORE_PATH_MAX];
    int64_t in_db = 0;
    uint64_t in_file = 0;
    uint64_t in_boot = 0;
    bool has_file;
    int rc;

    if (!s->config.want_stamp) {
        s->is_fresh = true;
        return SP_OK;
    }
    (void) snprintf(path, sizeof(path), "%s-stamp", s->path); /* the length was checked at open */
    if (s->stamp_fd < 0)
        s->stamp_fd = open_file(path);
    open_boot_files(s);
    has_file = read_file(s->stamp_fd, &in_file);
    rc = sql_read_i64(&s->db, sql, &in_db);
    if (rc == SQLITE_OK) {
        /* Neither: the database is new, or of a version that had no stamp. */
        s->is_fresh =
            has_file ? (uint64_t) in_db >= in_file : in_db == 0 && is_empty_file(s->stamp_fd);
        if (is_behind_boot(s, (uint64_t) in_db, &in_boot))
            s->is_fresh = false;
        s->stamp = MAX_OF(MAX_OF((uint64_t) in_db, in_file), in_boot) + 1;
        rc = commit_stamp(s, s->stamp);
    }
    if (rc != SQLITE_OK) {
        (void) sql_error(&s->db, rc, s->path, err);
        sql_undo(&s->db);
        return SP_STORE_UNAVAILABLE;
    }
    put_file(s->stamp_fd, s->stamp);
    put_boot_files(s);
    if (s->stamp_fd >= 0)
        (void) fdatasync(s->stamp_fd);
    return SP_OK;
}

void stamp_begin(struct store *s, bool want_next)
{
    s->db.stamp = s->stamp + (want_next ? 1 : 0);
    s->db.is_stamp_missing = want_next;
}

int stamp_in_batch(struct store *s)
{
    return s->config.want_stamp && s->db.is_stamp_missing ? put_meta(s, s->db.stamp) : SQLITE_OK;
}

void stamp_after_commit(struct store *s, bool want_file)
{
    if (s->db.stamp == s->stamp)
        return;
    s->stamp = s->db.stamp;
    put_boot_files(s);
    if (want_file)
        put_file(s->stamp_fd, s->stamp);
}

void stamp_close(struct store *s)
{
    if (s->stamp_fd >= 0)
        (void) close(s->stamp_fd);
    s->stamp_fd = -1;
    for (size_t i = 0; i < STORE_BOOT_FILES; i++) {
        if (s->boot_fds[i] >= 0)
            (void) close(s->boot_fds[i]);
        s->boot_fds[i] = -1;
    }
}
