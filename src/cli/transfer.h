/* transfer.h - bytes between a descriptor and a box, with a line about the progress on a terminal. */
#ifndef CLI_TRANSFER_H
#define CLI_TRANSFER_H

#include "cli/cli.h"
#include "sandpool/box.h"

struct transfer {
    struct sp_box *box;
    int fd;           /* where the bytes come from or go to */
    const char *name; /* for the line about the progress */
    uint64_t total;   /* 0: not known */
    FILE *progress;   /* NULL: nothing is shown */
    uint64_t done;    /* bytes so far */
    uint64_t started_ms;
    uint64_t shown_ms;
    int write_error; /* errno of our own side; 0: none */
};

/* Where progress goes: c->err when it is a terminal and no --quiet was given. */
FILE *transfer_progress(const struct cli *c);
/* PUT `target` with all that `fd` has. A code of the call, or SP_IO with `failure` about our own side. */
MUST_CHECK int transfer_send(struct transfer *t, const char *target, struct sp_failure *failure);
/* GET `target` to `fd`. */
MUST_CHECK int transfer_receive(struct transfer *t, const char *target, struct sp_failure *failure);

#endif
