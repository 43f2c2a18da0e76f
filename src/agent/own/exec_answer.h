/* exec_answer.h - the answer to a command that is over, made from its kept output piece by piece: however long
 * it is, only what the caller has not read yet is in memory a second time. */
#ifndef AGENT_OWN_EXEC_ANSWER_H
#define AGENT_OWN_EXEC_ANSWER_H

#include "agent/own/json_text.h"
#include "agent/process/process.h"

struct exec_range {
    uint64_t at;
    uint64_t until;
};

/* Of each stream the beginning and the end; the second is empty when the first is all. */
struct exec_answer {
    const struct process *process;
    struct exec_range ranges[PROCESS_STREAM_COUNT][2];
    struct exec_range gaps[PROCESS_STREAM_COUNT]; /* what is missing between them */
    bool is_truncated;
    bool is_base64;
    unsigned step; /* what is written next */
    struct json_text text;
};

/* `p` is over; of each stream at most max_output bytes are answered. */
void exec_answer_init(struct exec_answer *a, const struct process *p, uint64_t max_output,
                      bool is_base64);
/* Bytes of output in it. */
uint64_t exec_answer_size(const struct exec_answer *a);

enum exec_progress { EXEC_MORE, EXEC_DONE, EXEC_LOST };
/* Appends the next piece, of EXEC_PIECE bytes of output at most. EXEC_LOST: what is needed next was overwritten
 * meanwhile by a program that still writes. */
enum { EXEC_PIECE = 24 * 1024, EXEC_PIECE_TEXT_MAX = 6 * EXEC_PIECE + 4096 };
enum exec_progress exec_answer_put(struct exec_answer *a, struct buf *out);

#endif
