/* backup.c - a copy of the database while it is in use, by SQLite's own means:
 * a few pages at a time between batches, so that no commit waits longer than
 * for those. What is written meanwhile is in the copy, too. The copy is a file
 * beside the database that only its descriptor leads to in the end. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "store/internal.h"

enum { STEP_PAGES = 64 };

bool backup_is_active(const struct store *s)
{
    return s->backup.write != NULL;
}

static void give_back(struct store *s, struct store_write *w)
{
    struct list done;

    list_init(&done);
    list_push_back(&done, &w->queue_link);
    queue_give(&s->queue, &done);
}

static void close_copy(struct store *s)
{
    if (s->backup.copy != NULL)
        (void) sqlite3_backup_finish(s->backup.copy); /* repeats the error of the last step */
    s->backup.copy = NULL;
    (void) sqlite3_close_v2(s->backup.conn); /* nothing is left open in it */
    s->backup.conn = NULL;
}

void backup_fail(struct store *s, const char *why)
{
    struct store_write *w = s->backup.write;

    if (w == NULL)
        return;
    close_copy(s);
    (void) unlink(w->u.backup->path); /* may never have been made */
    s->backup.write = NULL;
    w->outcome = err_set(&w->failure, SP_STORE_UNAVAILABLE, "the copy failed: %.180s", why);
    give_back(s, w);
}

/* Its name goes, its descriptor stays. */
static void succeed(struct store *s)
{
    struct store_write *w = s->backup.write;
    struct store_backup *b = w->u.backup;
    struct stat st;

    close_copy(s);
    b->fd = open(b->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (b->fd < 0 || fstat(b->fd, &st) != 0) {
        backup_fail(s, "it cannot be opened");
        return;
    }
    if (!b->is_for_check)
        (void) unlink(b->path); /* one that stays is replaced by the next */
    b->bytes = (uint64_t) st.st_size;
    s->backup.write = NULL;
    w->outcome = SP_OK;
    give_back(s, w);
}

/* The copy must not be what fills the disk: as much again stays free. */
static bool has_room(const struct store *s)
{
    struct statvfs fs;
    struct stat st;

    return stat(s->path, &st) == 0 && statvfs(s->path, &fs) == 0 &&
           (unsigned long long) fs.f_bavail * fs.f_frsize >= 2ULL * (unsigned long long) st.st_size;
}

static int make_file(const char *path)
{
    int fd;

    (void) unlink(path); /* of a daemon that was killed */
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    return close(fd);
}

static int open_copy(struct store *s, const char *path)
{
    int rc =
        sqlite3_open_v2(path, &s->backup.conn, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);

    /* A crash leaves no copy anyway. */
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(s->backup.conn, "PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF", NULL,
                          NULL, NULL);
    if (rc != SQLITE_OK)
        return rc;
    s->backup.copy = sqlite3_backup_init(s->backup.conn, "main", s->db.conn, "main");
    return s->backup.copy != NULL ? SQLITE_OK : SQLITE_ERROR;
}

void backup_begin(struct store *s, struct store_write *w)
{
    if (backup_is_active(s) && s->backup.write->u.backup->is_for_check)
        backup_fail(s, "somebody asked for a copy of the database meanwhile");
    if (backup_is_active(s)) {
        w->outcome = err_set(&w->failure, SP_STORE_UNAVAILABLE,
                             "another copy is being made: try again when it has ended");
        give_back(s, w);
        return;
    }
    s->backup.write = w;
    w->u.backup->fd = -1;
    if (!has_room(s))
        backup_fail(s, "it needs twice the size of the database as free space in "
                       "the state directory");
    else if (make_file(w->u.backup->path) != 0)
        backup_fail(s, "no file can be made for it beside the database");
    else if (open_copy(s, w->u.backup->path) != SQLITE_OK)
        backup_fail(s, sqlite3_errmsg(s->backup.conn));
}

void backup_step(struct store *s)
{
    int rc;

    if (!backup_is_active(s))
        return;
    rc = sqlite3_backup_step(s->backup.copy, STEP_PAGES);
    if (rc == SQLITE_DONE)
        succeed(s);
    else if (rc != SQLITE_OK)
        backup_fail(s, sqlite3_errstr(rc));
}
