/* snapshots.h - the snapshots of all backends: made, found, deleted. The backends have the records; here they are kept in
 * memory, so that an acquire can be checked at once. */
#ifndef ENGINE_SNAPSHOTS_H
#define ENGINE_SNAPSHOTS_H

#include "backend/snapshot.h"
#include "engine/engine.h"

struct engine_snapshot {
    struct map_node node;
    struct list_node link; /* the oldest first */
    struct snapshot info;
    unsigned backend;
    bool is_found;   /* of an earlier life */
    bool is_leaving; /* it is being deleted: no box is made from it any more */
};

/* One snapshot of a leased box. The caller owns it until on_done(), which comes once, never from inside. */
struct engine_capture {
    struct backend_capture request; /* the caller fills name and metadata of request.snapshot */
    struct list_node link;
    struct engine *engine;
    struct box_id box;
    unsigned backend;
    struct engine_config_ref *config;
    struct rt_task refusal;
    /* SP_OK: request.snapshot is whole and known. */
    void (*on_done)(struct engine_capture *c, int code, const char *reason);
};

/* A refusal is reported the same way. */
void engine_capture_start(struct engine *e, struct engine_capture *c, struct box_id box);

/* on_done() comes once, never from inside; SP_OK: it is gone, or was. */
void engine_snapshot_drop(struct engine *e, struct engine_snapshot *s,
                          void (*on_done)(void *ctx, int code, const char *reason), void *ctx);

/* NULL: there is none that boxes can be made from. */
struct engine_snapshot *engine_snapshot_find(const struct engine *e, uint64_t id);
/* Whether a box of this pool profile can be made from it. */
bool engine_snapshot_fits(struct engine *e, const struct engine_snapshot *s, unsigned profile);
/* All of them, the oldest first; NULL at the end. */
const struct engine_snapshot *engine_snapshot_first(const struct engine *e);
const struct engine_snapshot *engine_snapshot_next(const struct engine *e,
                                                   const struct engine_snapshot *s);

/* The engine's own: asks a backend for those it has; the end. */
void snapshots_load(struct engine *e, unsigned backend);
/* Deletes temporary ones of an earlier life, once it is known which boxes run. */
void snapshots_sweep(struct engine *e);
void snapshots_fini(struct engine *e);
/* One of this box is being made. */
bool snapshots_is_captured(const struct engine *e, struct box_id box);

#endif
