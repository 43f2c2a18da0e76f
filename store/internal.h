/* internal.h - what the files of the store share. `struct store` has three kinds of fields: the
 * loop's, the writer's (the loop's before store_start() and after the join), and the shared ones,
 * which are the queue and the atomics. */
#ifndef STORE_INTERNAL_H
#define STORE_INTERNAL_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "store/queue.h"
#include "store/store.h"

/* "spol": marks a database as ours, in the header of the file. */
#define STORE_APPLICATION_ID 0x73706f6c

/* Longest path of a file beside the database. */
#define STORE_PATH_MAX 512

/* Rows of `meta` that the store writes itself. */
#define STORE_META_FLOOR "generation_floor" /* highest generation among removed leases */
#define STORE_META_PROBE "store_probe"      /* proof that the disk takes writes again; not loaded */
#define STORE_META_STAMP "store_stamp"      /* see stamp.c; not loaded */

enum sql_stmt {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_SAVE, /* savepoint around one write */
    SQL_SAVE_UNDO,
    SQL_SAVE_END,
    SQL_PUT_BOX,
    SQL_PUT_LEASE,
    SQL_END_LEASE,       /* 1 sandbox_id, 2 box id, 3 end, 4 ended_ms */
    SQL_FORGET_LEASE,    /* 1 box id, 2 ended_ms */
    SQL_FORGET_BOX,      /* 1 box id */
    SQL_PUT_GONE,        /* 1 backend, 2 ref, 3 life, 4 gone_ms */
    SQL_PRUNE_GONE,      /* 1 how many stay */
    SQL_PUT_META,        /* 1 key, 2 value */
    SQL_ADD_EVENT,       /* 1 id, 2 at_ms, 3 kind, 4 body, 5 principal, 6 box_id, 7 sandbox_id */
    SQL_READ_EVENTS,     /* 1 after this id, 2 before this one, 3 how many rows */
    SQL_READ_BOX_EVENTS, /* likewise, 4 box_id */
    SQL_READ_ID_EVENTS,  /* likewise, 4 sandbox_id */
    SQL_READ_OWN_EVENTS, /* likewise, 4 principal */
    SQL_SEEK_EVENT,      /* 1 the first from this id on */
    SQL_COUNT_EVENTS,
    SQL_COUNT_NEW_EVENTS, /* 1 after this id */
    SQL_PRUNE_EVENTS,     /* 1 principal, 2 how many of its oldest */
    SQL_COUNT_PAST,
    SQL_MAX_PAST,   /* 1 how many of the oldest; their highest generation */
    SQL_PRUNE_PAST, /* 1 how many of the oldest */
    SQL_MAX_SHARED, /* these two: 1 how many, of the principals that have the most */
    SQL_PRUNE_SHARED,
    SQL_END_OTHER,       /* 1 box, 2 when, 3 the id it has now */
    SQL_END_LEFT_OPEN,   /* 1 when */
    SQL_OPEN_OF_BOX,     /* 1 box */
    SQL_OPEN_OF_PROFILE, /* 1 profile, 2 the first box after this one */
    SQL_ADD_USAGE,
    SQL_REPRICE, /* 1 box, 2 since when, 3 per hour, 4 per start, 5 currency, 6... used, 12 per use */
    SQL_READ_OPEN,   /* 1 after this box, 2 how many */
    SQL_READ_USAGE,  /* 1 after this id, 2 how many */
    SQL_BINDING_OF,  /* 1 box: its id, generation, since when it is metered, user, price of use */
    SQL_COUNTS_OF,   /* 1 box */
    SQL_PUT_COUNTS,  /* 1 box, 2 sandbox_id, 3 generation, 4 at_ms, 5... */
    SQL_DROP_COUNTS, /* 1 box */
    SQL_SEEK_USAGE,  /* 1 the first from this id on */
    SQL_PRUNE_USAGE, /* 1 up to this id; gives principals */
    SQL_COUNT_USAGE,
    SQL_COUNT_NEW_USAGE, /* 1 after this id */
    SQL_PRUNE_OWN_USAGE, /* 1 principal, 2 how many of its oldest */
    SQL_FOLD_RANGE,      /* likewise: gives their first and last id */
    SQL_FOLD_SUM,        /* likewise, 3 level, 4 piece of time, see fold.c */
    SQL_FOLD_REMOVE,     /* likewise */
    SQL_BUDGET_OF,       /* 1 user */
    SQL_PUT_BUDGET,
    SQL_LIST_BUDGETS,  /* 1 after this user, 2 how many */
    SQL_OPEN_PRICES,   /* 1 currency */
    SQL_PRUNE_BUDGETS, /* 1 how many */
    SQL_PUT_TOKEN,
    SQL_DROP_TOKEN, /* 1 id */
    SQL_STMT_COUNT
};

enum { FOLDS = 16 };

/* Rows of `usage` among which some became sums. */
struct fold {
    int64_t first;
    int64_t last;
};

/* One connection with its statements. */
struct db {
    sqlite3 *conn; /* NULL while it cannot be opened */
    sqlite3_stmt *stmts[SQL_STMT_COUNT];
    bool is_full;          /* synchronous is FULL, not NORMAL */
    uint64_t ended;        /* leases ended because their box went on under another id */
    unsigned wal_pages;    /* of the last commit */
    unsigned ckpt_pages;   /* size of the log at which the next checkpoint is due */
    uint64_t stamp;        /* see stamp.c; each row of a box that is written gets it */
    uint64_t stamped_id;   /* the box whose row got it last; 0: not known */
    bool is_stamp_missing; /* no row that this transaction leaves is known to have it */
    bool want_usage;       /* as configured */
    uint64_t metered;      /* intervals closed since the last pruning */
    uint64_t closed_ms;    /* of the last one: it never goes back */
    bool has_counters;     /* there are, or may be, rows of `counters` */
    uint64_t fold_count;   /* so far; the last FOLDS of them, each at its number: */
    struct fold folds[FOLDS];
    struct budgets *budgets;
};

enum shares_table { SHARES_EVENTS, SHARES_USAGE, SHARES_COUNT };

/* How many rows of a table each principal has. The writer's. */
struct shares {
    enum shares_table table;
    bool is_known;    /* else it is counted when there may be too many rows */
    uint64_t last_id; /* that was counted */
    uint64_t total;
    struct map by_principal;
    struct heap by_count;
};

/* What users have spent. */
struct budgets {
    bool is_on;
    bool is_monthly;
    char currency[STORE_CURRENCY_MAX + 1];
    struct { /* the loop's: by the wall clock */
        uint64_t number;
        uint64_t from_ms;
        uint64_t until_ms;
    } month;
    struct list changed; /* the writer's: rows of the batch under way */
    pthread_mutex_t lock;
    struct budget_book *book; /* shared: committed rows */
};

enum {
    STORE_BOOT_FILES = 2 /* by the path of the database as given, and as resolved */
};

struct store {
    /* the loop's */
    struct store_config config;
    char *path;
    struct list ops; /* in flight: submitted and not finished */
    bool is_up;
    bool is_hung; /* the oldest write in flight takes too long */
    struct rt_timer hang_timer;
    bool is_started;
    bool is_fresh;     /* no older copy of the database was put back, as far as the stamp shows */
    struct err reason; /* why it is down */
    pthread_t thread;

    /* shared */
    struct queue queue;
    atomic_uint_fast64_t commits;
    atomic_uint_fast64_t power_commits;
    atomic_uint_fast64_t writes;
    atomic_uint_fast64_t failures;
    atomic_uint_fast64_t commit_ns_max;
    atomic_uint_fast64_t wal_pages;
    atomic_bool is_reserve_held;

    struct budgets budgets;

    /* the writer's */
    struct db db;
    char *reserve_path;             /* NULL: no reserve */
    bool has_reserve;               /* else it is to be made */
    uint64_t reserve_retry_ns;      /* not before */
    unsigned reserve_seen_pages;    /* of the log, at the last look at the database's space */
    int stamp_fd;                   /* -1: no stamp, or its file cannot be opened */
    int boot_fds[STORE_BOOT_FILES]; /* the stamp of this run of the machine; -1: as above */
    uint64_t stamp;                 /* in the database */
    uint64_t events_added;          /* since the last pruning */
    uint64_t leases_ended;
    struct shares shares[SHARES_COUNT];
    struct {
        struct store_write *write; /* NULL: none is made */
        sqlite3 *conn;
        sqlite3_backup *copy;
    } backup;
    uint64_t retry_ns; /* wait before the next try while down */
    uint64_t retry_min_ns;
    uint64_t retry_max_ns;
};

/* --- sql.c: statements --- */

MUST_CHECK int sql_prepare(struct db *db, struct err *err);
void sql_finalize(struct db *db);
/* Runs a statement that returns no row; SQLITE_OK, or the (extended) code. It is reset. */
MUST_CHECK int sql_run(struct db *db, enum sql_stmt which);
/* Runs a statement that returns one number; 0 when there is no row or it is NULL. */
MUST_CHECK int sql_run_u64(struct db *db, enum sql_stmt which, uint64_t *ret);
/* Ends the transaction, if one is open. What cannot be undone now is undone by the next open. */
void sql_undo(struct db *db);
void sql_bind_u64(struct db *db, enum sql_stmt which, int index, uint64_t v);
void sql_bind_null(struct db *db, enum sql_stmt which, int index);
/* Borrowed until the statement has run; NULL is bound as ''. */
void sql_bind_str(struct db *db, enum sql_stmt which, int index, const char *s);
/* Text of several statements, for set-up only. */
MUST_CHECK int sql_exec(struct db *db, const char *text);
MUST_CHECK int sql_read_i64(struct db *db, const char *text, int64_t *ret);
/* Describes the last failure of the connection. */
int sql_error(const struct db *db, int rc, const char *path, struct err *err);

/* --- apply.c: one write as statements --- */

MUST_CHECK int apply_write(struct db *db, const struct store_write *w);

/* --- meter.c: time of boxes that have an owner --- */

/* What a row of a box has for the meter. */
struct meter_row {
    uint64_t since_ms; /* 0: nothing is metered */
    uint64_t per_hour;
    uint64_t per_start;
    uint64_t per_use[STORE_RATE_COUNT];
    char currency[STORE_CURRENCY_MAX + 1];
    bool is_moved; /* the row that is there has, or may have, another public id */
    struct store_used used;
};

/* Before the row of a box is written: closes its open interval if the new row ends it, and gives what the new row
 * is to have. When nothing is metered it does not look at the row that is there. */
MUST_CHECK int meter_turn(struct db *db, const struct store_write *w, struct meter_row *ret);
/* The columns used_* of a statement, from `first` on. */
void meter_bind_used(struct db *db, enum sql_stmt which, int first, const struct store_used *used);
void meter_read_used(sqlite3_stmt *row, int first, struct store_used *ret);
/* The column per_use: four numbers, or nothing. */
void price_bind(struct db *db, enum sql_stmt which, int index,
                const uint64_t per_use[STORE_RATE_COUNT]);
void price_read(sqlite3_stmt *row, int column, uint64_t ret[STORE_RATE_COUNT]);
MUST_CHECK int meter_remove(struct db *db, const struct store_write *w);
MUST_CHECK int meter_reprice(struct db *db, const struct store_write *w);
MUST_CHECK int meter_at_open(struct store *s);
/* A part of what is too old, or too much. */
MUST_CHECK int meter_prune(struct store *s);

/* --- counters.c: what boxes have used --- */

struct store_interval;
MUST_CHECK int counts_sample(struct db *db, const struct store_write *w);
/* The open interval of a box ends: gives its share, and the next one has nothing yet. */
MUST_CHECK int counts_close(struct db *db, const struct store_interval *i,
                            struct store_counts *ret);
/* What the binding in the row of a box has used in intervals that are closed. */
MUST_CHECK int counts_used(struct db *db, const struct store_box *box, struct store_counts *ret);
MUST_CHECK int counts_forget(struct db *db, uint64_t box);
MUST_CHECK int counts_at_open(struct db *db);
/* Columns, one for each; NULL: not known. */
void counts_bind(struct db *db, enum sql_stmt which, int first, const struct store_counts *c);
void counts_read(sqlite3_stmt *row, int first, struct store_counts *ret);

/* --- budget.c, budget_book.c: what users have spent --- */

struct store_interval;
void budget_init(struct budgets *b, const struct store_config *config);
void budget_fini(struct budgets *b);
MUST_CHECK int budget_at_open(struct store *s);
/* The present one. On the loop, or before the thread starts. */
void budget_period(struct store *s, struct store_period *ret);
/* An interval ends, another one begins; either may be NULL. */
MUST_CHECK int budget_turn(struct db *db, const struct store_period *period,
                           const struct store_interval *was, const struct store_interval *next);
/* What was used costs this much, beside the time. */
MUST_CHECK int budget_use(struct db *db, const struct store_period *period, const char *user,
                          const char *currency, unsigned __int128 nominal);
MUST_CHECK int budget_call(struct db *db, const struct store_write *w);
/* Rows changed so far by the batch under way; those after a mark are undone; all of them are shown to the loop. */
size_t budget_mark(const struct budgets *b);
void budget_undo(struct budgets *b, size_t mark);
void budget_committed(struct budgets *b);
/* A part of what is too much. */
MUST_CHECK int budget_prune(struct store *s);

/* --- fold.c: metered time of many intervals in one row --- */

/* Of the oldest of this principal, until there are `want` rows less, or no more can be done; `ret`: how many. */
MUST_CHECK int fold_usage(struct db *db, uint64_t principal, uint64_t want, uint64_t *ret);
/* Whether sums that were begun when `since` had been done have to begin anew. */
bool fold_concerns(const struct db *db, uint64_t since, int64_t place, uint64_t mark);

/* --- usage.c: metered time, read back --- */

enum { INTERVAL_COLUMNS = 14 };
/* A row of INTERVAL; texts live until the statement goes on. */
void usage_row(sqlite3_stmt *row, struct store_interval *ret);
MUST_CHECK int usage_read(struct db *db, const struct store_write *w);

/* --- history.c: old events --- */

/* The id of the first row whose time is `since_ms` or later, or one more than the last: rows are in the order of
 * their times. `q` is SQL_SEEK_EVENT or SQL_SEEK_USAGE, `low` and `high` are ids that it lies between. */
MUST_CHECK int history_seek(struct db *db, enum sql_stmt q, uint64_t low, uint64_t high,
                            uint64_t since_ms, uint64_t *ret);

MUST_CHECK int history_read(struct db *db, struct store_history *h);

/* --- backup.c: a copy while it is in use --- */

bool backup_is_active(const struct store *s);
void backup_begin(struct store *s, struct store_write *w);
/* A few pages; ends it when they were the last. */
void backup_step(struct store *s);
/* Ends it, if one is made: the connection is about to go. */
void backup_fail(struct store *s, const char *why);

/* --- schema.c: opening --- */

struct migration {
    int64_t version; /* that it leads to */
    const char *sql;
};

/* Brings the database from its version to that of the last of `list`, all or nothing. */
MUST_CHECK int schema_migrate(struct db *db, const struct migration *list, size_t count,
                              struct err *err);
/* Opens, checks, migrates, prepares. Without `can_create` the file must be there with our tables. */
MUST_CHECK int schema_open(struct db *db, const char *path, bool can_create, struct err *err);
void schema_close(struct db *db);

/* --- upkeep.c: bounds of the tables, and the log --- */

/* How long the writer may sleep before there is something to keep up. */
uint64_t upkeep_wait_ns(const struct store *s);
/* Between batches. A failure is one of the disk. */
MUST_CHECK int upkeep_run(struct store *s, bool is_idle, struct err *err);
/* At open: leases that were left open are ended, the tables cut exactly to their bounds. */
MUST_CHECK int upkeep_at_open(struct store *s, struct err *err);
/* The log into the database; what fails now is done by the next open. */
void upkeep_checkpoint(struct store *s, bool want_truncate);
/* PRAGMA synchronous; outside a transaction. */
MUST_CHECK int upkeep_set_full(struct db *db, bool is_full);

/* --- shares.c: bounds by principal --- */

void shares_init(struct shares *h, enum shares_table table);
void shares_fini(struct shares *h);
/* What was counted may be wrong: a transaction that changed it was undone. */
void shares_forget(struct shares *h);
/* Takes in what was added; does nothing while there cannot be more than `max`. */
MUST_CHECK int shares_count(struct shares *h, struct db *db, uint64_t max);
/* Somebody else removed one of those that were counted. */
void shares_removed(struct shares *h, uint64_t principal);
/* After shares_count(): down to `max`, but no more than `most` at once. */
MUST_CHECK int shares_prune(struct shares *h, struct db *db, uint64_t max, uint64_t most);

/* --- reserve.c: space for the store on a full disk --- */

void reserve_init(struct store *s);
/* Makes it, when it is not there and there is space. */
void reserve_keep(struct store *s);
/* How long until that is to be tried; QUEUE_FOREVER when there is nothing to do. */
uint64_t reserve_wait_ns(const struct store *s);
/* Before a checkpoint: the database keeps the space that it has. */
void reserve_hold(struct store *s);
/* Whether blocks that the log gives back could be had again. */
bool reserve_has_room(const struct store *s);
/* After the last checkpoint: the log keeps its blocks for the next start. */
void reserve_leave(struct store *s);
/* Whether this failure is one of space; `sys` is the errno behind it. */
bool reserve_is_wanted(int rc, int sys);
/* Gives the file up; false when there is none. */
bool reserve_drop(struct store *s);
/* After a write has failed with `rc` and was undone: true when something was done about it and the
 * write is worth trying again. `tries` counts, from 0. */
MUST_CHECK bool reserve_help(struct store *s, int rc, unsigned *tries);

/* --- stamp.c: whether the database is the last one --- */

MUST_CHECK int stamp_at_open(struct store *s, struct err *err);
bool stamp_has_boot(const struct store *s); /* every lease is to be counted */
/* At the begin of a batch's transaction, which gets the next number if `want_next`; at its end; and, before the
 * commit is reported, in the files: in the one beside the database only if `want_file`. */
void stamp_begin(struct store *s, bool want_next);
MUST_CHECK int stamp_in_batch(struct store *s);
void stamp_after_commit(struct store *s, bool want_file);
void stamp_close(struct store *s);

/* --- writer.c: the thread --- */

MUST_CHECK int writer_start(struct store *s, struct err *err);
void writer_join(struct store *s);

#endif
