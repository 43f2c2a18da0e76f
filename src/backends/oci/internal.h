/* internal.h - what the files of the `oci` backend share.
 *
 *   oci.c      open, close, the vtable            create.c   one box from nothing
 *   setup.c    directories, base, first look      destroy.c  destroys and sweeps, one per box
 *   runtime.c  which runtime works, and why not   record.c   box.json, read and written whole
 *   pull.c     images, in the background          scan.c     what is there: the boxes directory
 *   plan.c     the plan for sandpool-helper       table.c    boxes in memory, their deaths
 *   helper.c   sandpool-helper as an operation    traces.c   what no directory leads to
 *   list.c     list, discover                     bind.c     whose a box is
 *   check.c    is_alive
 *   snapshots.c snapshots, kept and deleted      capture.c  one is made
 *   moves.c    snapshots that leave and come      flatten.c  layers become one
 *   keep.c     durable boxes that have ended
 *   update.c   late binding                       examine.c  findings for `sandpool doctor`
 *   rootless.c the daemon of an ordinary user    hoard.c    memory of the kernel that boxes hold
 *   stats.c    what a box has used               network.c  what a network needs
 *   egress.c   what a running box may reach */
#ifndef OCI_INTERNAL_H
#define OCI_INTERNAL_H

#include "backend/boxes.h"
#include "backend/kernel_watch.h"
#include "backend/reclaim.h"
#include "backends/oci/oci.h"
#include "backends/oci/snapshots.h"
#include "backends/oci/spec.h"
#include "base/json.h"
#include "base/map.h"
#include "loop/child.h"
#include "loop/fdwatch.h"
#include "loop/work.h"

enum {
    OCI_PATH_MAX = 512,
    OCI_ID_COUNT = 65536, /* user ids of one box, but see struct oci */
    OCI_RUNTIMES_MAX = 8,
    OCI_GROUP_TOP_MAX = 255,
    OCI_GROUP_MAX = OCI_GROUP_TOP_MAX + BACKEND_LABEL_MAX + 64, /* with NUL: see oci_cgroup() */
    OCI_HELPERS_MAX = 8,   /* sandpool-helper processes at once, of each kind (enum oci_turn) */
    OCI_GIVEN_UP_MAX = 32, /* those that were killed and have not ended yet do not count, so far */
    OCI_RECORD_MAX = 16 * 1024, /* bytes of box.json */
};

#define OCI_REMOVE_NS (60 * NS_PER_S) /* a removal that nobody waits for, and the longest try */
#define OCI_RETRY_NS (30 * NS_PER_S)  /* after this a runtime that failed is tried again */

struct oci;

/* --- sandpool-helper as an operation (helper.c) --- */

enum oci_turn { OCI_TURN_REMOVE, OCI_TURN_MOVE, OCI_TURN_NETWORK, OCI_TURN_OTHER, OCI_TURN_COUNT };

struct oci_helper {
    struct op op; /* SP_OK: it did it; SP_BACKEND_FAILED with its own sentence */
    struct oci *oci;
    const char *verb;
    struct buf plan;         /* JSON; owned */
    int pass_fd;             /* -1: none */
    uint64_t limit_ns;       /* once its turn has come; 0: only the deadline counts */
    int exit_code;           /* result: see helper/plan.h */
    struct json_doc *answer; /* result: what it printed; NULL when it failed */
    struct child child;
    const char *argv[3];
    struct list_node link; /* while it waits for its turn */
    bool is_given_up;      /* killed, and its place is another's */
};

/* The caller fills verb, plan, pass_fd and limit_ns of a zeroed object. */
void oci_helper_start(struct oci *o, struct oci_helper *h, uint64_t deadline_ns,
                      void (*on_done)(struct op *));
void oci_helper_fini(struct oci_helper *h);
/* At the end of the backend: those whose turn has not come. */
void oci_helper_cancel_waiting(struct oci *o);

/* Lets a box stand still, or go on. The caller owns `h`, which is zeroed, and calls oci_helper_fini(). */
void oci_freeze_start(struct oci *o, struct oci_helper *h, uint64_t box_id, bool is_frozen,
                      uint64_t deadline_ns, void (*on_done)(struct op *));

/* --- runtimes (runtime.c) --- */

enum oci_flavour { OCI_RUNC, OCI_CRUN, OCI_RUNSC, OCI_FLAVOUR_COUNT };
enum oci_trial { OCI_UNTRIED, OCI_TRYING, OCI_WORKS, OCI_FAILED, OCI_TRIAL_COUNT };

struct oci_runtime {
    char name[OCI_PATH_MAX]; /* as a profile would call it */
    char path[OCI_PATH_MAX];
    enum oci_flavour flavour;
    enum oci_trial trial;
    uint64_t tried_ns;
    struct err why;  /* it failed */
    bool was_killed; /* its last trial, by somebody else */
    unsigned kills;  /* of trials in a row */
};

/* A runtime for a profile that says `name` ("": any). SP_OK: *ret works. ERR_NOT_READY: it is being
 * tried, wait for oci_wake(). Else err says what was tried and why it is no good. */
MUST_CHECK int oci_runtime_for(struct oci *o, const char *name, struct oci_runtime **ret,
                               struct err *err);
/* The one that made a box; NULL when it cannot be known. */
struct oci_runtime *oci_runtime_by_path(struct oci *o, const char *path);
struct oci_runtime *oci_runtime_by_flavour(struct oci *o, enum oci_flavour flavour);
void oci_runtimes_init(struct oci *o);

/* --- images (pull.c) --- */

/* The directory of a profile's image, made ready in the background: unpacking may take longer than
 * the create that asked for it may wait. SP_OK: rootfs and env are copied (the caller frees env by
 * oci_env_free()). ERR_NOT_READY: wait for oci_wake(). Else why not. */
MUST_CHECK int oci_pull(struct oci *o, const struct config_profile *p, char rootfs[OCI_PATH_MAX],
                        char ***ret_env, struct err *err);
/* The same for whatever boxes of the profile are built on: *ret is that directory, `rootfs` has room for its name. */
MUST_CHECK int oci_lower(struct oci *o, const struct config_profile *p, char rootfs[OCI_PATH_MAX],
                         char ***ret_env, const char **ret, struct err *err);
void oci_env_free(char **env); /* NULL is fine */
void oci_pulls_cancel(struct oci *o);

/* --- box.json (record.c) --- */

struct oci_record {
    struct backend_box box; /* without `is_ready` */
    uint64_t id_base;
    uint64_t snapshot; /* that it was made from; 0: none */
    bool is_durable;
    char runtime[OCI_PATH_MAX];
};

void oci_record_print(const struct oci_record *r, struct buf *out);
/* On any thread. SP_NOT_FOUND when there is none. */
MUST_CHECK int oci_record_read(int dir_fd, struct oci_record *ret, struct err *err);
/* Replaces it whole. */
MUST_CHECK int oci_record_write(int dir_fd, const struct oci_record *r, struct err *err);

/* --- what is there (scan.c), on any thread --- */

/* Processes outside a box without which it is of no use. */
enum oci_beside { OCI_BESIDE_NETWORK, OCI_BESIDE_RESOLVER, OCI_BESIDE_GUARD, OCI_BESIDE_COUNT };

struct oci_found {
    uint64_t id;
    struct oci_record record;
    bool has_record;
    bool is_running;   /* its lock is held */
    bool is_unsettled; /* by somebody who is still making it */
    bool is_trace;     /* no directory: only a control group or a runtime's notes */
    bool is_elsewhere; /* a trace that lives and of which no runtime of ours knows */
    int pid;
    int pid_fd; /* of the running init; -1 when it is not wanted or was taken */
    int beside_fds
        [OCI_BESIDE_COUNT];          /* likewise of what serves it from outside; -1: nothing does */
    bool is_alone[OCI_BESIDE_COUNT]; /* what served it has ended */
    bool is_frozen;                  /* by a scan: its processes stand still */
    bool has_remains;                /* it was durable, has ended, and its disk is nobody else's */
    bool has_local;                  /* its relay has a Unix socket */
    char *egress;                    /* what it may reach, while it runs; NULL: there is no list */
    int flavour;                     /* whose notes of it there are, enum oci_flavour; -1: none */
};

/* Empty, with nothing open. */
void oci_found_init(struct oci_found *f);
/* Closes what nobody took. */
void oci_found_drop(struct oci_found *f);
/* Whether somebody holds the box's lock. */
bool oci_is_locked(int dir_fd);
/* Whether its processes stand still, or are to. */
bool oci_is_frozen(const struct oci *o, uint64_t id);
/* Whether this process is about to end, or has. */
bool oci_is_exiting(int pid);
/* One box; a missing directory is no error: nothing runs. */
MUST_CHECK int oci_look(const char *boxes_dir, uint64_t id, struct oci_found *ret, struct err *err);

struct oci_scan {
    struct work work; /* SP_OK: complete */
    const struct oci *oci;
    struct oci_found *found; /* from malloc: oci_scan_fini() */
    size_t count;
    size_t room;
};

void oci_scan_start(struct oci *o, struct oci_scan *s, uint64_t deadline_ns,
                    void (*on_done)(struct op *));
void oci_scan_fini(struct oci_scan *s);

/* --- what no directory leads to (traces.c), on any thread --- */

/* Calls for every control group and every runtime's note of a box of this instance. */
void oci_traces(const struct oci *o,
                void (*on_trace)(void *ctx, uint64_t id, int flavour, bool is_living), void *ctx);
/* The control group that holds those of the boxes, if it is empty. */
void oci_remove_cgroup_parent(const struct oci *o);

/* --- boxes in memory (table.c) --- */

struct oci_box {
    struct box_entry entry;
    struct oci *oci;
    uint32_t id_slot; /* UINT32_MAX: none */
    int pid;
    struct oci_runtime *runtime; /* NULL: not known */
    struct fdwatch *watch;       /* its init */
    struct oci_beside_watch {
        struct oci_box *box;
        struct fdwatch *watch; /* NULL: nothing serves it, or that has ended */
    } beside[OCI_BESIDE_COUNT];
    char *egress;             /* what it may reach; NULL: there is no list */
    enum backend_death death; /* what it will have died of */
    uint64_t snapshot;        /* that it was made from; 0: none */
    uint64_t removal_ns;      /* how long the last try to remove it could take; 0: no limit yet */
    bool has_resisted;        /* the last try failed */
    bool is_durable;
    bool has_local;   /* see struct oci_found */
    bool is_keeping;  /* keep.c is at it: BOX_REMOVING meanwhile */
    bool is_unwanted; /* it has ended, and nobody wants what it wrote */
};

/* The user ids from some number on that processes of this machine have. Looks at all of them. */
struct oci_living {
    uint64_t *ids;
    size_t count;
    size_t room;
};
void oci_living_read(struct oci_living *l, uint64_t from);
void oci_living_fini(struct oci_living *l);
/* The ids that boxes of this state directory have, from `from` on and enough for `boxes`: none of another
 * daemon of this machine, and the same as before while boxes can run. */
MUST_CHECK int oci_claim_ids(const char *state_dir, uint64_t from, uint64_t boxes,
                             const struct oci_living *living, uint64_t *ret_first,
                             uint32_t *ret_slots, struct err *err);
/* From here on no box gets a range in which somebody lives, but for boxes that are found to be ours. */
void oci_avoid_living(struct oci *o, const struct oci_living *l);
struct oci_box *oci_box_find(struct oci *o, uint64_t id);
struct oci_box *oci_box_add(struct oci *o, uint64_t id, enum box_state state);
void oci_box_drop(struct oci_box *b);
/* Takes the descriptors of f. The box is running from here on; its death will be reported. When its network ends, or the
 * guard of its sockets, the box is ended as well, so that its owner is notified. */
MUST_CHECK int oci_box_watch(struct oci_box *b, struct oci_found *f, struct err *err);
/* Kills a running box, whose death is reported with this reason. */
void oci_box_end(struct oci_box *b, enum backend_death death);
/* A found box that is not in the table yet is put there. */
void oci_box_adopt(struct oci *o, struct oci_found *f);
/* First user id of a range that no other box has; false when all are taken. Rootless: always 0. */
MUST_CHECK bool oci_take_ids(struct oci_box *b, uint32_t *ret_base);

/* --- the backend --- */

/* For boxes in our directory that carry another name. */
#define OCI_FOREIGN_HINT                                                                            \
    "they run unseen; to have them back, stop the daemon, move sandpool.db* away, write that name " \
    "to the file `instance` beside it and start: then `sandpool ls` and `destroy` know them"

struct oci {
    struct backend base;
    struct loop *loop;
    struct httpc *http;
    const struct backend_events *events;
    char instance[BACKEND_LABEL_MAX + 1];
    char dir[OCI_PATH_MAX];       /* <state_dir>/oci */
    char boxes_dir[OCI_PATH_MAX]; /* <dir>/boxes */
    char agent[OCI_PATH_MAX];
    char helper[OCI_PATH_MAX];
    char stage[32];
    char allow[CONFIG_TEXT_MAX + 1]; /* mounts.allow */
    bool is_rootless; /* not root: boxes share the ids of one user, nothing is mounted late, and
                                limits need a delegated control group */
    bool is_apparmor_strict; /* and user namespaces are for programs with a profile only */
    struct err one_id;       /* why id_count is 1 */
    uint32_t id_count;       /* user ids of one box; with 1 its user is its root */
    uint64_t id_base;
    uint32_t id_slots; /* how many ranges there are */
    uint8_t *id_used;  /* a bit for each */
    uint8_t *id_lived; /* likewise: somebody whom we do not know had it when we looked */
    uint32_t id_next;
    unsigned host_cpus;
    char disk_buses[16][OCI_BUS_LEN]; /* for oci_spec */
    unsigned disk_bus_count;
    bool has_cpuset;     /* boxes can be tied to any of them */
    uint64_t max_files;  /* our own hard limit (RLIMIT_NOFILE); 0: unknown */
    uint64_t file_table; /* open files of the whole machine (fs.file-max); 0: unknown */
    bool is_cgroup_v2;
    bool has_syncookies; /* for oci_spec */
    unsigned terminals;  /* likewise: a share of the machine's */
    uint64_t all_terminals;
    uint64_t max_boxes;
    bool has_cgroups;                      /* boxes have control groups, so limits hold */
    char group_top[OCI_GROUP_TOP_MAX + 1]; /* rootless: the delegated one, above those of boxes */
    struct err no_groups;                  /* why has_cgroups is false */
    bool has_swap_limit;
    bool has_ipv6;
    bool has_loop; /* loop devices: disks can be limited */

    struct closing closing;
    struct boxes boxes;
    struct kernel_watch kernel_watch;
    struct reclaims reclaims;
    struct oci_snapshots snapshots;
    struct list waiting[OCI_TURN_COUNT]; /* struct oci_helper */
    size_t running[OCI_TURN_COUNT];
    size_t given_up;
    struct list waiters;      /* struct waiter: creates that cannot begin yet */
    struct list keep_waiters; /* likewise: listings, until nothing is being kept */
    size_t keeps;
    struct list pulls; /* images that are being made ready */
    struct rt_timer bind_timer;
    struct list record_writes; /* binds in order: one record is written at a time */
    struct oci_runtime runtimes[OCI_RUNTIMES_MAX];
    unsigned runtime_count;

    char base_dir[OCI_PATH_MAX]; /* of `rootfs: host`; "" until it is made */
    bool is_base_asked;
    struct err base_err;
    char extra_binds[8][32]; /* directories of the host's root that are not links into /usr */
    unsigned extra_bind_count;
    char slirp[OCI_PATH_MAX]; /* slirp4netns; "": there is none */
    char pasta[OCI_PATH_MAX]; /* likewise */
    char nft[OCI_PATH_MAX];   /* likewise */

    bool is_name_taken;   /* another daemon has the instance's name: reported */
    size_t foreign_count; /* boxes of another instance in our directory, at the last look */
    char foreign_instance[BACKEND_LABEL_MAX + 1];
};

static inline struct oci *oci_of(struct backend *b)
{
    return container_of(b, struct oci, base);
}

/* Something that creates wait for has changed. */
void oci_wake(struct oci *o);

/* hoard.c: ends boxes that hold more than `max_bytes` of memory outside their limit; 0: none. */
void oci_hoard_open(struct oci *o, uint64_t max_bytes);

/* setup.c */
MUST_CHECK int oci_setup(struct oci *o, const struct backend_env *env, struct err *err);
/* rootless.c: fills is_rootless and what depends on it. Else err says what is missing here. */
MUST_CHECK int oci_rootless_setup(struct oci *o, struct err *err);
/* At the end, with no box left: parts of the base belong to ids of the range, and whoever owns
 * state_dir could not remove them. True: under way, oci_settle() follows. */
bool oci_rootless_clean(struct oci *o);
/* SP_OK when `rootfs: host` has its base; ERR_NOT_READY: being made; else why not. */
MUST_CHECK int oci_base_ready(struct oci *o, struct err *err);

/* plan.c: JSON for sandpool-helper. */
struct oci_run_plan {
    const struct config_profile *profile;
    const struct oci_runtime *runtime;
    const struct oci_record *record;
    const char *lower;
    const char *const *image_env;
    uint32_t slot;
    struct oci *oci; /* whose snapshot the record may name */
};

void oci_plan_run(const struct oci *o, const struct oci_run_plan *p, struct buf *out);
void oci_plan_remove(const struct oci *o, uint64_t id, const struct oci_runtime *runtime,
                     struct buf *out);
void oci_plan_egress(const struct oci *o, uint64_t id, const char *allow, struct buf *out);
void oci_plan_keep(const struct oci *o, uint64_t id, const struct oci_runtime *runtime,
                   const char *to, struct buf *out);
void oci_plan_mount(const struct oci *o, const struct oci_box *b, uint64_t id_base,
                    uint64_t user_id, const struct backend_extras *extras, struct buf *out);
void oci_box_dir(const struct oci *o, uint64_t id, char *dst, size_t cap);
/* What a limit of processes is for the control group of a box. */
uint64_t oci_pids(enum oci_flavour flavour, uint64_t pids);
/* Where a runtime keeps its notes. */
void oci_state_root(const struct oci *o, enum oci_flavour flavour, char *dst, size_t cap);
/* The control group, from the root of its hierarchy. */
void oci_cgroup(const struct oci *o, uint64_t id, char *dst, size_t cap);

/* network.c: what is not there, as a sentence; NULL: nothing. */
const char *oci_network_missing(const struct oci *o, const struct config_profile *p);

/* create.c */
/* With this runtime whatever the profile says, as a box that belongs to nobody. */
void oci_create_trial(struct oci *o, struct backend_create *r, struct oci_runtime *runtime,
                      uint64_t deadline_ns, void (*on_done)(struct op *));
void oci_create(struct backend *b, struct backend_create *r, uint64_t deadline_ns,
                void (*on_done)(struct op *));

/* destroy.c */
void oci_destroy(struct backend *b, struct backend_destroy *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *));
/* Removes whatever is left of a box; those in b->entry.removers are notified. The entry is dropped. */
void oci_remove_box(struct oci_box *b);

/* keep.c: a durable box that is BOX_DEAD has ended. False: nobody wants what it wrote. Otherwise on_kept() follows, then the
 * rest of it is removed; after a failure it is BOX_DEAD again, and the next listing tries it again. */
MUST_CHECK bool oci_keep_start(struct oci_box *b, const struct backend_labels *labels);

/* check.c, list.c, bind.c */
void oci_is_alive(struct backend *b, struct backend_check *r, uint64_t deadline_ns,
                  void (*on_done)(struct op *));
void oci_discover(struct backend *b, struct backend_discover *r, uint64_t deadline_ns,
                  void (*on_done)(struct op *));
void oci_list(struct backend *b, struct backend_list *r, uint64_t deadline_ns,
              void (*on_done)(struct op *));
void oci_bind(struct backend *b, struct backend_bind *r, uint64_t deadline_ns,
              void (*on_done)(struct op *));

/* egress.c */
void oci_egress(struct backend *b, struct backend_egress *r, uint64_t deadline_ns,
                void (*on_done)(struct op *));
const char *oci_allowed(struct backend *b, uint64_t box_id);

/* freeze.c */
void oci_freeze(struct backend *b, struct backend_freeze *r, uint64_t deadline_ns,
                void (*on_done)(struct op *));

/* stats.c */
void oci_stats(struct backend *b, struct backend_stats *r, uint64_t deadline_ns,
               void (*on_done)(struct op *));

/* update.c, examine.c */
void oci_update(struct backend *b, struct backend_update *r, uint64_t deadline_ns,
                void (*on_done)(struct op *));
bool oci_trouble(struct backend *b, const struct config_profile *p, char *dst, size_t cap);
void oci_examine(struct backend *b, struct backend_exam *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *));

#endif
