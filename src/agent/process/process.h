/* process.h - the processes of the box that were started through the agent.
 *
 *            start                    leader died (and is reaped)
 *   (none) ---------> RUNNING --------------------------------> FINISHED --> dropped when old
 *                        | kill, timeout: TERM to the group,        |
 *                        | after a grace KILL                       | streams stay open as long as
 *                        v                                          v somebody holds them
 *                     leader died --> RUNNING until its group and descendants are dead, too
 *
 * Every process leads its own session and group; signals go to the whole group. To kill it is to
 * kill its descendants outside of the group, too, as far as they can be found (descendants.h). When a
 * process that was to be killed dies, what is left of all these is killed before the numbers can be
 * used again. Output is read as it comes (output.h), unless one who follows it is too far behind
 * (follow.h).
 *
 * A process belongs to the table. Pointers stay valid while one holds a watch on it. */
#ifndef AGENT_PROCESS_PROCESS_H
#define AGENT_PROCESS_PROCESS_H

#include <sys/types.h>

#include "agent/core/helper.h"
#include "agent/process/descendants.h"
#include "agent/process/output.h"
#include "agent/process/records.h"
#include "agent/process/spawn.h"
#include "base/list.h"
#include "base/map.h"
#include "loop/loop.h"
#include "loop/signals.h"

enum process_outcome {
    PROCESS_RUNNING,
    PROCESS_EXITED,
    PROCESS_SIGNALLED, /* by somebody else */
    PROCESS_TIMED_OUT,
    PROCESS_KILLED, /* by request */
    PROCESS_OOM,
    PROCESS_OUTCOME_COUNT
};
const char *process_outcome_name(enum process_outcome o);

enum { PROCESS_STDOUT, PROCESS_STDERR, PROCESS_STREAM_COUNT };

enum {
    PROCESS_KEEP_MAX = 128,              /* finished ones, with their output */
    PROCESS_HELD_MAX = 256,              /* finished ones whose streams others still write to */
    PROCESS_RUNNING_MAX = 1024,          /* at the same time */
    PROCESS_STDIN_MAX = 4 * 1024 * 1024, /* written and not yet taken */
    PROCESS_COMMAND_MAX = 4096,          /* bytes of the command that a job keeps */
};

struct json;

struct process_table {
    struct loop *loop;
    struct output_disk disk;
    struct map by_pid;
    struct list running;
    struct list finished;           /* oldest first */
    struct process_records records; /* of jobs that were dropped */
    uint64_t last_id;
    uint64_t first_mark;  /* mark.h */
    uint64_t ended_ns;    /* when one last died, or an orphan of one; 0: none has */
    uint64_t grace_ns;    /* between TERM and KILL */
    uint64_t hold_max_ns; /* follow.h */
    struct oom_score score;
    struct helper_table helpers; /* the agent's own children */
    int oom_fd;                  /* where the kernel counts its kills; -1: not readable */
    size_t closing;              /* handles that still close */
    void (*on_closed)(void *ctx);
    void *closed_ctx;
    char *read_space; /* one for all streams */
};

/* Between two reads of a stream that comes in small pieces, at first and at most; and of one that has brought
 * PROCESS_STEADY small pieces, each soon after the one before: a 20th of the time for which it has done so, within bounds. */
#define PROCESS_REST_NS NS_PER_MS
#define PROCESS_REST_MAX_NS (8 * NS_PER_MS)
#define PROCESS_STEADY_REST_NS (25 * NS_PER_MS)
#define PROCESS_STEADY_REST_MAX_NS (50 * NS_PER_MS)
enum { PROCESS_STEADY = 16, PROCESS_STEADY_PART = 20 };

struct process_stream {
    struct process *process;
    uv_poll_t poll;
    int fd;          /* -1: closed */
    bool is_held;    /* not read: followers are behind */
    bool is_resting; /* not read for a moment: it comes in small pieces */
    struct rt_timer rest;
    uint64_t rest_ns; /* how long */
    unsigned pieces;  /* that came one soon after the other */
    uint64_t flow_ns; /* when the first of them came */
    uint64_t read_ns; /* when something last came; 0: before the last input */
    struct output output;
};

struct process {
    struct process_table *table;
    uint64_t id;
    pid_t pid; /* and of its group */
    struct map_node pid_node;
    struct list_node link; /* running or finished */
    struct list watches;
    struct list followers;
    struct rt_timer hold; /* while one of them holds a stream */
    bool is_hold_timed;
    char *command; /* for people */
    char *tag;     /* the caller's word, may be NULL */
    char *session; /* the bash session it belongs to, may be NULL */
    bool is_pty;
    bool is_job;       /* leaves a record when it is dropped */
    bool is_forgotten; /* to be dropped as soon as nobody needs it, without a record */
    bool is_dropped;
    enum process_outcome outcome;
    int exit_code; /* EXITED, or what the shell would say: 128 + signal */
    int signum;    /* 0: it exited */
    uint64_t started_ns;
    uint64_t ended_ns;
    uint64_t ooms_before;
    int wanted_signal; /* last one sent by request */
    bool is_killing;
    bool is_timed_out;
    bool is_reaped;                 /* the leader is; what it started may still be dying */
    struct descendants descendants; /* while it is being killed */
    struct rt_timer dying;
    uint64_t dying_until_ns;
    uint64_t dying_pause_ns;
    struct rt_timer timeout;
    struct rt_timer grace;
    struct process_stream streams[PROCESS_STREAM_COUNT]; /* a terminal is stream 0 */
    uv_poll_t stdin_poll;                                /* not for terminals */
    int stdin_fd;
    struct buf stdin_buf;
    bool has_stdin; /* from the start; it may have ended since */
    bool is_stdin_ending;
    unsigned handles;
};

/* Called soon, never from inside a call, when there is output, an end of a stream, or a death. One
 * call may stand for several events. */
struct process_watch {
    struct process *process;
    struct list_node link;
    struct rt_task task;
    void (*on_change)(struct process_watch *w);
};

struct process_request {
    struct spawn_request spawn;
    const char *command; /* for people; copied */
    const char *tag;     /* may be NULL; copied */
    const char *session; /* may be NULL; copied */
    uint64_t timeout_ns; /* 0: none */
    bool is_job;         /* how it ended is remembered: records.h */
};

void process_table_init(struct process_table *t, struct loop *l, const char *spill_dir);
/* Kills everything, then on_closed. The table can be finished then. */
void process_table_close(struct process_table *t, void (*on_closed)(void *ctx), void *ctx);
void process_table_fini(struct process_table *t);
/* To be called at SIGCHLD: reaps every exited child, known or not. */
void process_table_reap(struct process_table *t);

MUST_CHECK int process_start(struct process_table *t, const struct process_request *r,
                             struct process **ret, struct err *err);
/* NULL if there is none (any more). */
struct process *process_find(const struct process_table *t, uint64_t id);
/* The running one with this number; NULL when there is none. */
struct process *process_by_pid(const struct process_table *t, pid_t pid);
/* When it does not, everything that it wrote has been read; others may still hold its streams. */
static inline bool process_is_running(const struct process *p)
{
    return p->outcome == PROCESS_RUNNING;
}
bool process_is_open(const struct process *p, unsigned stream);
void process_watch(struct process *p, struct process_watch *w,
                   void (*on_change)(struct process_watch *w));
/* Not watching is fine. */
void process_unwatch(struct process_watch *w);
/* It has ended and nobody will ask for it: it goes when the last watch on it ends and nobody holds its
 * streams any more. */
void process_forget(struct process *p);

/* SP_QUEUE_FULL: the process does not read; SP_JOB_ENDED: it has no input any more. */
MUST_CHECK int process_write(struct process *p, const char *data, size_t len, struct err *err);
/* After what was written: a pipe is closed, a terminal gets its end-of-file character. */
MUST_CHECK int process_close_stdin(struct process *p, struct err *err);
MUST_CHECK int process_resize(struct process *p, uint16_t cols, uint16_t rows, struct err *err);
/* To the whole group. */
MUST_CHECK int process_signal(struct process *p, int signum, struct err *err);
/* SIGTERM, after the grace period SIGKILL; the outcome will be `killed`. If it is dead and others
 * hold its streams: SIGKILL to the rest of its group. */
void process_kill(struct process *p);

/* process_io.c, for process.c and reap.c */
MUST_CHECK int process_open_streams(struct process *p, const struct spawn_result *fds,
                                    struct err *err);
void process_drain(struct process *p);
void process_close_streams(struct process *p);
/* A held stream is read again. */
void process_read_on(struct process_stream *s);
void process_notify(struct process *p);
/* Frees it when nothing needs it any more. */
void process_release(struct process *p);
/* A stream was closed: a forgotten one may go now. */
void process_look(struct process *p);
/* reap.c, for process.c: ends the wait for the rest of a killed one. */
void process_conclude(struct process *p);
/* follow.c, for process_io.c: bytes that may be read; the stream is held because there are none. */
uint64_t process_room(const struct process_stream *s);
void process_held(struct process_stream *s);
/* signal_name.c */
/* Signal by name, "SIGTERM" or "TERM", or by number; 0 when unknown. */
int process_signal_number(const char *name);
/* Valid until the next call. */
const char *process_signal_name(int signum);
/* The field `signal` of a request; absent: *ret is left alone. */
MUST_CHECK int process_signal_field(const struct json *obj, int *ret, struct err *err);

#endif
