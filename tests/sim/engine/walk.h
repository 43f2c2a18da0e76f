/* walk.h - the world around one engine in a random walk: clock, disk, backends and their boxes, the agents in them,
 * callers and an operator. Engine and pool are the real ones; what they ask of the machine is replaced when the program
 * is linked: the store (disk.c), backends (backends.c), HTTP to boxes (agents.c), threads and wake-ups (machine.c).
 *
 * Two run queues share one virtual time: the engine's, which must be empty when the engine is closed, and the world's,
 * which goes on when the daemon is dead. A daemon that is killed is an engine whose world is frozen: from then on nothing
 * it does has an effect, and it is closed to give its memory back. */
#ifndef WALK_H
#define WALK_H

#include "backend/snapshot.h"
#include "base/compiler.h"
#include "base/rand.h"
#include "base/rt.h"
#include "engine/engine.h"
#include "sandpool/errors.h"

enum {
    WALK_THREADS = 9,  /* clients that have one; */
    WALK_CLIENTS = 12, /* the others are anonymous */
    WALK_BACKENDS = 4,
    WALK_BOXES = 4096,
    WALK_ROWS = 160,
    WALK_LEASES = 512,
    WALK_METAS = 9,
    WALK_EFFECTS = 512,
    WALK_EVENTS = 16, /* newest lines of the audit trail */
    WALK_UNRECORDED = 16,
    WALK_STORE_S = 3, /* store.timeout_s */
    WALK_MARK = 1000, /* a limit of memory above it has the number of an acquire in it */
};

#define WALK_CANCEL_NS (800 * NS_PER_MS) /* at most, from a cancel to the end of the operation */
#define WALK_GRACE_NS (1500 * NS_PER_MS) /* what an answer may take beyond its deadline */
#define WALK_TTL_NS (41 * NS_PER_S)      /* more than anybody asks for */
#define WALK_OTHER_START "another_start"
/* Likewise of an acquire: two questions, each with its cancel, and a commit have a least time of their own. */
#define WALK_ACQUIRE_NS (4 * NS_PER_S)
#define WALK_UPDATE_NS (10 * NS_PER_S)  /* likewise when envs, mounts or limits are to be applied */
#define WALK_DESTROY_NS (60 * NS_PER_S) /* an end that waits for the disk and for the backend */
#define WALK_PROBE_NS (100 * NS_PER_MS) /* an agent that answers takes no longer */

/* A box as it really is, whatever callers, backends or the pool say. */
struct walk_box {
    struct backend_labels labels;
    char token[BACKEND_TOKEN_MAX + 1];
    char url[BACKEND_URL_MAX + 1];
    char ref[BACKEND_REF_MAX + 1];
    unsigned backend;
    bool is_running;
    bool is_unwanted;  /* destroyed before it appeared */
    uint64_t ready_ns; /* answers from then on */
    bool stands_still; /* it is paused */
    bool is_stopped;   /* its agent does not answer */
    bool has_no_agent; /* that could say whether it is used */
    bool is_at_work;
    uint64_t worked_ns;
    uint64_t silent_ns; /* since when no question about its use was answered; 0: the last was */
    unsigned life;      /* how often it was started again */
    unsigned absent;    /* checks in a row that say so, though it runs */
    uint64_t doubt_ns;  /* the last of them */
    bool is_special;    /* made for `owner` alone */
    bool is_exempt;     /* not counted for max_boxes: appeared when nobody expected it any more */
    bool is_reported;   /* this life of the engine was notified that it exists */
    bool is_unrecorded; /* its end could not be written */
    bool has_failed;    /* the last write of it */
    char owner[POOL_ID_MAX + 1];
    uint64_t seen_by;     /* the principal that may know its token; 0: nobody */
    uint64_t lease_epoch; /* of the last lease that the pool has granted */
    uint64_t shown_epoch; /* likewise, and its caller has got the answer */
    uint64_t held_epoch;  /* likewise, and its caller has got the reply, or may act as if it had */
    uint64_t mark;        /* of the acquire whose extras were applied last */
    bool is_half;         /* an update has failed since */
    uint64_t files;       /* what is in it: another number is other files */
    bool wants_envs;      /* made from a snapshot that has some, and not given any yet */
};

#define WALK_SNAPSHOTS 128

struct walk_snapshot {
    bool is_used;
    struct snapshot info;
    unsigned backend;
    uint64_t files;
    bool is_leaving; /* its end was asked for */
};

/* A box was given up, because its files are in a snapshot. */
struct walk_promise {
    char sandbox_id[POOL_ID_MAX + 1];
    uint64_t files;
    bool is_made;   /* and not kept yet */
    bool is_waived; /* somebody has asked for its end */
};

struct walk_row {
    bool is_used;
    bool is_unrecorded;
    bool has_failed;
    uint64_t id;
    char state[16];
    char profile[POOL_NAME_MAX + 1];
    char backend[32];
    uint64_t spec_hash;
    char sandbox_id[POOL_ID_MAX + 1];
    char user[POOL_OWNER_MAX + 1];
    char thread[POOL_OWNER_MAX + 1];
    uint64_t principal;
    uint64_t generation;
    uint64_t made_with;
    bool is_paused;
    char url[POOL_URL_MAX + 1];
    char token[POOL_TOKEN_MAX + 1];
    char ref[POOL_REF_MAX + 1];
    char life[POOL_LIFE_MAX + 1];
    char meta[128];
    uint64_t created_ms;
    uint64_t ready_ms;
    uint64_t leased_ms;
    uint64_t parked_ms;
    uint64_t active_ms;
    uint64_t expires_ms;
    uint64_t idle_limit_ms;
    char end[32];
    bool is_stale;
};

struct walk_lease {
    bool is_used;
    char sandbox_id[POOL_ID_MAX + 1];
    uint64_t generation;
    uint64_t box;
    uint64_t principal;
    uint64_t ended_ms; /* 0: it stands */
    char end[32];
};

/* What is committed. */
struct walk_disk {
    struct walk_row rows[WALK_ROWS];
    struct walk_lease leases[WALK_LEASES];
    struct {
        char key[32];
        char value[160];
    } metas[WALK_METAS];
    uint64_t event_ids[WALK_EVENTS];
    uint64_t event_count;
    uint64_t last_event;
};

struct walk_client {
    char sandbox_id[POOL_ID_MAX + 1];
    char user[POOL_OWNER_MAX + 1];
    char thread[POOL_OWNER_MAX + 1];
    bool is_acked;     /* got the answer that it holds `box`, and nothing since ended that */
    unsigned in_doubt; /* requests under way that may end it */
    uint64_t box;
    uint64_t generation;
    uint64_t active_ns;
    uint64_t promised_ns; /* the lease lasts until then at least, by an answer */
    uint64_t last_req;    /* newest request that may move the deadline */
    uint64_t last_until_ns;
    /* The earliest deadline of requests that were under way with the newest: any of them may be the last to count, also one
     * that was refused after its row was on its way. POOL_NEVER: it was alone. */
    uint64_t overlap_ns;
    unsigned busy;
};

/* A call, from its start until its reply is taken. */
struct walk_request {
    bool was_hibernated; /* as the engine knew when it was asked */
    struct engine_call call;
    struct list_node link;
    struct rt_timer taken;
    enum pool_event_kind kind;
    size_t client;
    uint64_t number;
    uint64_t prev;     /* request that may have moved the deadline before */
    uint64_t due_ns;   /* answered by then, whatever happens */
    uint64_t until_ns; /* earliest deadline it may set */
    unsigned kinds;    /* of extras; */
    unsigned marked;   /* those of them that have its number in them */
    bool is_answered;
    bool is_lost;      /* the reply is not delivered */
    bool is_odd;       /* with a wrong owner or generation */
    bool is_excessive; /* with limits above the profile's */
    bool is_destroy;
    bool is_of_snapshot; /* the end of a hibernated box: its thread may get another one meanwhile */
    bool is_quick;
    bool may_end;    /* a release: counted in in_doubt */
    bool was_poor;   /* when it asked: its user had nothing left, */
    uint64_t priced; /* the profiles that cost something, */
    bool had_lease;  /* its thread had a lease, or another call of it was under way */
    uint64_t box;    /* after the reply */
    char sandbox_id[POOL_ID_MAX + 1];
    char metadata[96];
};

struct walk_effect {
    enum pool_fx_kind kind;
    uint64_t box;
    uint64_t key; /* epoch, or number of the write */
    uint64_t due_ns;
};

struct walk {
    uint64_t seed;
    bool is_verbose;
    bool want_digest;
    uint64_t digest; /* of the trace */
    bool is_calm;    /* no faults any more */
    bool is_frozen;  /* the daemon is dead */
    struct rand rand;
    struct rand secrets; /* what rand_secure() gives */
    struct rand clock;   /* what the wall clock is set to: apart, so that they change no walk */
    struct loop loop;    /* the engine's, only its `rt` is used */
    struct rt rt;        /* the world's */

    struct engine *engine;
    bool is_serving; /* callers may come */
    bool is_closing;
    bool is_closed;
    bool has_stepped; /* else the pool has only been filled */
    bool is_dirty;    /* something has happened since the last check */
    unsigned lives;
    uint64_t steps;

    unsigned max_boxes;
    bool has_profile[8]; /* see operator.c */
    unsigned warm_min[8];
    unsigned warm_max[8];
    unsigned spec[8];

    struct walk_disk disk;
    uint64_t unrecorded[WALK_UNRECORDED]; /* the last of them */
    uint64_t unrecorded_count;
    struct store *store; /* while one is open */
    bool is_disk_bad;
    uint64_t hang_ns;       /* nothing is committed before */
    uint64_t start_hang_ns; /* nor does a thread answer that was started before callers may come */
    uint64_t awake_ns;

    struct walk_backend *backends[WALK_BACKENDS]; /* NULL: not open */
    unsigned wrong_listings[WALK_BACKENDS];
    struct walk_box boxes[WALK_BOXES];
    size_t box_count;
    struct walk_snapshot snapshots[WALK_SNAPSHOTS];
    uint64_t hibernated_max; /* as configured */
    uint64_t share_percent;
    uint64_t not_kept; /* hibernated boxes over the share of their principal */
    struct walk_promise promises[WALK_SNAPSHOTS];
    uint64_t files; /* the last number */
    struct {
        uint64_t id;    /* of a snapshot */
        uint64_t files; /* what its variable says */
        bool was_unequipped;
    } sides[WALK_SNAPSHOTS];
    uint64_t side_count;
    uint64_t sides_given;
    uint64_t hibernated;
    uint64_t restores;
    struct list comings; /* boxes that appear later, though nobody waits for them */
    bool is_space_low;

    struct walk_client clients[WALK_CLIENTS];
    struct list requests;
    uint64_t req;
    struct list questions; /* an operator's */
    uint64_t modes;        /* that he has set */

    struct walk_effect effects[WALK_EFFECTS];
    size_t effect_count;

    uint64_t replies_ok;
    uint64_t replies_refused;
    uint64_t undelivered;
    uint64_t updates;
    uint64_t freezes;
    uint64_t crashes;
    uint64_t by_code[SP_ERROR_INDEX_COUNT];
};

/* One at a time: functions that replace others have no argument for a context. */
extern struct walk walk;

/* walk.c */
void walk_init(uint64_t seed);
void walk_fini(void);
NORETURN void walk_fail(const char *why);
void walk_say(const char *fmt, ...) PRINTF_LIKE(1, 2);
bool walk_chance(unsigned percent);         /* false when calm */
bool walk_one_in(unsigned n);               /* also when calm */
uint64_t walk_ms(uint64_t lo, uint64_t hi); /* random duration */
uint64_t walk_now(void);
void walk_run(uint64_t until_ns);                      /* everything due up to then */
bool walk_run_to(const bool *flag, uint64_t limit_ns); /* until it is set; false: it was not */

/* lives.c */
void lives_start(void);
void lives_stop(void);  /* and start again */
void lives_crash(void); /* and start again */
void lives_end(void);   /* stop for good */

/* machine.c */
void machine_init(void);
void machine_turns(void); /* a random number of turns of the loop */
void machine_freeze(void);
void machine_go_on(void); /* threads that hang since the start */
void machine_check_closed(void);

/* disk.c */
void disk_init(void);
void disk_freeze(void); /* part of what was being written may have reached the disk */
void disk_hang(uint64_t for_ns);
void disk_set_bad(bool is_bad);
struct walk_row *disk_row(uint64_t id);
/* The box ends though no row says so; its first row may still wait for its commit. */
void disk_note_unrecorded(uint64_t id);
const char *disk_meta(const char *key);
void disk_set_meta(const char *key, const char *value);

/* boxes.c */
struct walk_box *boxes_find(uint64_t id);
struct walk_box *boxes_add(unsigned backend);
void boxes_appear(struct walk_box *b);
void boxes_appear_later(struct walk_box *b, uint64_t delay_ns);
void boxes_put(const struct walk_box *b, struct backend_box *ret); /* as its backend shows it */
void boxes_put_life(const struct walk_box *b, char ret[BACKEND_LIFE_MAX + 1]);
void boxes_disturb(void); /* one dies, stops, is started again, begins to work, ... */
void boxes_calm(void);
void boxes_reboot(void);
void boxes_forget_life(void);
void boxes_fini(void);

/* backends.c */
unsigned backends_late(unsigned backend);
bool backends_is_updating(const struct walk_box *b);
/* When the pool asks for it; the engine may do it a little later. */
bool backends_may_destroy(uint64_t id);
const char *backends_name(unsigned backend);
bool backends_is_local(unsigned backend);
void backends_report_death(const struct walk_box *b);
void backends_report_news(void); /* notices, resyncs */
void backends_freeze(void);
bool backends_are_closed(void);

/* snapshots.c */
void walk_snapshot_capture(struct backend *base, struct backend_capture *r, uint64_t deadline_ns,
                           void (*on_done)(struct op *));
void walk_snapshot_list(struct backend *base, struct backend_snapshots *r, uint64_t deadline_ns,
                        void (*on_done)(struct op *));
void walk_snapshot_drop(struct backend *base, struct backend_drop *r, uint64_t deadline_ns,
                        void (*on_done)(struct op *));
/* What is in the new box; false when what it is to be made from is gone. */
bool snapshots_judge_create(const struct backend_create *r, struct walk_box *box);
void snapshots_fact(const struct pool_fx *fx);
void snapshots_waive(const char *sandbox_id); /* its end is asked for */
bool snapshots_is_waived(const char *sandbox_id);

/* sides.c */
void sides_answer(const struct walk_box *b, struct buf *response);
void sides_given(struct walk_box *b, const struct backend_extras *x);
/* A caller gets the box. */
void sides_judge(struct walk_box *b, const struct walk_request *r);
uint64_t sides_of(uint64_t snapshot); /* 0: it has no variables */

/* callers.c, replies.c */
void callers_init(void);
void callers_act(void);
void callers_leave(void);   /* the daemon stops: those that wait are refused, or taken back */
void callers_hang_up(void); /* all of them */
bool callers_are_gone(void);
void callers_crashed(void);
void callers_forget(void); /* no caller relies on an earlier answer */
void callers_end(struct walk_request *r);
bool callers_has_open(size_t client);
uint64_t callers_principal(const struct walk_client *c);
void replies_take(struct engine_call *call, const struct pool_fx *fx);

/* money.c: budgets */
void money_config(struct config *c);
void money_asked(struct walk_request *r);
void money_served(const struct pool_fx *fx, const struct walk_request *r);
void money_refused(const struct walk_request *r, bool has_lease);
void replies_fact(const struct pool_fx *fx);
void replies_promise(const struct pool_fx *fx); /* the pool's; its caller gets it now or later */

/* checks.c */
void checks_run(void);
void checks_saw(const struct pool_box *b); /* somebody got its token and address */

/* effects.c */
void effects_reset(void);
void effects_check(void);

/* operator.c */
enum { WALK_PROFILES = 5 };
void operator_init(void);
const char *operator_profile(unsigned index);
struct config *operator_config(void);
void operator_reload(bool is_final);
void operator_act(void);
void operator_hang_up(void); /* his orders that are not answered */
void operator_run(void);     /* mode: running */

/* settle.c */
void settle(void);

#endif
