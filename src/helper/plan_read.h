/* plan_read.h - the plans of plan.h as structs, checked: every path is absolute and free of dots,
 * every list and text has a limit, what a verb needs is there. */
#ifndef HELPER_PLAN_READ_H
#define HELPER_PLAN_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

#define PLAN_TEXT_MAX (4u * 1024 * 1024)
#define PLAN_PATH_MAX 2048u
#define PLAN_LIST_MAX 256u
#define PLAN_ARGS_MAX 128u
#define PLAN_LAYERS_MAX 16u
#define PLAN_CLOSED_MAX 16u
#define PLAN_PLACES_MAX 8u

struct plan_owned {
    const char *path;
    uint32_t id; /* in the box */
    uint32_t mode;
};

struct plan_file {
    const char *path;
    const char *text;
};

struct plan_mount {
    const char *from; /* NULL: only the directory `to` */
    const char *to;
    bool is_ro;
    const char *base;                    /* not NULL: see host_dir.h */
    const char *parts;                   /* likewise */
    const char *holder;                  /* likewise */
    const char *closed[PLAN_CLOSED_MAX]; /* see closed.h */
    size_t closed_count;
    const char *own; /* likewise: below one of them; NULL: nothing */
};

struct plan_limit {
    const char *file; /* in the cgroup */
    const char *value;
};

/* A snapshot below the box's own files. */
struct plan_layer {
    const char *disk;
    uint32_t id_base; /* of the box it was taken from */
};

/* The fields of all verbs. Texts belong to `doc`; what a plan does not have is NULL or 0. */
struct plan {
    struct json_doc *doc;
    const char *dir;
    const char *record;
    const char *spec;
    const char *stage;
    const char *lower;
    bool is_lower_mapped;
    struct plan_layer *layers; /* the last one first */
    size_t layer_count;
    uint32_t id_base;
    uint32_t id_count;
    uint64_t disk;
    const char *disk_template;
    bool is_durable;
    struct plan_owned *owned;
    size_t owned_count;
    struct plan_file *files;
    size_t file_count;
    struct plan_mount *binds;
    size_t bind_count;
    struct plan_mount *mounts;
    size_t mount_count;
    const char **allow;
    size_t allow_count;
    uint32_t user_id;
    uint32_t owner_uid; /* on this machine: who the owners of "mounts" are shown as */
    uint32_t owner_gid;
    const char *user;
    const char **runtime; /* argument lists end with NULL */
    const char **network;
    const char
        *egress; /* what the box may reach, as a list of base/egress.h; NULL: whatever there is */
    const char *nft;
    const char *connect;
    const char *guard;
    uint64_t sockets;
    const char *user_ns;
    uint64_t max_files;
    struct plan_limit *limits;
    size_t limit_count;
    const char **remove;
    const char *cgroup;
    const char *runtime_state;
    int pid;
    const char *to;
    uint64_t reserve;  /* bytes that have to stay free */
    const char *about; /* JSON text for the head of a file, or for the config of an image */
    const char *name;  /* of that image, with a tag */
    const char *created;
    bool is_any_base;
    uint64_t max_bytes;
    bool is_frozen;
    const char *container; /* NULL: a box of our own, with a "dir" */
    const char *program;
    const char *places[PLAN_PLACES_MAX];
    size_t place_count;
    const char *from[PLAN_LAYERS_MAX]; /* directories, the uppermost first */
    size_t from_count;
};

/* They fill *ret, which plan_fini() releases in any case. */
MUST_CHECK int plan_read_run(struct plan *ret, const char *text, size_t len, struct err *err);
MUST_CHECK int plan_read_mount(struct plan *ret, const char *text, size_t len, struct err *err);
MUST_CHECK int plan_read_remove(struct plan *ret, const char *text, size_t len, struct err *err);
MUST_CHECK int plan_read_relay(struct plan *ret, const char *text, size_t len, struct err *err);
MUST_CHECK int plan_read_base(struct plan *ret, const char *text, size_t len, struct err *err);
MUST_CHECK int plan_read_capture(struct plan *ret, const char *text, size_t len, struct err *err);
MUST_CHECK int plan_read_keep(struct plan *ret, const char *text, size_t len, struct err *err);
MUST_CHECK int plan_read_disk(struct plan *ret, const char *text, size_t len, struct err *err);
MUST_CHECK int plan_read_flatten(struct plan *ret, const char *text, size_t len, struct err *err);
MUST_CHECK int plan_read_pack(struct plan *ret, const char *text, size_t len, struct err *err);
MUST_CHECK int plan_read_image(struct plan *ret, const char *text, size_t len, struct err *err);
MUST_CHECK int plan_read_repack(struct plan *ret, const char *text, size_t len, struct err *err);
MUST_CHECK int plan_read_load(struct plan *ret, const char *text, size_t len, struct err *err);
MUST_CHECK int plan_read_unpack(struct plan *ret, const char *text, size_t len, struct err *err);
MUST_CHECK int plan_read_freeze(struct plan *ret, const char *text, size_t len, struct err *err);
MUST_CHECK int plan_read_egress(struct plan *ret, const char *text, size_t len, struct err *err);
MUST_CHECK int plan_read_reclaim(struct plan *ret, const char *text, size_t len, struct err *err);
MUST_CHECK int plan_read_gather(struct plan *ret, const char *text, size_t len, struct err *err);
void plan_fini(struct plan *p);

/* For the above: the object in the text, */
MUST_CHECK int plan_parse(struct plan *ret, const char *text, size_t len, const struct json **obj,
                          struct err *err);
/* the layers of a snapshot, */
MUST_CHECK int plan_get_layers(const struct json *obj, struct plan *p, struct err *err);
/* and which box it is about: one of our own is named by its directory, a container by its id. */
MUST_CHECK int plan_get_box(const struct json *obj, struct plan *p, struct err *err);

/* True when `path` is `top` or lies below it, by name. */
bool plan_path_is_below(const char *path, const char *top);

#endif
