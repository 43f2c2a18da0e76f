/* budget.c - see budget.h. The row of a user has what it spent until at_ms and what an hour of its open intervals costs. An
 * interval that begins or ends before at_ms, because that is known late, is put right when it is known: all sums are
 * whole numbers, so nothing is lost by it.
 * The loop sees rows when they are committed (budget_book.c). */
#include "store/budget.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "store/budget_row.h"
#include "store/internal.h"
#include "store/usage.h"

/* --- periods --- */

/* The first moment of a month of UTC, `later` months after the one that `wall_ms` is in. */
static uint64_t month_of(uint64_t wall_ms, int later, uint64_t *ret_number)
{
    time_t at = (time_t) (wall_ms / 1000);
    struct tm tm;

    (void) gmtime_r(&at, &tm); /* fails only for years beyond an int */
    *ret_number = (uint64_t) (tm.tm_year + 1900) * 12 + (uint64_t) tm.tm_mon + 1;
    tm = (struct tm){.tm_year = tm.tm_year, .tm_mon = tm.tm_mon + later, .tm_mday = 1};
    return (uint64_t) timegm(&tm) * 1000;
}

static void look_at_calendar(struct store *s)
{
    struct budgets *b = &s->budgets;
    uint64_t wall_ms = rt_wall_ms(s->config.rt);
    uint64_t number;

    if (!b->is_monthly || (wall_ms >= b->month.from_ms && wall_ms < b->month.until_ms))
        return;
    b->month.until_ms = month_of(wall_ms, 1, &number);
    b->month.from_ms = month_of(wall_ms, 0, &b->month.number);
}

void budget_period(struct store *s, struct store_period *ret)
{
    const struct rt *rt = s->config.rt;
    int64_t since_ms;

    *ret = (struct store_period){0};
    if (!s->budgets.is_on || !s->budgets.is_monthly)
        return;
    look_at_calendar(s);
    since_ms = (int64_t) s->budgets.month.from_ms - (rt->wall_offset_ms - rt->stored_offset_ms);
    ret->number = s->budgets.month.number;
    ret->since_ms = since_ms > 0 ? (uint64_t) since_ms : 0;
}

uint64_t store_budget_ends(struct store *s)
{
    if (!s->budgets.is_on || !s->budgets.is_monthly)
        return 0;
    look_at_calendar(s);
    return s->budgets.month.until_ms;
}

/* --- the line --- */

/* A new period begins with what is open. The clock may have been set: nothing is counted twice, and no period comes back. */
static void roll(struct budget_row *r, const struct store_period *now)
{
    if (now->number <= r->period)
        return;
    r->period = now->number;
    r->since_ms = MAX_OF(now->since_ms, r->at_ms);
    r->at_ms = r->since_ms;
    r->credit = 0;
    r->spent = 0;
}

static budget_sum time_of(budget_sum per_hour, uint64_t ms)
{
    return per_hour * ms << STORE_NOMINAL_SHIFT;
}

static void go_on(struct budget_row *r, uint64_t to_ms)
{
    if (to_ms <= r->at_ms)
        return;
    r->spent += time_of(r->per_hour, to_ms - r->at_ms);
    r->at_ms = to_ms;
}

static void begin_interval(struct budget_row *r, const struct store_interval *i)
{
    uint64_t from_ms = MAX_OF(i->began_ms, r->since_ms);

    go_on(r, from_ms);
    r->spent += time_of(i->per_hour, r->at_ms - from_ms);
    r->per_hour += i->per_hour;
    if (i->began_ms >= r->since_ms)
        r->spent += store_usage_nominal(0, 0, i->per_start);
}

static void end_interval(struct budget_row *r, const struct store_interval *i)
{
    uint64_t to_ms = MAX_OF(i->ended_ms, r->since_ms);

    go_on(r, to_ms);
    r->spent -= time_of(i->per_hour, r->at_ms - to_ms);
    r->per_hour -= i->per_hour;
}

static void look(const struct budget_row *row, const struct store_period *period, uint64_t now_ms,
                 struct store_budget *ret)
{
    struct budget_row r = *row;

    roll(&r, period);
    go_on(&r, now_ms);
    *ret = (struct store_budget){
        .has_amount = r.has_amount,
        .amount = r.amount,
        .credit = r.credit,
        .spent = (uint64_t) (r.spent / STORE_NOMINAL_MICRO),
    };
}

void store_get_budget(struct store *s, const char *user, struct store_budget *ret)
{
    struct store_period period;
    struct budget_row row;

    budget_period(s, &period);
    budget_find(&s->budgets, user, &row);
    look(&row, &period, rt_stored_at(s->config.rt, rt_now(s->config.rt)), ret);
}

/* --- rows --- */

static budget_sum sum_at(sqlite3_stmt *q, int column)
{
    return (budget_sum) (uint64_t) sqlite3_column_int64(q, column) << 64 |
           (uint64_t) sqlite3_column_int64(q, column + 1);
}

void budget_read_row(sqlite3_stmt *q, struct budget_row *ret)
{
    int64_t amount = sqlite3_column_int64(q, 1);

    *ret = (struct budget_row){
        .has_amount = amount >= 0,
        .amount = amount >= 0 ? (uint64_t) amount : 0,
        .credit = (uint64_t) sqlite3_column_int64(q, 2),
        .period = (uint64_t) sqlite3_column_int64(q, 3),
        .since_ms = (uint64_t) sqlite3_column_int64(q, 4),
        .at_ms = (uint64_t) sqlite3_column_int64(q, 5),
        .per_hour = sum_at(q, 6),
        .spent = sum_at(q, 8),
    };
}

static int load_row(struct db *db, const char *user, const struct store_period *period,
                    struct budget_row *ret)
{
    sqlite3_stmt *q = db->stmts[SQL_BUDGET_OF];
    int rc;

    *ret = (struct budget_row){.period = period->number, .since_ms = period->since_ms};
    sql_bind_str(db, SQL_BUDGET_OF, 1, user);
    rc = sqlite3_step(q);
    if (rc == SQLITE_ROW) {
        budget_read_row(q, ret);
        roll(ret, period);
    }
    (void) sqlite3_reset(q); /* repeats the error of the step */
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static void bind_sum(struct db *db, int index, budget_sum v)
{
    sql_bind_u64(db, SQL_PUT_BUDGET, index, (uint64_t) (v >> 64));
    sql_bind_u64(db, SQL_PUT_BUDGET, index + 1, (uint64_t) v);
}

int budget_save_row(struct db *db, const char *user, const struct budget_row *r)
{
    const enum sql_stmt q = SQL_PUT_BUDGET;
    int rc;

    sql_bind_str(db, q, 1, user);
    sql_bind_u64(db, q, 2, r->has_amount ? r->amount : UINT64_MAX); /* -1 */
    sql_bind_u64(db, q, 3, r->credit);
    sql_bind_u64(db, q, 4, r->period);
    sql_bind_u64(db, q, 5, r->since_ms);
    sql_bind_u64(db, q, 6, r->at_ms);
    bind_sum(db, 7, r->per_hour);
    bind_sum(db, 9, r->spent);
    rc = sql_run(db, q);
    if (rc == SQLITE_OK)
        budget_note(db->budgets, user, r);
    return rc;
}

static bool is_counted(const struct db *db, const struct store_interval *i)
{
    return i != NULL && strcmp(i->currency, db->budgets->currency) == 0;
}

int budget_turn(struct db *db, const struct store_period *period, const struct store_interval *was,
                const struct store_interval *next)
{
    struct budget_row row;
    int rc = SQLITE_OK;

    if (!db->budgets->is_on)
        return SQLITE_OK;
    was = is_counted(db, was) ? was : NULL;
    next = is_counted(db, next) ? next : NULL;
    if (was != NULL) {
        rc = load_row(db, was->user, period, &row);
        if (rc != SQLITE_OK)
            return rc;
        end_interval(&row, was);
        if (next == NULL || strcmp(next->user, was->user) != 0)
            rc = budget_save_row(db, was->user, &row);
    }
    if (rc != SQLITE_OK || next == NULL)
        return rc;
    if (was == NULL || strcmp(next->user, was->user) != 0)
        rc = load_row(db, next->user, period, &row);
    if (rc != SQLITE_OK)
        return rc;
    begin_interval(&row, next);
    return budget_save_row(db, next->user, &row);
}

int budget_use(struct db *db, const struct store_period *period, const char *user,
               const char *currency, unsigned __int128 nominal)
{
    struct budget_row row;
    int rc;

    if (!db->budgets->is_on || nominal == 0 || strcmp(currency, db->budgets->currency) != 0)
        return SQLITE_OK;
    rc = load_row(db, user, period, &row);
    if (rc != SQLITE_OK)
        return rc;
    row.spent += nominal;
    return budget_save_row(db, user, &row);
}

/* --- calls --- */

void store_budget_call_fini(struct store_budget_call *c)
{
    for (unsigned i = 0; i < c->count; i++)
        free(c->lines[i].user);
    free(c->lines);
    c->lines = NULL;
    c->count = 0;
}

static int list_users(struct db *db, const struct store_write *w)
{
    sqlite3_stmt *q = db->stmts[SQL_LIST_BUDGETS];
    struct store_budget_call *c = w->u.budget;
    int rc;

    store_budget_call_fini(c); /* of a first try */
    c->lines = xcalloc(c->max, sizeof(c->lines[0]));
    c->has_more = false;
    sql_bind_str(db, SQL_LIST_BUDGETS, 1, c->user);
    sql_bind_u64(db, SQL_LIST_BUDGETS, 2, c->max + 1);
    for (rc = sqlite3_step(q); rc == SQLITE_ROW && c->count < c->max; rc = sqlite3_step(q)) {
        struct store_budget_line *line = &c->lines[c->count++];
        struct budget_row row;

        budget_read_row(q, &row);
        line->user = xstrdup((const char *) sqlite3_column_text(q, 0));
        look(&row, &w->period, w->at_ms, &line->budget);
    }
    c->has_more = rc == SQLITE_ROW;
    (void) sqlite3_reset(q); /* repeats the error of the step */
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int budget_call(struct db *db, const struct store_write *w)
{
    struct store_budget_call *c = w->u.budget;
    struct budget_row row;
    int rc;

    c->is_full = false;
    if (c->deed == STORE_BUDGET_LIST)
        return list_users(db, w);
    rc = load_row(db, c->user, &w->period, &row);
    if (rc != SQLITE_OK)
        return rc;
    if (row.at_ms == 0 && budget_count(db->budgets) >= 2 * STORE_BUDGETS_MAX) { /* a new one */
        c->is_full = true;
        return SQLITE_OK;
    }
    go_on(&row, w->at_ms);
    if (c->deed == STORE_BUDGET_CREDIT) {
        row.credit = MIN_OF(row.credit + c->amount, STORE_BUDGET_MAX);
    } else {
        row.has_amount = c->deed == STORE_BUDGET_SET;
        row.amount = row.has_amount ? c->amount : 0;
    }
    return budget_save_row(db, c->user, &row);
}
