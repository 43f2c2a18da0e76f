/* helper_child.c - in the helper: gives up what it inherited from the agent, does its work, exits.
 * Any failure on the way ends the helper: it must not work with more privileges than it should
 * have. */
#include "agent/core/helper_child.h"

#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/core/descriptors.h"
#include "base/fault.h"
#include "base/file.h"

enum { SOCKET_FD = 3, SEND_MAX = 1 << 20 };

static volatile sig_atomic_t must_stop;

static void on_term(int signum)
{
    (void) signum;
    must_stop = 1;
}

bool helper_must_stop(void)
{
    return must_stop != 0;
}

bool helper_send(int fd, const void *data, size_t len)
{
    const char *at = data;

    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR && !must_stop)
            continue;
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t) n;
    }
    return true;
}

bool helper_receive(int fd, void *dst, size_t len)
{
    return file_read_exact(fd, dst, len, helper_must_stop);
}

bool helper_send_file(int fd, int file, uint64_t at, uint64_t len)
{
    off_t offset = (off_t) at;

    while (len > 0) {
        ssize_t n = sendfile(fd, file, &offset, (size_t) MIN_OF(len, (uint64_t) SEND_MAX));

        if (n < 0 && errno == EINTR && !must_stop)
            continue;
        if (n < 0 && errno == EINVAL) { /* a file system without pages: of the kernel, say */
            char data[4096];

            n = pread(file, data, MIN_OF(len, sizeof(data)), offset);
            if (n > 0 && !helper_send(fd, data, (size_t) n))
                return false;
            offset += n;
        }
        if (n <= 0)
            return false;
        len -= (uint64_t) n;
    }
    return true;
}

bool helper_wait(int fd, int other, int timeout_ms, bool *ret_is_over)
{
    struct pollfd fds[2] = {{.fd = fd, .events = POLLRDHUP}, {.fd = other, .events = POLLIN}};
    int n = must_stop ? 0 : poll(fds, 2, timeout_ms);

    *ret_is_over = must_stop || (n < 0 && errno != EINTR) ||
                   (n > 0 && (fds[0].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0);
    return !*ret_is_over && n > 0 && (fds[1].revents & POLLIN) != 0;
}

/* The agent's handlers would write into its pipe. Interrupted calls are not begun anew, so that a TERM
 * is noticed. */
static bool set_signals(void)
{
    struct sigaction on_stop = {.sa_handler = on_term};
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigset_t none;

    (void) sigemptyset(&none);
    return sigaction(SIGTERM, &on_stop, NULL) == 0 && sigaction(SIGINT, &by_default, NULL) == 0 &&
           sigaction(SIGCHLD, &by_default, NULL) == 0 &&
           pthread_sigmask(SIG_SETMASK, &none, NULL) == 0;
}

static bool keep_socket(int null_fd, int fd)
{
    for (int i = 0; i < 3; i++)
        if (dup2(null_fd, i) < 0)
            return false;
    if (fd != SOCKET_FD && dup2(fd, SOCKET_FD) < 0)
        return false;
    return descriptors_close_from(SOCKET_FD + 1);
}

/* The root of the box needs its privileges over files here, and no others. */
static bool drop_capabilities(void)
{
    static const uint32_t kept = 1U << CAP_CHOWN | 1U << CAP_DAC_OVERRIDE |
                                 1U << CAP_DAC_READ_SEARCH | 1U << CAP_FOWNER | 1U << CAP_FSETID;
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};

    if (syscall(SYS_capget, &head, data) != 0)
        return false;
    for (int i = 0; i < 2; i++) {
        data[i].permitted &= i == 0 ? kept : 0;
        data[i].effective = data[i].permitted;
        data[i].inheritable = 0;
    }
    return syscall(SYS_capset, &head, data) == 0;
}

static bool set_limits(uint64_t cpu_s)
{
    const struct rlimit none = {0, 0};
    const struct rlimit cpu = {cpu_s, cpu_s};

    /* Root is not bound by the number of processes; it can start no program with more rights, though. */
    return setrlimit(RLIMIT_CORE, &none) == 0 && setrlimit(RLIMIT_NPROC, &none) == 0 &&
           (cpu_s == 0 || setrlimit(RLIMIT_CPU, &cpu) == 0);
}

void helper_child(const struct helper_job *job, int null_fd, int fd)
{
    pid_t agent = getppid();

    if (!set_signals() || !keep_socket(null_fd, fd) || !set_limits(job->cpu_s) ||
        identity_become(job->choose(job->ctx)) != 0 || !drop_capabilities())
        _exit(1);
    (void) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);        /* nobody may read this copy of the agent's
                                                       * memory */
    (void) prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* after the change of ids, which clears it */
    if (getppid() != agent)
        _exit(1);
    FAULT_POINT("helper.before_run");
    job->run(job->ctx, SOCKET_FD);
    _exit(0);
}
