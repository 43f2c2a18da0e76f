/* proc.h - processes: running short ones, and ending those of others without hitting a stranger
 * that has got the same number. */
#ifndef HELPER_PROC_H
#define HELPER_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* The end of what a program wrote, on one line. */
struct proc_tail {
    char text[301];
    size_t len;
};

void proc_tail_add(struct proc_tail *t, const char *data, size_t len);

uint64_t proc_now_ms(void);
void proc_sleep_ms(unsigned ms);

/* To be called in a fresh child: it dies with `parent`, which must be alive still. */
void proc_die_with(pid_t parent);

/* fork() with a pipe between the two, `*ret_in` being the end to read. Less than 0: it failed. */
MUST_CHECK pid_t proc_fork(int *ret_in, int *ret_out, struct err *err);

/* The end of a child that ends with an error number, 0 if all is well. */
MUST_CHECK int proc_await(pid_t pid, const char *what, struct err *err);

/* Runs a program to its end with /dev/null as input; its output is added to `tail`. SP_OK: it ran
 * and *ret_status is its exit status (128 + n: killed by signal n). SP_TIMEOUT: it was killed. */
MUST_CHECK int proc_run(const char *const *argv, unsigned timeout_ms, struct proc_tail *tail,
                        int *ret_status, struct err *err);

/* A file of /proc/<pid> as text, cut at cap; false when there is none. */
bool proc_read(pid_t pid, const char *name, char *text, size_t cap);
/* When it was started, in ticks since boot; 0: no such process. */
uint64_t proc_start_time(pid_t pid);
/* True when it is in a pid namespace below ours, */
bool proc_is_inner(pid_t pid);
/* and when it is the first process there. */
bool proc_is_inner_init(pid_t pid);
/* Kills it and waits for its end; with `start` != 0 only if that is its start time.
 * False when it was not there. */
bool proc_kill(pid_t pid, uint64_t start, unsigned wait_ms);

#endif
