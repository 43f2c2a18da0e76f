/* snapshots.h - the snapshots of all backends: made, found, deleted. The backends have the records; here they are kept in
 * memory, so that an acquire can be checked at once. */
#ifndef ENGINE_SNAPSHOTS_H
#define ENGINE_SNAPSHOTS_H

#include "backend/agent_env.h"
#include "backend/snapshot.h"
#include "base/heap.h"
#include "engine/engine.h"
#include "loop/work.h"

struct engine_snapshot {
    struct map_node node;
    struct map_node by_sandbox; /* hibernated, and the newest of its sandbox */
    struct heap_node
        expiry; /* hibernated: when it is deleted, in ms of the wall clock; UINT64_MAX: never */
    struct list_node hibernated_link;
    struct list_node share_link; /* hibernated: those of its principal */
    bool is_over;                /* hibernated: it is to be deleted, and nobody gets it any more */
    /* Those of all callers and those of its own, and of each only what is not hibernated: the oldest first. */
    struct list_node link;
    struct list_node kept_link;
    struct list_node own_link;
    struct list_node own_kept_link;
    struct heap_node
        unused; /* not hibernated, nor temporary: by the last use, or when it is looked at again */
    struct snapshot info;
    uint64_t order; /* grows with each that is added: pages follow it */
    unsigned backend;
    struct backend_extras *envs; /* variables of the lease, for boxes made from it; NULL: none */
    uint64_t env_bytes;          /* hibernated: what its principal's share has of them */
    bool was_unequipped;         /* hibernated: its own box had not been given them either */
    uint64_t used_ms;            /* by the wall clock: made, or the last box made from it */
    uint64_t noted_ms;           /* the last use that was written down */
    bool is_found;               /* of an earlier life */
    bool is_leaving;             /* it is being deleted: no box is made from it any more */
};

/* One snapshot of a leased box, or of a parked one that is hibernated. The caller owns it until on_done(), which comes once, never from inside. */
struct engine_capture {
    struct backend_capture request; /* the caller fills name and metadata of request.snapshot */
    struct list_node link;
    struct engine *engine;
    struct box_id box;
    unsigned backend;
    struct engine_config_ref *config;
    struct rt_task refusal;
    struct agent_env env;                /* the question to the box */
    struct work side;                    /* what the box has answered is written, */
    char side_dir[CONFIG_PATH_MAX + 32]; /* here */
    struct backend_extras *envs;         /* until the snapshot has it */
    bool was_unequipped;                 /* the box was to be given them, and was not yet */
    /* SP_OK: request.snapshot is whole and known. */
    void (*on_done)(struct engine_capture *c, int code, const char *reason);
};

/* What one principal has. */
struct engine_holding {
    uint64_t principal;
    size_t count;
    uint64_t bytes;
};

/* A refusal is reported the same way. */
void engine_capture_start(struct engine *e, struct engine_capture *c, struct box_id box);

/* on_done() comes once, never from inside; SP_OK: it is gone, or was. */
void engine_snapshot_drop(struct engine *e, struct engine_snapshot *s,
                          void (*on_done)(void *ctx, int code, const char *reason), void *ctx);

/* NULL: there is none that boxes can be made from. */
struct engine_snapshot *engine_snapshot_find(const struct engine *e, uint64_t id);
/* True: boxes of this pool profile are made from a snapshot that is not there, or not for them; `dst` says so. */
bool engine_profile_lacks(struct engine *e, unsigned profile, char *dst, size_t cap);
/* The name of a profile whose boxes are made from it; NULL: there is none. */
const char *engine_snapshot_profile(const struct engine *e, uint64_t id);
/* Whether a box of this pool profile can be made from it. */
bool engine_snapshot_fits(struct engine *e, const struct engine_snapshot *s, unsigned profile);
/* A box is made from it. */
void engine_snapshot_used(struct engine *e, uint64_t id);
/* Those who have most, in this order; returns how many. */
size_t engine_snapshot_holders(const struct engine *e, struct engine_holding *ret, size_t cap);
struct engine_holding engine_snapshot_holding(const struct engine *e, uint64_t principal);
/* Which ones are gone through. Each step costs the same, however many others there are. */
struct engine_snapshots_of {
    bool is_own; /* of `principal` only */
    uint64_t principal;
    bool want_hibernated;
};
/* The oldest first; NULL at the end. */
const struct engine_snapshot *engine_snapshot_first(const struct engine *e,
                                                    const struct engine_snapshots_of *of);
const struct engine_snapshot *engine_snapshot_next(const struct engine *e,
                                                   const struct engine_snapshots_of *of,
                                                   const struct engine_snapshot *s);

/* The engine's own: the start; asks a backend for those it has; the end. */
void snapshots_init(struct engine *e, const struct config *config);
void snapshots_load(struct engine *e, unsigned backend);
/* One that is whole. Takes what `side` has. */
struct snapshot_side;
void snapshots_add(struct engine *e, const struct snapshot *info, unsigned backend,
                   struct snapshot_side *side, bool is_found);
/* Deletes temporary ones of an earlier life, once it is known which boxes run. */
void snapshots_sweep(struct engine *e);
void snapshots_fini(struct engine *e);
/* Whose a snapshot of this box is; the rest is left alone. */
void snapshots_describe(struct engine *e, const struct pool_box *box, struct snapshot *ret);
/* struct backend_events */
void snapshots_on_changed(void *ctx, uint64_t id, uint64_t size, uint64_t layers);
/* Questions to boxes are not waited for any more. */
void snapshots_close(struct engine *e);
/* snapshot_envs.c: asks the box for its variables and keeps them, then snapshots_capture(), or snapshots_not_captured(). */
void capture_ask_envs(struct engine_capture *c);
void snapshots_capture(struct engine_capture *c);
void snapshots_not_captured(struct engine_capture *c, int rc, const struct err *err);
/* snapshot_limits.c: SP_TOO_MANY_SNAPSHOTS when this principal may not have one more. `bytes`: what it will take; 0: not known. */
MUST_CHECK int quota_check(const struct engine *e, uint64_t principal, uint64_t bytes,
                           struct err *err);
void quota_begin(struct engine *e, uint64_t principal, uint64_t bytes); /* one is being made */
void quota_end(struct engine *e, uint64_t principal, uint64_t bytes);
void quota_add(struct engine *e, const struct snapshot *s);
void quota_remove(struct engine *e, const struct snapshot *s);
void quota_fini(struct engine *e);
/* snapshot_limits.c: in the lists of its principal, and by its use. */
void quota_join(struct engine *e, struct engine_snapshot *s);
void quota_leave(struct engine *e, struct engine_snapshot *s);
const struct list *quota_list(const struct engine *e, uint64_t principal, bool want_hibernated);
/* snapshot_order.c: into a list that is in the order of their making; `link` is how far behind the beginning of one its link is. */
void snapshots_rank(struct list *list, struct engine_snapshot *s, size_t link);
/* snapshots.keep_s counts. */
void snapshots_keep_arm(struct engine *e);
/* One of this box is being made. */
bool snapshots_is_captured(const struct engine *e, struct box_id box);

#endif
