/* process.c - a child process for a test: started, awaited, stopped by its pid. */
#include "tests/lib/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/unit.h"

enum { PATIENCE_MS = 10000 };

static void become(const char *const *argv, int out_fd)
{
    const char *dir = getenv("SANDPOOL_BIN_DIR");
    char path[512];

    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void) snprintf(path, sizeof(path), "%s/%s", dir != NULL ? dir : ".", argv[0]);
    if (dup2(out_fd, STDOUT_FILENO) >= 0)
        (void) execv(path, (char *const *) (uintptr_t) argv);
    (void) dprintf(STDERR_FILENO, "%s: %s\n", path, strerror(errno));
    _exit(127);
}

void process_spawn(struct process *p, const char *const *argv)
{
    int fds[2];

    memset(p, 0, sizeof(*p));
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0)
        become(argv, fds[1]);
    (void) close(fds[1]);
    p->out_fd = fds[0];
}

void process_start(struct process *p, const char *const *argv)
{
    size_t len = 0;

    process_spawn(p, argv);
    while (len + 1 < sizeof(p->line)) {
        struct pollfd waiting = {.fd = p->out_fd, .events = POLLIN};

        if (poll(&waiting, 1, PATIENCE_MS) != 1 || read(p->out_fd, &p->line[len], 1) != 1) {
            (void) process_stop(p, SIGKILL);
            fail_msg("%s did not come up", argv[0]);
        }
        if (p->line[len] == '\n')
            break;
        len++;
    }
    p->line[len] = '\0';
}

int process_stop(struct process *p, int signum)
{
    int status = 0;

    assert_true(p->pid > 0);
    if (signum != 0)
        (void) kill(p->pid, signum);
    for (int waited_ms = 0; waitpid(p->pid, &status, WNOHANG) == 0; waited_ms += 5) {
        if (waited_ms > PATIENCE_MS) {
            (void) kill(p->pid, SIGKILL);
            (void) waitpid(p->pid, &status, 0);
            p->pid = 0;
            fail_msg("a process did not stop");
        }
        (void) usleep(5000);
    }
    (void) close(p->out_fd);
    p->pid = 0;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}
