/* queue.h - the hand-off between the loop and the writer thread: one list in each direction under
 * one lock, and whether the store is down.
 *
 * When the writer takes the store down, what is queued fails with it, and so does all that the
 * loop adds before it is notified: a later write must not succeed after an earlier one failed
 * unnoticed. Therefore the store does not come up again before the loop is notified. */
#ifndef STORE_QUEUE_H
#define STORE_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "store/store.h"

#define QUEUE_FOREVER UINT64_MAX

struct queue {
    pthread_mutex_t mutex;
    pthread_cond_t cond; /* the writer sleeps on it */
    struct list in;      /* submitted */
    struct list out;     /* written or failed, not yet collected */
    bool is_sleeping;    /* the writer needs a signal */
    bool is_stopping;
    bool is_down;
    bool is_down_reported; /* the loop knows */
    struct err reason;     /* why it is down */
    /* A hint for the spinning writer, set after the lock is released; the lists are the truth. */
    atomic_bool has_news;
    uint64_t spin_ns; /* how long the writer looks before it sleeps */
    bool is_crowded;  /* the last batch was large; the writer's own */
    void (*wake)(void *ctx);
    void *ctx;
};

enum queue_turn { QUEUE_WORK, QUEUE_IDLE, QUEUE_STOP, QUEUE_TURN_COUNT };

struct queue_state {
    bool is_down;
    struct err reason;
};

/* `wake` is called on the writer's side, without the lock. */
void queue_init(struct queue *q, void (*wake)(void *ctx), void *ctx);
void queue_fini(struct queue *q);

/* --- the loop --- */

void queue_push(struct queue *q, struct store_write *w);
/* Takes what was handed back, in the order of submission, and learns the state. */
void queue_collect(struct queue *q, struct list *ret_done, struct queue_state *ret_state);
/* The writer finishes what is queued and then gets QUEUE_STOP. */
void queue_stop(struct queue *q);

/* --- the writer --- */

/* Takes everything there is. Waits up to `wait_ns` for it; QUEUE_IDLE when nothing came. */
enum queue_turn queue_take(struct queue *q, struct list *ret_work, uint64_t wait_ns);
/* Whether a take would have to wait. */
bool queue_is_idle(struct queue *q);
/* Hands back the whole list; their outcome is set. */
void queue_give(struct queue *q, struct list *done);
/* Fails the rest of `work` and all that is queued. */
void queue_go_down(struct queue *q, struct list *work, const struct err *reason);
/* Waits until the loop has been notified of the failure; false when the store stops instead. */
bool queue_go_up(struct queue *q);
/* Sleeps, unless the store stops; false when it does. */
bool queue_pause(struct queue *q, uint64_t ns);

#endif
