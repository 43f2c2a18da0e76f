/* program.h - starts one of our programs for a test and stops it, by its pid. It dies with the test
 * process, whatever happens to that. */
#ifndef TESTS_UNIT_SIM_PROGRAM_H
#define TESTS_UNIT_SIM_PROGRAM_H

#include <sys/types.h>

struct program {
    pid_t pid; /* 0: not running */
    int out_fd;
    char line[256]; /* the first line it printed, without the newline */
};

/* `argv` ends with NULL; argv[0] is the name of a program in the build directory. Returns when it
 * has printed its first line; fails the test after 10 s. */
void program_start(struct program *p, const char *const *argv);
/* The same, but does not wait for a line: to see it fail. */
void program_spawn(struct program *p, const char *const *argv);
/* Sends the signal (0: none) and waits up to 10 s. Returns the exit code, or minus the signal that
 * ended it. */
int program_stop(struct program *p, int signum);

/* A directory of the test's own; `dst` has room for 64. Removed by program_remove_dir(), which
 * expects nothing but files in it. */
void program_make_dir(char *dst);
void program_remove_dir(const char *dir);

#endif
