/* budget_book.c - the rows of budgets in memory. The writer changes them after a commit, the loop looks at one at a time: neither
 * holds the lock while anything is read from the disk. At open they are read; when nothing was counted for a while,
 * the price of what is open is added up once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/budget.h"
#include "store/budget_row.h"

#define META_BUDGETS \
    "budgets" /* what the rows are of: currency, period, and whether they are kept */

struct budget_book {
    struct map users;
    struct list list;
};

/* A user's row, as the loop sees it; or as a batch has left it, until that is committed. */
struct entry {
    struct map_node node;
    struct list_node link;
    struct budget_row row;
    bool is_dropped;
    char user[];
};

static struct entry *entry_new(const char *user, const struct budget_row *row)
{
    size_t size = strlen(user) + 1;
    struct entry *e = xcalloc(1, sizeof(*e) + size);

    e->row = *row;
    memcpy(e->user, user, size);
    return e;
}

static bool is_user(const struct map_node *node, const void *key)
{
    return strcmp(container_of(node, struct entry, node)->user, key) == 0;
}

static struct entry *entry_find(const struct budget_book *book, const char *user)
{
    struct map_node *n = map_find(&book->users, hash_str(user), is_user, user);

    return n != NULL ? container_of(n, struct entry, node) : NULL;
}

static void entry_add(struct budget_book *book, struct entry *e)
{
    map_insert(&book->users, &e->node, hash_str(e->user));
    list_push_back(&book->list, &e->link);
}

static void entry_drop(struct budget_book *book, struct entry *e)
{
    map_remove(&book->users, &e->node);
    list_remove(&book->list, &e->link);
    free(e);
}

static struct budget_book *book_new(void)
{
    struct budget_book *book = xcalloc(1, sizeof(*book));

    map_init(&book->users, STORE_BUDGETS_MAX / 8);
    list_init(&book->list);
    return book;
}

static void book_free(struct budget_book *book)
{
    while (!list_is_empty(&book->list))
        entry_drop(book, container_of(list_first(&book->list), struct entry, link));
    map_fini(&book->users);
    free(book);
}

void budget_init(struct budgets *b, const struct store_config *config)
{
    list_init(&b->changed);
    if (config->budget_currency == NULL)
        return;
    str_copy_cut(b->currency, sizeof(b->currency), config->budget_currency);
    b->is_monthly = config->is_budget_monthly;
    b->is_on = true;
    b->book = book_new();
    (void) pthread_mutex_init(&b->lock, NULL); /* cannot fail with default attributes */
}

void budget_fini(struct budgets *b)
{
    if (!b->is_on)
        return;
    budget_undo(b, 0);
    book_free(b->book);
    (void) pthread_mutex_destroy(&b->lock);
}

void budget_find(struct budgets *b, const char *user, struct budget_row *ret)
{
    const struct entry *e;

    assert(b->is_on);
    *ret = (struct budget_row){0};
    (void) pthread_mutex_lock(&b->lock);
    e = entry_find(b->book, user);
    if (e != NULL)
        *ret = e->row;
    (void) pthread_mutex_unlock(&b->lock);
}

size_t budget_count(const struct budgets *b)
{
    return b->book->list.len;
}

/* --- batches --- */

void budget_note(struct budgets *b, const char *user, const struct budget_row *r)
{
    list_push_back(&b->changed, &entry_new(user, r)->link);
}

size_t budget_mark(const struct budgets *b)
{
    return b->changed.len;
}

void budget_undo(struct budgets *b, size_t mark)
{
    while (b->changed.len > mark) {
        struct list_node *n = list_pop_back(&b->changed);

        assert(n != NULL); /* as many as its len says */
        free(container_of(n, struct entry, link));
    }
}

void budget_committed(struct budgets *b)
{
    struct list_node *n;

    if (list_is_empty(&b->changed))
        return;
    (void) pthread_mutex_lock(&b->lock);
    while ((n = list_pop_front(&b->changed)) != NULL) {
        struct entry *e = container_of(n, struct entry, link);
        struct entry *old = entry_find(b->book, e->user);

        if (old != NULL)
            entry_drop(b->book, old);
        if (e->is_dropped)
            free(e);
        else
            entry_add(b->book, e);
    }
    (void) pthread_mutex_unlock(&b->lock);
}

/* --- open --- */

static int load_all(struct db *db, struct budget_book *book)
{
    const enum sql_stmt which = SQL_LIST_BUDGETS;
    sqlite3_stmt *q = db->stmts[which];
    int rc;

    sql_bind_str(db, which, 1, "");
    sql_bind_u64(db, which, 2, INT64_MAX);
    for (rc = sqlite3_step(q); rc == SQLITE_ROW; rc = sqlite3_step(q)) {
        struct budget_row row;

        budget_read_row(q, &row);
        entry_add(book, entry_new((const char *) sqlite3_column_text(q, 0), &row));
    }
    (void) sqlite3_reset(q); /* repeats the error of the step */
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* What is open costs from now on. */
static int add_open(struct db *db, struct budget_book *book, const struct budget_row *fresh)
{
    const enum sql_stmt which = SQL_OPEN_PRICES;
    sqlite3_stmt *q = db->stmts[which];
    int rc;

    sql_bind_str(db, which, 1, db->budgets->currency);
    for (rc = sqlite3_step(q); rc == SQLITE_ROW; rc = sqlite3_step(q)) {
        const char *user = (const char *) sqlite3_column_text(q, 0);
        struct entry *e = entry_find(book, user);

        if (e == NULL) {
            e = entry_new(user, fresh);
            entry_add(book, e);
        }
        e->row.per_hour += (uint64_t) sqlite3_column_int64(q, 1);
    }
    (void) sqlite3_reset(q); /* repeats the error of the step */
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Nothing was counted for a while, or by other rules. */
static int begin_anew(struct store *s, struct budget_book *book, bool is_same_count)
{
    struct store_period period;
    struct budget_row fresh;
    int rc;

    budget_period(s, &period);
    fresh = (struct budget_row){.period = period.number,
                                .since_ms = rt_stored_at(s->config.rt, rt_now(s->config.rt))};
    fresh.at_ms = fresh.since_ms;
    for (struct list_node *n = list_first(&book->list); n != NULL; n = list_next(&book->list, n)) {
        struct budget_row *r = &container_of(n, struct entry, link)->row;

        r->per_hour = 0;
        r->since_ms = fresh.since_ms;
        r->at_ms = fresh.at_ms;
        r->spent = is_same_count ? r->spent : 0;
        r->period = is_same_count ? r->period : fresh.period;
    }
    rc = add_open(&s->db, book, &fresh);
    for (struct list_node *n = list_first(&book->list); n != NULL && rc == SQLITE_OK;
         n = list_next(&book->list, n)) {
        const struct entry *e = container_of(n, struct entry, link);

        rc = budget_save_row(&s->db, e->user, &e->row);
    }
    return rc;
}

static int put_meta(struct db *db, const char *value)
{
    sql_bind_str(db, SQL_PUT_META, 1, META_BUDGETS);
    sql_bind_str(db, SQL_PUT_META, 2, value);
    return sql_run(db, SQL_PUT_META);
}

static int read_meta(struct db *db, char *dst, size_t cap)
{
    sqlite3_stmt *q = NULL;
    int rc = sqlite3_prepare_v2(db->conn, "SELECT value FROM meta WHERE key = '" META_BUDGETS "'",
                                -1, &q, NULL);

    dst[0] = '\0';
    if (rc == SQLITE_OK)
        rc = sqlite3_step(q);
    if (rc == SQLITE_ROW)
        str_copy_cut(dst, cap, (const char *) sqlite3_column_text(q, 0));
    (void) sqlite3_finalize(q); /* repeats the error of the step */
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* They were counted until now. */
static int stop_counting(struct db *db, const char *was)
{
    size_t len = strlen(was);
    char now[64];

    if (len < 3 || strcmp(was + len - 3, " on") != 0)
        return SQLITE_OK;
    (void) snprintf(now, sizeof(now), "%.*s off", (int) (len - 3), was);
    return put_meta(db, now);
}

/* The fact is "EUR month on", or "EUR month off". */
static int read_all(struct store *s, struct budget_book *book, const char *was)
{
    const struct budgets *b = &s->budgets;
    char now[64];
    int rc = load_all(&s->db, book);

    (void) snprintf(now, sizeof(now), "%s %s on", b->currency, b->is_monthly ? "month" : "total");
    if (rc != SQLITE_OK || strcmp(was, now) == 0)
        return rc;
    rc = begin_anew(s, book, strncmp(was, now, strlen(now) - 2) == 0);
    return rc == SQLITE_OK ? put_meta(&s->db, now) : rc;
}

static void show(struct budgets *b, struct budget_book *book)
{
    struct budget_book *old = b->book;

    (void) pthread_mutex_lock(&b->lock); /* the loop runs when a disk has come back */
    b->book = book;
    (void) pthread_mutex_unlock(&b->lock);
    book_free(old);
}

int budget_at_open(struct store *s)
{
    struct budgets *b = &s->budgets;
    struct budget_book *book = NULL;
    char was[64];
    int rc = sql_run(&s->db, SQL_BEGIN);

    s->db.budgets = b;
    if (rc == SQLITE_OK)
        rc = read_meta(&s->db, was, sizeof(was));
    if (rc == SQLITE_OK && b->is_on) {
        book = book_new();
        rc = read_all(s, book, was);
    } else if (rc == SQLITE_OK) {
        rc = stop_counting(&s->db, was);
    }
    if (rc == SQLITE_OK)
        rc = sql_run(&s->db, SQL_COMMIT);
    budget_undo(b, 0); /* they are in the book */
    if (rc == SQLITE_OK && book != NULL)
        show(b, book);
    else if (book != NULL)
        book_free(book);
    if (rc != SQLITE_OK)
        sql_undo(&s->db);
    return rc;
}

/* --- bounds --- */

int budget_prune(struct store *s)
{
    static const struct budget_row none = {0};
    const enum sql_stmt which = SQL_PRUNE_BUDGETS;
    struct budgets *b = &s->budgets;
    sqlite3_stmt *q = s->db.stmts[which];
    int rc;

    if (!b->is_on || budget_count(b) <= STORE_BUDGETS_MAX)
        return SQLITE_OK;
    sql_bind_u64(&s->db, which, 1, budget_count(b) - STORE_BUDGETS_MAX);
    for (rc = sqlite3_step(q); rc == SQLITE_ROW; rc = sqlite3_step(q)) {
        struct entry *e = entry_new((const char *) sqlite3_column_text(q, 0), &none);

        e->is_dropped = true;
        list_push_back(&b->changed, &e->link);
    }
    (void) sqlite3_reset(q); /* repeats the error of the step */
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}
