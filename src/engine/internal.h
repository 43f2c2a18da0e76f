/* internal.h - the engine's parts, shared by its files only. */
#ifndef ENGINE_INTERNAL_H
#define ENGINE_INTERNAL_H

#include "backend/backend.h"
#include "engine/engine.h"
#include "engine/holders.h"
#include "engine/trend.h"
#include "loop/wake.h"
#include "loop/work.h"

enum {
    ENGINE_BACKENDS_MAX = CONFIG_PROFILES_MAX,
    ENGINE_EVENTS_MAX = 64,   /* events raised while one is being processed */
    ENGINE_EVENTS_TAIL = 512, /* stored events shown again after a restart */
    ENGINE_INSTANCE_MAX = 64,
};

/* Lines of the audit trail are stored together, so that they do not get in the way of leases. */
#define ENGINE_EVENTS_EVERY_NS (20 * NS_PER_MS)
enum { ENGINE_REFUSED_PER_S = 20 }; /* refused acquires in the audit trail */
#define ENGINE_LIST_TIMEOUT_NS (5 * NS_PER_S)
#define ENGINE_ASK_NS (1 * NS_PER_S) /* who waits for a listing waits so long for missing boxes */
#define ENGINE_RELIST_MIN_NS (1 * NS_PER_S)
#define ENGINE_RELIST_MAX_NS (60 * NS_PER_S)
#define ENGINE_CHECK_TIMEOUT_NS (5 * NS_PER_S)
#define ENGINE_BIND_TIMEOUT_NS (30 * NS_PER_S)
#define ENGINE_UPDATE_LEAST_NS (1 * NS_PER_S) /* for a caller who does not wait */
#define ENGINE_EXAM_TIMEOUT_NS (30 * NS_PER_S)
#define ENGINE_STATS_NS (5 * NS_PER_S)

/* A configuration stays while an operation still uses one of its profiles. */
struct engine_config_ref {
    struct config *config;
    unsigned refs;
    bool is_kept; /* engine_keep_config() */
};

struct engine_backend {
    char key[BACKEND_KEY_MAX + 1];
    struct backend *backend; /* NULL: closed, while rows are still written */
    const struct backend_ops *ops;
    bool is_elsewhere; /* as of the backend */
    struct engine *engine;
    struct backend_events events;
    bool
        is_begun; /* it was asked what there is; one that a reload opened which then failed waits for the next */
    bool is_listing;
    bool want_relist;
    bool want_snapshots;                /* they could not be listed */
    bool has_snapshots;                 /* they were listed once */
    bool has_late_sides;                /* what lies beside them is still being read */
    struct rt_timer relist_timer;       /* a clean listing has left something open */
    uint64_t relist_ns;                 /* the pause before the next one; 0: none has */
    char trouble[POOL_REASON_MAX + 1];  /* why the last listing failed, "" when it did not */
    uint64_t trouble_ns;                /* the last time */
    char progress[POOL_REASON_MAX + 1]; /* what is done about an image; "" when nothing is */
    struct stats_queue *stats;          /* of stats.c; NULL: nobody has asked */
};

/* What was last said of a box of a profile that does not answer yet. */
struct engine_wait {
    uint64_t at_ns;
    char text[POOL_REASON_MAX + 1]; /* "": nothing */
};

/* What its end has released. */
struct engine_report {
    struct backend_released released; /* text "": nothing is known */
    bool has_lived;
    uint64_t lived_ns;      /* from the intent to make it until it was gone */
    struct store_used used; /* as of the write that says that it is deleted */
};

/* What belongs to a box and the pool does not need to know. (Extras are what an acquire asks of a box: backend.h.) */
struct engine_note {
    struct map_node node;
    struct list_node link;
    struct box_id box;
    char *metadata;
    struct backend_extras *extras; /* it is to be made with, until that begins; or NULL */
    uint64_t restored_from; /* the snapshot it was made from; 0: none, or not known any more */
    bool has_mounts;        /* of templates (templates.c) */
    char sandbox_id[POOL_ID_MAX + 1]; /* with the generation: the lease the metadata is of */
    uint64_t generation;
    struct engine_report report;
};

struct engine {
    struct loop *loop;
    struct rt *rt;
    struct httpc *http;
    struct engine_config_ref *config;
    char instance[ENGINE_INSTANCE_MAX + 1];
    bool is_instance_new; /* to be stored before it labels anything */
    char boot_id[40];     /* of this run of the machine; "": not known */
    struct {
        char run[112];   /* by whose monotonic clock rows are written; "": not known */
        int64_t skew_ms; /* what the wall clock is ahead of the rows by, as the store has it */
        bool is_noted;   /* the store has both, or is being given them */
    } clock;

    struct pool *pool;
    struct rt_timer wake_timer;
    bool is_stepping;
    bool is_closing;
    bool is_recovered;
    struct pool_event *queue; /* events raised during a step */
    size_t queue_len;
    size_t queue_cap;

    struct store *store;
    struct wake store_wake;
    bool has_wake;
    char store_trouble[256]; /* why it is down; "" when it is up */
    struct list free_writes;
    struct list late_events; /* text_write, not yet submitted */
    struct rt_timer events_timer;
    uint64_t events_dropped; /* not stored, ever */
    struct engine_counts counts;
    uint64_t refused_second; /* of the wall clock, in which `refused_count` acquires were noted */
    unsigned refused_count;
    uint64_t refused_unnoted;   /* since the last that was */
    uint64_t events_unreported; /* of them: the trail does not say so yet */

    struct engine_backend backends[ENGINE_BACKENDS_MAX];
    unsigned backend_count;
    struct engine_wait waits[POOL_PROFILES_MAX];
    struct rt_timer reconcile_timer;
    struct list joins;  /* listings that are being joined with the pool, part by part */
    struct list rounds; /* of listings, whose missing boxes are being asked for */
    struct rt_timer space_timer;
    struct engine_disk disk;
    uint64_t looked_ns; /* at the space */
    bool is_looking;
    struct list probes; /* in flight */
    struct list uses;   /* questions to agents whether their boxes are idle */
    struct map binds;   /* under way, or to be tried again, by box */
    struct list bind_list;

    struct {
        struct rt_timer timer;
        uint64_t
            watched_ms; /* until when the daemon before this one watched its boxes; 0: not known */
        uint64_t noted_ms; /* what the store has of this one */
        struct engine_price {
            bool is_known;
            bool is_new; /* rows may have another */
            uint64_t per_hour;
            uint64_t per_start;
            uint64_t per_use[STORE_RATE_COUNT];
            char currency[CONFIG_CURRENCY_MAX + 1];
        } prices[POOL_PROFILES_MAX];
    } usage;

    struct {
        struct rt_timer timer;
        size_t place; /* of the pool, that was looked at last */
        unsigned running;
        unsigned held; /* ends of leases */
    } sampler;

    struct { /* of holders.c */
        struct map map;
        struct list list;
        struct rt_timer timer;
        struct {
            struct heap oldest; /* leases that have not lasted too long yet */
            struct engine_leaks leaks;
        } profiles[POOL_PROFILES_MAX];
    } leases;
    struct { /* of uids.c */
        bool is_looking;
        struct engine_uid {
            uint64_t uid;
            uint64_t at_ns; /* 0: nothing */
            char name[33];
        } known[256];
    } uids;

    struct { /* of health.c */
        struct rt_timer timer;
        bool is_armed;
        struct engine_health {
            bool is_good; /* at the last look, */
            uint64_t since_ns;
            enum engine_cause cause; /* that was reported last, and not its end yet */
            char why[ENGINE_TROUBLE_MAX];
        } profiles[POOL_PROFILES_MAX];
    } health;

    struct trend trend;
    struct journal journal;
    struct list watchers; /* engine_watch_ends() */
    uint64_t reloads;
    bool has_rebase;    /* a profile has on_drift: rebase */
    struct map calls;   /* engine_call by req */
    struct map pending; /* acquires with metadata or extras by sandbox_id */
    struct map
        spenders; /* engine_spender by user: those with acquires under way that will cost something */
    struct list acquires;
    struct tokens *tokens;
    struct map notes; /* engine_note by box */
    struct list note_list;
    struct map snapshots; /* engine_snapshot by id */
    struct list snapshot_list;
    struct list snapshots_kept; /* that are not hibernated */
    struct heap snapshots_unused;
    uint64_t snapshot_order;
    struct {
        struct map by_sandbox; /* engine_snapshot: the newest of each id */
        struct heap expiries;
        struct list list;
        struct list running; /* of fx_hibernate.c; a few at most */
        struct map sleepers; /* of hibernate_share.c: principals, */
        uint64_t kept;       /* what they have, */
        uint64_t env_bytes;  /* of it variables, in memory, */
        uint64_t coming;     /* and what is being made */
        struct rt_timer timer;
    } hibernate;
    struct map holders; /* of snapshot_limits.c, by principal */
    struct list holder_list;
    uint64_t snapshot_bytes;
    size_t snapshots_coming; /* being made */
    uint64_t snapshot_bytes_coming;
    uint64_t snapshots_since_ms; /* the start of this life, by the wall clock */
    struct rt_timer keep_timer;
    unsigned snapshot_loads;     /* under way */
    struct recovery *recovery;   /* of reconcile.c, until it has ended */
    struct map pauses;           /* boxes that are being frozen or thawed */
    struct list captures;        /* engine_capture, under way */
    struct list moves;           /* engine_move, likewise */
    struct map updates;          /* late bindings under way, by box */
    struct box_id reported_box;  /* whose lease was last reported to a caller, */
    uint64_t reported_leased_ns; /* and which lease that was */
    uint64_t next_req;

    size_t in_flight; /* operations of every kind: closing waits for zero */
    void (*on_closed)(void *ctx);
    void *closed_ctx;
    struct rt_task close_task;
    bool is_marked_clean; /* the last write: every event before it is stored */
    bool is_store_closed;
    struct work shut_work; /* closes the database */
    uint64_t shut_ns;      /* since when; 0: not yet */
};

/* engine.c: a call that waits; NULL when it was abandoned. */
struct engine_call *engine_call_find(struct engine *e, struct req_id req);
/* Answers it, instead of the pool. */
void engine_call_end(struct engine *e, struct engine_call *call, const struct pool_fx *fx);

/* engine.c: the last act, when nothing is in flight any more */
void engine_free(struct engine *e);

/* config_ref.c */
struct engine_config_ref *config_ref_new(struct config *config);
struct engine_config_ref *config_ref_get(struct engine_config_ref *ref);
void config_ref_put(struct engine_config_ref *ref);

/* profiles.c: configuration -> what the pool wants to know */
void profiles_fill(struct engine *e, const struct config *config, struct pool_config *ret);
/* Opens a backend for every profile that has none yet. */
MUST_CHECK int profiles_open_backends(struct engine *e, const struct config *config,
                                      struct err *err);
/* Opens a backend that boxes of an earlier life are on and that no profile names any more. */
MUST_CHECK int profiles_open_at(struct engine *e, const char *key, struct err *err);
/* Announces every configured profile to its backend. */
void profiles_prepare(struct engine *e);
/* Index of the backend with this key; -1 when there is none. */
int profiles_find_backend(const struct engine *e, const char *key);
/* SP_CONFIG when boxes that live forbid it: they stay with the backend that made them. */
MUST_CHECK int profiles_check(struct engine *e, const struct config *config, struct err *err);
/* Where new boxes of a pool profile are made; a box knows its own backend. */
struct engine_backend *profiles_backend(struct engine *e, unsigned profile);
/* The configuration's profile behind a pool profile; NULL when it is gone. */
const struct config_profile *profiles_config(struct engine *e, unsigned profile);
/* The same for a box: NULL also when its profile has moved to another backend. */
const struct config_profile *profiles_of_box(struct engine *e, const struct pool_box *box);
const char *profiles_name(struct engine *e, unsigned profile);
bool profiles_want_power(const struct engine *e, const struct pool_box *box);

/* load.c: the store -> pool, journal, extras */
MUST_CHECK int load_store(struct engine *e, struct err *err);

/* tokens.c */
void tokens_init(struct engine *e);
void tokens_fini(struct engine *e);
/* False: the row is malformed. */
bool tokens_load(struct engine *e, const struct store_token *row);

/* clock.c: before anything is read; when META_CLOCK is read, which comes before the rows; before a row is written. */
void clock_begin(struct engine *e);
void clock_restore(struct engine *e, const char *text);
void clock_note(struct engine *e);

/* instance.c: before the backends are opened. */
MUST_CHECK int instance_choose(struct engine *e, size_t box_count, struct err *err);

/* ledger.c */
MUST_CHECK int ledger_open(struct engine *e, struct err *err);
void ledger_on_wake(void *ctx); /* the engine */

/* fx_store.c */
void fx_store(struct engine *e, const struct pool_fx *fx);
/* Without waiting for a last sample of what the box has used. */
void fx_store_now(struct engine *e, const struct pool_fx *fx);
void fx_store_fini(struct engine *e);
/* usage.c: what the store meters with. Since when a box is as it is; 0: now. */
uint64_t usage_true_ms(const struct engine *e, const struct pool_box *box);
/* The price of a pool profile, its currency copied to `currency`. */
struct store_price usage_price(const struct engine *e, unsigned profile,
                               char currency[CONFIG_CURRENCY_MAX + 1]);
/* Prices as the configuration has them by now. */
void usage_take_prices(struct engine *e);
/* A row that was loaded: its price may have changed meanwhile. */
void usage_loaded(struct engine *e, unsigned profile, const struct store_price *price);
/* Boxes that are metered at another price get the new one; after the boxes of the last life were listed. */
void usage_reprice(struct engine *e);
/* Notes in the store now and then until when the boxes were watched. */
void usage_arm(struct engine *e);
void usage_close(struct engine *e);
/* answer.c: the call may be gone after it. */
void engine_answer(struct engine *e, struct engine_call *call, const struct pool_fx *fx);
/* budget.c: whether the user of an acquire or a renew has money left; before the pool gets it, if there are budgets. */
void budget_judge(struct engine *e, struct pool_event *ev);
/* The call is over: what it held for its user is spent by now, or is free again. */
void budget_release(struct engine *e, struct engine_call *call);
/* The amounts, into the reason of a refusal. */
void budget_explain(struct engine *e, const struct engine_call *call, struct pool_fx *fx);
/* events.c */
void event_budget(struct engine *e, const struct store_budget_call *c);
struct snapshot;
/* The files of a hibernated sandbox were deleted; nobody asked for that. */
void event_not_kept(struct engine *e, const struct snapshot *s, const char *reason);
struct engine_token;
void event_token(struct engine *e, const char *kind, const struct engine_token *t);
/* An acquire of this id that has metadata or extras waits. */
bool engine_is_pending(const struct engine *e, const char *sandbox_id);
void fx_event(struct engine *e, const struct pool_fx *fx);
void event_refused(struct engine *e, const struct engine_call *call, const struct pool_fx *fx);
void event_updated(struct engine *e, const struct pool_box *box,
                   const struct backend_extras *extras);
/* What a backend reported; `box` may be NULL. */
void event_notice(struct engine *e, const char *backend, const struct pool_box *box,
                  const struct backend_notice *n);
/* A profile is not served, or is again (ENGINE_CAUSE_NONE). */
void event_ready(struct engine *e, const char *profile, enum engine_cause cause, const char *why);
/* The lease of a box lasts too long, or such a one is over. */
void event_leak(struct engine *e, const struct pool_box *box, const struct engine_deed *deed,
                bool is_leaking);
/* health.c: something has happened: whether profiles are served is looked at soon. */
void health_touch(struct engine *e);
void health_close(struct engine *e);
/* Submits the events that wait. */
void events_flush(struct engine *e);
/* meta.c: small facts about the daemon itself */
#define META_INSTANCE "instance"
#define META_BOOT "boot_id" /* of the machine, when the daemon ran last */
#define META_CLOCK "clock"  /* which clock the times in rows are of */
#define META_MODE "mode"
#define META_WATCHED "watched_ms" /* until when boxes were watched, in the time of rows */
#define META_CLEAN "clean_stop"   /* "1" only between a clean stop and the next start */
void meta_put(struct engine *e, const char *key, const char *value);
/* On the disk, and all that was written before. */
void meta_put_power(struct engine *e, const char *key, const char *value);
/* modes.c: the modes of the pool and its profiles, as META_MODE has them */
/* `mode` and `message` are the pool's; the caller frees the text. */
char *modes_text(struct engine *e, enum pool_mode mode, const char *message);
void modes_restore(struct engine *e, const char *stored);
/* ready.c: engine_profile_cause(), for looks that are not to cause another. */
enum engine_cause ready_judge(struct engine *e, unsigned profile, bool *ret_is_ready, char *dst,
                              size_t cap);
/* ready.c: true when more is known of why an acquire is refused than the pool has said; then *ret says it. */
bool ready_explains(struct engine *e, unsigned profile, const struct pool_fx *refusal,
                    struct pool_fx *ret);
/* fx_create.c, fx_probe.c, fx_backend.c, fx_check.c */
void fx_create(struct engine *e, const struct pool_fx *fx);
void fx_probe(struct engine *e, const struct pool_fx *fx);
void fx_check(struct engine *e, const struct pool_fx *fx);
/* fx_use.c */
void fx_ask_use(struct engine *e, const struct pool_fx *fx);
void uses_cancel(struct engine *e);
void fx_discover(struct engine *e, const struct pool_fx *fx);
void fx_destroy(struct engine *e, const struct pool_fx *fx);
/* binds.c */
void fx_bind(struct engine *e, const struct pool_fx *fx);
void binds_close(struct engine *e); /* what waits for another try is left to the next start */
/* convert.c: the box in a backend's words, and back; false when its labels name what is too long to be ours. */
/* Of an operation that the backend, or a box, did not do. */
int engine_code_for_caller(const struct engine *e, int result);
void box_to_backend(struct engine *e, const struct pool_box *box, struct backend_box *ret);
MUST_CHECK bool seen_from_backend(const struct backend_box *box, struct pool_seen *ret);

/* update.c: late binding */
/* Instead of the reply to a call with extras, which comes when they are applied. */
void update_begin(struct engine *e, struct engine_call *call, const struct pool_fx *fx);
/* Instead of a reply, when what the box has to have cannot be had. */
void update_refuse(struct engine *e, struct engine_call *call, const struct pool_fx *fx, int code,
                   const char *reason);
/* Whether the lease that a reply names still stands; if not, the code and the reason for its caller. */
bool update_is_leased(const struct engine *e, const struct pool_fx *fx);
MUST_CHECK int update_lost(struct engine *e, struct pool_fx *fx, const char **ret_reason);
/* A leased box is reported to another caller. */
void update_reported(struct engine *e, const struct pool_fx *fx);
/* The caller of a call with an `update` has gone. */
void update_abandon(struct engine_call *call);
/* The box is about to be destroyed. */
void update_cancel(struct engine *e, struct box_id box);

/* templates.c: mounts of a profile that depend on the owner */
MUST_CHECK int templates_check_support(struct engine *e, const struct config *config,
                                       struct err *err);
/* False: a new box of the profile could not have them, and *refusal says why. */
MUST_CHECK bool templates_fit(struct engine *e, const struct pool_acquire *a,
                              struct pool_fx *refusal);
/* Adds those that the box of a reply still needs to the extras of the call. NULL, or the reason why it cannot have them. */
MUST_CHECK const char *templates_add(struct engine *e, struct engine_call *call,
                                     const struct pool_fx *fx);
/* They have been applied. */
void templates_note(struct engine *e, struct box_id box, const struct backend_extras *extras);

/* special.c: boxes made for one caller */
/* The kinds of extras that a running box of this backend and profile can be given. */
unsigned special_late_of(const struct backend_ops *ops, const struct config_profile *c);
/* Whether the box of an acquire is to be made for it, and with what. */
void special_mark(struct engine *e, struct engine_call *call, struct pool_acquire *a);
/* Before its intent is written: what the box is made with is noted, ... */
void special_intent(struct engine *e, const struct pool_box *box);
/* ... and taken by its create; NULL: nothing. */
struct backend_extras *special_take(struct engine *e, struct box_id box);
/* Leaves in `extras` what is still to be applied to the box. False when it was not made with the rest. */
MUST_CHECK bool special_settle(struct engine *e, const struct pool_box *box,
                               struct backend_extras *extras);

/* reconcile.c */
void reconcile_backend(struct engine *e, unsigned backend);
void reconcile_arm(struct engine *e);
/* After a step: notifies those who wait for a listing, once no missing box is asked for any more. */
void reconcile_settle(struct engine *e);
/* Ends the recovery when nothing of it is under way. */
void recovery_settle(struct engine *e);

/* space.c */
void space_look(struct engine *e);
/* Unless it was looked at a moment ago. */
void space_refresh(struct engine *e);

/* integrity.c: within 20 s; a finding about the database as a whole. */
void integrity_check(struct engine *e,
                     void (*on_done)(void *ctx, enum backend_finding_level level, const char *text),
                     void *ctx);

/* stats.c: of a box that can be counted; on_done() gets NULL when nobody has said. */
void stats_start(struct engine *e, const struct pool_box *box, uint64_t limit_ns,
                 void (*on_done)(void *ctx, const struct backend_counters *counters), void *ctx);

/* Before the engine is freed; nobody asks any more. */
void stats_close(struct engine *e);

/* report.c: the backend has destroyed the box. */
void report_note(struct engine *e, struct box_id box, const struct backend_released *released);
/* Its row says that it is deleted: all of its time is metered. */
void report_note_used(struct engine *e, struct box_id box, const struct store_used *used);

/* notes.c */
struct engine_note *note_find(const struct engine *e, struct box_id box);
struct engine_note *note_make(struct engine *e, struct box_id box);
void note_drop(struct engine *e, struct box_id box);
void note_set_metadata(struct engine *e, const struct pool_box *box, const char *metadata);
/* A box taken back before its owner saw it goes to somebody else, without what was said of it. */
void note_drop_stale(struct engine *e, const struct pool_box *box);
void notes_fini(struct engine *e);

/* Operations in flight are counted, so that closing can wait for them. */
void engine_op_begun(struct engine *e);
void engine_op_ended(struct engine *e);

#endif
