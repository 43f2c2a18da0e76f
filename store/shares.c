/* shares.c - bounds of tables that all principals write to: the one that has the most rows loses its oldest, so nobody has those
 * of others removed before it has as few itself. Metered intervals are not lost: they are added up (fold.c). How many each has is counted once, when the table comes near its bound, and
 * from then on only of rows that are new. */
#include <stdlib.h>

#include "base/mem.h"
#include "store/internal.h"

enum { EXPECTED = 64 }; /* principals: user ids and tokens */

struct share {
    struct map_node node;
    struct heap_node rank; /* the one with the most rows comes first */
    uint64_t principal;
    uint64_t count;
};

/* Statements of each table. */
static const struct {
    const char *first; /* ids */
    const char *last;
    enum sql_stmt count_all;
    enum sql_stmt count_new;
    enum sql_stmt remove;
    int (*fold)(struct db *db, uint64_t principal, uint64_t want, uint64_t *ret); /* tried first */
} tables[SHARES_COUNT] = {
    [SHARES_EVENTS] = {"SELECT min(id) FROM events", "SELECT max(id) FROM events", SQL_COUNT_EVENTS,
                       SQL_COUNT_NEW_EVENTS, SQL_PRUNE_EVENTS, NULL},
    [SHARES_USAGE] = {"SELECT min(id) FROM usage", "SELECT max(id) FROM usage", SQL_COUNT_USAGE,
                      SQL_COUNT_NEW_USAGE, SQL_PRUNE_OWN_USAGE, fold_usage},
};

static struct share *share_of(const struct heap_node *n)
{
    return n != NULL ? container_of(n, struct share, rank) : NULL;
}

static bool is_principal(const struct map_node *node, const void *key)
{
    return container_of(node, struct share, node)->principal == *(const uint64_t *) key;
}

static struct share *find(const struct shares *h, uint64_t principal)
{
    struct map_node *n = map_find(&h->by_principal, hash_u64(principal), is_principal, &principal);

    return n != NULL ? container_of(n, struct share, node) : NULL;
}

static void set_count(struct shares *h, struct share *s, uint64_t count)
{
    h->total = h->total - s->count + count;
    s->count = count;
    if (count > 0) {
        heap_set(&h->by_count, &s->rank, UINT64_MAX - count);
        return;
    }
    map_remove(&h->by_principal, &s->node);
    heap_remove(&h->by_count, &s->rank);
    free(s);
}

static void add(struct shares *h, uint64_t principal, uint64_t count)
{
    struct share *s = find(h, principal);

    if (s == NULL) {
        s = xcalloc(1, sizeof(*s));
        s->principal = principal;
        map_insert(&h->by_principal, &s->node, hash_u64(principal));
    }
    set_count(h, s, s->count + count);
}

void shares_init(struct shares *h, enum shares_table table)
{
    *h = (struct shares){.table = table};
    map_init(&h->by_principal, EXPECTED);
    heap_init(&h->by_count, 0);
}

void shares_forget(struct shares *h)
{
    for (struct share *s = share_of(heap_top(&h->by_count)); s != NULL;
         s = share_of(heap_top(&h->by_count)))
        set_count(h, s, 0);
    h->is_known = false;
}

void shares_fini(struct shares *h)
{
    shares_forget(h);
    map_fini(&h->by_principal);
    heap_fini(&h->by_count);
}

void shares_removed(struct shares *h, uint64_t principal)
{
    struct share *s = h->is_known ? find(h, principal) : NULL;

    if (s != NULL)
        set_count(h, s, s->count - 1);
}

/* Rows up to `last`, but for those that were counted. */
static int count_rows(struct shares *h, struct db *db, uint64_t last)
{
    enum sql_stmt which = h->is_known ? tables[h->table].count_new : tables[h->table].count_all;
    sqlite3_stmt *q = db->stmts[which];
    int rc;

    if (h->is_known)
        sql_bind_u64(db, which, 1, h->last_id);
    for (rc = sqlite3_step(q); rc == SQLITE_ROW; rc = sqlite3_step(q))
        add(h, (uint64_t) sqlite3_column_int64(q, 0), (uint64_t) sqlite3_column_int64(q, 1));
    (void) sqlite3_reset(q); /* repeats the error of the step */
    h->is_known = true;
    h->last_id = last;
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int shares_count(struct shares *h, struct db *db, uint64_t max)
{
    int64_t first = 0;
    int64_t last = 0;
    int rc = sql_read_i64(db, tables[h->table].last, &last);

    if (rc == SQLITE_OK && !h->is_known)
        rc = sql_read_i64(db, tables[h->table].first, &first);
    if (rc != SQLITE_OK)
        return rc;
    if (!h->is_known && (uint64_t) (last - first) < max)
        return SQLITE_OK; /* there cannot be too many */
    return count_rows(h, db, (uint64_t) last);
}

/* The oldest of the principal that has the most, as many as it has more than the next one. */
static int remove_some(struct shares *h, struct db *db, uint64_t excess, uint64_t *ret)
{
    enum sql_stmt which = tables[h->table].remove;
    struct share *most = share_of(heap_top(&h->by_count));
    const struct share *next;
    uint64_t more;
    int rc = SQLITE_OK;

    heap_remove(&h->by_count, &most->rank);
    next = share_of(heap_top(&h->by_count));
    heap_set(&h->by_count, &most->rank, UINT64_MAX - most->count);
    more = next != NULL ? most->count - next->count : most->count;
    *ret = 0;
    if (tables[h->table].fold != NULL)
        rc = tables[h->table].fold(db, most->principal, excess, ret);
    if (rc == SQLITE_OK && *ret == 0) {
        sql_bind_u64(db, which, 1, most->principal);
        sql_bind_u64(db, which, 2, MIN_OF(excess, MAX_OF(more, (uint64_t) 1)));
        rc = sql_run(db, which);
        *ret = rc == SQLITE_OK ? (uint64_t) sqlite3_changes(db->conn) : 0;
    }
    set_count(h, most, most->count - MIN_OF(*ret, most->count));
    return rc;
}

int shares_prune(struct shares *h, struct db *db, uint64_t max, uint64_t most)
{
    uint64_t left = most;
    uint64_t removed = 1;
    int rc = SQLITE_OK;

    while (rc == SQLITE_OK && h->is_known && h->total > max && left > 0 && removed > 0) {
        rc = remove_some(h, db, MIN_OF(h->total - max, left), &removed);
        left -= MIN_OF(removed, left);
    }
    return rc;
}
