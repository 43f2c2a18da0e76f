/* relay_filter.c - the system call filter of a relay. Whatever is not on it ends the process, and with it the box: nobody
 * calls it by mistake. */
#include "helper/relay_filter.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/compiler.h"
#include "helper/filter.h"

static const struct sock_filter program[] = {
    LOAD_CALL,
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
