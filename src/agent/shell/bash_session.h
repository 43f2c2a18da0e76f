/* bash_session.h - sessions of the bash API: a name and a directory. Each command is a separate
 * process that carries the session's id; only its output is kept. */
#ifndef AGENT_SHELL_BASH_SESSION_H
#define AGENT_SHELL_BASH_SESSION_H

#include "agent/core/agent.h"
#include "agent/core/session.h"
#include "agent/process/process.h"

enum { BASH_SESSIONS_MAX = 64 };

struct bash_session {
    struct session session;
    char exec_dir[1024]; /* "": the home */
    uint64_t last_command;
    uint64_t command_count;
};

/* NULL when there is none. Counts as use. */
struct bash_session *bash_session_find(struct agent *a, const char *id);
/* `id` NULL: it is generated. The oldest idle session is closed to make room; SP_QUEUE_FULL if all
 * are busy. */
MUST_CHECK int bash_session_open(struct agent *a, const char *id, const char *exec_dir,
                                 struct bash_session **ret, struct err *err);
/* Kills what runs in it. */
void bash_session_close(struct agent *a, struct bash_session *s);
/* At the end. */
void bash_sessions_free(struct agent *a);
/* A command of this session; `id` 0: the last one. NULL when it is not known (any more). */
struct process *bash_session_command(struct agent *a, const struct bash_session *s, uint64_t id);

#endif
