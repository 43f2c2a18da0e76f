/* backend.h - the contract of every backend: where boxes come from.
 *
 * All calls are operations (base/op.h): asynchronous, cancellable, with an absolute deadline, one
 * completion, truth wins. A call whose deadline passed may still have happened at the other side;
 * that is why create is idempotent by box id and destroy of something absent is a success. */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include "backend/released.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/op.h"
#include "config/config.h"
#include "loop/httpc.h"
#include "loop/loop.h"

#define BACKEND_ID_LEN 16
#define BACKEND_LABEL_MAX 128
#define BACKEND_URL_MAX 192
#define BACKEND_REF_MAX 128
#define BACKEND_TOKEN_MAX 64
#define BACKEND_LIFE_MAX 32
#define BACKEND_STATUS_MAX 120
#define BACKEND_KEY_MAX (CONFIG_PATH_MAX + CONFIG_NAME_MAX + 1)

/* What a backend object carries, so that reconciliation never guesses. */
struct backend_labels {
    char instance[BACKEND_LABEL_MAX + 1]; /* of the daemon; boxes of others are never touched */
    uint64_t box_id;
    char profile[BACKEND_LABEL_MAX + 1];
    uint64_t spec_hash;
    char sandbox_id[BACKEND_LABEL_MAX + 1]; /* "" until bound */
    char user[BACKEND_LABEL_MAX + 1];
    char thread[BACKEND_LABEL_MAX + 1];
    uint64_t generation;
    uint64_t principal; /* who may use it, so that a lost database opens it to nobody else */
};

/* What an acquire asks of a box: applied late where the backend can, else the box is made with it. */
struct backend_env_var {
    const char *name;
    const char *value;
};

struct backend_mount {
    const char
        *host_path; /* "": nothing is mounted, box_path is a directory made for the box's user */
    const char *box_path;
    bool is_read_only;
    /* Not NULL: chosen by the daemon itself. What is missing of host_path below this directory is made, and
     * the directories in it that `parts` names, separated by commas; mounts.allow does not matter. */
    const char *base;
    const char *parts;
    /* Not NULL: `base` has to be allowed, by mounts.allow; and of directories that others than this holder have used
     * none is mounted, unless it is "". */
    const char *holder;
    /* Not NULL: directories that are not for everybody, with line breaks between. Nothing in them is mounted, by
     * whatever name, unless it is in what the first `own_len` bytes of host_path name. */
    const char *closed;
    size_t own_len;
};

struct backend_extras {
    const struct backend_env_var *envs; /* for every process started from now on */
    size_t env_count;
    const struct backend_mount *mounts;
    size_t mount_count;
    uint64_t memory;      /* bytes; 0: as it is */
    uint64_t cpus;        /* thousandths; 0: as it is */
    uint64_t pids;        /* 0: as it is */
    const char *snapshot; /* the id of what the box is made from; NULL: the profile's base */
};

/* One box as its backend sees it. */
struct backend_box {
    struct backend_labels labels;
    char url[BACKEND_URL_MAX + 1];
    char ref[BACKEND_REF_MAX + 1]; /* the backend's own name */
    char token[BACKEND_TOKEN_MAX + 1];
    char life[BACKEND_LIFE_MAX + 1]; /* as it answered last, see life.h; "": not known */
    bool is_ready;                   /* vouched for: needs no probe */
    /* Another process made it: nobody's until it is acquired by its id, and not destroyed before. */
    bool is_foreign;
    bool is_frozen; /* its processes stand still */
    bool is_absent; /* listed by its name, but it is not known whether it runs */
};

enum backend_verdict {
    BACKEND_UNKNOWN,
    BACKEND_ALIVE,
    BACKEND_DEAD,
    BACKEND_ABSENT, /* it is not known here; that may be a mistake, so the box is asked itself */
    BACKEND_VERDICT_COUNT
};

struct backend_create {
    struct op op;
    const struct config_profile *profile; /* borrowed until on_done() */
    /* A box that is made for one caller names its owner already (sandbox_id, user, thread). */
    struct backend_labels labels;
    char token[BACKEND_TOKEN_MAX + 1];   /* the box's bearer token */
    const struct backend_extras *extras; /* of that caller, or NULL; borrowed until on_done() */
    struct backend_box box;              /* result */
    void *priv;
};

struct backend_destroy {
    struct op op;
    const struct config_profile *profile; /* may be NULL: the profile is gone from the config */
    struct backend_box box; /* ref may be "" when a create was cut short: find it by its labels */
    struct backend_released released; /* result: what was released; with a text in any case */
    void *priv;
};

struct backend_check {
    struct op op; /* SP_OK: `verdict` is valid; anything else means unknown */
    struct backend_box box;
    enum backend_verdict verdict;
    char status[BACKEND_STATUS_MAX +
                1]; /* what the backend calls it, "the provisioner says Pending"; or "" */
    char hint[BACKEND_STATUS_MAX + 1]; /* what to look at if it stays so; or "" */
    void *priv;
};

struct backend_discover {
    struct op op;
    char sandbox_id[BACKEND_LABEL_MAX + 1];
    bool is_found;
    bool want_probe; /* it counts only if it answers */
    struct backend_box box;
    void *priv;
};

struct backend_list {
    struct op op;              /* SP_OK: a clean and complete listing */
    struct backend_box *boxes; /* from malloc, owned by the request: backend_list_fini() */
    size_t count;
    size_t cap; /* of those that grow it by backend_list_reserve() */
    void *priv;
};

struct backend_bind {
    struct op op;
    struct backend_box box; /* with the new labels */
    void *priv;
};

struct backend_update {
    struct op op; /* a failure leaves the box half changed: it must not be handed out */
    const struct config_profile *profile; /* may be NULL: the profile is gone from the config */
    struct backend_box box;
    struct backend_extras extras; /* borrowed until on_done() */
    void *priv;
};

/* What a running box may reach, for boxes that were made with such a list (base/egress.h). */
struct backend_egress {
    struct op op;
    struct backend_box box;
    const char *allow; /* borrowed until on_done() */
    void *priv;
};

struct backend_freeze {
    struct op op; /* whatever fails: the box may stand still, or not */
    struct backend_box box;
    bool is_frozen; /* what it is to be; it may be so already */
    bool
        is_unused; /* nobody is expected to need it soon: its memory may go where that is slow to come back from */
    void *priv;
};

/* What a box has used since it was made, as the kernel counts it, and the memory that it holds now. What nobody counts is
 * not known, which is not 0. */
struct backend_counters {
    struct backend_count cpu_us;
    struct backend_count memory; /* bytes, without cached files that can be given back */
    struct backend_count net_in; /* bytes that came into the box, of its own network */
    struct backend_count net_out;
    struct backend_count disk_read; /* bytes, from and to devices */
    struct backend_count disk_write;
};

struct backend_stats {
    struct op op; /* SP_OK: also when nothing is counted; ERR_BOX_DEAD: the box does not run */
    struct backend_box box;
    struct backend_counters counters; /* result */
    void *priv;
};

/* What `sandpool doctor` shows of a backend. */
enum backend_finding_level {
    BACKEND_FINDING_OK,
    BACKEND_FINDING_WARN, /* something is missing that can be done without */
    BACKEND_FINDING_FAIL, /* no box can be made */
    BACKEND_FINDING_LEVEL_COUNT
};

struct backend_finding {
    enum backend_finding_level level;
    char subject[48]; /* "runtime crun" */
    char text[320];   /* what was found; if it is not good, what to do */
};

#define BACKEND_FINDINGS_MAX 48

struct backend_exam {
    struct op op;
    struct backend_finding *findings; /* from malloc, owned by the request: backend_exam_fini() */
    size_t count;
    void *priv;
};

/* Worth a line in the audit trail. */
enum backend_notice_kind {
    BACKEND_IMAGE_PULLING, /* begun, then at most every few seconds */
    BACKEND_IMAGE_PULLED,
    BACKEND_IMAGE_FAILED,
    BACKEND_BOX_PAUSED, /* by a person: it lives, but does not answer; a blank one is given up */
    BACKEND_BOX_RESUMED,
    BACKEND_BOX_OOM,           /* something in it was killed; the box may go on */
    BACKEND_BOX_KERNEL_MEMORY, /* it is ended, because it holds too much of it; `text` has what */
    BACKEND_NOTICE_COUNT
};

struct backend_notice {
    enum backend_notice_kind kind;
    uint64_t box_id;   /* 0: of no box */
    const char *image; /* NULL: of no image */
    const char *text;  /* progress or reason; may be "" */
    uint64_t done_bytes;
    uint64_t total_bytes; /* 0: not known */
};

/* What a box died of. */
enum backend_death {
    BACKEND_DEATH_PLAIN,
    BACKEND_DEATH_NETLESS,       /* what served its network had ended */
    BACKEND_DEATH_UNGUARDED,     /* the guard of its sockets had ended */
    BACKEND_DEATH_KERNEL_MEMORY, /* it was ended: see BACKEND_BOX_KERNEL_MEMORY */
};

struct snapshot;
struct backend_labels;

/* Called by the backend at any time, from the loop. on_notice(), when it is about an image, and on_remains() also come before
 * a call to the backend returns; the others do not. */
struct backend_events {
    void *ctx;
    void (*on_died)(void *ctx, uint64_t box_id, const char *reason);
    /* May be NULL. It died because of something outside. */
    void (*on_alone)(void *ctx, uint64_t box_id, enum backend_death death);
    void (*on_resync)(void *ctx); /* "I may have missed something": list again */
    /* May be NULL. */
    void (*on_notice)(void *ctx, const struct backend_notice *n);
    /* May be NULL. What a snapshot takes has changed, not what is in it. */
    void (*on_snapshot)(void *ctx, uint64_t id, uint64_t size, uint64_t layers);
    /* May be NULL, like the next. A durable box has ended, and what it has written is left: true, and `ret` is a new
     * snapshot of its owner's; false: nobody wants it. */
    bool (*on_remains)(void *ctx, const struct backend_labels *labels, struct snapshot *ret);
    /* It is whole. Comes instead of on_died(). */
    void (*on_kept)(void *ctx, const struct snapshot *s);
};

struct backend_env {
    struct loop *loop;
    struct httpc *http;
    const char *instance;
    const char *state_dir;
    const struct config *config; /* global settings; borrowed during open() only */
    const struct backend_events *events;
};

/* The kinds of extras. */
enum {
    BACKEND_LATE_ENVS = 1 << 0,
    BACKEND_LATE_MOUNTS = 1 << 1,
    BACKEND_LATE_LIMITS = 1 << 2,
    BACKEND_LATE_ALL = BACKEND_LATE_ENVS | BACKEND_LATE_MOUNTS | BACKEND_LATE_LIMITS,
    BACKEND_SNAPSHOT = 1 << 3, /* never given to a box that runs */
};

struct backend; /* one running backend: the vtable's own object begins with struct backend */
struct backend_capture;
struct backend_snapshots;
struct backend_drop;
struct backend_export;
struct backend_import;

struct backend_ops {
    const char *name;
    bool is_local;         /* boxes die with this machine: `durability: auto` means process */
    bool is_watched;       /* deaths are reported by on_died() */
    bool counts_ended;     /* stats() knows what a box has used that has just died */
    bool may_leave_frozen; /* a capture() whose maker was killed leaves its box so */
    bool can_discover;
    bool can_bind;
    /* Profiles with the same key share one object, e.g. by the address in use; at most
     * BACKEND_KEY_MAX bytes. NULL: config_backend_key() makes it. */
    void (*put_key)(const struct config_profile *p, char *dst, size_t cap);
    unsigned late; /* what update() can change of a running box; for the rest one is made */
    unsigned (*late_of)(const struct config_profile *p); /* the part a profile has; NULL: all */
    unsigned at_create; /* what create() heeds of its `extras`; a kind in neither is refused */
    /* `profile` is the first profile that names this backend. */
    int (*open)(const struct backend_env *env, const struct config_profile *profile,
                struct backend **ret, struct err *err);
    void (*close)(struct backend *b, void (*on_closed)(void *ctx), void *ctx);
    /* A profile of this backend is configured, at start and at each reload: what its boxes need may
     * be fetched now. Nobody waits. NULL: nothing to do. */
    void (*prepare)(struct backend *b, const struct config_profile *profile);
    void (*create)(struct backend *b, struct backend_create *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *));
    void (*destroy)(struct backend *b, struct backend_destroy *r, uint64_t deadline_ns,
                    void (*on_done)(struct op *));
    void (*is_alive)(struct backend *b, struct backend_check *r, uint64_t deadline_ns,
                     void (*on_done)(struct op *));
    void (*discover)(struct backend *b, struct backend_discover *r, uint64_t deadline_ns,
                     void (*on_done)(struct op *)); /* NULL unless can_discover */
    void (*list)(struct backend *b, struct backend_list *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *));
    void (*bind)(struct backend *b, struct backend_bind *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *)); /* NULL unless can_bind */
    /* NULL, like the next two: this backend has no snapshots. See snapshot.h. The box goes on when this ends, however
     * it ends. */
    void (*capture)(struct backend *b, struct backend_capture *r, uint64_t deadline_ns,
                    void (*on_done)(struct op *));
    void (*snapshots)(struct backend *b, struct backend_snapshots *r, uint64_t deadline_ns,
                      void (*on_done)(struct op *));
    /* Boxes and snapshots that were made from it are not affected. */
    void (*drop)(struct backend *b, struct backend_drop *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *));
    /* A snapshot as a file, and back. NULL: this backend cannot. */
    void (*export)(struct backend *b, struct backend_export *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *));
    void (*import)(struct backend *b, struct backend_import *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *));
    /* Lets all processes of a box stand still, or go on. NULL: this backend cannot. */
    /* Another list. Of changes at the same time one is the last. NULL: boxes have none. */
    void (*egress)(struct backend *b, struct backend_egress *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *));
    /* The list of a running box, from memory; NULL: it has none. NULL with egress(). */
    const char *(*allowed)(struct backend *b, uint64_t box_id);
    void (*freeze)(struct backend *b, struct backend_freeze *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *));
    /* What a box has used. NULL: nobody counts it. */
    void (*stats)(struct backend *b, struct backend_stats *r, uint64_t deadline_ns,
                  void (*on_done)(struct op *));
    /* NULL: this backend has no late binding. */
    void (*update)(struct backend *b, struct backend_update *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *));
    /* Whether the name of a box that is gone may be used again, and then lead to that box for a while: the
     * store keeps it for recall(). Also called after close(). NULL, like the next two: never. */
    bool (*may_return)(const char *ref);
    /* After open(), before any box is made: such a box went `ago_ns` ago, in an earlier life. Oldest first. */
    void (*recall)(struct backend *b, const char *ref, const char *life, uint64_t ago_ns);
    /* Whether what has this ref and answers with this life is such a box, or may be. */
    bool (*is_gone)(struct backend *b, const char *ref, const char *life);
    /* Where the boxes' own disks lie on this machine: <dir>/<box id>/disk. NULL: nowhere. */
    const char *(*disk_dir)(struct backend *b);
    /* A Unix socket that leads to the same server of a box as its URL and costs less. False: it has none, or its path is
     * too long. NULL: never. */
    bool (*local)(struct backend *b, uint64_t box_id, char *dst, size_t cap);
    /* True: no box of this profile can be made now, and `dst` says why; from what is known, nobody is asked.
     * NULL: nothing is known. */
    bool (*trouble)(struct backend *b, const struct config_profile *profile, char *dst, size_t cap);
    /* How much of what a box of this profile writes limits.disk limits: "all", "places" (its working directory, home,
     * /tmp), "none"; NULL: not known yet. NULL instead of the function: never said. */
    const char *(*disk_limit)(struct backend *b, const struct config_profile *profile);
    /* NULL: nothing to report. */
    void (*examine)(struct backend *b, struct backend_exam *r, uint64_t deadline_ns,
                    void (*on_done)(struct op *));
};

struct backend {
    const struct backend_ops *ops;
    bool is_elsewhere; /* set by open(): this one's boxes outlive this machine all the same */
};

unsigned backend_extras_kinds(const struct backend_extras *x);
/* Forgets the others. */
void backend_extras_keep(struct backend_extras *x, unsigned kinds);
/* The same for the same things in whatever order, also in another life; 0: it has none of `kinds`. */
uint64_t backend_extras_hash(const struct backend_extras *x, unsigned kinds);
/* One piece from malloc, with all it points to. */
struct backend_extras *backend_extras_copy(const struct backend_extras *x);
/* One entry of "mounts" in a plan of helper/plan.h. */
void backend_mount_put(struct json_out *o, const struct backend_mount *m);

/* NULL when there is no such backend. */
const struct backend_ops *backend_by_name(const char *name);
/* What distinguishes the profile's backend object from others; kept in rows. */
void backend_key(const struct config_profile *p, char *dst, size_t cap);
void backend_list_fini(struct backend_list *r);
/* Room for that many boxes; false: there is no memory. */
MUST_CHECK bool backend_list_reserve(struct backend_list *r, size_t count);
/* Forgets the last boxes, from `count` on, and gives their memory back: that of very many at once takes long. */
void backend_list_cut(struct backend_list *r, size_t count);
/* One more finding; of too many, the last are left out. */
void backend_report(struct backend_exam *r, enum backend_finding_level level, const char *subject,
                    const char *fmt, ...) PRINTF_LIKE(4, 5);
void backend_exam_fini(struct backend_exam *r);
/* Where one of our programs is: as configured, else beside the daemon. Whether it is there is not checked. False and
 * errno: it is not known where the daemon is. */
bool backend_program(const char *configured, const char *name, char *dst, size_t cap);

#endif
