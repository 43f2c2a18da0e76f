/* counters.c - what boxes have used of processors, memory, networks and disks. Samples of counters that only grow come in;
 * what is kept beside them is how much of it the open interval of the box has, and its binding. A sample, what it adds, and
 * the end of an interval are one transaction each: so nothing is added twice, and a crash loses what came after the last
 * sample.
 *
 * A counter that goes back adds nothing until it is where it was: whoever read it may have missed a part. What a box has
 * used before its first sample, or while it had no owner, belongs to nobody. */
#include <string.h>

#include "store/internal.h"
#include "store/usage.h"

#define MB_SHIFT 20

enum { SEEN_COLUMN = 3, OPEN_COLUMN = 9, USED_COLUMN = 15 };

struct counters {
    bool is_there;
    bool is_same;             /* of the binding that is asked for */
    uint64_t at_ms;           /* until when its memory is added up */
    struct store_counts seen; /* of the memory: what it held then */
    struct store_counts open;
    struct store_counts used;
};

struct binding {
    uint64_t box;
    const char *sandbox_id;
    uint64_t generation;
};

/* --- counts --- */

static bool has(const struct store_counts *c, unsigned k)
{
    return (c->known & (1U << k)) != 0;
}

/* Never more than a row takes. */
static void add(struct store_counts *to, unsigned k, unsigned __int128 n)
{
    unsigned __int128 sum = n + (has(to, k) ? to->n[k] : 0);

    to->n[k] = sum > INT64_MAX ? (uint64_t) INT64_MAX : (uint64_t) sum;
    to->known |= 1U << k;
}

void store_counts_add(struct store_counts *to, const struct store_counts *from)
{
    for (unsigned k = 0; k < STORE_COUNTER_COUNT; k++)
        if (has(from, k))
            add(to, k, from->n[k]);
}

void counts_bind(struct db *db, enum sql_stmt which, int first, const struct store_counts *c)
{
    for (unsigned k = 0; k < STORE_COUNTER_COUNT; k++) {
        if (has(c, k))
            sql_bind_u64(db, which, first + (int) k, c->n[k]);
        else
            sql_bind_null(db, which, first + (int) k);
    }
}

void counts_read(sqlite3_stmt *row, int first, struct store_counts *ret)
{
    *ret = (struct store_counts){.known = 0};
    for (unsigned k = 0; k < STORE_COUNTER_COUNT; k++)
        if (sqlite3_column_type(row, first + (int) k) != SQLITE_NULL)
            add(ret, k, (uint64_t) sqlite3_column_int64(row, first + (int) k));
}

/* --- rows --- */

static int read_row(struct db *db, const struct binding *b, struct counters *ret)
{
    sqlite3_stmt *q = db->stmts[SQL_COUNTS_OF];
    const char *id;
    int rc;

    *ret = (struct counters){.is_there = false};
    sql_bind_u64(db, SQL_COUNTS_OF, 1, b->box);
    rc = sqlite3_step(q);
    if (rc == SQLITE_ROW) {
        id = (const char *) sqlite3_column_text(q, 0);
        ret->is_there = true;
        ret->is_same = id != NULL && strcmp(id, b->sandbox_id) == 0 &&
                       (uint64_t) sqlite3_column_int64(q, 1) == b->generation;
        ret->at_ms = (uint64_t) sqlite3_column_int64(q, 2);
        counts_read(q, SEEN_COLUMN, &ret->seen);
        counts_read(q, OPEN_COLUMN, &ret->open);
        counts_read(q, USED_COLUMN, &ret->used);
        rc = SQLITE_DONE;
    }
    (void) sqlite3_reset(q); /* repeats the error of the step */
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int put_row(struct db *db, const struct binding *b, const struct counters *c)
{
    const enum sql_stmt q = SQL_PUT_COUNTS;

    sql_bind_u64(db, q, 1, b->box);
    sql_bind_str(db, q, 2, b->sandbox_id);
    sql_bind_u64(db, q, 3, b->generation);
    sql_bind_u64(db, q, 4, c->at_ms);
    counts_bind(db, q, 5, &c->seen);
    counts_bind(db, q, 5 + STORE_COUNTER_COUNT, &c->open);
    counts_bind(db, q, 5 + 2 * STORE_COUNTER_COUNT, &c->used);
    return sql_run(db, q);
}

/* --- a sample --- */

/* As if it had changed evenly since the last one. */
static unsigned __int128 memory_part(const struct counters *c, uint64_t now, uint64_t at_ms)
{
    uint64_t ms = at_ms > c->at_ms ? at_ms - c->at_ms : 0;

    if (!has(&c->seen, STORE_MEMORY))
        return 0;
    return ((unsigned __int128) c->seen.n[STORE_MEMORY] + now) * ms >> (MB_SHIFT + 1);
}

/* `ret`: what has come, for the owner. */
static void take(struct counters *c, const struct store_counts *now, bool is_metered,
                 uint64_t at_ms, struct store_counts *ret)
{
    *ret = (struct store_counts){.known = 0};
    for (unsigned k = 0; k < STORE_COUNTER_COUNT; k++) {
        uint64_t was = c->seen.n[k];
        unsigned __int128 more = 0;

        if (!has(now, k))
            continue;
        if (k == STORE_MEMORY)
            more = memory_part(c, now->n[k], at_ms);
        else if (has(&c->seen, k) && now->n[k] > was)
            more = now->n[k] - was;
        if (is_metered)
            add(ret, k, more);
        c->seen.n[k] = k == STORE_MEMORY || now->n[k] > was ? now->n[k] : was;
        c->seen.known |= 1U << k;
    }
    store_counts_add(&c->open, ret);
    c->at_ms = MAX_OF(c->at_ms, at_ms);
}

static int sample_bound(struct db *db, const struct store_write *w, const struct binding *b,
                        uint64_t meter_ms, struct store_counts *ret)
{
    struct counters c;
    int rc = read_row(db, b, &c);

    if (rc != SQLITE_OK)
        return rc;
    if (!c.is_same) { /* the first one of this owner */
        c.open = c.used = (struct store_counts){.known = 0};
        c.at_ms = MAX_OF(c.at_ms, meter_ms);
    }
    take(&c, &w->u.sample.now, meter_ms != 0, w->at_ms, ret);
    return put_row(db, b, &c);
}

/* Users pay for it at once: when its interval ends nothing comes to that. */
static int pay(struct db *db, const struct store_write *w, sqlite3_stmt *row,
               const struct store_counts *more)
{
    const char *user = (const char *) sqlite3_column_text(row, 3);
    const char *currency = (const char *) sqlite3_column_text(row, 4);
    uint64_t per_use[STORE_RATE_COUNT];

    price_read(row, 5, per_use);
    return budget_use(db, &w->period, user != NULL ? user : "", currency != NULL ? currency : "",
                      store_usage_of_counts(per_use, more));
}

int counts_sample(struct db *db, const struct store_write *w)
{
    sqlite3_stmt *q = db->stmts[SQL_BINDING_OF];
    struct binding b = {.box = w->u.sample.box};
    struct store_counts more;
    int rc;

    if (!db->want_usage)
        return SQLITE_OK;
    db->has_counters = true;
    sql_bind_u64(db, SQL_BINDING_OF, 1, b.box);
    rc = sqlite3_step(q);
    if (rc == SQLITE_ROW) {
        b.sandbox_id = (const char *) sqlite3_column_text(q, 0);
        b.sandbox_id = b.sandbox_id != NULL ? b.sandbox_id : "";
        b.generation = (uint64_t) sqlite3_column_int64(q, 1);
        rc = sample_bound(db, w, &b, (uint64_t) sqlite3_column_int64(q, 2), &more);
        if (rc == SQLITE_OK)
            rc = pay(db, w, q, &more);
    } else if (rc == SQLITE_DONE) { /* the box is gone */
        rc = SQLITE_OK;
    }
    (void) sqlite3_reset(q); /* only now: the text was in its row. A failed step was reported */
    return rc;
}

/* --- intervals --- */

int counts_close(struct db *db, const struct store_interval *i, struct store_counts *ret)
{
    const struct binding b = {
        .box = i->box, .sandbox_id = i->sandbox_id, .generation = i->generation};
    struct counters c;
    int rc;

    *ret = (struct store_counts){.known = 0};
    if (!db->has_counters)
        return SQLITE_OK;
    rc = read_row(db, &b, &c);
    if (rc != SQLITE_OK || !c.is_there || !c.is_same || c.open.known == 0)
        return rc;
    *ret = c.open;
    store_counts_add(&c.used, &c.open);
    c.open = (struct store_counts){.known = 0};
    return put_row(db, &b, &c);
}

int counts_used(struct db *db, const struct store_box *box, struct store_counts *ret)
{
    const struct binding b = {.box = box->id,
                              .sandbox_id = box->sandbox_id != NULL ? box->sandbox_id : "",
                              .generation = box->generation};
    struct counters c = {.is_same = false};
    int rc = db->has_counters ? read_row(db, &b, &c) : SQLITE_OK;

    *ret = c.is_same ? c.used : (struct store_counts){.known = 0};
    return rc;
}

int counts_forget(struct db *db, uint64_t box)
{
    if (!db->has_counters)
        return SQLITE_OK;
    sql_bind_u64(db, SQL_DROP_COUNTS, 1, box);
    return sql_run(db, SQL_DROP_COUNTS);
}

int counts_at_open(struct db *db)
{
    int64_t rows = 0;
    int rc = SQLITE_OK;

    if (!db->want_usage)
        rc = sql_exec(db, "DELETE FROM counters");
    if (rc == SQLITE_OK)
        rc = sql_read_i64(db, "SELECT EXISTS(SELECT 1 FROM counters)", &rows);
    db->has_counters = rows != 0;
    return rc;
}

/* --- parts of an interval --- */

static uint64_t until(const struct store_interval *i, uint64_t n, uint64_t end_ms, uint64_t at_ms)
{
    if (at_ms <= i->began_ms)
        return 0;
    if (at_ms >= end_ms)
        return n;
    return (uint64_t) ((unsigned __int128) n * (at_ms - i->began_ms) / (end_ms - i->began_ms));
}

void store_usage_counts(const struct store_interval *i, uint64_t since_ms, uint64_t until_ms,
                        struct store_counts *ret)
{
    uint64_t end_ms = i->ended_ms != 0 ? i->ended_ms : i->sampled_ms;

    *ret = (struct store_counts){.known = i->counts.known};
    for (unsigned k = 0; k < STORE_COUNTER_COUNT; k++)
        if (has(&i->counts, k))
            ret->n[k] = until(i, i->counts.n[k], end_ms, until_ms) -
                        until(i, i->counts.n[k], end_ms, since_ms);
}
