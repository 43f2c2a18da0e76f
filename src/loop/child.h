/* child.h - a short-lived child process as an operation: it gets its whole input at once, its
 * output is kept up to a limit, and it is gone when the operation is done. A cancel kills its whole
 * process group and waits for the end; a child that had ended well by then has ended well. */
#ifndef LOOP_CHILD_H
#define LOOP_CHILD_H

#include "base/buf.h"
#include "base/op.h"
#include "loop/loop.h"

#define CHILD_OUTPUT_MAX (64 * 1024)

struct child {
    struct op op; /* SP_OK: it ran to its end, however that was; else it could not be started,
                     was cancelled or was too late */
    const char *const *argv; /* borrowed until on_done(); argv[0] is a path; ends with NULL */
    const char *input;       /* its standard input; borrowed until on_done() */
    size_t input_len;
    int pass_fd; /* becomes descriptor 3; -1: none. Stays the caller's */

    int exit_code; /* results: -1 when a signal ended it */
    int signum;
    struct buf out; /* standard output and error, the first CHILD_OUTPUT_MAX bytes of each */
    struct buf err;
    void *priv;
};

/* `owner` may be NULL. The child leads a process group of its own and inherits the environment's
 * PATH, HOME and LANG only. */
void child_start(struct loop *l, struct child *c, struct list *owner, uint64_t deadline_ns,
                 void (*on_done)(struct op *));
/* Why one that ended with a status or by a signal has failed: the first line of its standard error, else
 * what became of `name`. Always SP_BACKEND_FAILED. */
int child_explain(const struct child *c, const char *name, struct err *err);
/* Frees the outputs; after on_done(). */
void child_fini(struct child *c);
/* For a fresh child in which all signals are blocked and all handlers are ours: back to what a program expects. */
void child_reset_signals(void);

#endif
