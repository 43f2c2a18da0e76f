/* schema.c - opening the database: whose file it is, the connection's settings, the tables and how
 * they came to be. A file that is not ours is refused before anything in it is changed. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "store/internal.h"

/* Nobody else may have the file open; this only rides out a predecessor that is just closing. */
#define BUSY_TIMEOUT_MS 250

/* What a release has shipped is never changed here, only followed by a next version.
 *
 * boxes: INTEGER PRIMARY KEY is the key of the table's own tree, the cheapest there is.
 * intents: a view and not a table. The row of a box in state `intent` or `deleting` is the
 * write-ahead intent; a second copy could only disagree with it.
 * leases: one row for each public id, so its generation survives the box it was bound to.
 * gone: the newest have the highest id.
 * boxes.meter_ms: the open interval of a box is in its row, so that one write changes both. usage: closed ones, in
 * the order of closed_ms. counters: samples of what boxes use (NULL: not counted), open_* of the open interval, used_* of the
 * closed ones of the binding; usage.cpu_us and so on: of one. boxes.used_*: their sum since the box has its owner; used_currency '*': several. budgets: amount -1 is the default; numbers of 128 bits are in two columns. */
static const struct migration migrations[] = {
    {1, "CREATE TABLE meta("
        " key TEXT PRIMARY KEY CHECK(key <> ''),"
        " value TEXT NOT NULL"
        ") STRICT, WITHOUT ROWID;"
        "CREATE TABLE boxes("
        " id INTEGER PRIMARY KEY,"
        " state TEXT NOT NULL CHECK(state IN"
        "  ('intent', 'starting', 'blank', 'leased', 'parked', 'deleting')),"
        " profile TEXT NOT NULL,"
        " backend TEXT NOT NULL,"
        " spec_hash INTEGER NOT NULL,"
        " sandbox_id TEXT NOT NULL,"
        " user_id TEXT NOT NULL,"
        " thread_id TEXT NOT NULL,"
        " principal INTEGER NOT NULL,"
        " generation INTEGER NOT NULL,"
        " url TEXT NOT NULL,"
        " token TEXT NOT NULL,"
        " ref TEXT NOT NULL,"
        " meta TEXT NOT NULL,"
        " created_ms INTEGER NOT NULL,"
        " ready_ms INTEGER NOT NULL,"
        " leased_ms INTEGER NOT NULL,"
        " parked_ms INTEGER NOT NULL,"
        " active_ms INTEGER NOT NULL,"
        " expires_ms INTEGER NOT NULL,"
        " idle_limit_ms INTEGER NOT NULL,"
        " end TEXT NOT NULL"
        ") STRICT;"
        "CREATE VIEW intents AS SELECT id, state, profile, backend, sandbox_id, generation, ref,"
        " created_ms, end FROM boxes WHERE state IN ('intent', 'deleting');"
        "CREATE TABLE leases("
        " sandbox_id TEXT PRIMARY KEY CHECK(sandbox_id <> ''),"
        " generation INTEGER NOT NULL,"
        " box_id INTEGER NOT NULL,"
        " user_id TEXT NOT NULL,"
        " thread_id TEXT NOT NULL,"
        " principal INTEGER NOT NULL,"
        " profile TEXT NOT NULL,"
        " created_ms INTEGER NOT NULL,"
        " ended_ms INTEGER NOT NULL,"
        " end TEXT NOT NULL"
        ") STRICT, WITHOUT ROWID;"
        "CREATE INDEX leases_ended ON leases(ended_ms) WHERE ended_ms > 0;"
        "CREATE TABLE events("
        " id INTEGER PRIMARY KEY,"
        " at_ms INTEGER NOT NULL,"
        " kind TEXT NOT NULL,"
        " body TEXT NOT NULL"
        ") STRICT;"},
    {2, "ALTER TABLE boxes ADD COLUMN made_with INTEGER NOT NULL DEFAULT 0;"},
    {3, "ALTER TABLE boxes ADD COLUMN is_stale INTEGER NOT NULL DEFAULT 0;"},
    {4, "ALTER TABLE boxes ADD COLUMN life TEXT NOT NULL DEFAULT '';"},
    {5, "ALTER TABLE boxes ADD COLUMN stamp INTEGER NOT NULL DEFAULT 0;"},
    {6, "CREATE TABLE gone("
        " id INTEGER PRIMARY KEY,"
        " backend TEXT NOT NULL,"
        " ref TEXT NOT NULL,"
        " life TEXT NOT NULL,"
        " gone_ms INTEGER NOT NULL"
        ") STRICT;"},
    {7, "ALTER TABLE boxes ADD COLUMN is_paused INTEGER NOT NULL DEFAULT 0;"},
    /* Of older events nobody knows whose they are (-1); the newest are found by their box all the same. */
    {8, "ALTER TABLE events ADD COLUMN principal INTEGER NOT NULL DEFAULT -1;"
        "ALTER TABLE events ADD COLUMN box_id TEXT NOT NULL DEFAULT '';"
        "ALTER TABLE events ADD COLUMN sandbox_id TEXT NOT NULL DEFAULT '';"
        "UPDATE events SET box_id = coalesce(json_extract(body, '$.box_id'), ''),"
        " sandbox_id = coalesce(json_extract(body, '$.sandbox_id'), '')"
        " WHERE id > (SELECT max(id) FROM events) - 100000 AND json_valid(body);"
        "CREATE INDEX events_box ON events(box_id, id) WHERE box_id <> '';"
        "CREATE INDEX events_id ON events(sandbox_id, id) WHERE sandbox_id <> '';"
        "CREATE INDEX events_principal ON events(principal, id) WHERE principal <> -1;"},
    {9, "ALTER TABLE boxes ADD COLUMN meter_ms INTEGER NOT NULL DEFAULT 0;"
        "ALTER TABLE boxes ADD COLUMN per_hour INTEGER NOT NULL DEFAULT 0;"
        "ALTER TABLE boxes ADD COLUMN per_start INTEGER NOT NULL DEFAULT 0;"
        "ALTER TABLE boxes ADD COLUMN currency TEXT NOT NULL DEFAULT '';"
        "CREATE TABLE usage("
        " id INTEGER PRIMARY KEY,"
        " closed_ms INTEGER NOT NULL,"
        " box_id INTEGER NOT NULL,"
        " sandbox_id TEXT NOT NULL,"
        " generation INTEGER NOT NULL,"
        " user_id TEXT NOT NULL,"
        " thread_id TEXT NOT NULL,"
        " principal INTEGER NOT NULL,"
        " profile TEXT NOT NULL,"
        " state INTEGER NOT NULL,"
        " began_ms INTEGER NOT NULL,"
        " ended_ms INTEGER NOT NULL CHECK(ended_ms >= began_ms),"
        " per_hour INTEGER NOT NULL,"
        " per_start INTEGER NOT NULL,"
        " currency TEXT NOT NULL"
        ") STRICT;"},
    {10, "ALTER TABLE boxes ADD COLUMN used_leased_ms INTEGER NOT NULL DEFAULT 0;"
         "ALTER TABLE boxes ADD COLUMN used_parked_ms INTEGER NOT NULL DEFAULT 0;"
         "ALTER TABLE boxes ADD COLUMN used_paused_ms INTEGER NOT NULL DEFAULT 0;"
         "ALTER TABLE boxes ADD COLUMN used_micros INTEGER NOT NULL DEFAULT 0;"
         "ALTER TABLE boxes ADD COLUMN used_rest INTEGER NOT NULL DEFAULT 0;"
         "ALTER TABLE boxes ADD COLUMN used_currency TEXT NOT NULL DEFAULT '';"},
    {11, "CREATE TABLE budgets("
         " user_id TEXT PRIMARY KEY,"
         " amount INTEGER NOT NULL,"
         " credit INTEGER NOT NULL,"
         " period INTEGER NOT NULL,"
         " since_ms INTEGER NOT NULL,"
         " at_ms INTEGER NOT NULL,"
         " per_hour_high INTEGER NOT NULL,"
         " per_hour_low INTEGER NOT NULL,"
         " spent_high INTEGER NOT NULL,"
         " spent_low INTEGER NOT NULL"
         ") STRICT, WITHOUT ROWID;"},
    /* Rows of nobody (-1) have a share, too. */
    {12, "DROP INDEX events_principal;"
         "CREATE INDEX events_principal ON events(principal);"
         "CREATE INDEX usage_principal ON usage(principal);"},
    /* The sum of how many intervals it is, and of what length; 0: it is one. */
    {13, "ALTER TABLE usage ADD COLUMN folded INTEGER NOT NULL DEFAULT 0;"
         "ALTER TABLE usage ADD COLUMN folded_ms INTEGER NOT NULL DEFAULT 0;"},
    {14, "CREATE TABLE counters("
         " box_id INTEGER PRIMARY KEY,"
         " sandbox_id TEXT NOT NULL,"
         " generation INTEGER NOT NULL,"
         " at_ms INTEGER NOT NULL,"
         " seen_cpu_us INTEGER, seen_memory INTEGER, seen_net_in INTEGER, seen_net_out INTEGER,"
         " seen_disk_read INTEGER, seen_disk_write INTEGER,"
         " open_cpu_us INTEGER, open_memory INTEGER, open_net_in INTEGER, open_net_out INTEGER,"
         " open_disk_read INTEGER, open_disk_write INTEGER,"
         " used_cpu_us INTEGER, used_memory INTEGER, used_net_in INTEGER, used_net_out INTEGER,"
         " used_disk_read INTEGER, used_disk_write INTEGER"
         ") STRICT;"
         "ALTER TABLE usage ADD COLUMN cpu_us INTEGER;"
         "ALTER TABLE usage ADD COLUMN memory INTEGER;"
         "ALTER TABLE usage ADD COLUMN net_in INTEGER;"
         "ALTER TABLE usage ADD COLUMN net_out INTEGER;"
         "ALTER TABLE usage ADD COLUMN disk_read INTEGER;"
         "ALTER TABLE usage ADD COLUMN disk_write INTEGER;"},
    /* Prices of what is used; amounts are counted in parts 2^17 times as small. */
    {15, "ALTER TABLE boxes ADD COLUMN per_use TEXT NOT NULL DEFAULT '';"
         "ALTER TABLE usage ADD COLUMN per_use TEXT NOT NULL DEFAULT '';"
         "UPDATE boxes SET used_rest = used_rest << 17 WHERE used_rest <> 0;"
         "UPDATE budgets SET spent_high = (spent_high << 17) | ((spent_low >> 47) & 131071),"
         " spent_low = spent_low << 17;"},
    {16, "CREATE TABLE tokens("
         " id TEXT PRIMARY KEY,"
         " hash TEXT NOT NULL,"
         " name TEXT NOT NULL,"
         " scopes INTEGER NOT NULL,"
         " principal INTEGER NOT NULL,"
         " user_id TEXT NOT NULL,"
         " profile TEXT NOT NULL,"
         " sandbox_id TEXT NOT NULL,"
         " created_ms INTEGER NOT NULL,"
         " expires_ms INTEGER NOT NULL"
         ") STRICT, WITHOUT ROWID;"},
};

static int open_error(const struct db *db, int rc, const char *path, struct err *err)
{
    int code = SP_IO;

    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        code = err_set(err, SP_LOCKED, "'%.120s' is in use by another process", path);
        break;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        code = err_set(err, SP_IO,
                       "'%.100s' is damaged or not a database: restore a copy, or move it away to "
                       "start empty",
                       path);
        break;
    default: /* an integer of SQLite's, not an enum of ours */
        code = err_set(err, SP_IO, "'%.120s' cannot be opened: %s", path,
                       db->conn != NULL ? sqlite3_errmsg(db->conn) : sqlite3_errstr(rc));
        break;
    }
    if (err != NULL)
        err->sys = rc;
    return code;
}

/* SQLite would make it readable for everybody, and there are tokens in it. The log file gets the
 * mode of the database. */
static int create_file(const char *path, struct err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd >= 0)
        (void) close(fd); /* nothing was written to it */
    else if (errno != EEXIST)
        return err_sys(err, SP_IO, errno, "'%.120s' cannot be created", path);
    return SP_OK;
}

/* Reads only. */
static int check_owner(struct db *db, const char *path, bool can_create, struct err *err)
{
    int64_t application = 0;
    int64_t version = 0;
    int64_t objects = 0;
    int rc = sql_read_i64(db, "SELECT count(*) FROM sqlite_schema", &objects);

    if (rc == SQLITE_OK)
        rc = sql_read_i64(db, "PRAGMA application_id", &application);
    if (rc == SQLITE_OK)
        rc = sql_read_i64(db, "PRAGMA user_version", &version);
    if (rc != SQLITE_OK)
        return open_error(db, rc, path, err);
    if (application != STORE_APPLICATION_ID && (application != 0 || objects != 0))
        return err_set(err, SP_CONFIG,
                       "'%.100s' belongs to another program: use another state directory", path);
    if (version > STORE_SCHEMA_VERSION)
        return err_set(err, SP_CONFIG,
                       "'%.80s' has schema version %lld, this sandpool knows up to %d: run the "
                       "newer sandpool, or restore a copy from before the upgrade",
                       path, (long long) version, STORE_SCHEMA_VERSION);
    if (objects == 0 && !can_create)
        return err_set(err, SP_IO, "'%.120s' has been emptied", path);
    return SP_OK;
}

static int configure(struct db *db, const char *path, struct err *err)
{
    /* EXCLUSIVE is set already: the index of the log then lives in our memory, not in a file. */
    int rc = sql_exec(db, "PRAGMA journal_mode=WAL;"
                          "PRAGMA synchronous=NORMAL;"
                          "PRAGMA wal_autocheckpoint=0;"
                          "PRAGMA journal_size_limit=67108864;"
                          "PRAGMA temp_store=MEMORY;"
                          "PRAGMA cache_size=-4096;"
                          "PRAGMA trusted_schema=OFF");
    sqlite3_stmt *stmt = NULL;
    bool is_wal;

    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(db->conn, "PRAGMA journal_mode", -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    is_wal = rc == SQLITE_ROW && strcmp((const char *) sqlite3_column_text(stmt, 0), "wal") == 0;
    (void) sqlite3_finalize(stmt); /* repeats the error of the step */
    if (rc != SQLITE_ROW)
        return open_error(db, rc, path, err);
    if (!is_wal)
        return err_set(err, SP_IO, "'%.100s': this file system cannot hold a write-ahead log",
                       path);
    db->is_full = false;
    return SP_OK;
}

int schema_migrate(struct db *db, const struct migration *list, size_t count, struct err *err)
{
    char text[80];
    int64_t version = 0;
    int rc = sql_exec(db, "BEGIN IMMEDIATE");

    if (rc == SQLITE_OK)
        rc = sql_read_i64(db, "PRAGMA user_version", &version);
    for (size_t i = 0; i < count && rc == SQLITE_OK; i++) {
        if (list[i].version <= version)
            continue;
        rc = sql_exec(db, list[i].sql);
        if (rc != SQLITE_OK)
            break;
        version = list[i].version;
        sqlite3_snprintf((int) sizeof(text), text,
                         "PRAGMA user_version=%lld; PRAGMA application_id=%d", version,
                         STORE_APPLICATION_ID);
        rc = sql_exec(db, text);
    }
    if (rc == SQLITE_OK)
        rc = sql_exec(db, "COMMIT");
    if (rc == SQLITE_OK)
        return SP_OK;
    (void) err_set(err, SP_IO, "the tables cannot be brought to version %lld: %s",
                   (long long) version, sqlite3_errmsg(db->conn));
    if (err != NULL)
        err->sys = rc;
    sql_undo(db);
    return SP_IO;
}

static int on_commit(void *ctx, sqlite3 *conn, const char *name, int pages)
{
    struct db *db = ctx;

    (void) conn;
    (void) name;
    db->wal_pages = (unsigned) pages;
    return SQLITE_OK;
}

static int open_connection(struct db *db, const char *path, struct err *err)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    int rc = sqlite3_open_v2(path, &db->conn, flags, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_busy_timeout(db->conn, BUSY_TIMEOUT_MS);
    /* A file that is refused must stay as it is. */
    if (rc == SQLITE_OK)
        rc = sqlite3_db_config(db->conn, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    if (rc == SQLITE_OK)
        rc = sql_exec(db, "PRAGMA locking_mode=EXCLUSIVE");
    if (rc != SQLITE_OK)
        return open_error(db, rc, path, err);
    if (sqlite3_db_readonly(db->conn, "main") != 0)
        return err_set(err, SP_IO, "'%.120s' is read-only", path);
    return SP_OK;
}

int schema_open(struct db *db, const char *path, bool can_create, struct err *err)
{
    int r = can_create ? create_file(path, err) : SP_OK;

    *db = (struct db){0};
    if (r == SP_OK)
        r = open_connection(db, path, err);
    if (r == SP_OK)
        r = check_owner(db, path, can_create, err);
    if (r == SP_OK)
        r = configure(db, path, err);
    if (r == SP_OK) {
        (void) sqlite3_wal_hook(db->conn, on_commit, db); /* returns the hook it replaces */
        r = schema_migrate(db, migrations, ARRAY_LEN(migrations), err);
        if (r == SP_OK)
            r = sql_prepare(db, err);
        if (r != SP_OK)
            (void) err_wrap(err, "'%.100s'", path);
    }
    if (r != SP_OK)
        schema_close(db);
    return r;
}

void schema_close(struct db *db)
{
    sql_finalize(db);
    (void) sqlite3_close_v2(db->conn); /* no statement is left, so it cannot be busy */
    db->conn = NULL;
}
