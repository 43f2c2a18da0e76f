/* fold.c - metered intervals of one principal, made fewer without a loss: several become one row with their sum, when there are
 * too many rows. So nobody loses what it used by using it in many small pieces. What is lost is detail: first the single
 * intervals of an hour, then those of a day, then which box it was, then which user.
 *
 * The row that stays is the newest of those it stands for: rows are still in the order of closed_ms, and the last one stays. */
#include "store/internal.h"

enum {
    WINDOW = 4096, /* rows at once */
    ENOUGH = 512,  /* fewer rows: the rest comes with the next window, without more detail lost */
    LEVELS = 5
};

#define HOUR_MS 3600000ULL
#define DAY_MS (24 * HOUR_MS)

/* By the level: of which piece of time intervals become one. With the level the statements leave more of an interval
 * out of what must be equal. */
static const uint64_t pieces[LEVELS] = {HOUR_MS, DAY_MS, DAY_MS, DAY_MS, INT64_MAX};

static void bind(struct db *db, enum sql_stmt which, uint64_t principal, uint64_t level)
{
    sql_bind_u64(db, which, 1, principal);
    sql_bind_u64(db, which, 2, WINDOW);
    sql_bind_u64(db, which, 3, level);
    sql_bind_u64(db, which, 4, pieces[level]);
}

/* Sums that are being added up must know where rows have moved. */
static int note(struct db *db, uint64_t principal)
{
    const enum sql_stmt which = SQL_FOLD_RANGE;
    sqlite3_stmt *q = db->stmts[which];
    struct fold *f = &db->folds[db->fold_count % FOLDS];
    int rc;

    sql_bind_u64(db, which, 1, principal);
    sql_bind_u64(db, which, 2, WINDOW);
    rc = sqlite3_step(q);
    if (rc == SQLITE_ROW) {
        f->first = sqlite3_column_int64(q, 0);
        f->last = sqlite3_column_int64(q, 1);
        db->fold_count++;
        rc = SQLITE_OK;
    }
    (void) sqlite3_reset(q); /* repeats the error of the step */
    return rc;
}

int fold_usage(struct db *db, uint64_t principal, uint64_t want, uint64_t *ret)
{
    int rc = note(db, principal);

    *ret = 0;
    for (uint64_t level = 0; rc == SQLITE_OK && level < LEVELS && *ret < MIN_OF(want, ENOUGH);
         level++) {
        bind(db, SQL_FOLD_SUM, principal, level);
        rc = sql_run(db, SQL_FOLD_SUM);
        if (rc != SQLITE_OK || sqlite3_changes(db->conn) == 0)
            continue;
        bind(db, SQL_FOLD_REMOVE, principal, level);
        rc = sql_run(db, SQL_FOLD_REMOVE);
        *ret += rc == SQLITE_OK ? (uint64_t) sqlite3_changes(db->conn) : 0;
    }
    return rc;
}

/* A step has looked at the rows up to `place`, and at boxes when the newest row was `mark`: rows before it whose sum is now
 * behind it would be counted twice, and so would a part of a sum that is younger than the mark. */
bool fold_concerns(const struct db *db, uint64_t since, int64_t place, uint64_t mark)
{
    if (db->fold_count - since > FOLDS)
        return true;
    for (uint64_t i = since; i < db->fold_count; i++) {
        const struct fold *f = &db->folds[i % FOLDS];

        if ((place >= f->first && place < f->last) || (uint64_t) f->last > mark)
            return true;
    }
    return false;
}
