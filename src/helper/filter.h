/* filter.h - the words that the system call filters of processes beside a box are written in: programs for the kernel,
 * as the lists are so short that a library would be longer. A program begins with the number of the call. */
#ifndef HELPER_FILTER_H
#define HELPER_FILTER_H

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#define FILTER_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define FILTER_ARCH AUDIT_ARCH_AARCH64
#else
#error "the filters need the name of this architecture"
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
/* The first of every program. Numbers of another architecture, and those of x32, which have a bit of their own, match
 * nothing. */
#define LOAD_CALL                                                             \
    LOAD(DATA(arch)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FILTER_ARCH, 1, 0), \
        END(SECCOMP_RET_KILL_PROCESS), LOAD(DATA(nr))
#define ALLOW(number) IF_EQUAL(number, 1), END(SECCOMP_RET_ALLOW)
/* Arguments are integers there: the kernel does not look at the upper half. */
#define ALLOW_IF(number, i, value)                                                 \
    IF_EQUAL(number, 4), LOAD(ARG(i)), IF_EQUAL(value, 1), END(SECCOMP_RET_ALLOW), \
        END(SECCOMP_RET_KILL_PROCESS)
#define ALLOW_IF_BOTH(number, i, a, j, b)                                            \
    IF_EQUAL(number, 6), LOAD(ARG(i)), IF_EQUAL(a, 3), LOAD(ARG(j)), IF_EQUAL(b, 1), \
        END(SECCOMP_RET_ALLOW), END(SECCOMP_RET_KILL_PROCESS)

#endif
