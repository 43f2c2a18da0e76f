/* refuse.c - the kernel has one limit of memory for compiled filter programs
 * (net.core.bpf_jit_limit), for the whole machine: when a box has used it up, no engine can load
 * the filter of a new container. The engines' default seccomp profiles allow containers to attach
 * filters to sockets and to load system call filters without a limit. So the agent refuses these
 * calls, the other socket options and ioctl commands that concern the whole machine
 * (base/sockopts.h, base/ioctls.h), locks that nobody can count, and new user namespaces. */
#include "agent/core/refuse.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/compiler.h"
#include "base/ioctls.h"
#include "base/sockopts.h"

/* The native table of calls and the 32-bit one, for which this program has no names. */
#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#define OTHER AUDIT_ARCH_I386
#define OTHER_SETSOCKOPT 366
#define OTHER_PRCTL 172
#define OTHER_IOCTL 54
#define OTHER_SYNC 36
#define OTHER_FCNTL 55
#define OTHER_FCNTL64 221
#define OTHER_SECCOMP 354
#define OTHER_SOCKETCALL 102
#define OTHER_CLONE 120
#define OTHER_UNSHARE 310
#define X32_BIT 0x40000000U
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#define OTHER AUDIT_ARCH_ARM
#define OTHER_SETSOCKOPT 294
#define OTHER_PRCTL 172
#define OTHER_IOCTL 54
#define OTHER_SYNC 36
#define OTHER_FCNTL 55
#define OTHER_FCNTL64 221
#define OTHER_SECCOMP 383
#define OTHER_CLONE 120
#define OTHER_UNSHARE 337
#else
#error "which system call tables has this architecture?"
#endif
#define ANY_IO_URING_SETUP 425 /* the same in all tables */
#define ANY_CLONE3 435

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the lower half of an argument is looked for at the beginning"
#endif

#define DATA(field) ((uint32_t) offsetof(struct seccomp_data, field))
#define ARG(i) (DATA(args) + (i) * (uint32_t) sizeof(uint64_t))

#define LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (at))
#define END(action) BPF_STMT(BPF_RET | BPF_K, (action))
#define FAIL(errnum) END(SECCOMP_RET_ERRNO | (errnum))
/* Goes on when it holds, else skips `skip` instructions: to the next rule. */
#define IF_EQUAL(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t) (value), 0, (skip))
#define IF_AT_LEAST(value, skip) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t) (value), 0, (skip))

/* Each rule is independent. The kernel determines once for which calls all rules allow every
 * argument, and does not run the filter for those. */
#define REFUSE(table, number, errnum) \
    LOAD(DATA(arch)), IF_EQUAL(table, 3), LOAD(DATA(nr)), IF_EQUAL(number, 1), FAIL(errnum)
/* These arguments are integers: the kernel ignores the upper half. */
#define REFUSE_IF(table, number, i, value, errnum)                                           \
    LOAD(DATA(arch)), IF_EQUAL(table, 5), LOAD(DATA(nr)), IF_EQUAL(number, 3), LOAD(ARG(i)), \
        IF_EQUAL(value, 1), FAIL(errnum)
#define REFUSE_BITS(table, number, i, bits, errnum)                                          \
    LOAD(DATA(arch)), IF_EQUAL(table, 5), LOAD(DATA(nr)), IF_EQUAL(number, 3), LOAD(ARG(i)), \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), 0, 1), FAIL(errnum)
#define REFUSE_OPTION(table, number, level, option, errnum)                                  \
    LOAD(DATA(arch)), IF_EQUAL(table, 7), LOAD(DATA(nr)), IF_EQUAL(number, 5), LOAD(ARG(1)), \
        IF_EQUAL(level, 3), LOAD(ARG(2)), IF_EQUAL(option, 1), FAIL(errnum)
#define REFUSE_IN_BOTH(level, option, errnum)                     \
    REFUSE_OPTION(NATIVE, SYS_setsockopt, level, option, errnum), \
        REFUSE_OPTION(OTHER, OTHER_SETSOCKOPT, level, option, errnum),

#define REFUSE_COMMAND(command)                      \
    REFUSE_IF(NATIVE, SYS_ioctl, 1, command, EPERM), \
        REFUSE_IF(OTHER, OTHER_IOCTL, 1, command, EPERM),

/* Locks of an open file (F_OFD_GETLK, SETLK, SETLKW): they have no limit, and stay where nobody can count them
 * (src/backend/hoard.c). Here the rule decides for all commands: the call is a frequent one. */
#define REFUSE_LOCKS(table, number)                                                          \
    LOAD(DATA(arch)), IF_EQUAL(table, 7), LOAD(DATA(nr)), IF_EQUAL(number, 5), LOAD(ARG(1)), \
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~3U), IF_EQUAL(36, 1), FAIL(EINVAL),             \
        END(SECCOMP_RET_ALLOW)

/* Errors as in a kernel without filters: programs that want to restrict themselves continue
 * without. */
static const struct sock_filter program[] = {
    REFUSE_LOCKS(NATIVE, SYS_fcntl),
    REFUSE_LOCKS(OTHER, OTHER_FCNTL),
    REFUSE_LOCKS(OTHER, OTHER_FCNTL64),
    SOCKOPTS(REFUSE_IN_BOTH) IOCTLS(REFUSE_COMMAND)
        REFUSE_IF(NATIVE, SYS_prctl, 0, PR_SET_SECCOMP, EINVAL),
    REFUSE_IF(OTHER, OTHER_PRCTL, 0, PR_SET_SECCOMP, EINVAL),
    REFUSE(NATIVE, SYS_seccomp, ENOSYS),
    REFUSE(OTHER, OTHER_SECCOMP, ENOSYS),
    /* It sets options of sockets, too, and passes no filter. */
    REFUSE(NATIVE, ANY_IO_URING_SETUP, ENOSYS),
    REFUSE(OTHER, ANY_IO_URING_SETUP, ENOSYS),
    /* Whoever makes a user namespace is root in it, and may do there what the rules above refuse by other ways (bridges, modules,
     * mounts). Docker's list refuses it, Podman's does not. clone3 has its flags in memory; libc goes on with clone. */
    REFUSE_BITS(NATIVE, SYS_unshare, 0, CLONE_NEWUSER, EPERM),
    REFUSE_BITS(OTHER, OTHER_UNSHARE, 0, CLONE_NEWUSER, EPERM),
    REFUSE_BITS(NATIVE, SYS_clone, 0, CLONE_NEWUSER, EPERM),
    REFUSE_BITS(OTHER, OTHER_CLONE, 0, CLONE_NEWUSER, EPERM),
    REFUSE(NATIVE, ANY_CLONE3, ENOSYS),
    REFUSE(OTHER, ANY_CLONE3, ENOSYS),
    /* Success, and nothing is done: it waits for every file system of the machine, also for one that hangs, and
     * what waits there cannot be killed. */
    REFUSE(NATIVE, SYS_sync, 0),
    REFUSE(OTHER, OTHER_SYNC, 0),
#if defined(__x86_64__)
    /* It keeps the option in memory where no filter can look; direct calls exist since Linux
     * 4.3. */
    REFUSE(OTHER, OTHER_SOCKETCALL, ENOSYS),
    /* A third table, which nothing uses. */
    LOAD(DATA(arch)),
    IF_EQUAL(NATIVE, 3),
    LOAD(DATA(nr)),
    IF_AT_LEAST(X32_BIT, 1),
    FAIL(ENOSYS),
#endif
    END(SECCOMP_RET_ALLOW),
};

int refuse_kernel_programs(struct err *err)
{
    const struct sock_fprog filter = {.len = ARRAY_LEN(program),
                                      .filter = (struct sock_filter *) (uintptr_t) program};

    /* Where the engine has set it already, this changes nothing. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
        (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0 || errno == EINVAL ||
         errno == ENOSYS))
        return SP_OK;
    return err_sys(err, SP_IO, errno, "load the filter of system calls");
}
