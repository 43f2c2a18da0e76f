/* usage.c - metered time read back, on the writer's thread between writes. Open intervals are in the rows of boxes, closed
 * ones in `usage`. For sums the open ones are looked at first, and a mark says which closed ones there were by then: one
 * that is closed between two steps is counted once. All of it ends with the moment of the first step. */
#include "store/usage.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/internal.h"

enum { RESTARTS_MAX = 64 };

unsigned __int128 store_usage_nominal(uint64_t per_hour, uint64_t ms, uint64_t per_start)
{
    return ((unsigned __int128) per_hour * ms << STORE_NOMINAL_SHIFT) +
           (unsigned __int128) per_start * STORE_NOMINAL_MICRO;
}

/* By the counter: what it is paid by, and how many parts one of it costs at a price of a millionth. */
static const struct {
    enum store_rate rate;
    uint64_t parts;
} by_use[STORE_COUNTER_COUNT] = {
    [STORE_CPU_US] = {STORE_RATE_CPU, STORE_NOMINAL_MICRO / 3600000000ULL},
    [STORE_MEMORY] = {STORE_RATE_MEMORY, STORE_NOMINAL_MICRO / (1024 * 3600000ULL)},
    [STORE_NET_IN] = {STORE_RATE_NET, STORE_NOMINAL_MICRO >> 30},
    [STORE_NET_OUT] = {STORE_RATE_NET, STORE_NOMINAL_MICRO >> 30},
    [STORE_DISK_READ] = {STORE_RATE_DISK, STORE_NOMINAL_MICRO >> 30},
    [STORE_DISK_WRITE] = {STORE_RATE_DISK, STORE_NOMINAL_MICRO >> 30},
};

static_assert(STORE_NOMINAL_MICRO % (1024 * 3600000ULL) == 0, "the price of memory is exact");
static_assert(STORE_NOMINAL_MICRO % (1ULL << 30) == 0, "the price of a byte is exact");

unsigned __int128 store_usage_of_counts(const uint64_t per_use[STORE_RATE_COUNT],
                                        const struct store_counts *counts)
{
    unsigned __int128 sum = 0;

    for (unsigned k = 0; k < STORE_COUNTER_COUNT; k++)
        if ((counts->known & (1U << k)) != 0)
            sum += (unsigned __int128) per_use[by_use[k].rate] * by_use[k].parts * counts->n[k];
    return sum;
}

uint64_t store_usage_cost(unsigned __int128 nominal)
{
    return (uint64_t) ((nominal + STORE_NOMINAL_MICRO / 2) / STORE_NOMINAL_MICRO);
}

/* Of a sum: what there was by then. */
static uint64_t folded_until(const struct store_interval *i, uint64_t at_ms)
{
    if (at_ms <= i->began_ms)
        return 0;
    if (at_ms >= i->ended_ms)
        return i->folded_ms;
    return (uint64_t) ((unsigned __int128) i->folded_ms * (at_ms - i->began_ms) /
                       (i->ended_ms - i->began_ms));
}

uint64_t store_usage_ms(const struct store_interval *i, uint64_t since_ms, uint64_t until_ms)
{
    uint64_t from_ms = MAX_OF(i->began_ms, since_ms);
    uint64_t to_ms = i->ended_ms != 0 ? MIN_OF(i->ended_ms, until_ms) : until_ms;

    if (to_ms <= from_ms)
        return 0;
    return i->folded > 0 ? folded_until(i, to_ms) - folded_until(i, from_ms) : to_ms - from_ms;
}

unsigned __int128 store_usage_part(const struct store_interval *i, uint64_t since_ms,
                                   uint64_t until_ms)
{
    uint64_t ms = store_usage_ms(i, since_ms, until_ms);
    unsigned __int128 start = store_usage_nominal(0, 0, i->per_start) * MAX_OF(i->folded, 1);
    struct store_counts counts;

    store_usage_counts(i, since_ms, until_ms, &counts);
    return store_usage_nominal(i->per_hour, ms, 0) + store_usage_of_counts(i->per_use, &counts) +
           (i->began_ms >= since_ms ? start : 0);
}

void store_usage_init(struct store_usage *u)
{
    *u = (struct store_usage){.until_ms = UINT64_MAX};
    list_init(&u->sum_list);
}

static void free_rows(struct store_usage *u)
{
    for (size_t i = 0; i < u->row_count; i++)
        free((char *) (uintptr_t) u->rows[i].sandbox_id); /* the others are behind it */
    free(u->rows);
    u->rows = NULL;
    u->row_count = 0;
}

static void free_sums(struct store_usage *u)
{
    struct list_node *n;

    while ((n = list_pop_front(&u->sum_list)) != NULL) {
        struct store_sum *sum = container_of(n, struct store_sum, link);

        free(sum->sandbox_id);
        free(sum->user);
        free(sum->thread);
        free(sum->profile);
        free(sum->currency);
        free(sum);
    }
    if (u->sums.buckets != NULL)
        map_fini(&u->sums);
}

void store_usage_fini(struct store_usage *u)
{
    free_sums(u);
    free(u->marks);
    free_rows(u);
    store_usage_init(u);
}

/* --- rows --- */

static const char *text_at(sqlite3_stmt *row, int column)
{
    const unsigned char *text = sqlite3_column_text(row, column);

    return text != NULL ? (const char *) text : "";
}

void usage_row(sqlite3_stmt *row, struct store_interval *ret)
{
    int state = sqlite3_column_int(row, 7);

    *ret = (struct store_interval){
        .box = (uint64_t) sqlite3_column_int64(row, 0),
        .sandbox_id = text_at(row, 1),
        .generation = (uint64_t) sqlite3_column_int64(row, 2),
        .user = text_at(row, 3),
        .thread = text_at(row, 4),
        .principal = (uint64_t) sqlite3_column_int64(row, 5),
        .profile = text_at(row, 6),
        .state = state >= 0 && state < STORE_METER_COUNT ? (enum store_meter) state : STORE_LEASED,
        .began_ms = (uint64_t) sqlite3_column_int64(row, 8),
        .ended_ms = (uint64_t) sqlite3_column_int64(row, 9),
        .per_hour = (uint64_t) sqlite3_column_int64(row, 10),
        .per_start = (uint64_t) sqlite3_column_int64(row, 11),
        .currency = text_at(row, 12),
    };
    price_read(row, 13, ret->per_use);
}

static bool is_one(const char *want, const char *text)
{
    return want == NULL || strcmp(want, text) == 0;
}

/* Whether some of it is in the range; a start counts where it was, and so does what was used in no time. */
static bool fits(const struct store_usage *u, const struct store_interval *i)
{
    return i->began_ms != 0 && i->began_ms < u->until_ms &&
           (i->ended_ms == 0 || i->ended_ms > u->since_ms || i->began_ms >= u->since_ms) &&
           (!u->has_principal || u->principal == i->principal) && is_one(u->user, i->user) &&
           is_one(u->thread, i->thread) && is_one(u->sandbox_id, i->sandbox_id) &&
           is_one(u->profile, i->profile);
}

/* --- sums --- */

struct sum_key {
    const struct store_interval *i;
    unsigned by;
};

static const char *part(unsigned by, unsigned bit, const char *text)
{
    return (by & bit) != 0 ? text : "";
}

static uint64_t principal_part(unsigned by, const struct store_interval *i)
{
    return (by & STORE_BY_PRINCIPAL) != 0 ? i->principal : 0;
}

static bool is_sum(const struct map_node *node, const void *key)
{
    const struct store_sum *sum = container_of(node, struct store_sum, node);
    const struct sum_key *k = key;

    return sum->principal == principal_part(k->by, k->i) &&
           strcmp(sum->user, part(k->by, STORE_BY_USER, k->i->user)) == 0 &&
           strcmp(sum->thread, part(k->by, STORE_BY_THREAD, k->i->thread)) == 0 &&
           strcmp(sum->sandbox_id, part(k->by, STORE_BY_SANDBOX, k->i->sandbox_id)) == 0 &&
           strcmp(sum->profile, part(k->by, STORE_BY_PROFILE, k->i->profile)) == 0 &&
           strcmp(sum->currency, k->i->currency) == 0;
}

static uint64_t hash_of(const struct sum_key *k)
{
    uint64_t h = hash_u64(principal_part(k->by, k->i));

    h = hash_u64(h ^ hash_str(part(k->by, STORE_BY_USER, k->i->user)));
    h = hash_u64(h ^ hash_str(part(k->by, STORE_BY_THREAD, k->i->thread)));
    h = hash_u64(h ^ hash_str(part(k->by, STORE_BY_SANDBOX, k->i->sandbox_id)));
    h = hash_u64(h ^ hash_str(part(k->by, STORE_BY_PROFILE, k->i->profile)));
    return hash_u64(h ^ hash_str(k->i->currency));
}

/* NULL: there are too many. */
static struct store_sum *sum_of(struct store_usage *u, const struct store_interval *i)
{
    const struct sum_key key = {.i = i, .by = u->by};
    uint64_t hash = hash_of(&key);
    struct map_node *n = map_find(&u->sums, hash, is_sum, &key);
    struct store_sum *sum;

    if (n != NULL)
        return container_of(n, struct store_sum, node);
    if (u->sum_list.len >= u->max)
        return NULL;
    sum = xcalloc(1, sizeof(*sum));
    sum->principal = principal_part(u->by, i);
    sum->user = xstrdup(part(u->by, STORE_BY_USER, i->user));
    sum->thread = xstrdup(part(u->by, STORE_BY_THREAD, i->thread));
    sum->sandbox_id = xstrdup(part(u->by, STORE_BY_SANDBOX, i->sandbox_id));
    sum->profile = xstrdup(part(u->by, STORE_BY_PROFILE, i->profile));
    sum->currency = xstrdup(i->currency);
    map_insert(&u->sums, &sum->node, hash);
    list_push_back(&u->sum_list, &sum->link);
    return sum;
}

static void add(struct store_usage *u, const struct store_interval *i)
{
    struct store_sum *sum = sum_of(u, i);
    struct store_counts counts;

    if (sum == NULL) {
        u->is_cut = true;
        u->is_end = true;
        return;
    }
    store_usage_counts(i, u->since_ms, u->until_ms, &counts);
    store_counts_add(&sum->counts, &counts);
    sum->ms[i->state] += store_usage_ms(i, u->since_ms, u->until_ms);
    sum->nominal += store_usage_part(i, u->since_ms, u->until_ms);
}

static void mark(struct store_usage *u, int64_t box, uint64_t last_id)
{
    if (u->mark_count == u->mark_cap) {
        u->mark_cap = u->mark_cap > 0 ? u->mark_cap * 2 : 16;
        u->marks = xrealloc(u->marks, u->mark_cap * sizeof(u->marks[0]));
    }
    u->marks[u->mark_count++] = (struct store_mark){.box = box, .last_id = last_id};
}

/* Closed after its box was looked at: it was counted as open. */
static bool was_counted(const struct store_usage *u, int64_t box, uint64_t id)
{
    size_t low = 0;
    size_t high = u->mark_count;

    if (u->mark_count == 0 || id <= u->marks[0].last_id)
        return false;
    while (low < high) { /* the first mark at or behind the box */
        size_t middle = low + (high - low) / 2;

        if (u->marks[middle].box < box)
            low = middle + 1;
        else
            high = middle;
    }
    return low < u->mark_count && id > u->marks[low].last_id;
}

/* --- intervals --- */

static char *keep(char *at, const char *text, const char **ret)
{
    size_t size = strlen(text) + 1;

    memcpy(at, text, size);
    *ret = at;
    return at + size;
}

static void list_row(struct store_usage *u, const struct store_interval *i)
{
    size_t size = strlen(i->sandbox_id) + strlen(i->user) + strlen(i->thread) + strlen(i->profile) +
                  strlen(i->currency) + 5;
    struct store_interval *to = &u->rows[u->row_count++];
    char *at = xcalloc(1, size);

    *to = *i;
    at = keep(at, i->sandbox_id, &to->sandbox_id);
    at = keep(at, i->user, &to->user);
    at = keep(at, i->thread, &to->thread);
    at = keep(at, i->profile, &to->profile);
    (void) keep(at, i->currency, &to->currency);
    if (u->row_count == u->max) {
        u->is_cut = true;
        u->is_end = true;
    }
}

/* --- steps --- */

static void take(struct store_usage *u, const struct store_interval *i)
{
    if (!fits(u, i))
        return;
    if (u->want_rows)
        list_row(u, i);
    else
        add(u, i);
}

static int read_open(struct db *db, struct store_usage *u)
{
    const enum sql_stmt which = SQL_READ_OPEN;
    sqlite3_stmt *q = db->stmts[which];
    unsigned seen = 0;
    int64_t last_id = 0;
    int rc = sql_read_i64(db, "SELECT max(id) FROM usage", &last_id);

    if (rc != SQLITE_OK)
        return rc;
    sql_bind_u64(db, which, 1, (uint64_t) (u->has_place ? u->place : INT64_MIN));
    sql_bind_u64(db, which, 2, u->scan_max);
    for (rc = sqlite3_step(q); rc == SQLITE_ROW && !u->is_end; rc = sqlite3_step(q)) {
        struct store_interval i;

        usage_row(q, &i);
        i.sampled_ms = (uint64_t) sqlite3_column_int64(q, INTERVAL_COLUMNS);
        counts_read(q, INTERVAL_COLUMNS + 1, &i.counts);
        seen++;
        u->has_place = true;
        u->place = (int64_t) i.box;
        take(u, &i);
    }
    (void) sqlite3_reset(q); /* repeats the error of the step */
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        return rc;
    if (!u->want_rows && seen > 0)
        mark(u, seen < u->scan_max ? INT64_MAX : u->place, (uint64_t) last_id);
    if (!u->is_end && seen < u->scan_max) {
        u->is_past_open = true;
        u->has_place = false;
    }
    return SQLITE_OK;
}

/* Rows are in the order in which they were closed, and none ended later than that. */
static int seek(struct db *db, struct store_usage *u)
{
    int64_t first = 0;
    int64_t last = 0;
    uint64_t at = 0;
    int rc = sql_read_i64(db, "SELECT min(id) FROM usage", &first);

    if (rc == SQLITE_OK)
        rc = sql_read_i64(db, "SELECT max(id) FROM usage", &last);
    if (rc == SQLITE_OK)
        rc = history_seek(db, SQL_SEEK_USAGE, (uint64_t) first, (uint64_t) last + 1, u->since_ms,
                          &at);
    u->has_place = true;
    u->place = (int64_t) at - 1;
    return rc;
}

static int read_closed(struct db *db, struct store_usage *u)
{
    const enum sql_stmt which = SQL_READ_USAGE;
    sqlite3_stmt *q = db->stmts[which];
    unsigned seen = 0;
    int rc = u->has_place ? SQLITE_OK : seek(db, u);

    if (rc != SQLITE_OK)
        return rc;
    sql_bind_u64(db, which, 1, (uint64_t) u->place);
    sql_bind_u64(db, which, 2, u->scan_max);
    for (rc = sqlite3_step(q); rc == SQLITE_ROW && !u->is_end; rc = sqlite3_step(q)) {
        struct store_interval i;

        usage_row(q, &i);
        seen++;
        u->place = sqlite3_column_int64(q, INTERVAL_COLUMNS);
        i.folded = (uint64_t) sqlite3_column_int64(q, INTERVAL_COLUMNS + 1);
        i.folded_ms = (uint64_t) sqlite3_column_int64(q, INTERVAL_COLUMNS + 2);
        counts_read(q, INTERVAL_COLUMNS + 3, &i.counts);
        if (u->want_rows || !was_counted(u, (int64_t) i.box, (uint64_t) u->place))
            take(u, &i);
    }
    (void) sqlite3_reset(q); /* repeats the error of the step */
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        return rc;
    u->is_end = u->is_end || seen < u->scan_max;
    return SQLITE_OK;
}

/* Rows that it has counted became a part of one that it has not, or the other way round. */
static void begin_anew(const struct db *db, struct store_usage *u, uint64_t now_ms)
{
    uint64_t mark = u->mark_count > 0 ? u->marks[0].last_id : UINT64_MAX;
    int64_t place = u->is_past_open && u->has_place ? u->place : INT64_MIN;
    bool is_concerned = !u->want_rows && fold_concerns(db, u->folds, place, mark);

    u->folds = db->fold_count;
    if (!is_concerned)
        return;
    u->restarts++;
    u->is_unsteady = u->is_end = u->restarts > RESTARTS_MAX;
    free_sums(u);
    map_init(&u->sums, u->max);
    u->until_ms = MIN_OF(u->asked_ms, now_ms); /* before it only a part of a new sum */
    u->mark_count = 0;
    u->is_past_open = u->has_place = false;
}

int usage_read(struct db *db, const struct store_write *w)
{
    struct store_usage *u = w->u.usage;
    int rc;

    if (u->is_stepped)
        return SQLITE_OK;
    if (!u->is_begun) {
        u->is_begun = true;
        u->folds = db->fold_count;
        u->asked_ms = u->until_ms;
        u->until_ms = MIN_OF(u->until_ms, w->at_ms);
        if (u->want_rows)
            u->rows = xcalloc(u->max, sizeof(u->rows[0]));
        else
            map_init(&u->sums, u->max);
    }
    begin_anew(db, u, w->at_ms);
    if (u->is_end)
        rc = SQLITE_OK;
    else
        rc = u->is_past_open ? read_closed(db, u) : read_open(db, u);
    u->is_stepped = rc == SQLITE_OK;
    return rc;
}
