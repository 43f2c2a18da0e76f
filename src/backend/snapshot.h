/* snapshot.h - the writable part of a box, kept: what a backend is asked, and what a snapshot is.
 *
 * The record lies beside the data, written by the backend, and is the only truth about it: there is no row
 * in the database that could disagree. A snapshot is whole or it does not exist. */
#ifndef BACKEND_SNAPSHOT_H
#define BACKEND_SNAPSHOT_H

#include "backend/backend.h"

#define SNAPSHOT_NAME_MAX 64
#define SNAPSHOT_DIGEST_MAX 71 /* "sha256:" and 64 digits */
#define SNAPSHOT_METADATA_MAX 4096

struct snapshot {
    uint64_t id;
    char name[SNAPSHOT_NAME_MAX + 1]; /* "": none */
    char instance[BACKEND_LABEL_MAX + 1];
    char profile[BACKEND_LABEL_MAX + 1];
    uint64_t parent;                        /* the snapshot its box was made from; 0: none */
    char sandbox_id[BACKEND_LABEL_MAX + 1]; /* of its box */
    char user[BACKEND_LABEL_MAX + 1];
    char thread[BACKEND_LABEL_MAX + 1];
    uint64_t principal;
    uint64_t created_ms; /* by the wall clock */
    uint64_t made_ms;    /* the same in the time of rows, which nobody sets; 0: not recorded */
    uint64_t size;       /* bytes that it takes */
    uint64_t layers;     /* that lie on each other in it; 0: not known */
    char digest[SNAPSHOT_DIGEST_MAX + 1];
    char metadata[SNAPSHOT_METADATA_MAX + 1]; /* JSON text; "": none */
    bool is_deleted;   /* for its owner; it is kept while others are built on it */
    bool is_temporary; /* shown to nobody; if it is still there at the next start, it is deleted */
    /* What a box became when its time was over: the next acquire of its id is given it, and nobody else. */
    bool is_hibernated;
    uint64_t generation; /* of that box; 0: not recorded */
    uint64_t box_id;     /* likewise */
    uint64_t
        until_ms; /* by the wall clock: when that box would have ended; 0: not known, or never */
};

struct backend_capture {
    struct op op;
    const struct config_profile *profile; /* may be NULL: the profile is gone from the config */
    struct backend_box box;
    struct snapshot
        snapshot; /* the caller fills what is known of it; parent, size and digest are results */
    uint64_t frozen_ns; /* result: how long the box stood still */
    void *priv;
};

/* All that there are. */
struct backend_snapshots {
    struct op op;
    struct snapshot *list; /* from malloc, owned by the request: backend_snapshots_fini() */
    size_t count;
    size_t cap;
    void *priv;
};

/* One that is absent is a success. */
struct backend_drop {
    struct op op;
    uint64_t id;
    void *priv;
};

/* A snapshot as one file: see base/bundle.h, or as a container image. */
struct backend_export {
    struct op op;
    uint64_t id;
    bool is_image;                        /* the latter */
    uint64_t created_ms;                  /* of the snapshot, by the wall clock */
    const struct config_profile *profile; /* the snapshot's; NULL: it is gone from the config */
    const char *about; /* JSON text for the head of the file; borrowed until on_done() */
    int fd;            /* where it goes, a socket; stays the caller's */
    void *priv;
};

/* A new snapshot from such a file. SP_INVALID_FIELD: the file is not good. SP_SPEC_CONFLICT: it is for another base. */
struct backend_import {
    struct op op;
    struct snapshot snapshot; /* the caller fills it; size, layers and digest are results */
    const struct config_profile *profile; /* whose base it is for; borrowed until on_done() */
    bool is_any_base;                     /* which it need not be */
    uint64_t max_bytes;
    uint64_t bytes; /* that the head of the file says it has */
    int fd;         /* where it comes from, a socket; stays the caller's */
    void *priv;
};

/* Room for one more, which is zeroed. */
struct snapshot *backend_snapshots_add(struct backend_snapshots *r);
void backend_snapshots_fini(struct backend_snapshots *r);

/* As one JSON object, and back: false when a member is missing or too long. */
void snapshot_put(struct json_out *o, const struct snapshot *s);
MUST_CHECK bool snapshot_take(const struct json *obj, struct snapshot *ret);

#endif
