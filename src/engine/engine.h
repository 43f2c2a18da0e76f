/* engine.h - the only place where events enter the pool and effects leave it. It owns the pool,
 * the store, the backends and the journal, and performs each effect as one operation whose end is
 * the next event. Loop thread only. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "backend/backend.h"
#include "base/histogram.h"
#include "base/json.h"
#include "base/map.h"
#include "config/config.h"
#include "engine/journal.h"
#include "loop/httpc.h"
#include "loop/loop.h"
#include "pool/pool.h"
#include "store/budget.h"
#include "store/store.h"
#include "store/usage.h"

struct engine;

/* One request to the pool that waits for its reply. The caller owns the memory and keeps it until
 * on_reply() is entered or engine_call_abandon() returned. */
/* What a user may spend and has spent, in millionths of the currency of budgets. */
struct engine_budget {
    bool has_amount; /* of its own; else the default is `amount` */
    uint64_t amount;
    uint64_t credit;
    uint64_t limit; /* both together */
    uint64_t spent;
    uint64_t under_way; /* what acquires that wait will cost at the least */
};

struct engine_call {
    struct map_node node;
    struct map_node pending_node; /* acquires with metadata or extras, by sandbox_id */
    struct list_node link;        /* acquires */
    struct req_id req;
    char sandbox_id[POOL_ID_MAX + 1];
    const char *metadata; /* ACQUIRE: JSON object bound to the lease, or NULL; borrowed */
    /* ACQUIRE: what is to be applied to the box before the reply, or NULL. One piece from malloc,
     * with all it points to; the engine takes it when it begins (then it is NULL here). */
    struct backend_extras *extras;
    char *kept_metadata;        /* the engine's: of a hibernated box */
    struct pool_acquire *again; /* likewise: asked again when the box has become a snapshot */
    uint64_t
        restored_with; /* likewise: the engine has added a snapshot to the extras, for a box with this `made_with` */
    uint64_t deadline_ns;  /* with extras: until when the caller waits */
    bool may_exceed;       /* with extras: the limits of the box's profile */
    bool are_envs_for_new; /* with extras: their envs are not for a box that the thread has */
    bool
        has_envs; /* ACQUIRE: it names variables, if only none: those of a hibernated box are not for it */
    struct engine_update *update; /* the engine's, while that is under way */
    uint64_t wait_ns;             /* likewise: ACQUIRE: its deadline */
    uint64_t asked_ns;            /* likewise: ACQUIRE: when it came */
    struct engine_held *held;     /* likewise, while the box is being thawed */
    uint64_t epoch;               /* the engine's: of the box that the reply names */
    unsigned profile;             /* likewise: ACQUIRE */
    bool is_acquire;              /* likewise */
    uint64_t principal;           /* likewise: ACQUIRE */
    unsigned made_kinds;          /* likewise: of the extras, what the box is to be made with */
    struct engine_budget budget;  /* likewise: SP_BUDGET_EXCEEDED: of its user, when it asked */
    struct engine_spender
        *spender; /* likewise: ACQUIRE: whose money it holds until it is answered */
    uint64_t held_money;
    /* Once, unless abandoned before; possibly from inside engine_call_start(). `fx` is valid
     * during the call. */
    void (*on_reply)(struct engine_call *call, const struct pool_fx *fx);
};

/* Takes the configuration over unless it fails. Opens the store and loads it; the backends are not asked
 * yet. *ret is set in any case: one that has failed is only good for engine_close(), because some of its backends may
 * be open. */
MUST_CHECK int engine_new(struct loop *l, struct httpc *http, struct config *config,
                          struct engine **ret, struct err *err);
/* Asks every backend what runs and joins it with the store; `on_ready` comes once, when all have
 * answered or failed to in time. */
void engine_recover(struct engine *e, void (*on_ready)(void *ctx), void *ctx);
/* Destroys every box, leased ones too; on_done gets how many are left at the deadline. Nothing
 * may call the pool meanwhile, and engine_close() comes after. */
void engine_destroy_all(struct engine *e, uint64_t deadline_ns,
                        void (*on_done)(void *ctx, size_t left), void *ctx);
/* Stops asking for anything, waits for what is in flight, closes backends and store, frees. The
 * boxes are left running. */
void engine_close(struct engine *e, void (*on_closed)(void *ctx), void *ctx);

/* The configuration outlives the engine: the caller frees it after engine_close() has ended. */
struct config *engine_keep_config(struct engine *e);

void engine_call_start(struct engine *e, struct engine_call *call, struct pool_event *ev);
void engine_call_abandon(struct engine *e, struct engine_call *call);
/* The reply of an acquire that named `box` was not taken; at most once for each reply. `is_spoiled`: it is
 * half changed, and a fresh one is destroyed. */
void engine_undelivered(struct engine *e, const struct engine_call *call, struct box_id box,
                        bool is_spoiled);
/* Answers every acquire that still waits with SP_DRAINING: the daemon is about to stop. */
void engine_refuse_waiting(struct engine *e);
/* Events that want no reply. */
void engine_post(struct engine *e, const struct pool_event *ev);

/* Comes back when everything the pool has asked to be stored so far is committed (SP_OK) or could
 * not be, after `store.timeout_s` at the latest. For answers that promise something the pool itself does
 * not reply to. */
void engine_sync(struct engine *e, void (*on_done)(void *ctx, int result), void *ctx);
/* The same, and the disk has it: proves that a database which is closed now can be opened again. */
void engine_prove_store(struct engine *e, void (*on_done)(void *ctx, int result), void *ctx);

/* Takes the new configuration over if it can be applied whole; else changes nothing. */
MUST_CHECK int engine_reload(struct engine *e, struct config *config, struct err *err);

/* Lists every backend and joins; on_done gets how many answered cleanly and how many did not. */
void engine_reconcile(struct engine *e,
                      void (*on_done)(void *ctx, unsigned clean, unsigned failed, size_t seen),
                      void *ctx);
/* Asks the backend whether a box lives; a death is also reported to the pool. */
void engine_check_box(struct engine *e, struct box_id box,
                      void (*on_done)(void *ctx, enum pool_verdict verdict), void *ctx);

/* Called when the lease of a box has ended: it was released and is kept for its thread (SP_NOT_LEASED), or the box is given
 * up, because it died, is to be destroyed, or is gone (SP_SANDBOX_LOST); may come more than once for a box. Before the
 * caller who asked for it gets its answer. The watcher's memory is its owner's. */
struct engine_watcher {
    struct list_node link;
    void *ctx;
    void (*on_end)(void *ctx, struct box_id box, int code, const char *why);
};
void engine_watch_ends(struct engine *e, struct engine_watcher *w);
void engine_unwatch_ends(struct engine *e, struct engine_watcher *w);

/* Asks the box itself, within two seconds: true when it answers as a box that is ready does. */
void engine_ask_box(struct engine *e, struct box_id box, void (*on_done)(void *ctx, bool answers),
                    void *ctx);

/* How numbers of what boxes use are shown: divided by this. */
struct engine_counter {
    const char *name;
    uint64_t unit;
};
extern const struct engine_counter engine_counters[STORE_COUNTER_COUNT];

/* Whether its backend counts what a box uses. */
/* What a running box may reach (base/egress.h); NULL: it was made without such a list, and cannot have one. */
const char *engine_allowed(const struct engine *e, const struct pool_box *box);
/* Whether a caller that is no operator may give the box this list. */
MUST_CHECK int engine_check_allow(struct engine *e, const struct pool_box *box, const char *allow,
                                  struct err *err);
/* Gives it to a box that has one. on_done() comes once, never from inside. */
void engine_set_allowed(struct engine *e, const struct pool_box *box, const char *allow,
                        void (*on_done)(void *ctx, int code, const char *reason), void *ctx);
bool engine_can_count(const struct engine *e, const struct pool_box *box);
/* What a box that can be counted has used so far, within three seconds; NULL: nobody said. */
void engine_count_box(struct engine *e, struct box_id box,
                      void (*on_done)(void *ctx, const struct backend_counters *counters),
                      void *ctx);

/* Events that are no longer in the journal, from the store; `h` is the caller's and stays until on_done(). */
void engine_read_history(struct engine *e, struct store_history *h,
                         void (*on_done)(void *ctx, int result), void *ctx);

/* One step of reading metered time (store/usage.h); `u` is the caller's and stays until on_done(). */
void engine_read_usage(struct engine *e, struct store_usage *u,
                       void (*on_done)(void *ctx, const struct err *err), void *ctx);

/* --- budgets (budget.c) --- */

/* False: there are none, and the other calls must not be made. */
bool engine_has_budgets(const struct engine *e);
void engine_get_budget(struct engine *e, const char *user, struct engine_budget *ret);
/* From what the store has, of the period that is. */
void engine_fill_budget(const struct engine *e, const struct store_budget *from,
                        struct engine_budget *ret);
uint64_t engine_budget_ends(struct engine *e); /* by the wall clock, ms; 0: never */
/* Lists budgets or changes one (store/budget.h); `c` is the caller's and stays until on_done(). */
void engine_budget_call(struct engine *e, struct store_budget_call *c,
                        void (*on_done)(void *ctx, const struct err *err), void *ctx);

/* A copy of the database as of now. on_ready() comes once, with NULL when it is made; then it is read piece
 * by piece. The engine frees it after engine_backup_close(), from which on no callback comes. */
struct engine_backup;
struct engine_backup *engine_backup_start(struct engine *e,
                                          void (*on_ready)(void *ctx, const struct err *err),
                                          void *ctx);
uint64_t engine_backup_size(const struct engine_backup *b);
/* on_piece() comes once, never from inside; len 0 is the end. */
void engine_backup_next(struct engine_backup *b,
                        void (*on_piece)(void *ctx, const char *data, size_t len,
                                         const struct err *err));
void engine_backup_close(struct engine_backup *b);

/* What a backend found on this machine. */
struct engine_exam {
    const char *name;
    const struct backend_finding *findings;
    size_t count;
};

/* Examines every backend, the disk, the database and the profiles, within 30 s; what on_done gets is valid during the
 * call. `examine_machine` adds what is not the engine's; it is called on a thread, before. */
void engine_examine(struct engine *e, void (*examine_machine)(void *ctx, struct backend_exam *r),
                    void (*on_done)(void *ctx, const struct engine_exam *exams, size_t count),
                    void *ctx);

/* --- views --- */

#define ENGINE_LARGEST_MAX 5

/* The space that is left for the database and the disks of boxes. */
struct engine_disk {
    bool is_known; /* it has been looked at */
    bool is_low;   /* no new box is made: see `reason` */
    char reason[POOL_REASON_MAX + 1];
    char dir[CONFIG_PATH_MAX + 64]; /* the fullest of those that matter */
    uint64_t floor_bytes;           /* 0: none */
    uint64_t free_bytes;
    uint64_t total_bytes;
    uint64_t free_inodes;
    struct { /* where provisioner.thread_data is; threads have no limit of space there */
        bool is_known;
        bool is_shared; /* with the database or disks of boxes */
        char dir[CONFIG_PATH_MAX + 1];
        uint64_t free_bytes;
    } threads;
    unsigned largest_count; /* only when space is short */
    struct {
        struct box_id box;
        uint64_t bytes; /* that its disk takes */
    } largest[ENGINE_LARGEST_MAX];
};
/* As of the last look; asks for the next one. */
const struct engine_disk *engine_disk(struct engine *e);

/* The kinds of extras that an acquire of this pool profile can have (BACKEND_LATE_*): given to a
 * box that runs, or to one that is made for it. */
unsigned engine_can_apply(struct engine *e, unsigned profile);
/* Those that can be given to a box that runs. */
unsigned engine_can_apply_late(struct engine *e, unsigned profile);
/* SP_FORBIDDEN when `x` has limits above those of this pool profile. */
MUST_CHECK int engine_check_limits(struct engine *e, unsigned profile,
                                   const struct backend_extras *x, struct err *err);
/* The configuration of a pool profile; NULL when it is gone. Valid until the next reload. */
const struct config_profile *engine_profile(struct engine *e, unsigned profile);
const struct pool *engine_pool(const struct engine *e);
/* The path of a Unix socket that leads to the same server as the box's URL and costs less; "": none. */
void engine_local(const struct engine *e, const struct pool_box *box, char *dst, size_t cap);
const struct config *engine_config(const struct engine *e);
struct journal *engine_journal(struct engine *e);
struct rt *engine_rt(struct engine *e);
const char *engine_instance(const struct engine *e);
/* Metadata of a box as JSON text; NULL for none. */
const char *engine_metadata(const struct engine *e, struct box_id box);
/* What the end of the box has released, as member "report" of the object that is open; null is what is not known. */
void engine_put_report(const struct engine *e, struct box_id box, struct json_out *o);
/* The same for a box that has not ended yet. */
void engine_put_no_report(const char *why, struct json_out *o);
/* NULL when every backend of a configured profile answered its last listing; else a sentence that
 * names one. */
const char *engine_backend_trouble(const struct engine *e);
#define ENGINE_TROUBLE_MAX 320
/* Why an acquire of this pool profile is not served yet, in a sentence (ENGINE_TROUBLE_MAX). */
void engine_wait_reason(struct engine *e, unsigned profile, char *dst, size_t cap);
/* How much of what its boxes write limits.disk limits, see backend.h; NULL: not known. */
const char *engine_disk_limit(struct engine *e, unsigned profile);
/* What the sentence below is about, as one word that programs can compare. */
enum engine_cause {
    ENGINE_CAUSE_NONE,
    ENGINE_CAUSE_STOPPING,
    ENGINE_CAUSE_STARTING,
    ENGINE_CAUSE_STORE,         /* the database cannot be written */
    ENGINE_CAUSE_MODE,          /* paused or draining */
    ENGINE_CAUSE_CONFIGURATION, /* the profile is gone from it */
    ENGINE_CAUSE_BACKEND,       /* the engine is away, the runtime missing, an image not there */
    ENGINE_CAUSE_SNAPSHOTS, /* the one that boxes are made from is missing, or they are not listed yet */
    ENGINE_CAUSE_DISK,      /* below the floor */
    ENGINE_CAUSE_FAILURES, /* the breaker is open */
    ENGINE_CAUSE_EXHAUSTED,
    ENGINE_CAUSE_COUNT
};
const char *engine_cause_name(enum engine_cause cause); /* "store"; "" for none */
/* Why an acquire of this pool profile cannot succeed, now or soon, with a sentence in `dst` (ENGINE_TROUBLE_MAX). If
 * *ret_is_ready it can all the same, and there may be a cause why only boxes that there are can be had. */
enum engine_cause engine_profile_cause(struct engine *e, unsigned profile, bool *ret_is_ready,
                                       char *dst, size_t cap);
/* True: an acquire of this pool profile cannot succeed, now or soon, and `dst` (ENGINE_TROUBLE_MAX) says why.
 * False: `dst` is "", or says why only boxes that there are can be had. */
bool engine_profile_trouble(struct engine *e, unsigned profile, char *dst, size_t cap);
/* Why the store cannot be written; NULL when it can. */
const char *engine_store_trouble(const struct engine *e);
bool engine_is_store_hung(struct engine *e); /* its disk does not answer, also while it is closed */
bool engine_is_recovered(const struct engine *e);
/* How often the configuration has changed or a token has ended: who was let in may have to be asked again. */
uint64_t engine_reloads(const struct engine *e);
/* Events that were shown to those who follow, and could not be stored. */
uint64_t engine_events_dropped(const struct engine *e);
void engine_get_store_stats(struct engine *e, struct store_stats *ret);
void engine_forget_slowest(struct engine *e); /* commit, of those */

/* Acquires since the start, of all dialects: how long those took that got a box, by where it came from, and how many were
 * refused, by -code. */
struct engine_counts {
    struct histogram acquires[POOL_SRC_COUNT];
    uint64_t refused[SP_ERROR_INDEX_COUNT];
};
const struct engine_counts *engine_counts(const struct engine *e);

#endif
