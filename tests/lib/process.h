/* process.h - starts one of our programs for a test and stops it, by its pid. It ends with the test
 * process, whatever happens to that. */
#ifndef TESTS_LIB_PROCESS_H
#define TESTS_LIB_PROCESS_H

#include <sys/types.h>

struct process {
    pid_t pid; /* 0: not running */
    int out_fd;
    char line[256]; /* the first line it printed, without the newline */
};

/* `argv` ends with NULL; argv[0] is the name of a program in the build directory. Returns when it
 * has printed its first line; fails the test after 10 s. */
void process_start(struct process *p, const char *const *argv);
/* The same, but does not wait for a line: to see it fail. */
void process_spawn(struct process *p, const char *const *argv);
/* Sends the signal (0: none) and waits up to 10 s. Returns the exit code, or minus the signal that
 * ended it. */
int process_stop(struct process *p, int signum);

#endif
