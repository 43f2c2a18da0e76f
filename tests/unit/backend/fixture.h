/* fixture.h - a loop, an HTTP client and one backend under test, with calls that wait for their end.
 * Every wait has a limit; every completion is counted and must come from the loop, never from
 * inside a start or a cancel. */
#ifndef TESTS_UNIT_BACKEND_FIXTURE_H
#define TESTS_UNIT_BACKEND_FIXTURE_H

#include "backend/backend.h"

enum { FIXTURE_DEATHS = 64 };

struct fixture {
    struct loop loop;
    struct httpc *http;
    struct backend *backend; /* NULL when it is closed */
    struct backend_events events;
    /* set before fixture_open() */
    const struct backend_ops *ops;
    const char *state_dir;       /* NULL: the backend has no use for one */
    const struct config *config; /* likewise */
    struct config_profile profile;
    struct config_profile slow; /* a create of this one takes long enough to be cancelled */
    bool (*kill_box)(struct fixture *fixture,
                     uint64_t box_id); /* it dies by itself; NULL: cannot */
    void *ctx;
    /* what happened */
    size_t pending;
    bool is_calling;
    bool is_closed;
    size_t open_backends;
    size_t death_count;
    uint64_t deaths[FIXTURE_DEATHS];
    size_t resyncs;
    struct rt_timer limit;
    struct rt_timer pause;
    bool is_paused;
};

/* Of the backend that fixture_open() opens: control groups are named after it, so each run has a name of its own. */
const char *fixture_instance(void);
/* Removes these groups, which are empty or will be soon; asserts that they go. */
void fixture_remove_groups(void);
void fixture_open(struct fixture *fixture);
/* Closes the backend if it is open, then everything else; asserts that nothing is left. */
void fixture_close(struct fixture *fixture);
/* Another backend of the same kind for another instance; close it with fixture_close_backend(). */
struct backend *fixture_open_other(struct fixture *fixture, const char *instance);
void fixture_close_backend(struct fixture *fixture, struct backend *b);

/* Runs until everything that was started is done. */
void fixture_wait(struct fixture *fixture);
void fixture_pause(struct fixture *fixture, uint64_t ms);
/* Waits until on_died() has reported this box; false after `ms`. */
bool fixture_wait_death(struct fixture *fixture, uint64_t box_id, uint64_t ms);
uint64_t fixture_deadline(struct fixture *fixture, uint64_t ms);
/* Ten seconds from now. */
uint64_t fixture_soon(struct fixture *fixture);

/* The on_done() of every request. */
void fixture_done(struct op *op);
/* Starts without waiting; `id` 0: a random one. */
void fixture_start_create(struct fixture *fixture, struct backend_create *r,
                          const struct config_profile *profile, uint64_t id, uint64_t deadline_ns);
void fixture_start_destroy(struct fixture *fixture, struct backend_destroy *r,
                           const struct backend_box *box, uint64_t deadline_ns);
void fixture_start_update(struct fixture *fixture, struct backend_update *r,
                          const struct backend_box *box, const struct backend_extras *extras,
                          uint64_t deadline_ns);
void fixture_cancel(struct fixture *fixture, struct op *op);

/* Start and wait; give back the result. */
int fixture_create(struct fixture *fixture, struct backend_create *r,
                   const struct config_profile *profile);
/* As the engine does before it hands a box out: until it answers, if the backend does not vouch for it. */
void fixture_wait_ready(struct fixture *fixture, const struct backend_box *box);
int fixture_destroy(struct fixture *fixture, struct backend *b,
                    const struct backend_labels *labels);
int fixture_check(struct fixture *fixture, const struct backend_box *box,
                  enum backend_verdict *ret);
/* How many are listed; *ret_box (may be NULL) is the one with this id. Asserts a clean listing. */
size_t fixture_list(struct fixture *fixture, struct backend *b, uint64_t id,
                    struct backend_box *ret_box, bool *ret_is_listed);
bool fixture_is_listed(struct fixture *fixture, uint64_t id);
bool fixture_discover(struct fixture *fixture, const char *sandbox_id, struct backend_box *ret_box);
int fixture_bind(struct fixture *fixture, const struct backend_box *box);

#endif
