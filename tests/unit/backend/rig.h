/* rig.h - a loop, an HTTP client and one backend under test, with calls that wait for their end.
 * Every wait has a limit; every completion is counted and must come from the loop, never from
 * inside a start or a cancel. */
#ifndef TESTS_UNIT_BACKEND_RIG_H
#define TESTS_UNIT_BACKEND_RIG_H

#include "backend/backend.h"

enum { RIG_DEATHS = 64 };

struct rig {
    struct loop loop;
    struct httpc *http;
    struct backend *backend; /* NULL when it is closed */
    struct backend_events events;
    /* set before rig_open() */
    const struct backend_ops *ops;
    const char *state_dir;       /* NULL: the backend has no use for one */
    const struct config *config; /* likewise */
    struct config_profile profile;
    struct config_profile slow; /* a create of this one takes long enough to be cancelled */
    bool (*kill_box)(struct rig *rig, uint64_t box_id); /* it dies by itself; NULL: cannot */
    void *ctx;
    /* what happened */
    size_t pending;
    bool is_calling;
    bool is_closed;
    size_t open_backends;
    size_t death_count;
    uint64_t deaths[RIG_DEATHS];
    size_t resyncs;
    struct rt_timer limit;
    struct rt_timer pause;
    bool is_paused;
};

/* Of the backend that rig_open() opens: control groups are named after it, so each run has a name of its own. */
const char *rig_instance(void);
/* Removes these groups, which are empty or will be soon; asserts that they go. */
void rig_remove_groups(void);
void rig_open(struct rig *rig);
/* Closes the backend if it is open, then everything else; asserts that nothing is left. */
void rig_close(struct rig *rig);
/* Another backend of the same kind for another instance; close it with rig_close_backend(). */
struct backend *rig_open_other(struct rig *rig, const char *instance);
void rig_close_backend(struct rig *rig, struct backend *b);

/* Runs until everything that was started is done. */
void rig_wait(struct rig *rig);
void rig_pause(struct rig *rig, uint64_t ms);
/* Waits until on_died() has reported this box; false after `ms`. */
bool rig_wait_death(struct rig *rig, uint64_t box_id, uint64_t ms);
uint64_t rig_deadline(struct rig *rig, uint64_t ms);
/* Ten seconds from now. */
uint64_t rig_soon(struct rig *rig);

/* The on_done() of every request. */
void rig_done(struct op *op);
/* Starts without waiting; `id` 0: a random one. */
void rig_start_create(struct rig *rig, struct backend_create *r,
                      const struct config_profile *profile, uint64_t id, uint64_t deadline_ns);
void rig_start_destroy(struct rig *rig, struct backend_destroy *r, const struct backend_box *box,
                       uint64_t deadline_ns);
void rig_start_update(struct rig *rig, struct backend_update *r, const struct backend_box *box,
                      const struct backend_extras *extras, uint64_t deadline_ns);
void rig_cancel(struct rig *rig, struct op *op);

/* Start and wait; give back the result. */
int rig_create(struct rig *rig, struct backend_create *r, const struct config_profile *profile);
/* As the engine does before it hands a box out: until it answers, if the backend does not vouch for it. */
void rig_wait_ready(struct rig *rig, const struct backend_box *box);
int rig_destroy(struct rig *rig, struct backend *b, const struct backend_labels *labels);
int rig_check(struct rig *rig, const struct backend_box *box, enum backend_verdict *ret);
/* How many are listed; *ret_box (may be NULL) is the one with this id. Asserts a clean listing. */
size_t rig_list(struct rig *rig, struct backend *b, uint64_t id, struct backend_box *ret_box,
                bool *ret_is_listed);
bool rig_is_listed(struct rig *rig, uint64_t id);
bool rig_discover(struct rig *rig, const char *sandbox_id, struct backend_box *ret_box);
int rig_bind(struct rig *rig, const struct backend_box *box);

#endif
