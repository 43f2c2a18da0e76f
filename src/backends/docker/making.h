/* making.h - one box in the making. create.c brings it to the engine and lets callers leave; make.c
 * does the engine's part.
 *
 *  joins -> at image -> at gate -> (mounts) -> create -> (fit) -> (upload) -> start -> taken or seen -> done
 *                                                 |409 or no answer
 *                                                 v
 *                                    found: continue, adopt, or remove and create again
 *
 * A call that the engine has is never cut off by a caller that leaves: its end is awaited, so that
 * what it made can be removed. No answer is no end either: then inspect shows what became of it. */
#ifndef DOCKER_MAKING_H
#define DOCKER_MAKING_H

#include "backends/docker/internal.h"
#include "loop/work.h"

enum making_step {
    MAKING_JOINS,
    MAKING_AT_IMAGE,
    MAKING_AT_GATE,
    MAKING_CALLS,
    MAKING_AT_RELAY, /* the agent has yet to take its channel */
    MAKING_UNDOES,
    MAKING_STEP_COUNT
};

/* What the engine and its runtime will open of a snapshot (fit.c). */
struct docker_fit {
    bool is_wanted; /* it is made of one */
    unsigned at;    /* of the files, then of the directories on the way to where it begins */
    unsigned links; /* that were followed to it */
    char path[DOCKER_PATH_MAX]; /* where the last one leads; empty: none does */
    char dir[DOCKER_PATH_MAX];  /* that is looked at; empty: a file is */
};

/* A hibernated sandbox that comes back on another image (rebase.c). */
struct docker_rebase {
    bool is_looked; /* it is known whether it may have to be, */
    bool is_wanted; /* and it has */
    bool is_done;
    uint64_t layers; /* that the snapshot has above its image, as its record says */
    char base[SNAPSHOT_DIGEST_MAX + 1]; /* that image */
    struct json_doc *snapshot;          /* as the engine shows it */
    char to[DOCKER_PATH_MAX];           /* the container's own layer */
    struct buf old_body;                /* of the create on the old image */
    struct buf plan;
    struct child child;
    const char *argv[3];
};

/* `priv` of the request, which may leave before this ends. */
struct making {
    struct docker *docker;
    struct backend_create *request; /* NULL: it has left */
    struct docker_box *box;         /* NULL: another create makes it, or it exists */
    enum making_step step;
    struct waiter waiter;
    uint64_t deadline_ns; /* of the caller */
    struct docker_pull *pull;
    struct rt_timer patience;
    struct docker_image image;
    struct call call;
    struct work work;
    struct backend_extras *sources; /* what is looked at on a thread: the caller may leave */
    struct docker_relay *relay;
    struct remover undo;
    struct backend_box made;
    struct buf body;     /* of the create, for a second try */
    struct buf fallback; /* the same without the engine's limit of the disk; empty: there is none */
    struct docker_mounting disk;
    struct docker_fit fit;
    struct docker_rebase rebase;
    enum docker_disk disk_way;
    struct err err;       /* why it is being undone */
    struct err relay_err; /* why the agent cannot have its channel; code SP_OK: nothing is known */
    int result;
    bool is_inside; /* of the gate */
    bool want_upload;
    bool is_taken;
    bool is_second;
    bool has_fallen_back;
    enum docker_disk fallback_way;
    bool has_waited;
    bool may_exist;  /* the engine may know it */
    bool has_extras; /* it is made with extras of its caller */
    char name[DOCKER_NAME_MAX + 1];
    char image_name[CONFIG_PATH_MAX + 1];
};

/* Answers the caller, if there still is one. */
void making_answer(struct making *m, int rc, const struct err *err);
/* The end: nothing of it is with the engine, or all is well. */
void making_finish(struct making *m, int rc, const struct err *err);
/* True when there is a reason not to go on: then it is being undone. */
bool making_is_over(struct making *m);
/* Asks the engine for the container in m->body; all that follows. */
void making_create(struct making *m);
/* With a container that does not run yet: what has not been done of it. */
void making_go_on(struct making *m);
/* It has failed: nothing of it stays with the engine. */
void making_undo(struct making *m, int rc, const struct err *err);
/* Asks what the files are that the engine will open; then making_go_on(). False: there is nothing to ask (any more). */
bool making_looks(struct making *m);
/* The image it is made of is asked for; all that follows. */
void making_want_image(struct making *m);
/* Removes this container of an earlier try, and makes a new one. */
void making_again(struct making *m, const char *container);
/* It comes of a snapshot with this name, and it has to be found out whether on another image: making_want_image() follows. False:
 * it has not. */
bool rebase_looks(struct making *m, const char *snapshot);
/* The profile's image is known: where that is the snapshot's, the box is made of the snapshot as usual. */
void rebase_compare(struct making *m, const char *snapshot);
/* Fills a container that has been made of another image; then making_go_on(). False: there is nothing to fill (any more). */
bool making_rebases(struct making *m);
void rebase_fini(struct making *m);
/* The code for a container that the engine does not start: SP_INVALID_FIELD where the files of its snapshot are the reason. */
int making_explain(const struct making *m, int rc, struct err *err);
/* A box that exists already: where is it? */
void making_see(struct making *m, const char *container);
/* The agent has its channel, or cannot have it; the container has ended. */
void making_taken(void *ctx, int rc, const struct err *err);
void making_died(struct docker_box *b, void *ctx);

#endif
