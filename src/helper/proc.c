/* proc.c - runs short programs with a limit, and ends processes by pidfd. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "helper/proc.h"

void proc_tail_add(struct proc_tail *t, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = (unsigned char) data[i] < ' ' ? ' ' : data[i];

        if (c == ' ' && (t->len == 0 || t->text[t->len - 1] == ' '))
            continue;
        if (t->len == sizeof(t->text) - 1)
            memmove(t->text, t->text + 1, --t->len);
        t->text[t->len++] = c;
    }
    t->text[t->len] = '\0';
}

uint64_t proc_now_ms(void)
{
    struct timespec ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts); /* this clock is always there */
    return (uint64_t) ts.tv_sec * 1000 + (uint64_t) ts.tv_nsec / 1000000;
}

void proc_sleep_ms(unsigned ms)
{
    (void) poll(NULL, 0, (int) ms); /* woken early is fine: callers look again */
}

void proc_die_with(pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(127);
}

static void become(const char *const *argv, int out)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null >= 0 && dup2(null, 0) == 0 && dup2(out, 1) == 1 && dup2(out, 2) == 2)
        (void) execv(argv[0], (char *const *) (uintptr_t) argv);
    (void) dprintf(2, "%s: %s", argv[0], strerror(errno)); /* the tail of the caller's error */
    _exit(127);
}

static bool read_some(int fd, struct proc_tail *tail)
{
    char chunk[1024];
    ssize_t n = read(fd, chunk, sizeof(chunk));

    if (n > 0)
        proc_tail_add(tail, chunk, (size_t) n);
    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

/* Ends with the process, even when a grandchild keeps the pipe. */
static bool wait_for(int pid_fd, int out, uint64_t deadline, struct proc_tail *tail)
{
    struct pollfd fds[2] = {{.fd = pid_fd, .events = POLLIN}, {.fd = out, .events = POLLIN}};

    for (;;) {
        uint64_t now = proc_now_ms();

        if (now >= deadline)
            return false;
        if (poll(fds, 2, (int) (deadline - now)) < 0)
            continue;
        if (fds[1].revents != 0 && !read_some(out, tail))
            fds[1].fd = -1;
        else if (fds[1].revents == 0 && fds[0].revents != 0)
            return true;
    }
}

pid_t proc_fork(int *ret_in, int *ret_out, struct err *err)
{
    int ends[2];
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        (void) err_sys(err, SP_IO, errno, "pipe");
        return -1;
    }
    *ret_in = ends[0];
    *ret_out = ends[1];
    pid = fork();
    if (pid < 0)
        (void) err_sys(err, SP_IO, errno, "fork");
    return pid;
}

int proc_await(pid_t pid, const char *what, struct err *err)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return SP_OK;
    return err_sys(err, SP_BACKEND_FAILED, WIFEXITED(status) ? WEXITSTATUS(status) : EINTR, "%s",
                   what);
}

int proc_run(const char *const *argv, unsigned timeout_ms, struct proc_tail *tail, int *ret_status,
             struct err *err)
{
    AUTO_CLOSE int in = -1;
    AUTO_CLOSE int out = -1;
    AUTO_CLOSE int pid_fd = -1;
    pid_t self = getpid();
    int status = 0;
    bool is_done;
    pid_t pid;

    pid = proc_fork(&in, &out, err);
    if (pid < 0)
        return SP_IO;
    if (pid == 0) {
        proc_die_with(self);
        become(argv, out);
    }
    (void) close(TAKE_FD(out)); /* else the end of the output is never seen */
    pid_fd = pidfd_open(pid, 0);
    is_done = wait_for(pid_fd, in, proc_now_ms() + timeout_ms, tail);
    if (!is_done)
        (void) kill(pid, SIGKILL); /* our own child, not waited for: the number is its own */
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!is_done)
        return err_set(err, SP_TIMEOUT, "%.100s did not end within %u ms", argv[0], timeout_ms);
    *ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return SP_OK;
}

bool proc_read(pid_t pid, const char *name, char *dst, size_t cap)
{
    char path[64];

    (void) snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, name);
    return file_read_start(AT_FDCWD, path, dst, cap) > 0;
}

uint64_t proc_start_time(pid_t pid)
{
    char text[1024];
    char *at;

    if (!proc_read(pid, "stat", text, sizeof(text)))
        return 0;
    at = strrchr(text, ')'); /* the name before it may hold anything */
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at == NULL ? 0 : strtoull(at + 1, NULL, 10);
}

/* Its number in the innermost namespace, where that is below ours; 0: it is not.
 * "NSpid:", tab, our number, then one per namespace below. */
static unsigned long inner_number(pid_t pid)
{
    char text[4096];
    const char *line;
    const char *last;

    if (!proc_read(pid, "status", text, sizeof(text)))
        return 0;
    line = strstr(text, "\nNSpid:");
    if (line == NULL)
        return 0;
    line++;
    last = memrchr(line, '\t', strcspn(line, "\n"));
    return last != NULL && last > line + strlen("NSpid:") ? strtoul(last + 1, NULL, 10) : 0;
}

bool proc_is_inner(pid_t pid)
{
    return inner_number(pid) != 0;
}

bool proc_is_inner_init(pid_t pid)
{
    return inner_number(pid) == 1;
}

bool proc_kill(pid_t pid, uint64_t start, unsigned wait_ms)
{
    AUTO_CLOSE int fd = pidfd_open(pid, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    uint64_t deadline = proc_now_ms() + wait_ms;

    if (fd < 0 || (start != 0 && proc_start_time(pid) != start) ||
        pidfd_send_signal(fd, SIGKILL, NULL, 0) != 0)
        return false;
    while (proc_now_ms() < deadline) {
        if (poll(&p, 1, (int) (deadline - proc_now_ms())) > 0)
            break;
    }
    return true;
}
