/* ioctls.h - commands of ioctl that no program of a box may use. One list for both filters of system
 * calls: that of our own boxes (src/backends/oci/seccomp_args.c) and the one that the agent adds in an engine's
 * containers (src/agent/core/refuse.c). Header-only. */
#ifndef BASE_IOCTLS_H
#define BASE_IOCTLS_H

/* By number: the headers that name them do not go together, and the newest have lost some of them.
 *
 * - TIOCSTI types into a terminal.
 * - TIOCSETD, and the questions for bridges, DLCI and VLAN (SIOCGIFBR, SIOCSIFBR, SIOCADDDLCI, SIOCDELDLCI,
 *   SIOCGIFVLAN, SIOCSIFVLAN, SIOCBRADDBR, SIOCBRDELBR) make the kernel load a module of the host before it asks
 *   for any right. */
#define IOCTLS(REFUSED) \
    REFUSED(0x5412)     \
    REFUSED(0x5423)     \
    REFUSED(0x8940)     \
    REFUSED(0x8941)     \
    REFUSED(0x8980)     \
    REFUSED(0x8981)     \
    REFUSED(0x8982)     \
    REFUSED(0x8983)     \
    REFUSED(0x89a0)     \
    REFUSED(0x89a1)

#endif
