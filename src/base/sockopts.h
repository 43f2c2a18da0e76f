/* sockopts.h - options of sockets that no program of a box may set. One list for both filters of system
 * calls: that of our own boxes (src/backends/oci/seccomp_args.c) and the one that the agent adds in an engine's
 * containers (src/agent/core/refuse.c). Header-only. */
#ifndef BASE_SOCKOPTS_H
#define BASE_SOCKOPTS_H

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* The kernel's number; its header does not go with netinet/in.h. */
#ifndef IPV6_FLOWLABEL_MGR
#define IPV6_FLOWLABEL_MGR 32
#endif

/* REFUSED(level, option, error); error 0: it seems to work, and nothing is done. Options and levels are
 * numbers below SOCKOPTS_END: 84 was the last option of SOL_SOCKET in 2026.
 *
 * - Programs take memory for compiled code, of which the machine has one amount for everybody
 *   (net.core.bpf_jit_limit): when there is none left no box and no container starts.
 * - A socket that lingers makes the kernel wait for its peer, for as long as it says, in the one thread of
 *   the machine that closes files nobody holds: a box could not be destroyed for days. Programs ask for it
 *   and do not expect it to fail.
 * - What a socket may hold that is charged to nobody, its queue of errors, is as large as its receive buffer.
 *   The size lies in memory, where no filter can look, so it stays what the machine gives every socket.
 * - Flow labels are of one table for the whole machine.
 * - Each membership in a multicast group is kept in memory that is charged to nobody. */
#define SOCKOPTS(REFUSED)                                 \
    REFUSED(SOL_SOCKET, SO_LINGER, 0)                     \
    REFUSED(SOL_SOCKET, SO_RCVBUF, 0)                     \
    REFUSED(SOL_SOCKET, SO_SNDBUF, 0)                     \
    REFUSED(SOL_SOCKET, SO_ATTACH_FILTER, EPERM)          \
    REFUSED(SOL_SOCKET, SO_ATTACH_BPF, EPERM)             \
    REFUSED(SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, EPERM)  \
    REFUSED(SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF, EPERM)  \
    REFUSED(IPPROTO_IP, IP_ADD_MEMBERSHIP, EPERM)         \
    REFUSED(IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, EPERM)  \
    REFUSED(IPPROTO_IP, IP_MSFILTER, EPERM)               \
    REFUSED(IPPROTO_IP, MCAST_JOIN_GROUP, EPERM)          \
    REFUSED(IPPROTO_IP, MCAST_JOIN_SOURCE_GROUP, EPERM)   \
    REFUSED(IPPROTO_IP, MCAST_MSFILTER, EPERM)            \
    REFUSED(IPPROTO_IPV6, IPV6_FLOWLABEL_MGR, EPERM)      \
    REFUSED(IPPROTO_IPV6, IPV6_JOIN_GROUP, EPERM)         \
    REFUSED(IPPROTO_IPV6, IPV6_JOIN_ANYCAST, EPERM)       \
    REFUSED(IPPROTO_IPV6, MCAST_JOIN_GROUP, EPERM)        \
    REFUSED(IPPROTO_IPV6, MCAST_JOIN_SOURCE_GROUP, EPERM) \
    REFUSED(IPPROTO_IPV6, MCAST_MSFILTER, EPERM)

enum { SOCKOPTS_END = 128 };

#endif
