/* reserve.c - space that is the store's when the disk is full. Boxes write to the same file system,
 * and a box that has filled it can only be removed if its row can be written first.
 *
 * The log keeps blocks of its own: while the disk is full, a checkpoint moves it into pages that
 * the database has already, and the next commit starts it anew in blocks that it has already. What
 * else is needed (the database grows by the lines of the audit trail) comes from a file that is
 * removed when a write finds no space, and made again when there is some.
 *
 * The sizes: one batch of 256 writes touches at most 1,000 pages, so 8 MiB of log hold two of them
 * between two checkpoints; 4 MiB of database hold the events of 4,000 boxes that are destroyed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/internal.h"

#define LOG_BYTES (8LL << 20)
#define FILE_BYTES (4LL << 20)
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
static bool has_room(int fd, long long bytes)
{
    struct statvfs fs;

    return fstatvfs(fd, &fs) == 0 &&
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
    if (!has_blocks(fd, LOG_BYTES) && has_room(fd, LOG_BYTES))
        (void) fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, LOG_BYTES);
    (void) close(fd);
}

static bool make_file(const struct store *s)
{
    int fd = open(s->reserve_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool is_made;

    if (fd < 0)
        return false;
    is_made = has_blocks(fd, FILE_BYTES) ||
              (has_room(fd, FILE_BYTES) && posix_fallocate(fd, 0, FILE_BYTES) == 0);
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

void reserve_keep(struct store *s)
{
    if (s->reserve_path == NULL || s->has_reserve || now_ns() < s->reserve_retry_ns)
        return;
    keep_log(s);
    note(s, make_file(s));
    s->reserve_retry_ns = now_ns() + RETRY_NS;
}

uint64_t reserve_wait_ns(const struct store *s)
{
    uint64_t now = now_ns();

    if (s->reserve_path == NULL || s->has_reserve)
        return QUEUE_FOREVER;
    return s->reserve_retry_ns > now ? s->reserve_retry_ns - now : 0;
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
