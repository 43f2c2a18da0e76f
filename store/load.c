/* load.c - the one read: everything, at boot, before the thread runs. Texts handed to the reader
 * live until its callback returns. */
#include "store/internal.h"

typedef bool (*row_fn)(const struct store_reader *reader, sqlite3_stmt *row);

static const char *text_at(sqlite3_stmt *row, int column)
{
    const unsigned char *text = sqlite3_column_text(row, column);

    return text != NULL ? (const char *) text : "";
}

static uint64_t u64_at(sqlite3_stmt *row, int column)
{
    return (uint64_t) sqlite3_column_int64(row, column);
}

static bool give_meta(const struct store_reader *reader, sqlite3_stmt *row)
{
    return reader->on_meta == NULL ||
           reader->on_meta(reader->ctx, text_at(row, 0), text_at(row, 1));
}

static bool give_box(const struct store_reader *reader, sqlite3_stmt *row)
{
    struct store_used used;
    struct store_box box = {
        .id = u64_at(row, 0),
        .state = text_at(row, 1),
        .profile = text_at(row, 2),
        .backend = text_at(row, 3),
        .spec_hash = u64_at(row, 4),
        .sandbox_id = text_at(row, 5),
        .user = text_at(row, 6),
        .thread = text_at(row, 7),
        .principal = u64_at(row, 8),
        .generation = u64_at(row, 9),
        .url = text_at(row, 10),
        .token = text_at(row, 11),
        .ref = text_at(row, 12),
        .meta = text_at(row, 13),
        .created_ms = u64_at(row, 14),
        .ready_ms = u64_at(row, 15),
        .leased_ms = u64_at(row, 16),
        .parked_ms = u64_at(row, 17),
        .active_ms = u64_at(row, 18),
        .expires_ms = u64_at(row, 19),
        .idle_limit_ms = u64_at(row, 20),
        .end = text_at(row, 21),
        .made_with = u64_at(row, 22),
        .is_stale = u64_at(row, 23) != 0,
        .life = text_at(row, 24),
        .is_paused = u64_at(row, 25) != 0,
        .true_ms = u64_at(row, 26),
        .price = {.per_hour = u64_at(row, 27), .currency = text_at(row, 28)},
        .used = &used,
    };

    meter_read_used(row, 29, &used);
    price_read(row, 35, box.price.per_use);
    return reader->on_box == NULL || reader->on_box(reader->ctx, &box);
}

static bool give_past(const struct store_reader *reader, sqlite3_stmt *row)
{
    const struct store_past past = {
        .sandbox_id = text_at(row, 0),
        .generation = u64_at(row, 1),
        .principal = u64_at(row, 2),
        .end = text_at(row, 3),
        .ended_ms = u64_at(row, 4),
    };

    return reader->on_past == NULL || reader->on_past(reader->ctx, &past);
}

static bool give_gone(const struct store_reader *reader, sqlite3_stmt *row)
{
    const struct store_gone gone = {
        .backend = text_at(row, 0),
        .ref = text_at(row, 1),
        .life = text_at(row, 2),
        .gone_ms = u64_at(row, 3),
    };

    return reader->on_gone == NULL || reader->on_gone(reader->ctx, &gone);
}

static bool give_event(const struct store_reader *reader, sqlite3_stmt *row)
{
    const struct store_event event = {
        .id = u64_at(row, 0),
        .at_ms = u64_at(row, 1),
        .kind = text_at(row, 2),
        .body = text_at(row, 3),
        .principal = u64_at(row, 4),
    };

    return reader->on_event == NULL || reader->on_event(reader->ctx, &event);
}

static bool give_token(const struct store_reader *reader, sqlite3_stmt *row)
{
    const struct store_token token = {
        .id = text_at(row, 0),
        .hash = text_at(row, 1),
        .name = text_at(row, 2),
        .scopes = (unsigned) u64_at(row, 3),
        .principal = u64_at(row, 4),
        .user = text_at(row, 5),
        .profile = text_at(row, 6),
        .sandbox_id = text_at(row, 7),
        .created_ms = u64_at(row, 8),
        .expires_ms = u64_at(row, 9),
    };

    return reader->on_token == NULL || reader->on_token(reader->ctx, &token);
}

struct table_read {
    const char *name;
    const char *sql;
    row_fn give;
    bool has_limit; /* ?1 is reader->events_tail */
};

static const struct table_read reads[] = {
    {"meta",
     "SELECT key, value FROM meta WHERE key NOT IN ('" STORE_META_PROBE "', '" STORE_META_STAMP
     "') ORDER BY key",
     give_meta, false},
    /* The second key puts ids with the highest bit, stored as negative numbers, last. */
    {"boxes",
     "SELECT id, state, profile, backend, spec_hash, sandbox_id, user_id, thread_id, principal, "
     "generation, url, token, ref, meta, created_ms, ready_ms, leased_ms, parked_ms, active_ms, "
     "expires_ms, idle_limit_ms, end, made_with, is_stale, life, is_paused, "
     "meter_ms, per_hour, currency, used_leased_ms, used_parked_ms, used_paused_ms, used_micros, "
     "used_rest, used_currency, per_use FROM boxes "
     "ORDER BY created_ms, id < 0, id",
     give_box, false},
    {"leases",
     "SELECT sandbox_id, generation, principal, end, ended_ms FROM leases WHERE ended_ms > 0 "
     "ORDER BY ended_ms, sandbox_id",
     give_past, false},
    {"gone", "SELECT backend, ref, life, gone_ms FROM gone ORDER BY id", give_gone, false},
    {"events",
     "SELECT id, at_ms, kind, body, principal FROM "
     "(SELECT id, at_ms, kind, body, principal FROM events ORDER BY id DESC LIMIT ?1) ORDER BY id",
     give_event, true},
    {"tokens",
     "SELECT id, hash, name, scopes, principal, user_id, profile, sandbox_id, created_ms, "
     "expires_ms FROM tokens ORDER BY created_ms, id",
     give_token, false},
};

static int read_table(struct store *s, const struct table_read *t,
                      const struct store_reader *reader, struct err *err)
{
    sqlite3_stmt *row = NULL;
    int rc = sqlite3_prepare_v2(s->db.conn, t->sql, -1, &row, NULL);
    int r = SP_OK;

    if (rc == SQLITE_OK && t->has_limit)
        rc = sqlite3_bind_int64(row, 1, reader->events_tail);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(row);
    while (rc == SQLITE_ROW && r == SP_OK) {
        if (t->give(reader, row))
            rc = sqlite3_step(row);
        else
            r = err_set(err, SP_INTERNAL, "a row of table '%s' was not accepted", t->name);
    }
    if (r == SP_OK && rc != SQLITE_DONE) {
        r = err_set(err, SP_IO, "'%.100s': table '%s' cannot be read: %s", s->path, t->name,
                    sqlite3_errmsg(s->db.conn));
        if (err != NULL)
            err->sys = rc;
    }
    (void) sqlite3_finalize(row); /* repeats the error of the step */
    return r;
}

int store_load(struct store *s, const struct store_reader *reader, struct err *err)
{
    assert(!s->is_started);
    for (size_t i = 0; i < ARRAY_LEN(reads); i++) {
        int r = read_table(s, &reads[i], reader, err);

        if (r != SP_OK)
            return r;
    }
    return SP_OK;
}
