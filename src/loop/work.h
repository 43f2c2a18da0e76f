/* work.h - a function on another thread as an operation: for file system calls that may take long.
 * It cannot be stopped; a cancel has an effect only while it still waits for a thread. */
#ifndef LOOP_WORK_H
#define LOOP_WORK_H

#include "base/op.h"
#include "loop/loop.h"

struct work {
    struct op op;
    /* On another thread: touches only what the request owns. Returns SP_OK or fills err. */
    int (*run)(struct work *w, struct err *err);
    void *priv;
};

void work_start(struct loop *l, struct work *w, struct list *owner, uint64_t deadline_ns,
                void (*on_done)(struct op *));

#endif
