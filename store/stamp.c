/* stamp.c - a number beside the database that grows, to know an older copy of the database when one was
 * put back. The database has the number, too, and is committed first: so the file is never ahead of the
 * database it belongs to, and a database that is behind the file is not the last one.
 *
 * It grows at each open, and with each batch that hands out boxes nothing else tells the owner of. The
 * file is synced at open only: a crash of the process loses nothing of it, and a power cut only makes
 * it smaller, so that a copy passes for new which was made within the seconds before. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
static void put_file(struct store *s)
{
    char text[FILE_LEN + 1];

    (void) snprintf(text, sizeof(text), "%020" PRIu64 "\n", s->stamp);
    if (s->stamp_fd >= 0)
        (void) !pwrite(s->stamp_fd, text, FILE_LEN, 0);
}

/* False: there is none, or nobody knows what it says. */
static bool read_file(const struct store *s, uint64_t *ret)
{
    char text[FILE_LEN + 1] = "";

    *ret = 0;
    if (s->stamp_fd < 0 || pread(s->stamp_fd, text, FILE_LEN, 0) != FILE_LEN ||
        text[FILE_LEN - 1] != '\n')
        return false;
    text[FILE_LEN - 1] = '\0';
    return str_parse_u64(text, 1, UINT64_MAX - 1, ret);
}

static bool is_empty_file(const struct store *s)
{
    char byte;

    return s->stamp_fd >= 0 && pread(s->stamp_fd, &byte, 1, 0) == 0;
}

/* The next open cannot tell any more that the rows are old: each of them says so until it is written
 * again. */
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
    static const char sql[] = "SELECT value FROM meta WHERE key = '" STORE_META_STAMP "'";
    char path[STORE_PATH_MAX];
    int64_t in_db = 0;
    uint64_t in_file = 0;
    bool has_file;
    int rc;

    if (!s->config.want_stamp) {
        s->is_fresh = true;
        return SP_OK;
    }
    (void) snprintf(path, sizeof(path), "%s-stamp", s->path); /* the length was checked at open */
    if (s->stamp_fd < 0)
        s->stamp_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    has_file = read_file(s, &in_file);
    rc = sql_read_i64(&s->db, sql, &in_db);
    if (rc == SQLITE_OK) {
        /* Neither: the database is new, or of a version that had no stamp. */
        s->is_fresh = has_file ? (uint64_t) in_db >= in_file : in_db == 0 && is_empty_file(s);
        s->stamp = MAX_OF((uint64_t) in_db, in_file) + 1;
        rc = commit_stamp(s, s->stamp);
    }
    if (rc != SQLITE_OK) {
        (void) sql_error(&s->db, rc, s->path, err);
        sql_undo(&s->db);
        return SP_STORE_UNAVAILABLE;
    }
    put_file(s);
    if (s->stamp_fd >= 0)
        (void) fdatasync(s->stamp_fd);
    return SP_OK;
}

int stamp_in_batch(struct store *s)
{
    return put_meta(s, s->stamp + 1);
}

void stamp_after_commit(struct store *s)
{
    s->stamp++;
    put_file(s);
}

void stamp_close(struct store *s)
{
    if (s->stamp_fd >= 0)
        (void) close(s->stamp_fd);
    s->stamp_fd = -1;
}
