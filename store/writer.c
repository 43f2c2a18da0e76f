/* writer.c - the thread that owns the connection: take all that is queued, one transaction, hand
 * back. The size of a batch follows the load by itself. A write is handed back as done only after
 * the COMMIT that holds it. */
#include <signal.h>
#include <time.h>

#include "base/fault.h"
#include "store/internal.h"

static uint64_t now_ns(void)
{
    struct timespec ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts); /* cannot fail for this clock */
    return (uint64_t) ts.tv_sec * NS_PER_S + (uint64_t) ts.tv_nsec;
}

static struct store_write *write_of(struct list_node *n)
{
    return container_of(n, struct store_write, queue_link);
}

static void count(atomic_uint_fast64_t *counter, uint64_t by)
{
    (void) atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

/* The write itself is wrong; everything else is the disk's fault, and all writes would fail. */
static bool is_own_fault(int rc)
{
    int primary = rc & 0xff;

    return primary == SQLITE_CONSTRAINT || primary == SQLITE_MISMATCH || primary == SQLITE_TOOBIG;
}

static bool wants_file(const struct store *s, const struct list *batch)
{
    for (struct list_node *n = list_first(batch); s->config.want_stamp && n != NULL;
         n = list_next(batch, n)) {
        if (write_of(n)->want_stamp)
            return true;
    }
    return false;
}

static bool has_lease(const struct list *batch)
{
    for (struct list_node *n = list_first(batch); n != NULL; n = list_next(batch, n)) {
        if (write_of(n)->kind == STORE_PUT_LEASE)
            return true;
    }
    return false;
}

static bool wants_power(const struct list *batch)
{
    for (struct list_node *n = list_first(batch); n != NULL; n = list_next(batch, n)) {
        if (write_of(n)->want_power)
            return true;
    }
    return false;
}

static int begin(struct store *s, bool want_power)
{
    int moved = 0;
    int rc;

    /* SQLite would go on writing to a file that has been removed, and we would promise on it. */
    (void) sqlite3_file_control(s->db.conn, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    if (moved != 0)
        return SQLITE_READONLY_DBMOVED;
    rc = upkeep_set_full(&s->db, want_power);
    return rc == SQLITE_OK ? sql_run(&s->db, SQL_BEGIN) : rc;
}

static int begin_batch(struct store *s, const struct list *batch)
{
    stamp_begin(s, wants_file(s, batch) || (stamp_has_boot(s) && has_lease(batch)));
    return begin(s, wants_power(batch));
}

static int commit(struct store *s, const struct list *batch)
{
    uint64_t started = now_ns();
    uint64_t took;
    int rc = stamp_in_batch(s);

    if (rc != SQLITE_OK)
        return rc;

    FAULT_POINT("store.before_commit");
    rc = sql_run(&s->db, SQL_COMMIT);
    if (rc != SQLITE_OK)
        return rc;
    stamp_after_commit(s, wants_file(s, batch));
    budget_committed(&s->budgets);
    FAULT_POINT("store.after_commit");
    took = now_ns() - started;
    count(&s->commits, 1);
    if (s->db.is_full)
        count(&s->power_commits, 1);
    atomic_store_explicit(&s->wal_pages, s->db.wal_pages, memory_order_relaxed);
    /* The loop resets it now and then; a maximum lost in that moment does not matter. */
    if (took > atomic_load_explicit(&s->commit_ns_max, memory_order_relaxed))
        atomic_store_explicit(&s->commit_ns_max, took, memory_order_relaxed);
    return SQLITE_OK;
}

/* All or nothing; the usual way. */
static int commit_together(struct store *s, struct list *batch)
{
    int rc = begin_batch(s, batch);

    for (struct list_node *n = list_first(batch); n != NULL && rc == SQLITE_OK;
         n = list_next(batch, n)) {
        struct store_write *w = write_of(n);

        w->outcome = SP_OK;
        rc = apply_write(&s->db, w);
    }
    return rc == SQLITE_OK ? commit(s, batch) : rc;
}

/* Each in a savepoint of its own, so that a wrong one fails alone. */
static int commit_apart(struct store *s, struct list *batch)
{
    struct db *db = &s->db;
    int rc = begin_batch(s, batch);

    for (struct list_node *n = list_first(batch); n != NULL && rc == SQLITE_OK;
         n = list_next(batch, n)) {
        struct store_write *w = write_of(n);
        size_t mark = budget_mark(&s->budgets);

        w->outcome = SP_OK; /* the first try ended before it came to this one */
        rc = sql_run(db, SQL_SAVE);
        if (rc != SQLITE_OK)
            break;
        rc = apply_write(db, w);
        if (is_own_fault(rc)) {
            budget_undo(&s->budgets, mark);
            w->outcome = err_set(&w->failure, SP_INTERNAL, "the store refuses the write: %s",
                                 sqlite3_errmsg(db->conn));
            w->failure.sys = rc;
            rc = sql_run(db, SQL_SAVE_UNDO);
        }
        if (rc == SQLITE_OK)
            rc = sql_run(db, SQL_SAVE_END);
    }
    db->is_stamp_missing = true; /* the row that had it may have been undone */
    db->stamped_id = 0;
    return rc == SQLITE_OK ? commit(s, batch) : rc;
}

/* Counts what has been committed, for the statistics and the bounds of the tables. */
static void count_batch(struct store *s, const struct list *batch)
{
    uint64_t failed = 0;

    for (struct list_node *n = list_first(batch); n != NULL; n = list_next(batch, n)) {
        const struct store_write *w = write_of(n);

        if (w->outcome != SP_OK)
            failed++;
        else if (w->kind == STORE_ADD_EVENT)
            s->events_added++;
        else if (w->kind == STORE_DELETING || w->kind == STORE_FORGET)
            s->leases_ended++;
    }
    s->leases_ended += s->db.ended;
    s->db.ended = 0;
    count(&s->failures, failed);
    count(&s->writes, batch->len - failed);
}

/* SQLITE_OK, or the code and what it means; nothing of the batch is left then. */
static int try_batch(struct store *s, struct list *batch, struct err *err)
{
    int rc = commit_together(s, batch);

    if (is_own_fault(rc)) {
        sql_undo(&s->db);
        budget_undo(&s->budgets, 0);
        rc = commit_apart(s, batch);
    }
    if (rc != SQLITE_OK) {
        (void) sql_error(&s->db, rc, s->path, err);
        sql_undo(&s->db);
        budget_undo(&s->budgets, 0);
        s->db.stamped_id = 0;
    }
    return rc;
}

static int commit_batch(struct store *s, struct list *batch, struct err *err)
{
    unsigned tries = 0;
    int rc;

    do {
        rc = try_batch(s, batch, err);
    } while (rc != SQLITE_OK && reserve_help(s, rc, &tries));
    if (rc != SQLITE_OK)
        return SP_STORE_UNAVAILABLE;
    count_batch(s, batch);
    s->retry_ns = s->retry_min_ns; /* a real batch went through: the trouble is over */
    return SP_OK;
}

/* Hands back batch after batch; on failure the rest is left in `work`. */
static int write_all(struct store *s, struct list *work, struct err *err)
{
    while (!list_is_empty(work)) {
        struct list batch;
        int r;

        if (work->len <= s->config.batch_max) {
            list_move(work, &batch);
        } else {
            list_init(&batch);
            while (batch.len < s->config.batch_max)
                list_push_back(&batch, list_pop_front(work));
        }
        r = commit_batch(s, &batch, err);
        if (r != SP_OK) {
            /* In their order: first what was tried, then what waited behind it. */
            while (!list_is_empty(&batch))
                list_push_front(work, list_pop_back(&batch));
            return r;
        }
        queue_give(&s->queue, &batch);
    }
    return SP_OK;
}

/* One row, synced: the failure may have been one of the sync. */
static int write_probe(struct store *s)
{
    struct db *db = &s->db;
    int rc = begin(s, true);

    if (rc == SQLITE_OK) {
        sql_bind_str(db, SQL_PUT_META, 1, STORE_META_PROBE);
        sql_bind_str(db, SQL_PUT_META, 2, "");
        rc = sql_run(db, SQL_PUT_META);
    }
    if (rc == SQLITE_OK)
        rc = sql_run(db, SQL_COMMIT);
    if (rc != SQLITE_OK)
        sql_undo(db);
    return rc;
}

/* The connection at hand is tried first: it knows that the failed transaction does not count. A
 * new one would find the frames of it in the log and take them for committed, if the disk took
 * them and only the sync failed. */
static bool try_again(struct store *s, bool want_reopen)
{
    if (want_reopen) {
        schema_close(&s->db);
        shares_forget(&s->shares[SHARES_EVENTS]);
        shares_forget(&s->shares[SHARES_USAGE]);
        if (schema_open(&s->db, s->path, false, NULL) != SP_OK || meter_at_open(s) != SQLITE_OK)
            return false;
    }
    return write_probe(s) == SQLITE_OK;
}

/* Returns when the store is up again or stops. */
static void recover(struct store *s)
{
    bool want_reopen = false;

    while (queue_pause(&s->queue, s->retry_ns)) {
        s->retry_ns = MIN_OF(2 * s->retry_ns, s->retry_max_ns);
        if (try_again(s, want_reopen)) {
            (void) queue_go_up(&s->queue); /* false: it stops, which the next take reports */
            return;
        }
        want_reopen = true;
    }
}

/* Copies that are asked for are no part of a batch: they take many turns. */
static void begin_backups(struct store *s, struct list *work)
{
    struct list_node *next;

    for (struct list_node *n = list_first(work); n != NULL; n = next) {
        next = list_next(work, n);
        if (write_of(n)->kind != STORE_BACKUP)
            continue;
        list_remove(work, n);
        backup_begin(s, write_of(n));
    }
}

static void *writer_main(void *arg)
{
    struct store *s = arg;

    for (;;) {
        struct list work;
        struct err err;
        uint64_t wait_ns = backup_is_active(s) ? 0 : upkeep_wait_ns(s);
        enum queue_turn turn = queue_take(&s->queue, &work, wait_ns);
        int r;

        if (turn == QUEUE_STOP) {
            backup_fail(s, "the daemon stops");
            return NULL;
        }
        begin_backups(s, &work);
        r = write_all(s, &work, &err);
        if (r == SP_OK)
            r = upkeep_run(s, turn == QUEUE_IDLE, &err);
        if (r != SP_OK) {
            backup_fail(s, err.msg);
            count(&s->failures, work.len);
            queue_go_down(&s->queue, &work, &err);
            recover(s);
        } else {
            backup_step(s);
        }
    }
}

int writer_start(struct store *s, struct err *err)
{
    sigset_t all;
    sigset_t old;
    int rc;

    /* Signals belong to the loop. */
    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &old); /* cannot fail with these arguments */
    rc = pthread_create(&s->thread, NULL, writer_main, s);
    (void) pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        return err_sys(err, SP_INTERNAL, rc, "the store's thread does not start");
    return SP_OK;
}

void writer_join(struct store *s)
{
    int rc;

    queue_stop(&s->queue);
    rc = pthread_join(s->thread, NULL);
    assert(rc == 0);
    (void) rc;
}
