/* box.h - commands, jobs, files and ports of a box, for programs that use poll(2). One object is one
 * connection that carries one call at a time. Only sp_box_wait() blocks, so that a program can stream
 * from one object and write to another. */
#ifndef SANDPOOL_BOX_H
#define SANDPOOL_BOX_H

#include "sandpool/client.h"

struct sp_box;

struct sp_box_call {
    const char *method; /* "GET", "POST", "DELETE" */
    const char *target; /* escaped, "/jobs/1/output?follow=1" */
    const void *body;   /* copied; NULL: none */
    size_t len;
    /* With is_streamed the body is `length` bytes (-1: until sp_box_end_body()), given by sp_box_write(). */
    bool is_streamed;
    int64_t length;
    const char *upgrade; /* the protocol asked for; NULL: none. See sp_box_is_raw() */
    const char *accept;  /* the type of answer asked for; NULL: any */
    const char *headers; /* more of them, each with its \r\n; NULL: none */
    /* NULL: the answer is collected. Else the body of a 2xx answer goes here as it arrives; return
     * false to stop. */
    bool (*on_data)(void *ctx, const char *data, size_t len);
    void *ctx;
};

/* Through the daemon: works wherever the daemon can be reached, and counts as use of the box. The id is a sandbox_id,
 * or another name of the box as the API has it, escaped. Does not connect yet. Never NULL. */
struct sp_box *sp_box_new(const struct sp_client *c, const char *sandbox_id);
/* The daemon itself, for what is large: targets are those of the API, "/v1/snapshots/import". */
struct sp_box *sp_box_new_daemon(const struct sp_client *c);
/* Straight to the agent, for whoever can reach it. NULL and `failure` when the lease's url cannot be used. */
struct sp_box *sp_box_new_direct(const struct sp_lease *lease, struct sp_failure *failure);
void sp_box_free(struct sp_box *b); /* NULL is fine */

/* Begins a call; a call that is under way is aborted, and its connection closed. */
int sp_box_begin(struct sp_box *b, const struct sp_box_call *call, struct sp_failure *failure);
bool sp_box_is_busy(const struct sp_box *b);
/* What to poll for while it is busy. */
int sp_box_fd(const struct sp_box *b);
short sp_box_events(const struct sp_box *b);
/* Continues as far as possible without waiting, and reads at most one piece. SP_OK: see
 * sp_box_is_busy(); else the call has failed and is over. */
int sp_box_step(struct sp_box *b, struct sp_failure *failure);
/* Completes the call, and waits for it. */
int sp_box_wait(struct sp_box *b, uint64_t timeout_ms, struct sp_failure *failure);
/* The collected answer of the last call, until the next begins; "" for none. */
const char *sp_box_answer(const struct sp_box *b);
/* Offset of the answer's first byte in the whole stream or file; 0 if it is not known. */
uint64_t sp_box_offset(const struct sp_box *b);
/* The body of a call with is_streamed: how much was taken, 0 when it must be polled first. */
size_t sp_box_write(struct sp_box *b, const void *data, size_t len);
void sp_box_end_body(struct sp_box *b);
/* The answer was 101: the connection is a stream of bytes that the caller reads and writes itself, sp_box_fd(). What came
 * behind the answer is sp_box_answer(), of sp_box_answer_len() bytes. */
bool sp_box_is_raw(const struct sp_box *b);
size_t sp_box_answer_len(const struct sp_box *b);
/* Closes the connection. */
void sp_box_close(struct sp_box *b);

/* --- whole calls with a descriptor or memory on our side; they block, and fail when nothing moves for two minutes --- */

struct sp_transfer {
    const char *method; /* of sp_box_send(); NULL: PUT */
    int fd;             /* where the bytes come from or go to, unless `data` is given */
    /* sp_box_send() only: these bytes. */
    const void *data;
    size_t len;
    void (*on_progress)(void *ctx, size_t len); /* so many bytes more; may be NULL */
    void *ctx;
};

/* PUT `target` with all that there is; the answer is sp_box_answer(). SP_IO with http_status 0: reading our descriptor failed, or the connection. */
int sp_box_send(struct sp_box *b, const char *target, const struct sp_transfer *t,
                struct sp_failure *failure);
/* GET `target`. An answer that was cut is SP_IO. */
int sp_box_receive(struct sp_box *b, const char *target, const struct sp_transfer *t,
                   struct sp_failure *failure);

#endif
