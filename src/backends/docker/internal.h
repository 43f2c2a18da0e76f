/* internal.h - what the files of the `docker` backend share. "The engine" is Docker's or Podman's in all of them, never
 * our src/engine.
 *
 *   docker.c  open, close, the vtable              create.c  creates as they come in
 *   setup.c   the agent, a place to meet it        make.c    one box from nothing (making.h)
 *   address.c where the engine is                  body.c    the request for its container
 *   call.c    one call to the engine               relay.c    its listening socket
 *   table.c   boxes in memory                      tar.c     files for an upload
 *   label.c   labels, to and from JSON             image.c   images, pulled when missing
 *   list.c    list, discover, leftovers removed    destroy.c destroys, one per box
 *   auth.c    credentials for registries           prefetch.c images before they are needed
 *   check.c   is_alive                             events.c  deaths as the engine reports them
 *   bind.c    whose a box is                       update.c  late binding
 *   examine.c findings for `sandpool doctor`       mount.c   host directories for a box that runs
 *   foreign.c containers of other programs         group.c   where relays belong
 *   found.c   a container as the engine shows it   capture.c a snapshot is made
 *   hoard.c   memory of the kernel that boxes hold  snapshots.c which there are; deleted ones
 *   gather.c  a copy of a box, for that (capturing.h)  copies.c  those that were left
 *   moves.c   snapshots as files */
#ifndef DOCKER_INTERNAL_H
#define DOCKER_INTERNAL_H

#include <pthread.h>

#include "backend/boxes.h"
#include "backend/call.h"
#include "backend/gate.h"
#include "backend/kernel_watch.h"
#include "backend/reclaim.h"
#include "backend/snapshot.h"
#include "backends/docker/disk.h"
#include "backends/docker/docker.h"
#include "backends/docker/images.h"
#include "backends/docker/listing.h"
#include "base/json.h"
#include "base/log.h"
#include "loop/child.h"
#include "loop/fdwatch.h"
#include "loop/work.h"

struct docker;

/* --- one call (call.c) --- */

/* On a zeroed or finished object. */
void docker_call_init(struct docker *d, struct call *c, const char *method);
/* Appends filters={...} with these labels (name=value); ends with NULL. */
void docker_call_put_filter(struct call *c, const char *const *labels);
/* The earlier of deadline_ns and what one call may take. A stream (http.on_data) has no end of its own. */
void docker_call_start(struct call *c, uint64_t deadline_ns, void (*on_done)(struct op *));
/* A call that may take so much longer than others. */
void docker_call_start_long(struct call *c, uint64_t extra_ns, uint64_t deadline_ns,
                            void (*on_done)(struct op *));
/* It has failed, and nothing of it can have come to the engine. */
bool docker_call_is_unsent(const struct call *c);
/* SP_OK for 2xx and 304; SP_NOT_FOUND for 404, ERR_TAKEN for 409, else SP_BACKEND_FAILED,
 * each with the engine's own words; SP_BACKEND_UNAVAILABLE when it did not answer. */
MUST_CHECK int docker_call_result(const struct call *c, struct err *err);
/* As above, and the answer must be JSON; *ret is for json_doc_free(). */
MUST_CHECK int docker_call_json(const struct call *c, struct json_doc **ret, struct err *err);

/* --- labels (label.c) --- */

#define LABEL(name) "sandpool." name

/* As members of an object. */
void docker_put_labels(struct json_out *j, const struct backend_labels *l);
void docker_put_owner(struct json_out *j, const struct backend_labels *l);
/* False when they are not ours or not whole. */
MUST_CHECK bool docker_get_labels(const struct json *labels, struct backend_labels *ret);
void docker_get_owner(const struct json *labels, struct backend_labels *ret);
const char *docker_label(const struct json *labels, const char *name); /* "" when absent */

/* --- the socket of a box (relay.c) --- */

/* Listens for the box on loopback, has a relay serve that socket, and hands the other end of the relay's
 * channel to the first that asks for it at the Unix socket in `dir`, which the agent sees as
 * DOCKER_CHANNEL_DIR. */
struct docker_relay;

#define DOCKER_CHANNEL_DIR DOCKER_AGENT_DIR "/channel"

MUST_CHECK int docker_relay_new(struct docker *d, uint64_t box_id,
                                void (*on_taken)(void *ctx, int rc, const struct err *err),
                                void *ctx, struct docker_relay **ret, struct err *err);
const char *docker_relay_dir(const struct docker_relay *h);
unsigned docker_relay_port(const struct docker_relay *h);
/* Removes directory and socket; our end of the box's socket is closed. NULL is fine. */
void docker_relay_free(struct docker_relay *h);
/* Its container is gone: so shall be whatever still runs of it. */
void docker_relay_end(struct docker *d, uint64_t box_id);
/* Directories that a daemon which died has left, and leashes of relays that have ended. Those that live
 * are noted in d->old. */
void docker_relay_sweep(struct docker *d);
/* After a whole list, when all that run are in the table: ends the relays in d->old of boxes that are not. */
void docker_relay_keep_up(struct docker *d);

/* --- their control group (group.c) --- */

void docker_put_group(struct json_out *j, const struct docker *d);
/* If nothing is in it. */
void docker_remove_group(const struct docker *d);

/* --- an archive in memory (tar.c) --- */

void tar_put_dir(struct buf *out, const char *name, unsigned mode);
void tar_put_file(struct buf *out, const char *name, unsigned mode, const void *data, size_t len);
void tar_end(struct buf *out);

/* --- boxes in memory (table.c) --- */

struct docker_box {
    struct box_entry entry;
    struct map_node by_container; /* see hoard.c */
    struct docker *docker;
    char container[DOCKER_CONTAINER_MAX + 1]; /* "": not known */
    char prefix[CONFIG_NAME_MAX + 1];         /* of its names */
    char owner[DOCKER_NAME_MAX + 1];          /* the volume that names its owner; "": none known */
    bool has_died;                            /* reported while it was being made */
    bool is_paused;
    bool is_foreign;     /* see foreign.c */
    bool is_over;        /* ended for what it holds, see hoard.c */
    bool is_known;       /* its row names a container of this engine */
    bool was_never_made; /* the engine does not know it */
    uint64_t oom_ns;     /* when it was last reported to be out of memory */
    uint64_t kill_ns;    /* when somebody last sent it a signal, */
    char signal[16];     /* and which */
    uint64_t grace_s;    /* to end by itself before it is removed */
    bool is_marked;      /* see docker_disk_mark() */
    uint64_t pid;        /* its first process, see stats.c; 0: not known */
    void (*on_death)(struct docker_box *b, void *ctx); /* while it is made */
    void *ctx;
};

uint64_t docker_short_id(const char *container); /* its first 16 digits; 0: it is no id */
struct docker_box *docker_box_find(struct docker *d, uint64_t id);
struct docker_box *docker_box_add(struct docker *d, uint64_t id, enum box_state state);
void docker_box_drop(struct docker_box *b);
/* The engine says that it stands still, or goes on. */
void docker_box_pause(struct docker_box *b, bool is_paused);
/* The engine says that this container has ended. */
void docker_box_died(struct docker_box *b, const char *reason);

/* The Docker engine reports that a container has ended some 50 ms before its lists show it. So what is
 * reported is kept for a while, and a list that calls one of them running is not believed: inspect waits
 * for the engine to be done with it. */
void docker_ended_add(struct docker *d, const char *container);
void docker_ended_remove(struct docker *d, const char *container);
bool docker_ended_has(const struct docker *d, const char *container);

/* --- the backend --- */

enum { DOCKER_ENDED_MAX = 512 }; /* twice what the Docker engine remembers */

struct docker_ended {
    uint64_t ids[DOCKER_ENDED_MAX]; /* first 16 digits; a ring */
    uint64_t count;                 /* of all that were ever added */
};

struct docker_events {
    struct call call;
    struct rt_timer pause; /* before it is asked again, or until its silence means connected */
    struct rt_timer second_look;
    bool is_look_due;
    uint64_t backoff_ns;
    uint64_t since_ns;   /* wall clock of the engine: the last that was seen */
    uint64_t started_ns; /* likewise: what is older is history, and only for docker_ended_add() */
    bool is_on;
    bool is_lost;
    bool is_connected;
    bool is_wide;  /* gets events of all containers, not only of ours */
    bool is_ended; /* on purpose: to be asked anew */
};

/* A relay that was there when the daemon started. */
struct docker_old {
    uint64_t id;
    unsigned missed; /* whole lists that did not show its box */
};

struct docker {
    struct backend base;
    struct loop *loop;
    struct httpc *http;
    const struct backend_events *events;
    char instance[BACKEND_LABEL_MAX + 1];
    char address[CONFIG_PATH_MAX + 1]; /* for people */
    char socket[CONFIG_PATH_MAX + 1];  /* "": TCP */
    char url[CONFIG_PATH_MAX + 16];    /* http://host:port */
    bool is_tls;
    struct httpc_tls tls;
    char tls_ca[CONFIG_PATH_MAX + 1];
    char tls_cert[CONFIG_PATH_MAX + 1];
    char tls_key[CONFIG_PATH_MAX + 1];
    char claim[DOCKER_PATH_MAX];    /* the file, see claim.c */
    int claim_fd;                   /* -1: none */
    char dir[DOCKER_PATH_MAX];      /* <state_dir>/docker; "": could not be made */
    char disk_dir[DOCKER_PATH_MAX]; /* <state_dir>/docker-disks; likewise */
    uint64_t *unfinished;           /* boxes of an earlier daemon whose disk may have no limit */
    size_t unfinished_count;
    enum docker_storage storage;
    bool has_limited_places;      /* of some box */
    struct err places_err;        /* why none will be tried; code SP_OK: nothing is known */
    char agent[DOCKER_PATH_MAX];  /* "": none */
    char helper[DOCKER_PATH_MAX]; /* sandpool-helper; "": none */
    uint64_t reserve;             /* bytes that have to stay free in the state directory */
    uint64_t id_base;             /* user ids that nobody has begin here */
    struct docker_old *old;       /* see docker_relay_keep_up() */
    size_t old_count;
    size_t old_cap;
    char allow[CONFIG_TEXT_MAX + 1]; /* mounts.allow */
    char version[16];                /* of the API, "1.41"; "": not known */
    bool is_podman;                  /* known with the version */
    uint64_t call_ns;

    struct closing closing;
    struct boxes boxes;
    struct call hello;            /* GET /version */
    struct list awaiting_version; /* struct call: wait for the version */
    struct gate creates;
    struct gate removes;
    struct gate stops;
    struct gate mounts;
    struct gate copies;
    struct list pulls;
    struct list wants; /* of prefetch.c */
    struct {
        uint64_t name; /* hash */
        uint64_t at_ns;
    } fetched[DOCKER_FETCHED_MAX]; /* with `pull: always` */
    unsigned fetched_next;
    bool has_old_snapshots; /* see docker_snapshots_collect() */
    bool is_collecting;
    bool has_old_copies; /* see docker_copies_sweep() */
    bool is_sweeping_copies;
    struct list captures;  /* struct capturing */
    struct list adoptions; /* of foreign.c */
    struct list bindings;  /* in order */
    uint64_t bound_count;  /* orders the owners of one box */
    struct docker_ended ended;
    struct docker_events watch;
    bool has_hoard;
    pthread_mutex_t hoard_lock; /* of the next */
    struct map by_container;    /* boxes that are watched by hoard.c */
    struct kernel_watch kernel_watch;
    struct reclaims reclaims;
};

static inline struct docker *docker_of(struct backend *b)
{
    return container_of(b, struct docker, base);
}

static inline struct docker *docker_of_call(const struct call *c)
{
    return container_of(c->closing, struct docker, closing);
}

/* For the audit trail; nothing while closing. */
void docker_notify(struct docker *d, const struct backend_notice *n);

/* claim.c: SP_CONFIG when another daemon has this instance on this engine. */
MUST_CHECK int docker_claim(struct docker *d, const char *state_dir, struct err *err);
void docker_unclaim(struct docker *d);

/* setup.c, address.c */
MUST_CHECK int docker_setup(struct docker *d, const struct backend_env *env,
                            const struct config_profile *profile, struct err *err);

MUST_CHECK int docker_take_address(struct docker *d, const struct config_profile *p,
                                   struct err *err);
void docker_put_key(const struct config_profile *p, char *dst, size_t cap);

/* body.c: the body of POST /containers/create. */
struct docker_plan {
    const struct config_profile *profile;
    const struct backend_extras *extras; /* of the caller it is made for; NULL: none */
    const struct backend_labels *labels;
    const char *token;
    const char *work_dir;
    const char *image_user;
    const char *relay_dir; /* NULL: the port is published */
    unsigned relay_port;
    const char *agent; /* file to mount; NULL: it is uploaded */
    const char *image;
    bool is_rebased; /* what it has of a snapshot is its own: it does not lie on it */
    bool is_podman;
    enum docker_disk disk;
};

void docker_put_body(const struct docker_plan *p, struct buf *out);
/* Port in the container that is published. */
unsigned docker_port(const struct config_profile *p);

/* create.c, destroy.c */
void docker_create(struct backend *b, struct backend_create *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *));
void docker_destroy(struct backend *b, struct backend_destroy *r, uint64_t deadline_ns,
                    void (*on_done)(struct op *));
/* Removes whatever is left of a box; those in b->entry.removers are notified. The entry is dropped. */
void docker_remove_box(struct docker_box *b);
/* A volume that names nobody's owner any more; nobody waits. */
void docker_remove_volume(struct docker *d, const char *name);

/* check.c, list.c, bind.c, update.c, examine.c */
void docker_is_alive(struct backend *b, struct backend_check *r, uint64_t deadline_ns,
                     void (*on_done)(struct op *));
void docker_discover(struct backend *b, struct backend_discover *r, uint64_t deadline_ns,
                     void (*on_done)(struct op *));
void docker_list_boxes(struct backend *b, struct backend_list *r, uint64_t deadline_ns,
                       void (*on_done)(struct op *));
void docker_freeze(struct backend *b, struct backend_freeze *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *));
void docker_bind(struct backend *b, struct backend_bind *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *));
void docker_update(struct backend *b, struct backend_update *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *));
void docker_examine(struct backend *b, struct backend_exam *r, uint64_t deadline_ns,
                    void (*on_done)(struct op *));

/* mount.c: all of extras->mounts or none. ERR_TAKEN: something else is mounted at one of the
 * places; SP_FORBIDDEN, SP_INVALID_FIELD: of a path; SP_UNSUPPORTED: not here. */
struct docker_mounting {
    struct op op; /* zeroed, but for these: */
    const struct backend_extras *extras;
    uint64_t disk; /* not 0: no mounts, but a limit for what is written to `work_dir` and others */
    char work_dir[DOCKER_PATH_MAX];
    bool has_agent; /* the container's first process is our agent */
    struct docker *docker;
    char container[DOCKER_CONTAINER_MAX + 1];
    struct call call;
    struct waiter waiter;
    struct child child;
    struct buf plan;
    const char *argv[3];
    bool is_inside; /* of the gate */
};

void docker_mount_start(struct docker *d, struct docker_mounting *m, const char *container,
                        void (*on_done)(struct op *));
void docker_mount_fini(struct docker_mounting *m);
/* A runtime in whose boxes nobody sees the mount namespace of the first process. NULL is fine. */
bool docker_is_other_kernel(const char *runtime);
/* SP_UNSUPPORTED with the reason, where it can never work. */
MUST_CHECK int docker_mount_check(const struct docker *d, struct err *err);

/* count.c: the two counts, as far as they can be known; always SP_OK. */
struct docker_counting {
    struct op op; /* zeroed */
    struct backend_count processes;
    struct backend_count mounts;
    struct call call;
    struct work work;
    char container[DOCKER_CONTAINER_MAX + 1];
    uint64_t pid;
};

void docker_count_start(struct docker *d, struct docker_counting *c, const char *container,
                        uint64_t deadline_ns, void (*on_done)(struct op *));
void docker_count_fini(struct docker_counting *c);

/* hoard.c: ends boxes that hold more than `max_bytes` of memory outside their limit; 0: none. */
void docker_hoard_open(struct docker *d, const struct config *config, uint64_t max_bytes);
void docker_hoard_fini(struct docker *d);
/* A box runs, and its container is known. */
void docker_hoard_add(struct docker_box *b);
/* Before its container is another, or it is dropped. */
void docker_hoard_remove(struct docker_box *b);
void docker_hoard_report(struct backend_exam *r, const struct docker *d);

/* events.c */
void docker_events_start(struct docker *d);
void docker_events_stop(struct docker *d);
/* Asks again when the set of wanted events has changed. */
void docker_events_renew(struct docker *d);
/* Has the engine of the pool list in a while: something may be left that no event reports. */
void docker_look_later(struct docker *d);

#endif
