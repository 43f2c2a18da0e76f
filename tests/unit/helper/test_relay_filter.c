/* What the filters of a relay and of a resolver let pass, and what they do not: each in a process of its own, because a call that
 * is not allowed ends it. */

#include <fcntl.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "helper/relay_filter.h"
#include "helper/resolver_filter.h"
#include "tests/lib/unit.h"

#define X32 0x40000000
#define FLAGS RELAY_SEND_FLAGS

static bool (*install)(void) = relay_filter_install;

struct call {
    const char *name;
    long number;
    long args[6];
};

#define CALL(name, ...)    \
    {                      \
#name, SYS_##name, \
        {                  \
            __VA_ARGS__    \
        }                  \
    }

/* How the child ended: 0 when it ended by itself. */
static int end_of(void (*run)(const void *ctx), const void *ctx)
{
    pid_t pid = fork();
    int status = 0;

    assert_true(pid >= 0);
    if (pid == 0) {
        const struct rlimit none = {0, 0};

        if (setrlimit(RLIMIT_CORE, &none) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
            !install())
            _exit(99);
        run(ctx);
        syscall(SYS_exit_group, 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) != 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void run_call(const void *ctx)
{
    const struct call *c = ctx;

    (void) syscall(c->number, c->args[0], c->args[1], c->args[2], c->args[3], c->args[4],
                   c->args[5]);
}

static void assert_killed(const struct call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int signum = end_of(run_call, &calls[i]);

        if (signum != SIGSYS)
            fail_msg("%s (%ld) ended with %d", calls[i].name, calls[i].number, signum);
    }
}

static void test_ways_to_another_socket(void **state)
{
    static const struct call calls[] = {
        CALL(socket, AF_INET, SOCK_STREAM, 0),
        CALL(socket, AF_UNIX, SOCK_STREAM, 0),
        CALL(connect, 0),
        CALL(bind, 0),
        CALL(listen, 0, 1),
        CALL(socketpair, AF_INET, SOCK_STREAM),
        CALL(socketpair, AF_TIPC, SOCK_STREAM),
        CALL(shutdown, 0, SHUT_RD),
        CALL(shutdown, 0, SHUT_RDWR),
        CALL(sendto, 0, 0, 0, FLAGS | MSG_FASTOPEN),
        CALL(sendto, 0, 0, 0, MSG_FASTOPEN),
        CALL(sendmsg, 0, 0, FLAGS | MSG_FASTOPEN),
        CALL(sendmmsg, 0),
        CALL(recvmsg, 0),
        CALL(recvmmsg, 0),
        CALL(accept, 0),
        CALL(setsockopt, 0, SOL_SOCKET, SO_RCVBUF),
        CALL(setsockopt, 0, IPPROTO_TCP, TCP_REPAIR),
        CALL(setsockopt, 0, IPPROTO_TCP, TCP_FASTOPEN_CONNECT),
        CALL(setsockopt, 0, SOL_SOCKET, TCP_NODELAY),
        CALL(getsockopt, 0),
        CALL(ioctl, 0),
        CALL(fcntl, 0, F_DUPFD),
        CALL(dup, 0),
        CALL(dup3, 0, 1),
        CALL(pidfd_open, 1),
        CALL(pidfd_getfd, 0),
        CALL(setns, 0),
        CALL(unshare, CLONE_NEWNET),
        CALL(io_uring_setup, 1),
        CALL(splice, 0),
    };

    (void) state;
    assert_killed(calls, ARRAY_LEN(calls));
}

static void test_files_programs_and_others(void **state)
{
    static const struct call calls[] = {
        CALL(openat, AT_FDCWD),
        CALL(openat2, AT_FDCWD),
        CALL(name_to_handle_at, AT_FDCWD),
        CALL(open_by_handle_at, 0),
        CALL(read, -1),
        CALL(write, -1),
        CALL(execve, 0),
        CALL(execveat, 0),
        CALL(clone, 0),
        CALL(clone3, 0),
        CALL(ptrace, 0),
        CALL(process_vm_readv, 0),
        CALL(process_vm_writev, 0),
        CALL(kill, 0, 0),
        CALL(tgkill, 0),
        CALL(pidfd_send_signal, 0),
        CALL(mmap, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
        CALL(mmap, 0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
        CALL(mprotect, 0, 4096, PROT_EXEC),
        CALL(pkey_mprotect, 0),
        CALL(mremap, 0),
        CALL(memfd_create, 0),
        CALL(chroot, 0),
        CALL(chdir, 0),
        CALL(mount, 0),
        CALL(capset, 0),
        CALL(setuid, 0),
        CALL(prctl, PR_SET_DUMPABLE, 1),
        CALL(prlimit64, 0),
        CALL(bpf, BPF_MAP_CREATE),
        CALL(perf_event_open, 0),
        CALL(userfaultfd, 0),
        CALL(seccomp, 0),
        CALL(keyctl, 0),
        CALL(rt_sigaction, 0),
        CALL(rt_sigreturn, 0),
        CALL(getpid),
#ifdef SYS_open
        CALL(open, 0),
        CALL(fork),
        CALL(vfork),
        CALL(arch_prctl, 0),
#endif
        {"of no name", 4095, {0}},
        {"x32 recvfrom", X32 | SYS_recvfrom, {-1}},
        {"x32 exit_group", X32 | SYS_exit_group, {0}},
    };

    (void) state;
    assert_killed(calls, ARRAY_LEN(calls));
}

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
static void run_of_32_bits(const void *ctx UNUSED)
{
    long result = 20; /* getpid there; what the number means here does not matter */

    __asm__ volatile("int $0x80" : "+a"(result) : : "memory");
}

static void test_numbers_of_32_bits(void **state)
{
    (void) state;
    assert_int_not_equal(end_of(run_of_32_bits, NULL),
                         0); /* SIGSEGV: the kernel has none of them */
}
#endif

/* All that a relay does, in the order it does it. */
static void run_relay_calls(const void *ctx)
{
    const int *listen_fd = ctx;
    struct epoll_event ev = {.events = EPOLLIN};
    struct timespec ts;
    char byte = 'x';
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr msg = {.msg_iov = &data, .msg_iovlen = 1};
    int on = 1;
    int pair[2];

    (void) accept4(*listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    (void) setsockopt(*listen_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        syscall(SYS_exit_group, 1);
    if (sendmsg(pair[0], &msg, FLAGS) != 1 || send(pair[0], "y", 1, FLAGS) != 1 ||
        recv(pair[1], &byte, 1, MSG_DONTWAIT | MSG_PEEK) != 1 || shutdown(pair[0], SHUT_WR) != 0)
        syscall(SYS_exit_group, 2);
    (void) epoll_ctl(0, EPOLL_CTL_ADD, pair[0], &ev); /* no such set, but it is asked */
    (void) epoll_wait(0, &ev, 1, 0);
    (void) syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
    (void) close(pair[0]);
}

static void test_what_it_needs(void **state)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    (void) state;
    assert_true(fd >= 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(end_of(run_relay_calls, &fd), 0);
    assert_int_equal(close(fd), 0);
}

/* It answers and asks, and does nothing else: no files, no programs, no sockets but those of IPv4. */
static void test_resolver(void **state)
{
    static const struct call killed[] = {
        CALL(socket, AF_UNIX, SOCK_STREAM, 0),
        CALL(socket, AF_NETLINK, SOCK_RAW, 0),
        CALL(socket, AF_INET6, SOCK_DGRAM, 0),
        CALL(bind, 0),
        CALL(listen, 0, 1),
        CALL(sendmsg, 0),
        CALL(recvmsg, 0),
        CALL(setsockopt, 0, SOL_SOCKET, SO_RCVBUF),
        CALL(openat, AT_FDCWD),
        CALL(read, -1),
        CALL(write, -1),
        CALL(execve, 0),
        CALL(clone, 0),
        CALL(setns, 0),
        CALL(unshare, CLONE_NEWNET),
        CALL(mmap, 0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
        CALL(capset, 0),
        CALL(ioctl, 0),
        CALL(kill, 0, 0),
        {"x32 recvfrom", X32 | SYS_recvfrom, {-1}},
    };
    static const struct call needed[] = {
        CALL(socket, AF_INET, SOCK_DGRAM, 0),
        CALL(connect, -1),
        CALL(sendto, -1),
        CALL(recvfrom, -1),
        CALL(accept4, -1),
        CALL(close, -1),
        CALL(getrandom, 0),
        CALL(clock_gettime, 0),
        CALL(ppoll, 0, -1),
        CALL(restart_syscall),
    };

    (void) state;
    install = resolver_filter_install;
    assert_killed(killed, ARRAY_LEN(killed));
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        if (end_of(run_call, &needed[i]) != 0)
            fail_msg("%s", needed[i].name);
    install = relay_filter_install;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ways_to_another_socket),
        cmocka_unit_test(test_files_programs_and_others),
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
        cmocka_unit_test(test_numbers_of_32_bits),
#endif
        cmocka_unit_test(test_what_it_needs),
        cmocka_unit_test(test_resolver),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
