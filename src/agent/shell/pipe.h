/* pipe.h - between a session and its shell: the command's text, the line that starts it, and
 * what the shell reports at its end. */
#ifndef AGENT_SHELL_PIPE_H
#define AGENT_SHELL_PIPE_H

#include "agent/core/agent.h"

struct shell_pipe;

/* Two pipes. ret_theirs[0] is where the shell reads its start lines, ret_theirs[1] where it reports;
 * *ret_go is our end of the first. `on_report` comes once per command. */
MUST_CHECK int shell_pipe_open(struct agent *a,
                               void (*on_report)(void *, int code, const char *cwd), void *ctx,
                               struct shell_pipe **ret, int *ret_go, int *ret_theirs,
                               struct err *err);
/* NULL is fine; returns NULL. */
struct shell_pipe *shell_pipe_close(struct shell_pipe *p);
/* Writes the script that the shell will source. */
MUST_CHECK int shell_pipe_script(int fd, const char *exec_dir, const char *command,
                                 struct err *err);

#endif
