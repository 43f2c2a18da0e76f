/* follow.h - readers of the output of a process as it comes, for whose sake the program waits.
 *
 * Output is kept up to a limit (output.h). While a follower is as far behind as is kept, the stream is
 * held: its pipe is not read, so that the program waits in its write, as it would for any slow reader.
 * A follower that has held a stream for `hold_max_ns` while another one had read everything is not
 * waited for any more, until it has caught up; it may find a gap. One that reads nothing at all loses
 * its connection (http_limits.write_timeout_ms) and with it its hold. */
#ifndef AGENT_PROCESS_FOLLOW_H
#define AGENT_PROCESS_FOLLOW_H

#include "agent/process/process.h"

#define FOLLOW_HOLD_MAX_NS (60 * NS_PER_S)
#define FOLLOW_NOT UINT64_MAX /* as an offset: this stream is not followed */

struct process_follower {
    struct process *process;
    struct list_node link;
    uint64_t at[PROCESS_STREAM_COUNT]; /* the next byte that it needs */
    uint64_t since_ns;                 /* since when it holds a stream; 0: it does not */
    bool is_left_behind;               /* not waited for */
};

/* Whoever follows also watches, so that the process stays. */
void process_follow(struct process *p, struct process_follower *f,
                    const uint64_t at[PROCESS_STREAM_COUNT]);
/* It has read up to there. */
void process_followed(struct process_follower *f, const uint64_t at[PROCESS_STREAM_COUNT]);
/* Not following is fine. */
void process_unfollow(struct process_follower *f);

#endif
