/* apply.c - one write of the contract as statements, inside the caller's transaction. Returns
 * SQLite's code; the caller decides whether the write or the disk is to blame. */
#include <string.h>

#include "store/internal.h"

/* An ended lease is one whose time of ending is not 0, whatever the clock says. */
static uint64_t ended_at(const struct store_write *w)
{
    return MAX_OF(w->at_ms, 1);
}

/* A lease that was undone before it was reported to anybody: its box is blank again, or somebody else's.
 * Left open its row would stay for ever. */
static int end_other(struct db *db, const struct store_box *box, uint64_t at_ms)
{
    const enum sql_stmt q = SQL_END_OTHER;
    int rc;

    sql_bind_u64(db, q, 1, box->id);
    sql_bind_u64(db, q, 2, at_ms);
    sql_bind_str(db, q, 3, box->sandbox_id);
    rc = sql_run(db, q);
    if (rc == SQLITE_OK)
        db->ended += (uint64_t) sqlite3_changes(db->conn);
    return rc;
}

static int put_box(struct db *db, const struct store_write *w)
{
    const enum sql_stmt q = SQL_PUT_BOX;
    const struct store_box *box = &w->u.box;
    struct meter_row meter;
    int rc = meter_turn(db, w, &meter);

    if (rc == SQLITE_OK && meter.is_moved)
        rc = end_other(db, box, ended_at(w));
    if (rc != SQLITE_OK)
        return rc;
    sql_bind_u64(db, q, 1, box->id);
    sql_bind_str(db, q, 2, box->state);
    sql_bind_str(db, q, 3, box->profile);
    sql_bind_str(db, q, 4, box->backend);
    sql_bind_u64(db, q, 5, box->spec_hash);
    sql_bind_str(db, q, 6, box->sandbox_id);
    sql_bind_str(db, q, 7, box->user);
    sql_bind_str(db, q, 8, box->thread);
    sql_bind_u64(db, q, 9, box->principal);
    sql_bind_u64(db, q, 10, box->generation);
    sql_bind_str(db, q, 11, box->url);
    sql_bind_str(db, q, 12, box->token);
    sql_bind_str(db, q, 13, box->ref);
    sql_bind_str(db, q, 14, box->meta);
    sql_bind_u64(db, q, 15, box->created_ms);
    sql_bind_u64(db, q, 16, box->ready_ms);
    sql_bind_u64(db, q, 17, box->leased_ms);
    sql_bind_u64(db, q, 18, box->parked_ms);
    sql_bind_u64(db, q, 19, box->active_ms);
    sql_bind_u64(db, q, 20, box->expires_ms);
    sql_bind_u64(db, q, 21, box->idle_limit_ms);
    sql_bind_str(db, q, 22, box->end);
    sql_bind_u64(db, q, 23, box->made_with);
    sql_bind_u64(db, q, 24, box->is_stale ? 1 : 0);
    sql_bind_str(db, q, 25, box->life);
    sql_bind_u64(db, q, 26, db->stamp);
    sql_bind_u64(db, q, 27, box->is_paused ? 1 : 0);
    sql_bind_u64(db, q, 28, meter.since_ms);
    sql_bind_u64(db, q, 29, meter.per_hour);
    sql_bind_u64(db, q, 30, meter.per_start);
    sql_bind_str(db, q, 31, meter.currency);
    meter_bind_used(db, q, 32, &meter.used);
    price_bind(db, q, 38, meter.per_use);
    if (box->used != NULL) {
        *box->used = meter.used;
        rc = counts_used(db, box, &box->used->counts);
        if (rc != SQLITE_OK)
            return rc;
    }
    db->is_stamp_missing = false;
    db->stamped_id = box->id;
    return sql_run(db, q);
}

static int put_lease(struct db *db, const struct store_write *w)
{
    const enum sql_stmt q = SQL_PUT_LEASE;
    const struct store_box *box = &w->u.box;
    int rc = put_box(db, w);

    if (rc != SQLITE_OK)
        return rc;
    sql_bind_str(db, q, 1, box->sandbox_id);
    sql_bind_u64(db, q, 2, box->generation);
    sql_bind_u64(db, q, 3, box->id);
    sql_bind_str(db, q, 4, box->user);
    sql_bind_str(db, q, 5, box->thread);
    sql_bind_u64(db, q, 6, box->principal);
    sql_bind_str(db, q, 7, box->profile);
    sql_bind_u64(db, q, 8, box->leased_ms);
    return sql_run(db, q);
}

/* Its lease was given to nobody: that its owner released it would be wrong. */
static bool is_undone(const struct store_box *box)
{
    return box->leased_ms == 0 && box->end != NULL && strcmp(box->end, "released") == 0;
}

/* The id may have been bound to a newer box meanwhile: that binding is left alone. */
static int put_deleting(struct db *db, const struct store_write *w)
{
    const struct store_box *box = &w->u.box;
    const enum sql_stmt q = SQL_END_LEASE;
    int rc = put_box(db, w);

    if (rc != SQLITE_OK || box->sandbox_id == NULL || box->sandbox_id[0] == '\0')
        return rc;
    sql_bind_str(db, q, 1, box->sandbox_id);
    sql_bind_u64(db, q, 2, box->id);
    sql_bind_str(db, q, 3, is_undone(box) ? "" : box->end);
    sql_bind_u64(db, q, 4, ended_at(w));
    return sql_run(db, q);
}

static int put_gone(struct db *db, const struct store_write *w)
{
    const enum sql_stmt q = SQL_PUT_GONE;
    int rc;

    sql_bind_str(db, q, 1, w->u.box.backend);
    sql_bind_str(db, q, 2, w->u.box.ref);
    sql_bind_str(db, q, 3, w->u.box.life);
    sql_bind_u64(db, q, 4, ended_at(w));
    rc = sql_run(db, q);
    if (rc != SQLITE_OK)
        return rc;
    sql_bind_u64(db, SQL_PRUNE_GONE, 1, STORE_GONE_MAX);
    return sql_run(db, SQL_PRUNE_GONE);
}

/* A lease that still names the box ends with it: left open it would be in no list of the next
 * start, and its generation would be given out again. */
static int forget(struct db *db, const struct store_write *w)
{
    int rc = meter_remove(db, w);

    if (rc != SQLITE_OK)
        return rc;
    sql_bind_u64(db, SQL_FORGET_LEASE, 1, w->u.box.id);
    sql_bind_u64(db, SQL_FORGET_LEASE, 2, ended_at(w));
    rc = sql_run(db, SQL_FORGET_LEASE);
    if (rc != SQLITE_OK)
        return rc;
    if (w->u.box.id == db->stamped_id || db->stamped_id == 0) {
        db->is_stamp_missing = true;
        db->stamped_id = 0;
    }
    sql_bind_u64(db, SQL_FORGET_BOX, 1, w->u.box.id);
    rc = sql_run(db, SQL_FORGET_BOX);
    if (rc == SQLITE_OK)
        rc = counts_forget(db, w->u.box.id);
    return rc == SQLITE_OK && w->want_gone ? put_gone(db, w) : rc;
}

static int put_meta(struct db *db, const struct store_write *w)
{
    sql_bind_str(db, SQL_PUT_META, 1, w->u.meta.key);
    sql_bind_str(db, SQL_PUT_META, 2, w->u.meta.value);
    return sql_run(db, SQL_PUT_META);
}

static int add_event(struct db *db, const struct store_event *event)
{
    sql_bind_u64(db, SQL_ADD_EVENT, 1, event->id);
    sql_bind_u64(db, SQL_ADD_EVENT, 2, event->at_ms);
    sql_bind_str(db, SQL_ADD_EVENT, 3, event->kind);
    sql_bind_str(db, SQL_ADD_EVENT, 4, event->body);
    sql_bind_u64(db, SQL_ADD_EVENT, 5, event->principal);
    sql_bind_str(db, SQL_ADD_EVENT, 6, event->box_id);
    sql_bind_str(db, SQL_ADD_EVENT, 7, event->sandbox_id);
    return sql_run(db, SQL_ADD_EVENT);
}

static int put_token(struct db *db, const struct store_token *t)
{
    const enum sql_stmt q = SQL_PUT_TOKEN;

    sql_bind_str(db, q, 1, t->id);
    sql_bind_str(db, q, 2, t->hash);
    sql_bind_str(db, q, 3, t->name);
    sql_bind_u64(db, q, 4, t->scopes);
    sql_bind_u64(db, q, 5, t->principal);
    sql_bind_str(db, q, 6, t->user);
    sql_bind_str(db, q, 7, t->profile);
    sql_bind_str(db, q, 8, t->sandbox_id);
    sql_bind_u64(db, q, 9, t->created_ms);
    sql_bind_u64(db, q, 10, t->expires_ms);
    return sql_run(db, q);
}

static int drop_token(struct db *db, const struct store_token *t)
{
    sql_bind_str(db, SQL_DROP_TOKEN, 1, t->id);
    return sql_run(db, SQL_DROP_TOKEN);
}

int apply_write(struct db *db, const struct store_write *w)
{
    switch (w->kind) {
    case STORE_PUT_BOX:
        return put_box(db, w);
    case STORE_PUT_LEASE:
        return put_lease(db, w);
    case STORE_DELETING:
        return put_deleting(db, w);
    case STORE_FORGET:
        return forget(db, w);
    case STORE_PUT_META:
        return put_meta(db, w);
    case STORE_ADD_EVENT:
        return add_event(db, &w->u.event);
    case STORE_READ_EVENTS:
        return history_read(db, w->u.history);
    case STORE_READ_USAGE:
        return usage_read(db, w);
    case STORE_REPRICE:
        return meter_reprice(db, w);
    case STORE_BUDGET:
        return budget_call(db, w);
    case STORE_SAMPLE:
        return counts_sample(db, w);
    case STORE_PUT_TOKEN:
        return put_token(db, &w->u.token);
    case STORE_DROP_TOKEN:
        return drop_token(db, &w->u.token);
    case STORE_BACKUP: /* begun before the batch */
    case STORE_KIND_COUNT:
        break;
    }
    assert(false);
    return SQLITE_MISUSE;
}
