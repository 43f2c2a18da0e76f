/* internal.h - what the files of the `sim` backend share. There are two of it: with the machine in this process, and as
 * a client of sandpool-sim. Each operation has one file with both.
 *
 *   sim.c      open, close, deaths, the vtable    host.c     the same of the client
 *   create.c   one box from nothing               call.c     one request of the client
 *   destroy.c  the end of a box                   watch.c    how the client learns of deaths
 *   check.c    is_alive                           box.c      a box here and in the machine
 *   discover.c a box of this public id            extras.c   envs, mounts, limits in the machine's words
 *   list.c     which are there                    update.c   late binding
 *   bind.c     whose a box is                     examine.c  findings for `sandpool doctor`
 *   freeze.c   it stands still, or goes on        stats.c    what it would have used */
#ifndef BACKENDS_SIM_INTERNAL_H
#define BACKENDS_SIM_INTERNAL_H

#include "backends/sim/host.h"
#include "backends/sim/sim.h"

struct sim {
    struct backend base;
    struct rt *rt;
    const struct backend_events *events;
    char instance[BACKEND_LABEL_MAX + 1];
    struct world world;
    struct list ops;
    struct list deaths;
    struct rt_task report;
    bool is_closing;
    struct rt_task closed;
    void (*on_closed)(void *ctx);
    void *ctx;
};

/* An answer that is not due yet; `priv` of the request. */
struct sim_wait {
    struct rt_timer due;
    struct sim *sim;
    struct op *op;
    bool can_undo; /* a cancelled create takes its box back */
    int result;
    struct err err;
};

static inline struct sim *sim_of(struct backend *b)
{
    return container_of(b, struct sim, base);
}

static inline struct sim_host *sim_host_of(struct backend *b)
{
    return container_of(b, struct sim_host, base);
}

/* Ends an operation of the machine in this process. */
void sim_finish(struct sim *s, struct op *op, int result, const struct err *err);
/* `fire` is to end it. */
struct sim_wait *sim_wait_until(struct sim *s, struct op *op, uint64_t at_ns,
                                void (*fire)(struct rt_timer *));
void sim_wait_end(struct sim_wait *w, int result, const struct err *err);

/* --- box.c --- */

/* False when a text is too long for a box. */
MUST_CHECK bool sim_fill_box(const struct world_box *from, struct backend_box *ret);
/* The machine writes down what it did to a box; world_update_begin() comes first. */
void sim_write_down(struct sim *s, uint64_t box_id, const struct backend_extras *extras);

/* --- the operations --- */

void sim_create(struct backend *b, struct backend_create *r, uint64_t deadline_ns,
                void (*on_done)(struct op *));
void sim_destroy(struct backend *b, struct backend_destroy *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *));
void sim_is_alive(struct backend *b, struct backend_check *r, uint64_t deadline_ns,
                  void (*on_done)(struct op *));
void sim_discover(struct backend *b, struct backend_discover *r, uint64_t deadline_ns,
                  void (*on_done)(struct op *));
void sim_list(struct backend *b, struct backend_list *r, uint64_t deadline_ns,
              void (*on_done)(struct op *));
void sim_bind(struct backend *b, struct backend_bind *r, uint64_t deadline_ns,
              void (*on_done)(struct op *));
void sim_update(struct backend *b, struct backend_update *r, uint64_t deadline_ns,
                void (*on_done)(struct op *));
void sim_freeze(struct backend *b, struct backend_freeze *r, uint64_t deadline_ns,
                void (*on_done)(struct op *));
void sim_stats(struct backend *b, struct backend_stats *r, uint64_t deadline_ns,
               void (*on_done)(struct op *));
void sim_examine(struct backend *b, struct backend_exam *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *));
void sim_host_create(struct backend *b, struct backend_create *r, uint64_t deadline_ns,
                     void (*on_done)(struct op *));
void sim_host_destroy(struct backend *b, struct backend_destroy *r, uint64_t deadline_ns,
                      void (*on_done)(struct op *));
void sim_host_is_alive(struct backend *b, struct backend_check *r, uint64_t deadline_ns,
                       void (*on_done)(struct op *));
void sim_host_discover(struct backend *b, struct backend_discover *r, uint64_t deadline_ns,
                       void (*on_done)(struct op *));
void sim_host_list(struct backend *b, struct backend_list *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *));
void sim_host_bind(struct backend *b, struct backend_bind *r, uint64_t deadline_ns,
                   void (*on_done)(struct op *));
void sim_host_update(struct backend *b, struct backend_update *r, uint64_t deadline_ns,
                     void (*on_done)(struct op *));
void sim_host_examine(struct backend *b, struct backend_exam *r, uint64_t deadline_ns,
                      void (*on_done)(struct op *));

#endif
