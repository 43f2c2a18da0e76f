/* shell_session.h - a shell on a terminal that lives from command to command, so that directory,
 * exports and functions last.
 *
 *   IDLE --run--> RUNNING --the shell reports--> COMPLETED --run--> RUNNING ...
 *                    | hard timeout: INT, then the shell is killed --> HARD_TIMEOUT
 *                    | kill, exit, death of the shell               --> TERMINATED
 *
 * A session whose shell has died gets a new one, in the last directory, with its next command.
 * The end of a command is reported by the shell through a pipe that commands do not inherit; what they
 * print is never interpreted. */
#ifndef AGENT_SHELL_SHELL_SESSION_H
#define AGENT_SHELL_SHELL_SESSION_H

#include "agent/core/agent.h"
#include "agent/core/session.h"
#include "agent/process/process.h"

enum { SHELL_SESSIONS_DEFAULT = 10, SHELL_MARK_LEN = 17 };

enum shell_status {
    SHELL_IDLE,
    SHELL_RUNNING,
    SHELL_COMPLETED,
    SHELL_HARD_TIMEOUT,
    SHELL_TERMINATED,
    SHELL_STATUS_COUNT
};

struct shell_pipe;

struct shell_session {
    struct session session;
    struct agent *agent;
    struct list watches;
    bool is_removed; /* lives on only for its watches */
    char cwd[1024];
    bool keep_links;              /* its shell shows directories as they were named */
    uint64_t no_change_ns;        /* default of its commands; 0: none */
    struct process_watch process; /* the shell, also a dead one whose output is wanted */
    int script_fd;                /* where the shell finds its command */
    int go_fd;                    /* a line there starts it */
    struct shell_pipe *pipe;      /* where the shell reports the end */

    enum shell_status status;
    char *command;
    int exit_code;
    uint64_t from; /* of the command's output */
    uint64_t until;
    uint64_t scanned;
    char mark[SHELL_MARK_LEN + 1]; /* follows the output on the terminal; means nothing else */
    bool is_reported;              /* the end is known, the output not yet complete */
    bool is_stopping;              /* by its hard timeout */
    struct rt_timer hard;
    struct rt_timer settle;
};

/* As process_watch: called soon when there is output or an end. Keeps the session in memory. */
struct shell_watch {
    struct shell_session *session;
    struct list_node link;
    struct rt_task task;
    void (*on_change)(struct shell_watch *w);
};

void shell_watch(struct shell_session *s, struct shell_watch *w,
                 void (*on_change)(struct shell_watch *w));
void shell_unwatch(struct shell_watch *w);

const char *shell_status_name(enum shell_status s);
struct shell_session *shell_session_find(struct agent *a, const char *id);
/* `id` NULL: it is generated. The oldest idle session is closed to make room; SP_QUEUE_FULL if all
 * are busy. */
/* `cwd` and `exec_dir` below: from shell_dir_pick(), or NULL. */
MUST_CHECK int shell_session_open(struct agent *a, const char *id, const char *cwd,
                                  struct shell_session **ret, struct err *err);
/* Kills its shell and forgets it. */
void shell_session_remove(struct shell_session *s);
void shell_sessions_free(struct agent *a);

/* ERR_BUSY: a command runs. */
MUST_CHECK int shell_session_run(struct shell_session *s, const char *command, const char *exec_dir,
                                 uint64_t hard_timeout_ns, struct err *err);
/* ERR_NOTHING_RUNS: it has no shell now. Otherwise as process_write(). */
MUST_CHECK int shell_session_write(struct shell_session *s, const char *data, size_t len,
                                   struct err *err);
void shell_session_kill(struct shell_session *s);
/* The end of the command's output so far. */
uint64_t shell_session_end(const struct shell_session *s);
/* The output from `from` on: complete, or at most `max` bytes of it with a note in the middle. */
void shell_session_text(const struct shell_session *s, uint64_t from, size_t max, struct buf *dst);

#endif
