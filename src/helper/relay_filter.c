/* relay_filter.c - the system call filter of a relay, written out as a program for the kernel: the
 * list is short enough that a library would be longer. Whatever is not on it ends the process, and
 * with it the box: nobody calls it by mistake. */
#include "helper/relay_filter.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/compiler.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "the relay's filter needs the name of this architecture"
#endif

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the lower half of an argument is looked for at the beginning"
#endif

#define DATA(field) ((uint32_t) offsetof(struct seccomp_data, field))
#define ARG(i) (DATA(args) + (i) * (uint32_t) sizeof(uint64_t))

#define LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (at))
#define END(action) BPF_STMT(BPF_RET | BPF_K, (action))
/* Goes on when equal, else skips `skip` instructions. */
#define IF_EQUAL(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t) (value), 0, (skip))
#define ALLOW(number) IF_EQUAL(number, 1), END(SECCOMP_RET_ALLOW)
/* Arguments are integers there: the kernel does not look at the upper half. */
#define ALLOW_IF(number, i, value)                                                 \
    IF_EQUAL(number, 4), LOAD(ARG(i)), IF_EQUAL(value, 1), END(SECCOMP_RET_ALLOW), \
        END(SECCOMP_RET_KILL_PROCESS)
#define ALLOW_IF_BOTH(number, i, a, j, b)                                            \
    IF_EQUAL(number, 6), LOAD(ARG(i)), IF_EQUAL(a, 3), LOAD(ARG(j)), IF_EQUAL(b, 1), \
        END(SECCOMP_RET_ALLOW), END(SECCOMP_RET_KILL_PROCESS)

/* Numbers of another architecture, and those of x32, which have a bit of their own, match nothing. */
static const struct sock_filter program[] = {
    LOAD(DATA(arch)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
    END(SECCOMP_RET_KILL_PROCESS),
    LOAD(DATA(nr)),
    /* the bulk first */
    ALLOW(SYS_recvfrom),
    /* With MSG_FASTOPEN both ways of sending can connect a TCP socket that is not connected. */
    ALLOW_IF(SYS_sendto, 3, RELAY_SEND_FLAGS),
    ALLOW(SYS_epoll_ctl),
    ALLOW(SYS_epoll_pwait),
#ifdef SYS_epoll_wait
    ALLOW(SYS_epoll_wait),
#endif
    ALLOW(SYS_accept4),
    ALLOW(SYS_close),
    /* The other ways would turn the listening socket into one that can be connected. */
    ALLOW_IF(SYS_shutdown, 1, SHUT_WR),
    ALLOW_IF(SYS_sendmsg, 2, RELAY_SEND_FLAGS),
    ALLOW_IF(SYS_socketpair, 0, AF_UNIX),
    ALLOW_IF_BOTH(SYS_setsockopt, 1, IPPROTO_TCP, 2, TCP_NODELAY),
    ALLOW(SYS_clock_gettime), /* where the kernel gives no page for it */
    ALLOW(SYS_exit_group),
    END(SECCOMP_RET_KILL_PROCESS),
};

bool relay_filter_install(void)
{
    const struct sock_fprog filter = {.len = ARRAY_LEN(program),
                                      .filter = (struct sock_filter *) (uintptr_t) program};

    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}
