/* deeds.h - one operation of a backend that is under way. */
#ifndef WALK_DEEDS_H
#define WALK_DEEDS_H

#include "backend/backend.h"

struct walk_backend {
    struct backend base;
    unsigned index;
    const struct backend_events *events;
    struct list ops;
    struct list deeds;
    bool is_closing;
    struct rt_task closed;
    void (*on_closed)(void *ctx);
    void *ctx;
};

enum fate {
    FATE_SUCCEED,
    FATE_FAIL,   /* nothing is done */
    FATE_SECRET, /* it is done, and reported as failed */
    FATE_HANG,   /* until it is cancelled */
};

struct walk_box;

struct deed {
    struct list_node link;
    struct rt_timer timer;
    struct walk_backend *backend;
    struct op *op;
    struct walk_box *box; /* of a create, destroy or update */
    enum fate fate;
    int code; /* of a failure */
    void (*act)(struct deed *d, bool is_done, bool is_reported);
};

/* Begins the operation; deed_plan() decides when it ends. With a dead daemon it ends at once,
 * without a plan. */
struct deed *deed_start(struct walk_backend *b, struct op *op, uint64_t deadline_ns,
                        void (*on_done)(struct op *),
                        void (*act)(struct deed *d, bool is_done, bool is_reported));
void deed_plan(struct deed *d, uint64_t lo_ms, uint64_t hi_ms);

int deeds_open(const struct backend_env *env, const struct config_profile *profile,
               struct backend **ret, struct err *err);
void deeds_close(struct backend *b, void (*on_closed)(void *ctx), void *ctx);

/* backends.c */
unsigned backends_index(const struct config_profile *p);
const struct backend_ops *backends_ops(unsigned backend);

#endif
