/* upkeep.c - what keeps the file from growing: old events and ended leases are removed in chunks,
 * and the log is moved into the database. All of it between batches, best while nobody waits. */
#include <inttypes.h>
#include <stdio.h>

#include "base/str.h"
#include "store/internal.h"

/* A checkpoint syncs and can take tens of ms, so it waits for a pause, unless the log grows. */
#define CKPT_IDLE_PAGES 1000  /* after IDLE_NS without a write */
#define CKPT_SOFT_PAGES 4000  /* as soon as nothing is queued */
#define CKPT_HARD_PAGES 16000 /* at once */
#define IDLE_NS (20 * NS_PER_MS)

/* Removing costs a transaction, so it is done for many rows at once: a table may exceed its bound
 * by one chunk, and by a few while writes are waiting. */
#define CHUNK_PART 16
#define CHUNK_MAX 1024
#define CHUNKS_IN_A_RUSH 4

/* Ended leases up to which they are removed by principal. That sorts all of them: 50 ms for so many, each time that a
 * thousand have come. Of more the oldest go. */
#define SHARED_MAX 32768

static uint64_t chunk_of(uint64_t bound)
{
    return MIN_OF(MAX_OF(bound / CHUNK_PART, 1), CHUNK_MAX);
}

int upkeep_set_full(struct db *db, bool is_full)
{
    int rc;

    if (db->is_full == is_full)
        return SQLITE_OK;
    rc = sql_exec(db, is_full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
    if (rc == SQLITE_OK)
        db->is_full = is_full;
    return rc;
}

/* The generations of removed leases must never be given out again: the highest is kept. */
static int raise_floor(struct db *db, uint64_t generation)
{
    char text[24];
    int64_t floor = 0;
    int rc = sql_read_i64(
        db, "SELECT CAST(value AS INTEGER) FROM meta WHERE key = '" STORE_META_FLOOR "'", &floor);

    if (rc != SQLITE_OK || generation <= (uint64_t) floor)
        return rc;
    (void) snprintf(text, sizeof(text), "%" PRIu64, generation); /* fits: 20 digits */
    sql_bind_str(db, SQL_PUT_META, 1, STORE_META_FLOOR);
    sql_bind_str(db, SQL_PUT_META, 2, text);
    return sql_run(db, SQL_PUT_META);
}

/* A principal that ends many boxes shall not have those of others forgotten. */
static int prune_past(struct db *db, uint64_t keep)
{
    bool is_shared = keep <= SHARED_MAX;
    enum sql_stmt highest = is_shared ? SQL_MAX_SHARED : SQL_MAX_PAST;
    enum sql_stmt remove = is_shared ? SQL_PRUNE_SHARED : SQL_PRUNE_PAST;
    uint64_t count = 0;
    uint64_t generation = 0;
    int rc = sql_run_u64(db, SQL_COUNT_PAST, &count);

    if (rc != SQLITE_OK || count <= keep)
        return rc;
    sql_bind_u64(db, highest, 1, count - keep);
    rc = sql_run_u64(db, highest, &generation);
    if (rc == SQLITE_OK)
        rc = raise_floor(db, generation);
    if (rc != SQLITE_OK)
        return rc;
    sql_bind_u64(db, remove, 1, count - keep);
    return sql_run(db, remove);
}

/* What is to be pruned. */
struct due {
    bool events;
    bool past;
    bool usage;
};

static int prune_events(struct store *s)
{
    struct shares *h = &s->shares[SHARES_EVENTS];
    int rc = shares_count(h, &s->db, s->config.events_max);

    return rc == SQLITE_OK ? shares_prune(h, &s->db, s->config.events_max, UINT64_MAX) : rc;
}

static int prune_once(struct store *s, const struct due *due, struct err *err)
{
    int rc = sql_run(&s->db, SQL_BEGIN);

    if (rc == SQLITE_OK && due->events)
        rc = prune_events(s);
    if (rc == SQLITE_OK && due->past)
        rc = prune_past(&s->db, s->config.past_max);
    if (rc == SQLITE_OK && due->usage)
        rc = meter_prune(s);
    if (rc == SQLITE_OK && due->usage)
        rc = budget_prune(s);
    if (rc == SQLITE_OK)
        rc = sql_run(&s->db, SQL_COMMIT);
    if (rc == SQLITE_OK) {
        budget_committed(&s->budgets);
    } else {
        budget_undo(&s->budgets, 0);
        shares_forget(&s->shares[SHARES_EVENTS]);
        shares_forget(&s->shares[SHARES_USAGE]);
        (void) sql_error(&s->db, rc, s->path, err);
        sql_undo(&s->db);
    }
    return rc;
}

static int prune(struct store *s, const struct due *due, struct err *err)
{
    unsigned tries = 0;
    int rc;

    do {
        rc = prune_once(s, due, err);
    } while (rc != SQLITE_OK && reserve_help(s, rc, &tries));
    if (rc != SQLITE_OK)
        return SP_STORE_UNAVAILABLE;
    if (due->events)
        s->events_added = 0;
    if (due->past)
        s->leases_ended = 0;
    if (due->usage)
        s->db.metered = 0;
    return SP_OK;
}

/* Older versions left the row of an undone lease open while its box went on under another name. Ended
 * here, its generation is remembered and the row can be pruned. */
static int end_left_open(struct store *s, struct err *err)
{
    int rc;

    sql_bind_u64(&s->db, SQL_END_LEFT_OPEN, 1, MAX_OF(rt_wall_ms(s->config.rt), 1));
    rc = sql_run(&s->db, SQL_END_LEFT_OPEN);
    if (rc == SQLITE_OK)
        return SP_OK;
    (void) sql_error(&s->db, rc, s->path, err);
    return SP_STORE_UNAVAILABLE;
}

int upkeep_at_open(struct store *s, struct err *err)
{
    const struct due all = {.events = true, .past = true, .usage = true};
    int r = end_left_open(s, err);
    int rc = r == SP_OK ? meter_at_open(s) : SQLITE_OK;

    if (rc != SQLITE_OK)
        return sql_error(&s->db, rc, s->path, err);
    return r == SP_OK ? prune(s, &all, err) : r;
}

void upkeep_checkpoint(struct store *s, bool want_truncate)
{
    const int mode = want_truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE;
    struct db *db = &s->db;
    int log_pages = 0;
    int moved = 0;
    int rc;

    reserve_hold(s);
    rc = sqlite3_wal_checkpoint_v2(db->conn, "main", mode, &log_pages, &moved);
    if (rc == SQLITE_OK && log_pages == moved) {
        /* The next commit starts the log anew. */
        db->wal_pages = 0;
        db->ckpt_pages = 0;
    } else {
        /* Nothing is lost, it is all in the log. Not again before that has grown. */
        db->ckpt_pages = db->wal_pages;
    }
    atomic_store_explicit(&s->wal_pages, db->wal_pages, memory_order_relaxed);
}

static bool is_checkpoint_due(const struct store *s, unsigned pages)
{
    return s->db.wal_pages >= s->db.ckpt_pages + pages;
}

uint64_t upkeep_wait_ns(const struct store *s)
{
    return is_checkpoint_due(s, CKPT_IDLE_PAGES) ? IDLE_NS : reserve_wait_ns(s);
}

int upkeep_run(struct store *s, bool is_idle, struct err *err)
{
    bool is_free = queue_is_idle(&s->queue);
    uint64_t patience = is_free ? 1 : CHUNKS_IN_A_RUSH;
    const struct due due = {
        .events = s->events_added >= patience * chunk_of(s->config.events_max),
        .past = s->leases_ended >= patience * chunk_of(s->config.past_max),
        .usage = s->db.metered >= patience * chunk_of(s->config.usage_max),
    };

    if (due.events || due.past || due.usage) {
        int r = prune(s, &due, err);

        if (r != SP_OK)
            return r;
    }
    if (is_checkpoint_due(s, CKPT_HARD_PAGES) ||
        (is_free && is_checkpoint_due(s, CKPT_SOFT_PAGES)) ||
        (is_idle && is_checkpoint_due(s, CKPT_IDLE_PAGES)))
        upkeep_checkpoint(s, false);
    reserve_keep(s);
    return SP_OK;
}
