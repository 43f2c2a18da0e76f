/* store.h - what must survive a crash, in SQLite, written by one thread of its own.
 *
 * The loop submits writes; the writer thread takes everything that is queued, commits it as one
 * transaction and hands it back; store_drain() on the loop then finishes the operations in the
 * order they were submitted. A write is durable when its on_done() says SP_OK.
 *
 * When the disk fails (full, I/O error) the whole batch and everything queued behind it fail with
 * SP_STORE_UNAVAILABLE, the store is down, and every later write fails at once; the writer tries
 * again by itself and reports when it is up. A write that is wrong in itself fails alone.
 *
 * A disk that hangs instead of failing is down after `timeout_ns`, too. Then later writes fail at
 * once, but those in flight have not failed: their on_done() comes when the disk answers.
 *
 * Times in rows are wall clock ms since 1970; 0 means none. Reads at run time come from memory
 * (the pool), never from here, except for old events. store_load() comes before the thread starts. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/op.h"

#define STORE_SCHEMA_VERSION 16

#define STORE_GONE_MAX 4096

/* What has a price by how much of it is used, as far as that is counted. */
enum store_rate {
    STORE_RATE_CPU,    /* an hour of one processor */
    STORE_RATE_MEMORY, /* a GB (1024^3 bytes) for an hour */
    STORE_RATE_NET,    /* a GB, in and out together */
    STORE_RATE_DISK,   /* a GB, read and written together */
    STORE_RATE_COUNT
};

/* What a box costs. Per hour in millionths of a millionth of the currency, so that nothing is rounded before amounts are
 * added up; once for each binding, and for what is used, in millionths. */
struct store_price {
    uint64_t per_hour;
    uint64_t per_start;
    uint64_t per_use[STORE_RATE_COUNT];
    const char *currency; /* '': no price; NULL in a write: as it was */
};

#define STORE_CURRENCY_MAX 15

enum store_meter { STORE_LEASED, STORE_PARKED, STORE_PAUSED, STORE_METER_COUNT };

/* What the processes of a box use. */
enum store_counter {
    STORE_CPU_US,
    STORE_MEMORY, /* MB (1024^2 bytes) times milliseconds; in a sample: bytes */
    STORE_NET_IN, /* these four in bytes */
    STORE_NET_OUT,
    STORE_DISK_READ,
    STORE_DISK_WRITE,
    STORE_COUNTER_COUNT
};

struct store_counts {
    unsigned known; /* bit k: n[k] is known, else nobody has counted it */
    uint64_t n[STORE_COUNTER_COUNT];
};
void store_counts_add(struct store_counts *to, const struct store_counts *from);

/* What a binding of a box has used in intervals that are closed. The cost is exact: `rest` is what is left below a
 * millionth of the currency. */
struct store_used {
    bool is_known; /* false: it was not metered */
    bool is_mixed; /* it was paid in several currencies: the amount is of no use */
    uint64_t ms[STORE_METER_COUNT];
    uint64_t micros;
    uint64_t rest;
    char currency[STORE_CURRENCY_MAX + 1]; /* '': it has no price */
    struct store_counts counts;            /* not loaded */
};

/* A millionth of a currency in the parts that costs are added up in: so small that a millisecond, a byte of a GB and all
 * else that is counted cost a whole number of them. */
#define STORE_NOMINAL_SHIFT 17
#define STORE_NOMINAL_MICRO (3600000000000ULL << STORE_NOMINAL_SHIFT)

/* In millionths of the currency, rounded half up. */
static inline uint64_t store_used_cost(const struct store_used *used)
{
    return used->micros + (used->rest >= STORE_NOMINAL_MICRO / 2 ? 1 : 0);
}

/* One box. Strings are borrowed until on_done(); NULL is stored as ''. */
struct store_box {
    uint64_t id;
    const char *state; /* intent starting blank leased parked deleting */
    const char *profile;
    const char *backend;
    uint64_t spec_hash;
    const char *sandbox_id; /* '' while nobody owns it */
    const char *user;
    const char *thread;
    uint64_t principal;
    uint64_t generation;
    uint64_t made_with; /* what its caller wanted it made with, as a hash; 0: nothing */
    const char *url;
    const char *token;
    const char *ref;
    const char *life; /* which start of it was seen; '': not known */
    const char *meta; /* metadata as a JSON object, or '' */
    uint64_t created_ms;
    uint64_t ready_ms;
    uint64_t leased_ms;
    uint64_t parked_ms;
    uint64_t active_ms;
    uint64_t expires_ms;    /* 0: never */
    uint64_t idle_limit_ms; /* 0: never */
    const char *end;        /* why it is being deleted, or '' */
    bool is_paused;         /* it stands still, or may */
    bool is_stale;          /* of an older copy of the database, and not written again since */
    /* Since when the row is true; 0: since it was submitted. Loaded: since when its time is metered; 0: it is not. */
    uint64_t true_ms;
    struct store_price price;
    /* What its binding has used: a result of STORE_DELETING (NULL: not wanted); loaded. */
    struct store_used *used;
};

/* One binding of a public id that has ended. */
struct store_past {
    const char *sandbox_id;
    uint64_t generation;
    uint64_t principal;
    const char *end;
    uint64_t ended_ms;
};

/* One box that is gone, of those whose name may be used again: by what it is recognized if that name still
 * leads to it. Of the newest STORE_GONE_MAX; how long it matters is for the backend to decide. */
struct store_gone {
    const char *backend;
    const char *ref;
    const char *life;
    uint64_t gone_ms;
};

/* A token of callers on TCP; what it is, nobody can compute from its row. */
struct store_token {
    const char *id;
    const char *hash; /* SHA-256 of the token, in hex */
    const char *name;
    unsigned scopes;
    uint64_t principal;
    const char *user; /* these three: it is good for nothing else; '': for any */
    const char *profile;
    const char *sandbox_id;
    uint64_t created_ms;
    uint64_t expires_ms; /* 0: never */
};

/* One line of the audit trail. */
#define STORE_NOBODY UINT64_MAX
struct store_event {
    uint64_t id; /* grows by one; the writer of the event numbers them */
    uint64_t at_ms;
    const char *kind;
    const char *body;   /* JSON object */
    const char *box_id; /* these two as in the body, where they are looked for; NULL or "": none */
    const char *sandbox_id;
    uint64_t
        principal; /* whose box it is about, or who was refused; STORE_NOBODY: for operators only */
};

enum store_kind {
    STORE_PUT_BOX,   /* insert or replace the box row */
    STORE_PUT_LEASE, /* box row, and the lease row of its sandbox_id (generation, owner) */
    STORE_DELETING,  /* box row; its lease row, if it still names this box, is ended with box.end */
    STORE_FORGET,    /* remove the box row (box.id) */
    STORE_PUT_META,  /* key, value */
    STORE_ADD_EVENT,
    STORE_READ_EVENTS, /* looks for events among the rows */
    STORE_BACKUP,      /* copies the database to a file */
    STORE_READ_USAGE,  /* usage.h: adds up metered time, or lists it */
    STORE_REPRICE,     /* from now on the boxes of box.profile cost box.price */
    STORE_BUDGET,      /* budget.h: lists budgets, or changes one */
    STORE_SAMPLE,      /* what a box has used since it was made: see counters.c */
    STORE_PUT_TOKEN,
    STORE_DROP_TOKEN, /* token.id */
    STORE_KIND_COUNT
};

#define STORE_EVENT_KIND_MAX 31

struct store_found {
    uint64_t id;
    uint64_t at_ms;
    char kind[STORE_EVENT_KIND_MAX + 1];
    char *body;
};

/* Events read back, a bounded number of rows at a time: asked again with `after_id` as `last_id` until it
 * `is_end`. Texts: "" is any. */
struct store_history {
    uint64_t after_id;
    uint64_t before_id;
    uint64_t since_ms;
    uint64_t until_ms; /* not included */
    bool want_seek;    /* begins with the first from `since_ms` on; once */
    const char *kind;
    uint64_t principal; /* STORE_NOBODY: any */
    const char *
        box; /* box_id, sandbox_id, user_id, thread_id of the event; rows of the first two are found by an index */
    const char *sandbox_id;
    const char *user;
    const char *thread;
    unsigned scan_max; /* rows */

    struct store_found *found; /* results, freed by store_history_fini() */
    unsigned count;
    uint64_t last_id; /* that was looked at */
    bool is_end;      /* there are no more below `before_id` */
};
void store_history_fini(struct store_history *h);
/* Whether this is one of those that are asked for. */
bool store_history_fits(const struct store_history *h, const struct store_event *ev);

/* A copy of the database of one moment. */
struct store_backup {
    const char *path; /* beside the database; gone when the write is done */
    int fd;           /* result: the copy, the caller's to close; -1 when it failed */
    uint64_t bytes;
    /* It keeps its name, which the caller removes; and it is given up when another copy is asked for. */
    bool is_for_check;
};

/* Whether a copy that has a name is whole. Blocks. */
MUST_CHECK int store_check_copy(const char *path, struct err *err);

struct store_usage;
struct store_budget_call;

/* What budgets count: a month, or all time (0, 0). */
struct store_period {
    uint64_t number;
    uint64_t since_ms; /* when it began, in the time of rows */
};

struct store_write {
    struct op op;
    enum store_kind kind;
    bool want_power; /* must survive a power cut (FULL), not only a crash of the process */
    bool want_gone;  /* STORE_FORGET: what box.backend, ref and life say is kept as a store_gone */
    bool want_stamp; /* only this row has the box's owner: the stamp beside the database grows */
    union {
        struct store_box box;
        struct store_event event;
        struct {
            const char *key;
            const char *value;
        } meta;
        struct store_history *history;
        struct store_backup *backup;
        struct store_usage *usage;
        struct store_budget_call *budget;
        struct store_token token;
        struct {
            uint64_t box;
            struct store_counts now; /* of a box that is gone: ignored */
        } sample;
    } u;
    struct list_node queue_link; /* the store's own */
    struct err failure;          /* the store's own: written by the thread, read by the loop */
    int outcome;
    uint64_t begun_ns; /* the store's own: when it was submitted, on the loop's clock */
    uint64_t at_ms;    /* the store's own: rt_stored_at() of store_submit(); when a lease ended */
    struct store_period period; /* the store's own: at that time, for budgets */
};

struct store_config {
    const char *path;
    struct rt *rt;
    unsigned queue_max; /* writes in flight; one more fails with SP_STORE_UNAVAILABLE */
    unsigned batch_max; /* writes per transaction */
    uint64_t
        events_max; /* audit trail: beyond this the oldest are removed, of the principal with the most */
    uint64_t past_max;  /* ended leases kept */
    bool want_usage;    /* meter the time of boxes that have an owner */
    uint64_t usage_max; /* metered intervals kept, likewise, */
    uint64_t usage_ms;  /* and how long */
    /* Count what users spend in this currency, of each month or of all time: budget.h. NULL: nothing is counted.
     * Borrowed during store_open(). */
    const char *budget_currency;
    bool is_budget_monthly;
    uint64_t
        timeout_ns; /* a write that takes longer: the store counts as down until it ends; 0: never */
    bool want_reserve; /* keep space for the store, so that a full disk can be cleaned up */
    bool want_stamp;   /* keep a stamp beside the database: `<path>-stamp` */
    /* With want_stamp: keep another in this directory, which is empty after a start of the machine. It grows
     * with every lease. NULL: none. Borrowed during store_open(). */
    const char *boot_dir;
    /* Called on the writer thread, must only wake the loop, which then calls store_drain(). */
    void (*wake)(void *ctx);
    /* Called on the loop, from store_drain(), when the store goes down or comes back. */
    void (*on_state)(void *ctx, bool is_up, const char *reason);
    void *ctx;
};

struct store;

/* Opens (creating it with mode 0600), checks and migrates the database. An unreadable, foreign or newer one is
 * refused with a sentence that says what to do. The thread does not run yet. */
MUST_CHECK int store_open(const struct store_config *config, struct store **ret, struct err *err);

struct store_reader {
    void *ctx;
    /* on_meta() comes first. Rows come ordered by created_ms, then id. Returning false stops the load with SP_INTERNAL. */
    bool (*on_box)(void *ctx, const struct store_box *box);
    bool (*on_past)(void *ctx, const struct store_past *past); /* oldest first */
    bool (*on_gone)(void *ctx, const struct store_gone *gone); /* oldest first */
    bool (*on_event)(void *ctx,
                     const struct store_event *event); /* the newest `events_tail`, oldest first */
    bool (*on_meta)(void *ctx, const char *key, const char *value);
    bool (*on_token)(void *ctx, const struct store_token *token); /* by the time they were made */
    unsigned events_tail;
};
/* Synchronous, before store_start(). */
MUST_CHECK int store_load(struct store *s, const struct store_reader *reader, struct err *err);

MUST_CHECK int store_start(struct store *s, struct err *err);

/* Everything `w` points to is borrowed until on_done(). */
void store_submit(struct store *s, struct store_write *w, void (*on_done)(struct op *));
/* On the loop, after a wake: finishes what the thread has handed back. */
void store_drain(struct store *s);

/* False: an older copy of the database was put back, or nothing proves the contrary. Boxes that have no
 * owner in it may have got one since. */
bool store_is_fresh(const struct store *s);
bool store_is_up(const struct store *s);
bool store_is_hung(const struct store *s); /* down because the disk does not answer */
size_t store_pending(const struct store *s);

struct store_stats {
    uint64_t commits;
    uint64_t power_commits; /* of those: on the disk before they count */
    uint64_t writes;
    uint64_t failures;
    uint64_t commit_ns_max; /* slowest since store_forget_slowest() */
    uint64_t wal_pages;
    bool has_reserve; /* of space, for a full disk */
};
void store_get_stats(struct store *s, struct store_stats *ret);
void store_forget_slowest(struct store *s);

/* The part of closing that waits for the disk: writes what is queued, joins the thread, checkpoints, closes
 * the files. On any thread, while nothing is submitted; store_close() comes after. */
void store_shut(struct store *s);
/* Shuts it if that was not done, and frees. on_done() of everything still in flight is deferred to the
 * run queue before this returns. NULL is fine; returns NULL. */
struct store *store_close(struct store *s);

#endif
