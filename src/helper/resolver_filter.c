/* resolver_filter.c - the system call filter of a resolver. Whatever is not on it ends the process, and with it the
 * network of the box. */
#include "helper/resolver_filter.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/compiler.h"
#include "helper/filter.h"

static const struct sock_filter program[] = {
    LOAD_CALL,
    ALLOW(SYS_recvfrom),
    ALLOW(SYS_sendto),
#ifdef SYS_poll
    ALLOW(SYS_poll),
#endif
    ALLOW(SYS_ppoll),
    ALLOW(SYS_restart_syscall), /* after it stood still */
    ALLOW(SYS_accept4),
    ALLOW(SYS_close),
    ALLOW_IF(SYS_socket, 0, AF_INET),
    ALLOW(SYS_connect),
    ALLOW(SYS_getrandom),
    ALLOW(SYS_clock_gettime), /* where the kernel gives no page for it */
    ALLOW(SYS_exit_group),
    END(SECCOMP_RET_KILL_PROCESS),
};

bool resolver_filter_install(void)
{
    const struct sock_fprog filter = {.len = ARRAY_LEN(program),
                                      .filter = (struct sock_filter *) (uintptr_t) program};

    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}
