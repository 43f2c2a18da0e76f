/* snapshots.h - snapshots of boxes: <state_dir>/oci/snapshots/<id>/, with `disk`, a copy of a box's disk, and
 * `snapshot.json`. One that is being made has another name, and is removed at the next start.
 *
 * A snapshot is a layer: boxes are made from it, and snapshots of those need it too. One that its owner has deleted
 * stays until nothing is built on it. Where many lie on each other, one in the middle is made flat: its file is replaced by one
 * that has what was below it, too. */
#ifndef OCI_SNAPSHOTS_H
#define OCI_SNAPSHOTS_H

#include "backend/snapshot.h"
#include "base/map.h"
#include "base/rt.h"

enum {
    OCI_LAYERS_MAX = 16, /* snapshots below a box, PLAN_LAYERS_MAX of the helper */
    OCI_LAYERS_FLAT = 8, /* from here on they are flattened */
};

struct oci;

struct oci_snapshot {
    struct map_node node;
    struct list_node link;
    struct list above;           /* those that lie on it, by above_link */
    struct list_node above_link; /* of the one it lies on */
    struct list_node deep_link;  /* it is to be made flat */
    struct list_node moved_link; /* it lies on fewer than before, which was not reported yet */
    struct snapshot info;
    uint64_t id_base;               /* of the box it was taken from: whose ids its files have */
    unsigned users;                 /* snapshots that lie on it, and boxes */
    bool is_flat;                   /* `disk` has what lay below it, too: it lies on none */
    bool is_solid;                  /* it could not be made flat, and never can */
    bool is_leaving;                /* it is being removed */
    bool is_written;                /* its record is, by flatten.c; a drop waits for that */
    struct backend_drop *late_drop; /* that one, */
    bool has_late_drop;             /* which may be nobody's */
};

struct oci_flattening;

struct oci_snapshots {
    struct map by_id;
    struct list all; /* the oldest first */
    char dir[512];
    struct oci_flattening *flattening; /* one at a time; NULL: none */
    struct list deep;                  /* that need it; the first is the next */
    struct list moved;
    struct rt_timer moved_timer; /* the next part of them */
    struct list captures;        /* struct waiter: of boxes on too many layers */
    char flat_trouble[256];      /* why the last one failed; "": it did not */
    uint64_t reserve;            /* bytes that have to stay free */
};

/* At the start: reads what there is and removes what is not whole. */
MUST_CHECK int oci_snapshots_open(struct oci *o, struct err *err);
void oci_snapshots_close(struct oci *o);
/* NULL: there is none, also when it is only kept for others. */
struct oci_snapshot *oci_snapshot_find(struct oci *o, uint64_t id);
/* Also one that is only kept. */
struct oci_snapshot *oci_snapshot_find_any(struct oci *o, uint64_t id);
/* A box is made from it; `id` 0: none. Also one that is deleted. */
void oci_snapshot_use(struct oci *o, uint64_t id);
void oci_snapshot_unuse(struct oci *o, uint64_t id);
/* Its layers for the plan of a box, the last one first. */
void oci_snapshot_put_layers(struct oci *o, uint64_t id, struct json_out *j);
/* How many layers it has with itself: 1 when it lies on none. */
unsigned oci_snapshot_depth(struct oci *o, const struct oci_snapshot *e);
/* The one that it lies on; NULL: none. */
struct oci_snapshot *oci_snapshot_below(struct oci *o, const struct oci_snapshot *e);
/* The layers that a plan names stay until oci_snapshot_release(); returns how many they are. */
unsigned oci_snapshot_hold(struct oci *o, uint64_t id, uint64_t ret[OCI_LAYERS_MAX]);
void oci_snapshot_release(struct oci *o, const uint64_t *ids, unsigned count);
/* <dir>/<hex> or, while it is made, <dir>/new-<hex>; with `file`, that in it. */
void oci_snapshot_path(const struct oci *o, uint64_t id, bool is_new, const char *file, char *dst,
                       size_t cap);
/* On any thread: writes snapshot.json into its directory; the disk has it when this returns. */
MUST_CHECK int oci_snapshot_write(const char *dir, const struct snapshot *s, uint64_t id_base,
                                  bool is_flat, struct err *err);
/* On any thread: the names in it are on the disk when this returns. */
MUST_CHECK int oci_sync_dir(const char *path, struct err *err);
/* It is whole. */
void oci_snapshot_add(struct oci *o, const struct snapshot *s, uint64_t id_base);
/* Removes those that were deleted and that nobody uses, once all boxes that run are known. */
void oci_snapshots_collect(struct oci *o);

/* A drop that had to wait for is_written. */
void oci_snapshot_drop_late(struct oci *o, struct oci_snapshot *e);

/* From now on it lies on none. */
void oci_snapshot_detach(struct oci *o, struct oci_snapshot *e);

/* flatten.c: whether it needs that may have changed. */
void oci_flatten_weigh(struct oci *o, struct oci_snapshot *e);
/* Begins with the next one that needs it, if none is under way. */
void oci_flatten_next(struct oci *o);
void oci_flatten_cancel(struct oci *o);
/* A record that was being written is: what waited for that goes on. */
void oci_flatten_resume(struct oci *o);

/* capture.c, and the rest of the vtable */
void oci_capture(struct backend *b, struct backend_capture *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *));
/* capture.c, on any thread: what was made as new-<id> becomes a snapshot. */
MUST_CHECK int oci_snapshot_seal(const struct oci *o, const struct snapshot *s, uint64_t id_base,
                                 struct err *err);
/* It does not; what cannot be removed goes at the next start. */
void oci_snapshot_discard(const struct oci *o, uint64_t id);
/* moves.c */
void oci_export(struct backend *b, struct backend_export *r, uint64_t deadline_ns,
                void (*on_done)(struct op *));
void oci_import(struct backend *b, struct backend_import *r, uint64_t deadline_ns,
                void (*on_done)(struct op *));
void oci_list_snapshots(struct backend *b, struct backend_snapshots *r, uint64_t deadline_ns,
                        void (*on_done)(struct op *));
void oci_drop(struct backend *b, struct backend_drop *r, uint64_t deadline_ns,
              void (*on_done)(struct op *));

#endif
