/* sql.c - every statement the writer runs, prepared once and found by its enumerator. 64-bit ids
 * are stored as the signed number with the same bits, because SQLite has no unsigned ones. */
#include <string.h>

#include "store/internal.h"

#define BOX_USED \
    "used_leased_ms, used_parked_ms, used_paused_ms, used_micros, used_rest, used_currency"
#define BOX_COLUMNS                                                                       \
    "id, state, profile, backend, spec_hash, sandbox_id, user_id, thread_id, principal, " \
    "generation, url, token, ref, meta, created_ms, ready_ms, leased_ms, parked_ms, "     \
    "active_ms, expires_ms, idle_limit_ms, end, made_with, is_stale, life, stamp, "       \
    "is_paused, meter_ms, per_hour, per_start, currency, " BOX_USED ", per_use"
#define BOX_VALUES                                                                                    \
    "?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21,?22,?23,?24,?25,?26," \
    "?27,?28,?29,?30,?31,?32,?33,?34,?35,?36,?37,?38"

/* As meter.c and usage.c read them. */
#define INTERVAL_OF_BOX                                                                  \
    "id, sandbox_id, generation, user_id, thread_id, principal, profile, "               \
    "CASE WHEN is_paused <> 0 THEN 2 ELSE state = 'parked' END, meter_ms, 0, per_hour, " \
    "per_start, currency, per_use"
#define INTERVAL                                                                      \
    "box_id, sandbox_id, generation, user_id, thread_id, principal, profile, state, " \
    "began_ms, ended_ms, per_hour, per_start, currency, per_use"

/* As counters.c reads and writes them. */
#define COUNTS(prefix)                                                              \
    prefix "cpu_us, " prefix "memory, " prefix "net_in, " prefix "net_out, " prefix \
           "disk_read, " prefix "disk_write"
#define COUNTERS \
    "sandbox_id, generation, at_ms, " COUNTS("seen_") ", " COUNTS("open_") ", " COUNTS("used_")

#define BUDGET                                                                        \
    "user_id, amount, credit, period, since_ms, at_ms, per_hour_high, per_hour_low, " \
    "spent_high, spent_low"

#define TOKEN_COLUMNS \
    "id, hash, name, scopes, principal, user_id, profile, sandbox_id, created_ms, expires_ms"

#define EVENT_COLUMNS "id, at_ms, kind, body, principal"
#define EVENT_PAGE "WHERE id > ?1 AND id < ?2 ORDER BY id LIMIT ?3"
/* The index has only those that name one. */
#define EVENT_PAGE_OF(column) \
    "WHERE " column " = ?4 AND " column " <> '' AND id > ?1 AND id < ?2 ORDER BY id LIMIT ?3"

/* Ended leases, ?1 of them: the oldest, */
#define OLDEST(column) \
    "SELECT " column " FROM leases WHERE ended_ms > 0 ORDER BY ended_ms, sandbox_id LIMIT ?1"
/* or the oldest of the principals that have the most, as the pool forgets them. */
#define SHARED(column)                                                           \
    "SELECT " column " FROM (SELECT " column ", ended_ms, row_number() OVER "    \
    "(PARTITION BY principal ORDER BY ended_ms DESC, sandbox_id DESC) AS place " \
    "FROM leases WHERE ended_ms > 0) ORDER BY place DESC, ended_ms LIMIT ?1"

/* Rows by principal: all, by an index, or those after ?1; and the oldest ?2 of one. The last row of a table stays: no number
 * comes twice. */
#define COUNT_ALL(table)                                                        \
    "SELECT principal, count(*) FROM " table " INDEXED BY " table "_principal " \
    "GROUP BY principal"
#define COUNT_NEW(table) \
    "SELECT principal, count(*) FROM " table " WHERE id > ?1 GROUP BY +principal"
#define PRUNE_OWN(table)                                                                          \
    "DELETE FROM " table " WHERE id IN (SELECT id FROM " table " INDEXED BY " table "_principal " \
    "WHERE principal = ?1 ORDER BY id LIMIT ?2) AND id < (SELECT max(id) FROM " table ")"

/* The oldest rows of a principal, and what of them must be equal for one sum, by the level ?3: the box up to 1, the user up to
 * 2, the pieces of time (?4) in which it began and ended. Up to 1 nothing becomes one that is in two pieces. */
#define FOLD_WINDOW                                                                     \
    "SELECT *, CASE WHEN ?3 < 2 THEN box_id ELSE 0 END AS of_box, "                     \
    "CASE WHEN ?3 < 2 THEN sandbox_id ELSE '' END AS of_id, "                           \
    "CASE WHEN ?3 < 2 THEN generation ELSE 0 END AS of_generation, "                    \
    "CASE WHEN ?3 < 2 THEN thread_id ELSE '' END AS of_thread, "                        \
    "CASE WHEN ?3 < 3 THEN user_id ELSE '' END AS of_user, "                            \
    "began_ms / ?4 AS piece, ended_ms / ?4 AS last_piece, "                             \
    "CASE WHEN ?3 < 2 AND began_ms / ?4 <> ended_ms / ?4 THEN id ELSE 0 END AS alone, " \
    "CASE folded WHEN 0 THEN ended_ms - began_ms ELSE folded_ms END AS ms "             \
    "FROM usage INDEXED BY usage_principal WHERE principal = ?1 ORDER BY id LIMIT ?2"
#define FOLD_KEYS                                                                             \
    "of_box, of_id, of_generation, of_thread, of_user, profile, state, per_hour, per_start, " \
    "currency, per_use, piece, last_piece, alone"

static const char *const texts[SQL_STMT_COUNT] = {
    [SQL_BEGIN] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_SAVE] = "SAVEPOINT one",
    [SQL_SAVE_UNDO] = "ROLLBACK TO one",
    [SQL_SAVE_END] = "RELEASE one",
    [SQL_PUT_BOX] = "INSERT OR REPLACE INTO boxes(" BOX_COLUMNS ") VALUES(" BOX_VALUES ")",
    /* A lease that is parked, taken up again or renewed is the same binding: its row stays as it
     * is, and the commit has one page less to write. */
    [SQL_PUT_LEASE] = "INSERT INTO leases(sandbox_id, generation, box_id, user_id, "
                      "thread_id, principal, profile, created_ms, ended_ms, end) "
                      "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,0,'') "
                      "ON CONFLICT(sandbox_id) DO UPDATE SET generation = excluded.generation, "
                      "box_id = excluded.box_id, user_id = excluded.user_id, "
                      "thread_id = excluded.thread_id, principal = excluded.principal, "
                      "profile = excluded.profile, created_ms = excluded.created_ms, "
                      "ended_ms = 0, end = '' "
                      "WHERE generation <> excluded.generation OR box_id <> excluded.box_id "
                      "OR principal <> excluded.principal OR ended_ms <> 0",
    [SQL_END_LEASE] = "UPDATE leases SET end = ?3, ended_ms = ?4 "
                      "WHERE sandbox_id = ?1 AND box_id = ?2 AND ended_ms = 0",
    [SQL_FORGET_LEASE] = "UPDATE leases SET ended_ms = ?2, "
                         "end = (SELECT end FROM boxes WHERE id = ?1) "
                         "WHERE sandbox_id = (SELECT sandbox_id FROM boxes WHERE id = ?1) "
                         "AND box_id = ?1 AND ended_ms = 0",
    [SQL_FORGET_BOX] = "DELETE FROM boxes WHERE id = ?1",
    [SQL_PUT_GONE] = "INSERT INTO gone(backend, ref, life, gone_ms) VALUES(?1,?2,?3,?4)",
    [SQL_PRUNE_GONE] = "DELETE FROM gone WHERE id <= (SELECT max(id) FROM gone) - ?1",
    [SQL_PUT_META] = "INSERT OR REPLACE INTO meta(key, value) VALUES(?1, ?2)",
    [SQL_ADD_EVENT] = "INSERT INTO events(" EVENT_COLUMNS ", box_id, sandbox_id) "
                      "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    [SQL_READ_EVENTS] = "SELECT " EVENT_COLUMNS " FROM events " EVENT_PAGE,
    [SQL_READ_BOX_EVENTS] =
        "SELECT " EVENT_COLUMNS " FROM events INDEXED BY events_box " EVENT_PAGE_OF("box_id"),
    [SQL_READ_ID_EVENTS] =
        "SELECT " EVENT_COLUMNS " FROM events INDEXED BY events_id " EVENT_PAGE_OF("sandbox_id"),
    [SQL_READ_OWN_EVENTS] =
        "SELECT " EVENT_COLUMNS " FROM events INDEXED BY events_principal "
        "WHERE principal = ?4 AND principal <> -1 AND id > ?1 AND id < ?2 ORDER BY id LIMIT ?3",
    [SQL_SEEK_EVENT] = "SELECT id, at_ms FROM events WHERE id >= ?1 ORDER BY id LIMIT 1",
    [SQL_COUNT_EVENTS] = COUNT_ALL("events"),
    [SQL_COUNT_NEW_EVENTS] = COUNT_NEW("events"),
    [SQL_PRUNE_EVENTS] = PRUNE_OWN("events"),
    [SQL_COUNT_PAST] = "SELECT count(*) FROM leases WHERE ended_ms > 0",
    [SQL_MAX_PAST] = "SELECT max(generation) FROM (" OLDEST("generation") ")",
    [SQL_PRUNE_PAST] = "DELETE FROM leases WHERE sandbox_id IN (" OLDEST("sandbox_id") ")",
    [SQL_MAX_SHARED] = "SELECT max(generation) FROM (" SHARED("generation") ")",
    [SQL_PRUNE_SHARED] = "DELETE FROM leases WHERE sandbox_id IN (" SHARED("sandbox_id") ")",
    [SQL_END_OTHER] = "UPDATE leases SET ended_ms = ?2, end = '' WHERE sandbox_id = "
                      "(SELECT sandbox_id FROM boxes WHERE id = ?1 AND sandbox_id <> ?3) "
                      "AND box_id = ?1 AND ended_ms = 0",
    [SQL_OPEN_OF_BOX] = "SELECT " INTERVAL_OF_BOX ", " BOX_USED " FROM boxes WHERE id = ?1",
    [SQL_OPEN_OF_PROFILE] =
        "SELECT " INTERVAL_OF_BOX ", " BOX_USED " FROM boxes WHERE profile = ?1 AND "
        "id > ?2 AND meter_ms > 0 ORDER BY id LIMIT 1",
    [SQL_ADD_USAGE] = "INSERT INTO usage(" INTERVAL ", closed_ms, " COUNTS(
        "") ") "
            "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,"
            "?20,?21)",
    [SQL_REPRICE] = "UPDATE boxes SET meter_ms = ?2, per_hour = ?3, per_start = ?4, currency = ?5, "
                    "used_leased_ms = ?6, used_parked_ms = ?7, used_paused_ms = ?8, "
                    "used_micros = ?9, used_rest = ?10, used_currency = ?11, "
                    "per_use = ?12 WHERE id = ?1",
    /* What was sampled of the binding that the box has. */
    [SQL_READ_OPEN] = "SELECT " INTERVAL_OF_BOX ", coalesce(at_ms, 0), " COUNTS(
        "open_") " FROM boxes AS b "
                 "LEFT JOIN (SELECT box_id, sandbox_id AS of_id, generation AS of_generation, at_ms, " COUNTS(
                     "open_") " FROM counters) AS c ON c.box_id = b.id AND c.of_id = b.sandbox_id "
                              "AND c.of_generation = b.generation WHERE b.id > ?1 ORDER BY b.id LIMIT ?2",
    [SQL_READ_USAGE] =
        "SELECT " INTERVAL ", id, folded, folded_ms, " COUNTS("") " FROM usage WHERE id > ?1 "
                                                                  "ORDER BY id LIMIT ?2",
    [SQL_BINDING_OF] = "SELECT sandbox_id, generation, meter_ms, user_id, currency, per_use "
                       "FROM boxes WHERE id = ?1",
    [SQL_COUNTS_OF] = "SELECT " COUNTERS " FROM counters WHERE box_id = ?1",
    [SQL_PUT_COUNTS] = "INSERT OR REPLACE INTO counters(box_id, " COUNTERS ") VALUES(?1,?2,?3,?4,"
                       "?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21,?22)",
    [SQL_DROP_COUNTS] = "DELETE FROM counters WHERE box_id = ?1",
    [SQL_SEEK_USAGE] = "SELECT id, closed_ms FROM usage WHERE id >= ?1 ORDER BY id LIMIT 1",
    [SQL_PRUNE_USAGE] = "DELETE FROM usage WHERE id <= ?1 RETURNING principal",
    [SQL_COUNT_USAGE] = COUNT_ALL("usage"),
    [SQL_COUNT_NEW_USAGE] = COUNT_NEW("usage"),
    [SQL_PRUNE_OWN_USAGE] = PRUNE_OWN("usage"),
    [SQL_FOLD_RANGE] =
        "SELECT coalesce(min(id), 0), coalesce(max(id), 0) FROM (SELECT id FROM "
        "usage INDEXED BY usage_principal WHERE principal = ?1 ORDER BY id LIMIT ?2)",
    [SQL_FOLD_SUM] =
        "UPDATE usage SET box_id = of_box, sandbox_id = of_id, generation = of_generation, "
        "thread_id = of_thread, user_id = of_user, began_ms = first_ms, ended_ms = last_ms, "
        "folded = number, folded_ms = sum_ms, cpu_us = sum_cpu_us, memory = sum_memory, "
        "net_in = sum_net_in, net_out = sum_net_out, disk_read = sum_disk_read, "
        "disk_write = sum_disk_write "
        "FROM (SELECT max(id) AS kept, " FOLD_KEYS ", min(began_ms) AS first_ms, "
        "max(ended_ms) AS last_ms, sum(max(folded, 1)) AS number, sum(ms) AS sum_ms, "
        "sum(cpu_us) AS sum_cpu_us, sum(memory) AS sum_memory, sum(net_in) AS sum_net_in, "
        "sum(net_out) AS sum_net_out, sum(disk_read) AS sum_disk_read, "
        "sum(disk_write) AS sum_disk_write "
        "FROM (" FOLD_WINDOW ") GROUP BY " FOLD_KEYS " HAVING count(*) > 1) AS one "
        "WHERE usage.id = one.kept",
    [SQL_FOLD_REMOVE] =
        "DELETE FROM usage WHERE id IN (SELECT id FROM (SELECT id, max(id) OVER "
        "(PARTITION BY " FOLD_KEYS ") AS kept FROM (" FOLD_WINDOW ")) WHERE id < kept)",
    [SQL_BUDGET_OF] = "SELECT " BUDGET " FROM budgets WHERE user_id = ?1",
    [SQL_PUT_BUDGET] = "INSERT OR REPLACE INTO budgets(" BUDGET ") "
                       "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)",
    [SQL_LIST_BUDGETS] =
        "SELECT " BUDGET " FROM budgets WHERE user_id > ?1 ORDER BY user_id LIMIT ?2",
    [SQL_OPEN_PRICES] = "SELECT user_id, per_hour FROM boxes WHERE meter_ms > 0 AND currency = ?1",
    /* Who invents names must not have what another one spent forgotten: those of earlier periods go first, then those who
     * spent least. The lower half of the sum has no sign. */
    [SQL_PRUNE_BUDGETS] =
        "DELETE FROM budgets WHERE user_id IN (SELECT user_id FROM budgets WHERE amount < 0 AND "
        "credit = 0 AND per_hour_high = 0 AND per_hour_low = 0 "
        "ORDER BY period, spent_high, spent_low < 0, spent_low, at_ms LIMIT ?1) "
        "RETURNING user_id",
    [SQL_PUT_TOKEN] = "INSERT OR REPLACE INTO tokens(" TOKEN_COLUMNS ") "
                      "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)",
    [SQL_DROP_TOKEN] = "DELETE FROM tokens WHERE id = ?1",
    [SQL_END_LEFT_OPEN] = "UPDATE leases SET ended_ms = ?1, end = '' WHERE ended_ms = 0 AND "
                          "NOT EXISTS(SELECT 1 FROM boxes WHERE boxes.id = leases.box_id "
                          "AND boxes.sandbox_id = leases.sandbox_id)",
};

int sql_prepare(struct db *db, struct err *err)
{
    for (size_t i = 0; i < SQL_STMT_COUNT; i++) {
        int rc = sqlite3_prepare_v3(db->conn, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                                    &db->stmts[i], NULL);

        if (rc != SQLITE_OK)
            return err_set(err, SP_IO, "the tables are damaged: %s", sqlite3_errmsg(db->conn));
    }
    return SP_OK;
}

void sql_finalize(struct db *db)
{
    for (size_t i = 0; i < SQL_STMT_COUNT; i++) {
        (void) sqlite3_finalize(db->stmts[i]); /* repeats the error of the last run */
        db->stmts[i] = NULL;
    }
}

int sql_run(struct db *db, enum sql_stmt which)
{
    int rc = sqlite3_step(db->stmts[which]);

    (void) sqlite3_reset(db->stmts[which]); /* repeats the error of the step */
    assert(rc != SQLITE_ROW);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int sql_run_u64(struct db *db, enum sql_stmt which, uint64_t *ret)
{
    int rc = sqlite3_step(db->stmts[which]);

    *ret = rc == SQLITE_ROW ? (uint64_t) sqlite3_column_int64(db->stmts[which], 0) : 0;
    (void) sqlite3_reset(db->stmts[which]); /* repeats the error of the step */
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

void sql_undo(struct db *db)
{
    /* A full disk ends the transaction by itself. */
    if (sqlite3_get_autocommit(db->conn) == 0)
        (void) sqlite3_exec(db->conn, "ROLLBACK", NULL, NULL, NULL);
}

void sql_bind_u64(struct db *db, enum sql_stmt which, int index, uint64_t v)
{
    int rc = sqlite3_bind_int64(db->stmts[which], index, (sqlite3_int64) v);

    assert(rc == SQLITE_OK); /* only a wrong index or a running statement */
    (void) rc;
}

void sql_bind_null(struct db *db, enum sql_stmt which, int index)
{
    int rc = sqlite3_bind_null(db->stmts[which], index);

    assert(rc == SQLITE_OK);
    (void) rc;
}

void sql_bind_str(struct db *db, enum sql_stmt which, int index, const char *s)
{
    const char *text = s != NULL ? s : "";
    int rc = sqlite3_bind_text(db->stmts[which], index, text, (int) strlen(text), SQLITE_STATIC);

    assert(rc == SQLITE_OK);
    (void) rc;
}

int sql_exec(struct db *db, const char *text)
{
    return sqlite3_exec(db->conn, text, NULL, NULL, NULL);
}

int sql_read_i64(struct db *db, const char *text, int64_t *ret)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db->conn, text, -1, &stmt, NULL);

    *ret = 0;
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        *ret = sqlite3_column_int64(stmt, 0);
    (void) sqlite3_finalize(stmt); /* repeats the error of the step */
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int sql_error(const struct db *db, int rc, const char *path, struct err *err)
{
    const char *text = sqlite3_errstr(rc);

    if (db->conn != NULL && sqlite3_extended_errcode(db->conn) == rc)
        text = sqlite3_errmsg(db->conn);
    (void) err_set(err, SP_STORE_UNAVAILABLE, "'%.120s' cannot be written: %s", path, text);
    if (err != NULL)
        err->sys = rc;
    return SP_STORE_UNAVAILABLE;
}
