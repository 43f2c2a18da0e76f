/* update.h - the course of an update(): limits, mounts, environment, in this order. The first that fails ends it, and so
 * does a cancel before the next. Limits and mounts are the backend's; the environment is given to the agent here. */
#ifndef BACKEND_UPDATE_H
#define BACKEND_UPDATE_H

#include "backend/agent_env.h"
#include "backend/closing.h"

enum updating_step {
    UPDATING_BEGUN,
    UPDATING_LIMITS,
    UPDATING_MOUNTS,
    UPDATING_ENVS,
    UPDATING_DONE,
};

struct updating;

/* Each of the first two begins its step, with the operation to cancel in `at_work`, and calls updating_next() at its
 * end, which may be at once. */
struct updating_ops {
    void (*limit)(struct updating *u);
    void (*mount)(struct updating *u);
    void (*fini)(struct updating *u); /* of what the backend's own struct holds; may be NULL */
    bool has_look; /* limit() is called without limits too: it looks at the box first */
};

/* The first member of the backend's own struct, which is zeroed, from malloc, and freed at the end. */
struct updating {
    const struct updating_ops *ops;
    struct backend_update *request;
    struct closing *closing;
    struct httpc *http;
    const struct backend_box
        *box; /* whose agent is asked: that of the request unless it is changed */
    enum updating_step step;
    struct op *at_work; /* NULL: what runs cannot be cancelled */
    struct agent_env env;
};

/* op_begin(). The backend then checks the request and calls updating_next() with the result. */
void updating_begin(struct updating *u, const struct updating_ops *ops, struct backend_update *r,
                    struct closing *closing, struct httpc *http, uint64_t deadline_ns,
                    void (*on_done)(struct op *));
/* A step has ended: the next one that has something to do is begun, or the request ends. */
void updating_next(struct updating *u, int rc, const struct err *err);

#endif
