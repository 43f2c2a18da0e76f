/* reserve.c - space that is the store's when the disk is full. Boxes write to the same file system,
 * and a box that has filled it can only be removed if its row can be written first.
 *
 * The log and the database keep blocks of their own. While the disk is full, a commit goes to blocks
 * that the log has already, and a checkpoint moves it into blocks that the database has already, so
 * that neither has to be faster than those who fill the disk. When that is used up, too, the last
 * resort is a file that is removed when a write finds no space, and made again when there is some.
 *
 * SQLite cuts the database to the pages it uses after a checkpoint, and blocks behind the end of the
 * file would be lost then. Therefore they are part of the file: its chunk size is set to the size
 * that it has. This goes through SQLite, because closing a descriptor of our own for the database
 * would end the locks that SQLite holds on it.
 *
 * The sizes: one batch of 256 writes touches at most 1,000 pages, so 8 MiB of log hold two of them
 * between two checkpoints; 8 MiB of database hold the events of 8,000 boxes that are destroyed. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/internal.h"

#define LOG_BYTES (8LL << 20)
#define FILE_BYTES (4LL << 20)
#define DB_BYTES (8LL << 20)     /* of the database beyond what it uses */
#define DB_LOW_BYTES (6LL << 20) /* with less than this it gets more */
#define DB_CHECK_PAGES 128       /* of the log, from one look at the database to the next */
#define RETRY_NS (10 * NS_PER_S)

static uint64_t now_ns(void)
{
    struct timespec ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts); /* cannot fail for this clock */
    return (uint64_t) ts.tv_sec * NS_PER_S + (uint64_t) ts.tv_nsec;
}

static bool has_blocks(int fd, long long bytes)
{
    struct stat st;

    return fstat(fd, &st) == 0 && (long long) st.st_blocks * 512 >= bytes;
}

/* As much again stays free for others, so that the reserve does not fill the disk itself. */
static bool has_room(const char *path, long long bytes)
{
    struct statvfs fs;

    return statvfs(path, &fs) == 0 &&
           (unsigned long long) fs.f_bavail * fs.f_frsize >= 2ULL * (unsigned long long) bytes;
}

static void keep_log(const struct store *s)
{
    char path[STORE_PATH_MAX];
    int fd;

    (void) snprintf(path, sizeof(path), "%s-wal", s->path); /* the length was checked at open */
    fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return; /* nothing was written yet: next time */
    /* The size stays as it is, so that SQLite sees only what it wrote. A file system that cannot
     * do it leaves the store with the file alone. */
    if (!has_blocks(fd, LOG_BYTES) && has_room(path, LOG_BYTES))
        (void) fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, LOG_BYTES);
    (void) close(fd);
}

/* --- the database --- */

struct extent {
    long long used; /* by pages, also by those that are still in the log */
    long long size;
    long long blocks;
};

static bool read_extent(struct store *s, struct extent *ret)
{
    struct stat st;
    int64_t pages = 0;
    int64_t page_size = 0;

    if (s->db.conn == NULL || stat(s->path, &st) != 0 ||
        sql_read_i64(&s->db, "PRAGMA page_count", &pages) != SQLITE_OK ||
        sql_read_i64(&s->db, "PRAGMA page_size", &page_size) != SQLITE_OK)
        return false;
    ret->used = pages * page_size;
    ret->size = (long long) st.st_size;
    ret->blocks = (long long) st.st_blocks * 512;
    return true;
}

static bool is_ahead(const struct extent *e)
{
    return MIN_OF(e->size, e->blocks) >= e->used + DB_LOW_BYTES;
}

static void set_chunk(struct store *s, long long bytes)
{
    int chunk = bytes <= INT_MAX ? (int) bytes : 0;

    /* A connection without it cuts the file as always. */
    (void) sqlite3_file_control(s->db.conn, "main", SQLITE_FCNTL_CHUNK_SIZE, &chunk);
}

/* The size counts only while there are blocks behind it: a copy may have left them out. */
static void hold_extent(struct store *s, const struct extent *e)
{
    bool is_held = e->size >= e->used && e->blocks >= MIN_OF(e->size, e->used + DB_LOW_BYTES);

    set_chunk(s, is_held ? e->size : 0);
}

static bool keep_db(struct store *s)
{
    struct extent e;
    sqlite3_int64 want;

    s->reserve_seen_pages = s->db.wal_pages;
    if (!read_extent(s, &e))
        return false;
    want = e.used + DB_BYTES;
    if (!is_ahead(&e) && e.size < want && want <= INT_MAX && has_room(s->path, want - e.size)) {
        set_chunk(s, want);
        /* Whether it was possible is seen below. */
        (void) sqlite3_file_control(s->db.conn, "main", SQLITE_FCNTL_SIZE_HINT, &want);
        if (!read_extent(s, &e))
            return false;
    }
    hold_extent(s, &e);
    return is_ahead(&e);
}

void reserve_hold(struct store *s)
{
    struct extent e;

    if (s->reserve_path != NULL && read_extent(s, &e))
        hold_extent(s, &e);
}

/* --- all of it --- */

static bool make_file(const struct store *s)
{
    int fd = open(s->reserve_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool is_made;

    if (fd < 0)
        return false;
    is_made = has_blocks(fd, FILE_BYTES) ||
              (has_room(s->reserve_path, FILE_BYTES) && posix_fallocate(fd, 0, FILE_BYTES) == 0);
    (void) close(fd);
    if (!is_made)
        (void) unlink(s->reserve_path); /* half of one helps nobody */
    return is_made;
}

static void note(struct store *s, bool has_reserve)
{
    s->has_reserve = has_reserve;
    atomic_store_explicit(&s->is_reserve_held, has_reserve, memory_order_relaxed);
}

void reserve_init(struct store *s)
{
    char path[STORE_PATH_MAX];

    if (!s->config.want_reserve)
        return;
    (void) snprintf(path, sizeof(path), "%s-reserve", s->path); /* the length was checked at open */
    s->reserve_path = xstrdup(path);
}

/* The log has grown, or begun anew after a checkpoint. */
static bool is_check_due(const struct store *s)
{
    return s->db.wal_pages < s->reserve_seen_pages ||
           s->db.wal_pages >= s->reserve_seen_pages + DB_CHECK_PAGES;
}

void reserve_keep(struct store *s)
{
    bool has_db;

    if (s->reserve_path == NULL ||
        (s->has_reserve ? !is_check_due(s) : now_ns() < s->reserve_retry_ns))
        return;
    keep_log(s);
    has_db = keep_db(s);
    note(s, make_file(s) && has_db);
    s->reserve_retry_ns = now_ns() + RETRY_NS;
}

uint64_t reserve_wait_ns(const struct store *s)
{
    uint64_t now = now_ns();

    if (s->reserve_path == NULL || s->has_reserve)
        return QUEUE_FOREVER;
    return s->reserve_retry_ns > now ? s->reserve_retry_ns - now : 0;
}

bool reserve_has_room(const struct store *s)
{
    return s->reserve_path == NULL || has_room(s->path, LOG_BYTES);
}

void reserve_leave(struct store *s)
{
    if (s->reserve_path != NULL)
        keep_log(s);
}

bool reserve_is_wanted(int rc, int sys)
{
    int primary = rc & 0xff;

    return primary == SQLITE_FULL || (primary == SQLITE_IOERR && (sys == ENOSPC || sys == EDQUOT));
}

bool reserve_drop(struct store *s)
{
    bool is_dropped = s->reserve_path != NULL && unlink(s->reserve_path) == 0;

    note(s, false);
    s->reserve_retry_ns = now_ns() + RETRY_NS;
    return is_dropped;
}

bool reserve_help(struct store *s, int rc, unsigned *tries)
{
    if (s->reserve_path == NULL || *tries == 2 ||
        !reserve_is_wanted(rc, sqlite3_system_errno(s->db.conn)))
        return false;
    (*tries)++;
    if (*tries == 2 && !reserve_drop(s))
        return false;
    upkeep_checkpoint(s, false);
    return true;
}
