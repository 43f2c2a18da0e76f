/* transfer.h - a line about the progress of a copy, on a terminal. */
#ifndef CLI_TRANSFER_H
#define CLI_TRANSFER_H

#include "cli/cli.h"

struct transfer {
    const char *name;
    uint64_t total; /* 0: not known */
    FILE *out;      /* NULL: nothing is shown */
    uint64_t done;  /* bytes so far */
    uint64_t started_ms;
    uint64_t shown_ms;
};

/* Shown on c->err when that is a terminal and no --quiet was given. */
void transfer_begin(struct transfer *t, const struct cli *c);
/* So many bytes more; `ctx` is the transfer. */
void transfer_count(void *ctx, size_t len);
void transfer_end(struct transfer *t);

#endif
