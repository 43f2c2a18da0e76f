/* world.h - the world around one pool in a random walk: what the backends really run, what the
 * store has really committed, the requests of callers and their answers. The pool is checked
 * against it after every step. Everything follows from one seed. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "base/compiler.h"
#include "base/rand.h"
#include "pool/pool.h"
#include "sandpool/errors.h"

#define WORLD_PROFILES 3
#define WORLD_TTL_NS (3 * NS_PER_S) /* of a profile that has one */
#define WORLD_BACKENDS 2
#define WORLD_WARM_MAX 6 /* most that a profile is configured with */
#define WORLD_CREATE_MAX 3
#define WORLD_CLIENTS 14 /* the last ones are anonymous */
#define WORLD_THREADS 11
#define WORLD_BOXES 4096
#define WORLD_ROWS 256
#define WORLD_PASTS 8192
#define WORLD_PENDING 4096
#define WORLD_REQS 16384
#define WORLD_SNAPSHOTS 64

/* A box as the backend sees it. */
enum { CHECK_DELAY_MS = 10 }; /* at most, until the pool gets the answer to a check */

struct world_box {
    struct pool_seen seen; /* its labels */
    unsigned backend;
    bool is_running;
    bool is_unrecorded;    /* its owner wanted it gone while the store could not be written */
    bool has_failed;       /* the last write of it, also when it has no row yet */
    bool is_vouched;       /* its backend reported that it is ready */
    uint64_t stopped_ns;   /* its agent does not answer since; 0: it does */
    bool is_at_work;       /* used by something that does not pass through the daemon */
    uint64_t worked_ns;    /* time of the last such use */
    uint64_t silent_ns;    /* since when no question about it was answered; 0: the last was */
    bool has_no_agent;     /* it has no agent */
    unsigned life;         /* how often it was started again */
    uint64_t restarted_ns; /* the last time; its owner's data in it is lost */
    uint64_t doubted_ns;   /* a check of it had no result */
    unsigned absent;       /* checks in a row that say so, though it runs */
    uint64_t shown_ns; /* when a check was answered that it is there again; the pool gets the answer
                     * later */
    bool is_exempt;    /* appeared after the pool had given it up, or was put there by others */
    bool is_reported;  /* this life of the pool was notified that it exists */
    bool is_proven;    /* this life of the pool has seen it ready */
    bool is_unwanted;  /* destroyed before it appeared */
    bool is_special;   /* made for `owner` alone: never blank */
    bool is_unlabelled; /* its last bind was lost */
    uint64_t made_with;
    char owner[POOL_ID_MAX + 1]; /* the id it was leased under: nobody else may have it */
    uint64_t seen_by;            /* the principal that may know its token; 0: nobody */
    uint64_t lease_epoch;        /* of its last lease that a caller got a reply for */
    bool is_held;                /* a caller has got the reply, or may act as if it had */
};

#define WORLD_USERS 3
#define WORLD_PRINCIPAL 100 /* of the first of them */
#define WORLD_PULSE_NS \
    (400 * NS_PER_MS)                   /* a blank box that was silent for so long is asked first */
#define WORLD_PROBE_NS (25 * NS_PER_MS) /* an answer may be so late */
#define WORLD_HANG_NS (3000 * NS_PER_MS)  /* a disk that takes longer counts as down */
#define WORLD_GRACE_NS (1500 * NS_PER_MS) /* what an answer may take beyond its deadline */

struct world_row {
    bool is_used;
    struct pool_box box; /* state as the store keeps it */
    bool is_unrecorded;  /* as of the box */
    bool has_failed;     /* the last write of it */
};

struct world_past {
    char sandbox_id[POOL_ID_MAX + 1];
    uint64_t generation;
    uint64_t principal;
    enum pool_end end;
};

/* A hibernated box. */
struct world_snapshot {
    bool is_used;
    uint64_t number;
    char sandbox_id[POOL_ID_MAX + 1];
    uint64_t generation;
    uint64_t principal;
    unsigned profile;
};

enum pending_kind {
    PENDING_EVENT,  /* an answer on its way to the pool: dies in a crash */
    PENDING_COMMIT, /* a write in the store's queue */
    PENDING_APPEAR, /* a box comes to life */
    PENDING_KIND_COUNT
};

struct pending {
    bool is_used;
    enum pending_kind kind;
    uint64_t at_ns;
    uint64_t seq;
    size_t box;           /* APPEAR */
    enum pool_write what; /* COMMIT */
    struct pool_box row;
    enum pool_mode modes[1 + WORLD_PROFILES]; /* of the pool, then of the profiles */
    uint64_t since_ns;                        /* COMMIT: it was submitted */
    bool is_unrecorded;                       /* COMMIT: as of its row, which does not exist yet */
    struct pool_seen *seen;                   /* LISTED: owned */
    struct pool_event ev;
};

struct client {
    char sandbox_id[POOL_ID_MAX + 1];
    char user[POOL_OWNER_MAX + 1];
    char thread[POOL_OWNER_MAX + 1];
    bool is_acked;     /* got a reply that it holds `box`, and nothing since ended that */
    unsigned in_doubt; /* requests under way that may end it */
    uint64_t box;
    uint64_t generation;
    uint64_t active_ns;
    uint64_t loose_ns;    /* until then an acquire that it gave up may move the deadline */
    uint64_t promised_ns; /* a reply promised that the lease lasts until then at least */
    uint64_t last_req;    /* newest request that may move the deadline */
    unsigned busy;
};

struct request {
    enum pool_event_kind kind;
    size_t client;
    bool is_open;
    bool is_odd;    /* asked with a wrong owner, profile or generation */
    bool is_spent;  /* its user had used up its budget */
    bool had_lease; /* when it asked; or one was being written for another call of its thread */
    bool is_destroy;
    bool is_special;   /* and its thread had no box when it asked */
    uint64_t due_ns;   /* answered by then, whatever the disk does; 0: it waits for a backend */
    uint64_t until_ns; /* earliest deadline it may set */
    uint64_t prev_req; /* that may have moved it before */
    uint64_t made_with;
};

struct world {
    uint64_t seed;
    bool is_verbose;
    bool is_calm; /* no faults any more */
    struct rand rand;
    uint64_t now_ns;
    struct pool *pool;
    struct pool_config config;
    unsigned lives;
    uint64_t steps;

    struct world_box boxes[WORLD_BOXES];
    size_t box_count;
    unsigned wrong_listings[WORLD_BACKENDS];  /* in a row */
    uint64_t back_ns[WORLD_BACKENDS];         /* it receives and answers nothing until then */
    struct box_id unanswered[WORLD_BACKENDS]; /* box whose create had no answer, as the pool was
                                              * notified */
    uint64_t absences;                        /* of backends, for long */
    struct world_row rows[WORLD_ROWS];
    struct world_past pasts[WORLD_PASTS];
    size_t past_count;
    enum pool_mode stored_modes[1 + WORLD_PROFILES];
    struct world_row copy_rows[WORLD_ROWS]; /* an older copy of the database */
    size_t copy_past_count;
    bool has_copy;
    uint64_t crash_step; /* soon after a copy was put back; 0: no crash is planned */
    bool is_store_up;
    bool is_reported_up;    /* what the pool knows: a disk that hangs counts as down, too */
    bool is_space_low;      /* no box may be made */
    uint64_t store_free_ns; /* the writer works on one write after the other */
    uint64_t awake_ns;      /* the machine slept until then: everything is late */

    struct pending pending[WORLD_PENDING];
    uint64_t seq;
    struct world_snapshot snapshots[WORLD_SNAPSHOTS];
    uint64_t snapshot_count; /* ever made */
    uint64_t hibernated;     /* boxes that ended so */
    uint64_t too_many;       /* answers that there is no room for a snapshot, */
    uint64_t not_kept;       /* and boxes that ended so */
    uint64_t restores;       /* acquires of such */

    struct client clients[WORLD_CLIENTS];
    struct request requests[WORLD_REQS];
    uint64_t req;
    uint64_t oldest; /* request that may be open */

    uint64_t tokens; /* made so far */
    uint64_t leased; /* box that became leased in this step, until a caller gets a reply */
    uint64_t replies_ok;
    uint64_t freezes;
    uint64_t specials; /* of them: with a box made for the caller */
    uint64_t replies_refused;
    uint64_t spent_refused; /* of them: over budget */
    uint64_t quota_refused; /* by their quota */
    unsigned over
        [WORLD_USERS];   /* boxes that a caller may have beyond its quota: those that were found */
    uint64_t spent_kept; /* over budget, and had their lease already */
    uint64_t uses[POOL_USE_COUNT]; /* how often agents were asked */
    uint64_t by_code[SP_ERROR_INDEX_COUNT];
};

/* world.c */
void world_init(struct world *w, uint64_t seed);
void world_fini(struct world *w);
NORETURN void world_fail(struct world *w, const char *why);
void world_step(struct world *w, const struct pool_event *ev);
void world_advance(struct world *w, uint64_t until_ns); /* everything due up to then */
struct pending *world_later(struct world *w, enum pending_kind kind, uint64_t delay_ns);
bool world_chance(struct world *w, unsigned percent);         /* false when calm */
uint64_t world_ms(struct world *w, uint64_t lo, uint64_t hi); /* random duration */
void world_check(struct world *w);
size_t world_pending(const struct world *w);
/* The answer to a check of the box is on its way; the machine may have slept meanwhile. */
bool world_is_checked(const struct world *w, uint64_t box);

/* hibernate.c */
void hibernate_perform(struct world *w, const struct pool_fx *fx);
void hibernate_deliver(struct world *w, struct pool_event *ev, const struct pool_box *box);
void hibernate_mark(struct world *w, struct pool_acquire *a);
/* A snapshot of its box, which has ended, may still become whole: nobody gets another box before. */
bool hibernate_is_running(struct world *w, const char *sandbox_id);
void hibernate_again(struct world *w, const struct pool_fx *fx); /* the effect, then the acquire */
void hibernate_ask_again(struct world *w, struct pool_event *ev);
/* What a box is to be made from has been deleted. */
bool hibernate_is_missing(struct world *w, uint64_t made_with);
void hibernate_destroy(struct world *w, enum pool_event_kind kind, const char *sandbox_id);
void hibernate_fact(struct world *w, const struct pool_fx *fx);
void hibernate_sweep(struct world *w);

/* backend.c */
void backend_perform(struct world *w, const struct pool_fx *fx);
void backend_appear(struct world *w, size_t index);
void backend_list(struct world *w, unsigned backend);
/* Somebody needs a box that is paused. */
void backend_thaw(struct world *w, uint64_t id);
void backend_kill_one(struct world *w);
void backend_stop_one(struct world *w); /* its agent; or the others go on */
void backend_work(struct world *w);     /* one begins or ends to be used at its own address */
void backend_restart_one(struct world *w);
void backend_put_life(const struct world_box *b, char ret[POOL_LIFE_MAX + 1]);
/* Another one runs in its place than the pool knows. */
bool world_is_restarted(const struct world_box *real, const struct pool_box *b);
void backend_add_orphan(struct world *w);
struct world_box *backend_find(struct world *w, uint64_t id);

/* away.c */
bool away_is(const struct world *w, unsigned backend);
bool away_is_held(const struct world *w, unsigned backend); /* it must not be asked for a box */
void away_note_word(struct world *w, const struct pool_event *ev);
void away_crashed(struct world *w);
void away_begin(struct world *w); /* one of them, for long; calm: all are back */

/* rows.c */
void rows_submit(struct world *w, const struct pool_fx *fx);
void rows_commit(struct world *w, struct pending *p);
void rows_crash(struct world *w); /* the daemon dies and starts again */
void rows_set_up(struct world *w, bool is_up);
/* A report about the store is due: false when the pool knows it already. */
bool rows_report(struct world *w, struct pool_event *ev);
/* The box ends though no row says so; a row of it may still wait for its commit. */
void rows_note_unrecorded(struct world *w, uint64_t id);
struct world_row *rows_find(struct world *w, uint64_t id);

/* clients.c */
void clients_init(struct world *w);
uint64_t clients_principal(const struct client *c);
/* A request that is not answered. */
bool clients_has_open(const struct world *w, size_t client);
void clients_act(struct world *w);

/* promises.c */
void clients_reply(struct world *w, const struct pool_fx *fx);
void clients_fact(struct world *w, const struct pool_fx *fx);
void clients_crashed(struct world *w);
void clients_check(struct world *w);

/* quotas.c */
void quotas_init(struct world *w);
void quotas_check(struct world *w, const struct pool_event *ev); /* NULL: after a restart */
void quotas_refused(struct world *w, const struct request *r, int code);
bool quotas_is_full(int code); /* the queue, or the part of it that a caller may have */

/* spent.c: budgets. Whether that of the user is used up; then an acquire may get the lease that there is. */
bool spent_ask(const struct world *w, const struct client *c, struct request *r);
void spent_refused(struct world *w, const struct request *r, bool has_lease);
void spent_served(struct world *w, const struct request *r);

/* observer.c */
void observer_reply(struct world *w, const struct pool_fx *fx, bool is_delivered);
/* Its agent has reported so just before, or there is none, or it did not answer several times. */
bool observer_is_idle(struct world *w, const struct world_box *real, uint64_t idle_ns);
void observer_held(struct world *w, uint64_t box); /* its owner has done something with it */
void observer_look(struct world *w);
void observer_make_token(void *ctx, char *dst);

/* copies.c */
void copies_keep(struct world *w);
bool copies_put_back(struct world *w); /* whether the rows are older than what was committed */

/* operator.c */
void operator_config(struct world *w, bool is_final);
void operator_act(struct world *w);
void operator_run(struct world *w); /* the pool and all profiles */
void operator_space(struct world *w, bool is_low);

/* settle.c */
void settle(struct world *w);

#endif
