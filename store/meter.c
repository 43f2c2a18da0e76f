/* meter.c - time of boxes that have an owner. The open interval of a box is in the row of the box: the write that
 * changes owner, state or price closes it and opens the next one, and no crash comes between the two.
 *
 * Time never runs backwards here: an interval that would end before it began ends where it began. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "store/internal.h"
#include "store/usage.h"

enum {
    PRUNE_MAX = 1024,              /* rows at once that are too old, */
    PRUNE_OWN_MAX = 8192,          /* and too many: more than come between two prunings */
    USED_COLUMN = INTERVAL_COLUMNS /* behind those of the interval */
};

static const char *text_of(const char *s)
{
    return s != NULL ? s : "";
}

static bool is_same(const char *a, const char *b)
{
    return strcmp(text_of(a), text_of(b)) == 0;
}

/* When the row of this write began to be true. */
static uint64_t turned_at(const struct store_write *w)
{
    return MAX_OF(w->u.box.true_ms != 0 ? MIN_OF(w->u.box.true_ms, w->at_ms) : w->at_ms, 1);
}

/* A box without an owner belongs to nobody; one that is being made or deleted is nobody's use. */
static bool is_metered(const struct db *db, const struct store_box *box)
{
    return db->want_usage && !str_is_empty(text_of(box->sandbox_id)) &&
           (strcmp(box->state, "leased") == 0 || strcmp(box->state, "parked") == 0);
}

static enum store_meter state_of(const struct store_box *box)
{
    if (box->is_paused)
        return STORE_PAUSED;
    return strcmp(box->state, "parked") == 0 ? STORE_PARKED : STORE_LEASED;
}

/* Also of a row that says that the box is deleted. */
static bool is_same_owner(const struct store_interval *was, const struct store_box *box)
{
    return was->generation == box->generation && was->principal == box->principal &&
           is_same(was->sandbox_id, box->sandbox_id) && is_same(was->user, box->user) &&
           is_same(was->thread, box->thread);
}

static bool is_same_price(const struct store_interval *was, const struct store_price *price)
{
    return price->currency == NULL ||
           (was->per_hour == price->per_hour && strcmp(was->currency, price->currency) == 0 &&
            memcmp(was->per_use, price->per_use, sizeof(was->per_use)) == 0);
}

static bool is_same_interval(const struct store_interval *was, const struct store_box *box)
{
    return was->state == state_of(box) && is_same_price(was, &box->price) &&
           is_same(was->profile, box->profile);
}

/* --- what a binding has used --- */

#define MIXED "*" /* in place of a currency */

void meter_bind_used(struct db *db, enum sql_stmt which, int first, const struct store_used *used)
{
    sql_bind_u64(db, which, first, used->ms[STORE_LEASED]);
    sql_bind_u64(db, which, first + 1, used->ms[STORE_PARKED]);
    sql_bind_u64(db, which, first + 2, used->ms[STORE_PAUSED]);
    sql_bind_u64(db, which, first + 3, used->micros);
    sql_bind_u64(db, which, first + 4, used->rest);
    sql_bind_str(db, which, first + 5, used->is_mixed ? MIXED : used->currency);
}

void meter_read_used(sqlite3_stmt *row, int first, struct store_used *ret)
{
    const char *currency = (const char *) sqlite3_column_text(row, first + 5);

    *ret = (struct store_used){
        .is_known = true,
        .is_mixed = currency != NULL && strcmp(currency, MIXED) == 0,
        .ms = {[STORE_LEASED] = (uint64_t) sqlite3_column_int64(row, first),
               [STORE_PARKED] = (uint64_t) sqlite3_column_int64(row, first + 1),
               [STORE_PAUSED] = (uint64_t) sqlite3_column_int64(row, first + 2)},
        .micros = (uint64_t) sqlite3_column_int64(row, first + 3),
        .rest = (uint64_t) sqlite3_column_int64(row, first + 4),
    };
    if (!ret->is_mixed)
        str_copy_cut(ret->currency, sizeof(ret->currency), text_of(currency));
}

static void add_used(struct store_used *used, const struct store_interval *i, uint64_t ms,
                     const struct store_counts *counts)
{
    unsigned __int128 cost = store_usage_nominal(i->per_hour, ms, i->per_start) +
                             store_usage_of_counts(i->per_use, counts) + used->rest;

    used->ms[i->state] += ms;
    if (str_is_empty(i->currency))
        return;
    if (!str_is_empty(used->currency) && strcmp(used->currency, i->currency) != 0)
        used->is_mixed = true;
    str_copy_cut(used->currency, sizeof(used->currency), i->currency);
    used->micros += (uint64_t) (cost / STORE_NOMINAL_MICRO);
    used->rest = (uint64_t) (cost % STORE_NOMINAL_MICRO);
}

/* Most boxes have none, and their rows get no longer by it. */
void price_bind(struct db *db, enum sql_stmt which, int index,
                const uint64_t per_use[STORE_RATE_COUNT])
{
    static const uint64_t none[STORE_RATE_COUNT];
    char text[STORE_RATE_COUNT * 21 + 1];
    int rc;

    if (memcmp(per_use, none, sizeof(none)) == 0) {
        sql_bind_str(db, which, index, "");
        return;
    }
    (void) snprintf(text, sizeof(text), "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
                    per_use[STORE_RATE_CPU], per_use[STORE_RATE_MEMORY], per_use[STORE_RATE_NET],
                    per_use[STORE_RATE_DISK]);
    rc = sqlite3_bind_text(db->stmts[which], index, text, -1, SQLITE_TRANSIENT);
    assert(rc == SQLITE_OK); /* its memory is what every statement needs */
    (void) rc;
}

void price_read(sqlite3_stmt *row, int column, uint64_t ret[STORE_RATE_COUNT])
{
    const char *at = text_of((const char *) sqlite3_column_text(row, column));

    for (unsigned i = 0; i < STORE_RATE_COUNT; i++) {
        ret[i] = 0;
        for (; *at >= '0' && *at <= '9'; at++)
            ret[i] = ret[i] * 10 + (uint64_t) (*at - '0');
        at += *at == ' ' ? 1 : 0;
    }
}

/* --- intervals --- */

/* One without length says nothing, unless something is paid for the start or a sample was taken right then. */
static int close_interval(struct db *db, const struct store_interval *i, uint64_t at_ms,
                          uint64_t closed_ms, struct store_used *used)
{
    const enum sql_stmt q = SQL_ADD_USAGE;
    uint64_t ended_ms = MAX_OF(at_ms, i->began_ms);
    struct store_counts counts;
    int rc = counts_close(db, i, &counts);

    if (rc != SQLITE_OK || (ended_ms == i->began_ms && i->per_start == 0 && counts.known == 0))
        return rc;
    add_used(used, i, ended_ms - i->began_ms, &counts);
    db->closed_ms = MAX_OF(db->closed_ms, closed_ms);
    db->metered++;
    sql_bind_u64(db, q, 1, i->box);
    sql_bind_str(db, q, 2, i->sandbox_id);
    sql_bind_u64(db, q, 3, i->generation);
    sql_bind_str(db, q, 4, i->user);
    sql_bind_str(db, q, 5, i->thread);
    sql_bind_u64(db, q, 6, i->principal);
    sql_bind_str(db, q, 7, i->profile);
    sql_bind_u64(db, q, 8, i->state);
    sql_bind_u64(db, q, 9, i->began_ms);
    sql_bind_u64(db, q, 10, ended_ms);
    sql_bind_u64(db, q, 11, i->per_hour);
    sql_bind_u64(db, q, 12, i->per_start);
    sql_bind_str(db, q, 13, i->currency);
    price_bind(db, q, 14, i->per_use);
    sql_bind_u64(db, q, 15, db->closed_ms);
    counts_bind(db, q, 16, &counts);
    return sql_run(db, q);
}

/* True: the open interval goes on. */
static bool begin_row(const struct store_write *w, const struct store_interval *was,
                      struct meter_row *ret)
{
    const struct store_box *box = &w->u.box;
    bool is_bound = was->began_ms != 0 && is_same_owner(was, box);
    bool is_kept = is_bound && is_same_interval(was, box);

    if (box->price.currency != NULL || !is_bound) {
        ret->per_hour = box->price.per_hour;
        memcpy(ret->per_use, box->price.per_use, sizeof(ret->per_use));
        str_copy_cut(ret->currency, sizeof(ret->currency), text_of(box->price.currency));
    } else {
        ret->per_hour = was->per_hour;
        memcpy(ret->per_use, was->per_use, sizeof(ret->per_use));
        str_copy_cut(ret->currency, sizeof(ret->currency), was->currency);
    }
    ret->since_ms = is_kept ? was->began_ms : MAX_OF(turned_at(w), was->began_ms);
    ret->per_start = is_kept ? was->per_start : is_bound ? 0 : box->price.per_start;
    return is_kept;
}

/* For budgets: the interval that ended, if there was one, and the next one, if there is. */
static int count(struct db *db, const struct store_write *w, struct store_interval *was,
                 const char *user, const struct meter_row *row)
{
    const struct store_interval next = {.user = text_of(user),
                                        .began_ms = row->since_ms,
                                        .per_hour = row->per_hour,
                                        .per_start = row->per_start,
                                        .currency = row->currency};

    was->ended_ms = MAX_OF(turned_at(w), was->began_ms);
    return budget_turn(db, &w->period, was->began_ms != 0 ? was : NULL,
                       row->since_ms != 0 ? &next : NULL);
}

int meter_turn(struct db *db, const struct store_write *w, struct meter_row *ret)
{
    sqlite3_stmt *q = db->stmts[SQL_OPEN_OF_BOX];
    const struct store_box *box = &w->u.box;
    struct store_interval was = {.began_ms = 0};
    struct store_used used = {.is_known = true};
    bool is_kept;
    int rc;

    *ret = (struct meter_row){.is_moved = !db->want_usage};
    if (!db->want_usage)
        return SQLITE_OK;
    sql_bind_u64(db, SQL_OPEN_OF_BOX, 1, box->id);
    rc = sqlite3_step(q);
    if (rc == SQLITE_ROW) {
        usage_row(q, &was);
        meter_read_used(q, USED_COLUMN, &used);
        ret->is_moved = was.sandbox_id[0] != '\0' && !is_same(was.sandbox_id, box->sandbox_id);
        rc = SQLITE_DONE;
    }
    is_kept = is_metered(db, box) && begin_row(w, &was, ret);
    if (rc == SQLITE_DONE)
        rc = was.began_ms != 0 && !is_kept ? close_interval(db, &was, turned_at(w), w->at_ms, &used)
                                           : SQLITE_OK;
    if (rc == SQLITE_OK && !is_kept)
        rc = count(db, w, &was, box->user, ret);
    ret->used = is_same_owner(&was, box) ? used : (struct store_used){.is_known = true};
    (void) sqlite3_reset(q); /* only now: the texts of `was` are in its row */
    return rc;
}

int meter_remove(struct db *db, const struct store_write *w)
{
    sqlite3_stmt *q = db->stmts[SQL_OPEN_OF_BOX];
    static const struct meter_row none = {0};
    struct store_used used = {0}; /* nobody asks any more */
    struct store_interval was;
    int rc;

    if (!db->want_usage)
        return SQLITE_OK;
    sql_bind_u64(db, SQL_OPEN_OF_BOX, 1, w->u.box.id);
    rc = sqlite3_step(q);
    if (rc == SQLITE_ROW) {
        usage_row(q, &was);
        rc =
            was.began_ms != 0 ? close_interval(db, &was, turned_at(w), w->at_ms, &used) : SQLITE_OK;
        if (rc == SQLITE_OK)
            rc = count(db, w, &was, "", &none);
    } else if (rc == SQLITE_DONE) {
        rc = SQLITE_OK;
    }
    (void) sqlite3_reset(q); /* a failed step was reported */
    return rc;
}

/* One box: its interval ends, and the next one has the new price. */
static int reprice(struct db *db, const struct store_write *w, struct store_interval *was,
                   struct store_used *used)
{
    const struct store_price *price = &w->u.box.price;
    uint64_t since_ms = MAX_OF(turned_at(w), was->began_ms);
    struct meter_row row = {.since_ms = since_ms, .per_hour = price->per_hour};
    int rc = close_interval(db, was, since_ms, w->at_ms, used);

    str_copy_cut(row.currency, sizeof(row.currency), price->currency);
    if (rc == SQLITE_OK)
        rc = count(db, w, was, was->user, &row);

    if (rc != SQLITE_OK)
        return rc;
    sql_bind_u64(db, SQL_REPRICE, 1, was->box);
    sql_bind_u64(db, SQL_REPRICE, 2, since_ms);
    sql_bind_u64(db, SQL_REPRICE, 3, price->per_hour);
    sql_bind_u64(db, SQL_REPRICE, 4, 0); /* was paid, if anything, by the interval that ended */
    sql_bind_str(db, SQL_REPRICE, 5, price->currency);
    meter_bind_used(db, SQL_REPRICE, 6, used);
    price_bind(db, SQL_REPRICE, 12, price->per_use);
    return sql_run(db, SQL_REPRICE);
}

int meter_reprice(struct db *db, const struct store_write *w)
{
    const enum sql_stmt which = SQL_OPEN_OF_PROFILE;
    sqlite3_stmt *q = db->stmts[which];
    int64_t after = INT64_MIN;
    int rc;

    sql_bind_str(db, which, 1, w->u.box.profile);
    for (;;) {
        struct store_interval was;
        struct store_used used;

        sql_bind_u64(db, which, 2, (uint64_t) after);
        rc = sqlite3_step(q);
        if (rc != SQLITE_ROW)
            break;
        usage_row(q, &was);
        meter_read_used(q, USED_COLUMN, &used);
        after = (int64_t) was.box;
        rc = is_same_price(&was, &w->u.box.price) ? SQLITE_OK : reprice(db, w, &was, &used);
        (void) sqlite3_reset(q); /* only now: the texts of `was` are in its row */
        if (rc != SQLITE_OK)
            return rc;
    }
    (void) sqlite3_reset(q); /* repeats the error of the step */
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* --- bounds --- */

int meter_at_open(struct store *s)
{
    int64_t closed_ms = 0;
    int rc =
        sql_read_i64(&s->db, "SELECT closed_ms FROM usage ORDER BY id DESC LIMIT 1", &closed_ms);

    s->db.closed_ms = (uint64_t) closed_ms;
    s->db.metered = PRUNE_MAX; /* what is too old by now */
    s->db.want_usage = s->config.want_usage;
    if (rc == SQLITE_OK)
        rc = counts_at_open(&s->db);
    if (rc == SQLITE_OK && !s->config.want_usage) /* it was turned off, and time goes on */
        rc = sql_exec(&s->db, "UPDATE boxes SET meter_ms = 0 WHERE meter_ms <> 0");
    return rc == SQLITE_OK ? budget_at_open(s) : rc;
}

/* Too old: the first id that stays. */
static int first_kept(struct store *s, uint64_t first, uint64_t last, uint64_t *ret)
{
    uint64_t since_ms = s->db.closed_ms - MIN_OF(s->config.usage_ms, s->db.closed_ms);

    return history_seek(&s->db, SQL_SEEK_USAGE, first, last + 1, since_ms, ret);
}

static int prune_old(struct store *s)
{
    sqlite3_stmt *q = s->db.stmts[SQL_PRUNE_USAGE];
    int64_t first = 0;
    int64_t last = 0;
    uint64_t kept = 0;
    int rc = sql_read_i64(&s->db, "SELECT min(id) FROM usage", &first);

    if (rc == SQLITE_OK)
        rc = sql_read_i64(&s->db, "SELECT max(id) FROM usage", &last);
    if (rc == SQLITE_OK && last > 0)
        rc = first_kept(s, (uint64_t) first, (uint64_t) last, &kept);
    if (rc != SQLITE_OK || kept <= (uint64_t) first)
        return rc;
    /* The last one stays in any case: the next has the number after it, and no number comes twice. */
    kept = MIN_OF(MIN_OF(kept, (uint64_t) first + PRUNE_MAX), (uint64_t) last);
    sql_bind_u64(&s->db, SQL_PRUNE_USAGE, 1, kept - 1);
    for (rc = sqlite3_step(q); rc == SQLITE_ROW; rc = sqlite3_step(q))
        shares_removed(&s->shares[SHARES_USAGE], (uint64_t) sqlite3_column_int64(q, 0));
    (void) sqlite3_reset(q); /* repeats the error of the step */
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int meter_prune(struct store *s)
{
    struct shares *h = &s->shares[SHARES_USAGE];
    int rc = shares_count(h, &s->db, s->config.usage_max);

    if (rc == SQLITE_OK)
        rc = prune_old(s);
    return rc == SQLITE_OK ? shares_prune(h, &s->db, s->config.usage_max, PRUNE_OWN_MAX) : rc;
}
