/* history.c - events read back, on the writer's thread between writes. One step
 * looks at a bounded number of rows, so that no commit waits long for it; who
 * wants more asks again. What an event is about is in its JSON, so that is
 * looked at here and not by SQL: a row that is damaged must not pass for a disk
 * that fails. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/internal.h"

enum { BODY_MAX = 64 * 1024 };

void store_history_fini(struct store_history *h)
{
    for (unsigned i = 0; i < h->count; i++)
        free(h->found[i].body);
    free(h->found);
    h->found = NULL;
    h->count = 0;
}

static bool has(const struct json *body, const char *key, const char *want)
{
    const char *value;

    if (str_is_empty(want))
        return true;
    value = json_str(json_get(body, key));
    return value != NULL && strcmp(value, want) == 0;
}

static bool wants_body(const struct store_history *h)
{
    return !str_is_empty(h->box) || !str_is_empty(h->sandbox_id) || !str_is_empty(h->user) ||
           !str_is_empty(h->thread);
}

bool store_history_fits(const struct store_history *h, const struct store_event *ev)
{
    struct json_doc *doc;
    const struct json *root;
    bool is_one;

    if (ev->at_ms < h->since_ms || ev->at_ms >= h->until_ms ||
        (!str_is_empty(h->kind) && strcmp(h->kind, ev->kind) != 0) ||
        (h->principal != STORE_NOBODY && h->principal != ev->principal))
        return false;
    if (!wants_body(h))
        return true;
    doc = json_parse(ev->body, strlen(ev->body), BODY_MAX, NULL);
    root = json_root(doc);
    is_one = doc != NULL && has(root, "box_id", h->box) && has(root, "sandbox_id", h->sandbox_id) &&
             has(root, "user_id", h->user) && has(root, "thread_id", h->thread);
    (void) json_doc_free(doc);
    return is_one;
}

static const char *text_at(sqlite3_stmt *row, int column)
{
    const unsigned char *text = sqlite3_column_text(row, column);

    return text != NULL ? (const char *) text : "";
}

static void take_row(struct store_history *h, sqlite3_stmt *row)
{
    struct store_found *f = &h->found[h->count];
    struct store_event ev = {.id = (uint64_t) sqlite3_column_int64(row, 0),
                             .at_ms = (uint64_t) sqlite3_column_int64(row, 1),
                             .principal = (uint64_t) sqlite3_column_int64(row, 4)};

    ev.kind = text_at(row, 2);
    ev.body = text_at(row, 3);
    h->last_id = ev.id;
    if (!store_history_fits(h, &ev))
        return;
    f->id = ev.id;
    f->at_ms = ev.at_ms;
    str_copy_cut(f->kind, sizeof(f->kind), ev.kind);
    f->body = xstrdup(ev.body[0] == '{' ? ev.body : "{}");
    h->count++;
}

/* The first row from `id` on: its id, and whether it is from `since_ms` or later. */
static int look_at(struct db *db, enum sql_stmt which, uint64_t id, uint64_t since_ms,
                   uint64_t *ret_id, bool *ret_is_late)
{
    sqlite3_stmt *q = db->stmts[which];
    int rc;

    sql_bind_u64(db, which, 1, id);
    rc = sqlite3_step(q);
    *ret_is_late = true; /* there is none: go further back */
    *ret_id = id;
    if (rc == SQLITE_ROW) {
        *ret_id = (uint64_t) sqlite3_column_int64(q, 0);
        *ret_is_late = (uint64_t) sqlite3_column_int64(q, 1) >= since_ms;
    }
    (void) sqlite3_reset(q); /* repeats the error of the step */
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int history_seek(struct db *db, enum sql_stmt q, uint64_t low, uint64_t high, uint64_t since_ms,
                 uint64_t *ret)
{
    int rc = SQLITE_OK;

    while (rc == SQLITE_OK && low < high) {
        uint64_t middle = low + (high - low) / 2;
        uint64_t id;
        bool is_late;

        rc = look_at(db, q, middle, since_ms, &id, &is_late);
        if (is_late)
            high = middle;
        else
            low = id + 1;
    }
    *ret = low;
    return rc;
}

/* Ids grow with time, so the place is found by halving. A clock that was set
 * back only makes it begin a little early or late. */
static int seek(struct db *db, struct store_history *h)
{
    int64_t first = 0;
    int64_t last = 0;
    uint64_t at = 0;
    int rc = sql_read_i64(db, "SELECT min(id) FROM events", &first);

    if (rc == SQLITE_OK)
        rc = sql_read_i64(db, "SELECT max(id) FROM events", &last);
    if (rc == SQLITE_OK)
        rc = history_seek(db, SQL_SEEK_EVENT, MAX_OF((uint64_t) first, h->after_id + 1),
                          (uint64_t) last + 1, h->since_ms, &at);
    if (rc == SQLITE_OK && at > 0)
        h->after_id = at - 1;
    return rc;
}

/* Those of one box, one id or one caller: an index has them. */
static enum sql_stmt choose(struct db *db, const struct store_history *h)
{
    if (!str_is_empty(h->box)) {
        sql_bind_str(db, SQL_READ_BOX_EVENTS, 4, h->box);
        return SQL_READ_BOX_EVENTS;
    }
    if (!str_is_empty(h->sandbox_id)) {
        sql_bind_str(db, SQL_READ_ID_EVENTS, 4, h->sandbox_id);
        return SQL_READ_ID_EVENTS;
    }
    if (h->principal == STORE_NOBODY)
        return SQL_READ_EVENTS;
    sql_bind_u64(db, SQL_READ_OWN_EVENTS, 4, h->principal);
    return SQL_READ_OWN_EVENTS;
}

int history_read(struct db *db, struct store_history *h)
{
    enum sql_stmt which;
    sqlite3_stmt *q;
    unsigned seen = 0;
    int rc = SQLITE_OK;

    store_history_fini(h); /* of a first try */
    if (h->want_seek)
        rc = seek(db, h);
    if (rc != SQLITE_OK)
        return rc;
    h->want_seek = false;
    h->last_id = h->after_id;
    h->found = xcalloc(h->scan_max, sizeof(h->found[0]));
    which = choose(db, h);
    q = db->stmts[which];
    sql_bind_u64(db, which, 1, h->after_id);
    sql_bind_u64(db, which, 2, MIN_OF(h->before_id, (uint64_t) INT64_MAX));
    sql_bind_u64(db, which, 3, h->scan_max);
    for (rc = sqlite3_step(q); rc == SQLITE_ROW; rc = sqlite3_step(q)) {
        take_row(h, q);
        seen++;
    }
    (void) sqlite3_reset(q); /* repeats the error of the step */
    h->is_end = seen < h->scan_max;
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}
