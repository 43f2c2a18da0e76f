/* helper.h - the agent's own children: one process for one file call.
 *
 * The agent opens no path that a caller names. A helper does: it is forked for the one call, has no
 * descriptor of the agent but its end of one socket, runs as the user (or the box's root) for good, and can start
 * nothing. So a file call reaches what a command of the same user reaches and nothing of the agent, and
 * when it hangs or crashes it is only that call which fails. fork() without exec costs a tenth of what a
 * program start costs; the agent has no threads, so that the copy is whole.
 *
 * A helper is not one of the processes that are listed, counted or signalled for the box's user. */
#ifndef AGENT_CORE_HELPER_H
#define AGENT_CORE_HELPER_H

#include <signal.h>

#include "agent/core/identity.h"
#include "agent/core/oom.h"
#include "base/list.h"
#include "loop/loop.h"

enum { HELPERS_MAX = 192 }; /* that are not reaped yet */

struct helper;

struct helper_table {
    struct loop *loop;
    const struct oom_score *score;
    struct list list; /* all that are not freed */
    int null_fd;      /* /dev/null */
    char *read_space; /* one for all */
    size_t unreaped;
    uint64_t grace_ns; /* between TERM and KILL */
};

struct helper_job {
    /* Called in the child when it has only the agent's privileges left: which user it becomes. */
    const struct identity *(*choose)(void *ctx);
    /* Called in the child: talks with the agent on `fd`, and returns when it is finished. */
    void (*run)(void *ctx, int fd);
    /* Called in the agent, never from inside a function of this header. */
    void (*on_data)(void *ctx, const char *data, size_t len);
    void (*on_end)(void *ctx);                 /* nothing more comes */
    void (*on_written)(void *ctx, bool is_ok); /* the last helper_write() is done */
    void *ctx;
    uint64_t cpu_s; /* processor time it may use; 0: no limit */
};

void helper_table_init(struct helper_table *t, struct loop *l, const struct oom_score *score);
/* Call it when the loop has ended. */
void helper_table_fini(struct helper_table *t);

/* NULL and errno: EAGAIN when there are too many, or no process can be made. */
struct helper *helper_start(struct helper_table *t, const struct helper_job *job);
/* Whether on_data() is called; on at the start. */
void helper_read(struct helper *h, bool is_on);
/* One at a time; both pieces stay as they are until on_written(). */
void helper_write(struct helper *h, const char *head, size_t head_len, const char *data,
                  size_t len);
/* The caller needs it no longer: no callback is called after this. If it still runs, it gets a
 * SIGTERM, and after a grace period a SIGKILL. */
void helper_leave(struct helper *h);

bool helper_is_mine(const struct helper_table *t, pid_t pid);
/* For reap.c: `pid` is dead and will be reaped. False: it is not a helper. */
bool helper_reaped(struct helper_table *t, pid_t pid);

/* --- in the child --- */
/* Whether the agent has asked it to end. */
bool helper_must_stop(void);
/* False: the agent is gone, or has asked it to end. */
bool helper_send(int fd, const void *data, size_t len);
MUST_CHECK bool helper_receive(int fd, void *dst, size_t len);
/* The bytes of an open file from `at` on, without a copy where the kernel can. False: as above, or the file has
 * fewer. */
MUST_CHECK bool helper_send_file(int fd, int file, uint64_t at, uint64_t len);
/* Waits until `other` can be read, at most `timeout_ms`. Whether it can; false with *ret_is_over when the agent is
 * gone, or has asked it to end. */
bool helper_wait(int fd, int other, int timeout_ms, bool *ret_is_over);

#endif
