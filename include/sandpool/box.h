/* box.h - client of the agent in a box, for programs that poll(2). One object is one connection
 * that carries one call at a time; nothing here waits but sp_box_wait(), so that a program can
 * stream from one and write to another. */
#ifndef SANDPOOL_BOX_H
#define SANDPOOL_BOX_H

#include "sandpool/client.h"

struct sp_box;

struct sp_box_call {
    const char *method; /* "GET", "POST", "DELETE" */
    const char *target; /* escaped, "/v1/..." */
    const void *body;   /* copied; NULL: none */
    size_t len;
    /* NULL: the answer is collected. Else a 2xx's body goes here as it comes; false: enough. */
    bool (*on_data)(void *ctx, const char *data, size_t len);
    void *ctx;
};

/* Does not connect yet. NULL and `failure` when the lease's url cannot be used. */
struct sp_box *sp_box_new(const struct sp_lease *lease, struct sp_failure *failure);
void sp_box_free(struct sp_box *b); /* NULL is fine */

/* Begins a call; one that is under way is given up, with its connection. */
int sp_box_begin(struct sp_box *b, const struct sp_box_call *call, struct sp_failure *failure);
bool sp_box_is_busy(const struct sp_box *b);
/* What to poll for while it is busy. */
int sp_box_fd(const struct sp_box *b);
short sp_box_events(const struct sp_box *b);
/* Goes on as far as it can without waiting, and reads at most one piece. SP_OK: see
 * sp_box_is_busy(); else the call has failed and is over. */
int sp_box_step(struct sp_box *b, struct sp_failure *failure);
/* The rest of the call, waiting. */
int sp_box_wait(struct sp_box *b, uint64_t timeout_ms, struct sp_failure *failure);
/* The collected answer of the last call, until the next begins; "" for none. */
const char *sp_box_answer(const struct sp_box *b);
/* Where the answer's bytes begin in what they are a part of; 0 when it is not known. */
uint64_t sp_box_offset(const struct sp_box *b);
/* Hangs up. */
void sp_box_close(struct sp_box *b);

#endif
