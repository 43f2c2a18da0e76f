/* attach.h - what a job writes and reads, its signals and the size of its window on one connection (a WebSocket), for
 * programs that use poll(2). Nothing here blocks. */
#ifndef SANDPOOL_ATTACH_H
#define SANDPOOL_ATTACH_H

#include "sandpool/box.h"

struct sp_attach;

struct sp_attach_options {
    const char *job;
    /* Of the first bytes that are wanted: a connection that broke is continued from where it was. */
    uint64_t offset;        /* of standard output, or of the terminal */
    uint64_t stderr_offset; /* of standard error */
    bool want_kill;         /* the job ends with the connection */
    /* Output as it comes; `stream` is 1 (standard output, the terminal) or 2. */
    void (*on_output)(void *ctx, int stream, const char *data, size_t len);
    /* So many bytes are not kept any more: what comes next lies behind them. May be NULL. */
    void (*on_gap)(void *ctx, int stream, uint64_t len);
    void *ctx;
};

/* The box is used for nothing else until sp_attach_free(), and not freed before. NULL and `failure` when it cannot begin. */
struct sp_attach *sp_attach_begin(struct sp_box *b, const struct sp_attach_options *o,
                                  struct sp_failure *failure);
/* Closes the connection, which leaves the job alone without want_kill. NULL is fine. */
void sp_attach_free(struct sp_attach *a);

/* What to poll for. */
int sp_attach_fd(const struct sp_attach *a);
short sp_attach_events(const struct sp_attach *a);
/* Continues as far as possible without waiting, and reads at most one piece. A negative code: the connection was refused or
 * is lost, SP_IO without an answer. The box sends something every 15 seconds: a minute of silence is a loss, too. */
int sp_attach_step(struct sp_attach *a, struct sp_failure *failure);
/* The box has accepted: before that nothing can be written. */
bool sp_attach_is_open(const struct sp_attach *a);
/* NULL while the job runs or output is to come; then the job as GET /jobs/{job} has it, in JSON. */
const char *sp_attach_end(const struct sp_attach *a);
/* Nothing is read while it is paused. Whoever pauses for longer than half a minute calls sp_attach_ping() in between, so that
 * the box does not take the connection for dead. */
void sp_attach_pause(struct sp_attach *a, bool is_paused);
void sp_attach_ping(struct sp_attach *a);

/* Input: how much was taken, 0 when it must be polled first. */
size_t sp_attach_write(struct sp_attach *a, const void *data, size_t len);
/* Nothing follows. */
void sp_attach_end_input(struct sp_attach *a);
/* All that was written has reached the job. */
bool sp_attach_is_taken(const struct sp_attach *a);
/* "INT" */
void sp_attach_signal(struct sp_attach *a, const char *name);
void sp_attach_resize(struct sp_attach *a, unsigned cols, unsigned rows);

#endif
