/* spawn.h - starts one program: its own session and group, its three streams, nothing else open. */
#ifndef AGENT_PROCESS_SPAWN_H
#define AGENT_PROCESS_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/core/identity.h"
#include "agent/core/oom.h"

enum { SPAWN_EXTRA_MAX = 3 };

struct spawn_request {
    const char *const *argv;         /* ends with NULL; argv[0] is looked up in the PATH of `env` */
    const char *const *env;          /* ends with NULL */
    const char *cwd;                 /* NULL: the agent's */
    const struct identity *identity; /* who runs it */
    bool want_stdin;                 /* a pipe; else /dev/null */
    bool want_pty;                   /* one terminal instead of three streams */
    uint16_t cols;
    uint16_t rows;
    uint64_t mark; /* mark.h; 0: none */
    /* The child finds extra[i] (this process's descriptor) as descriptor 3 + i. */
    int extra[SPAWN_EXTRA_MAX];
    unsigned extra_count;
};

/* Our ends: non-blocking, closed on exec; -1 where there is none. A terminal is in `out`, for both
 * directions. */
struct spawn_result {
    pid_t pid;
    int in;
    int out;
    int err;
};

/* Returns when the program runs, or with SP_PROGRAM_NOT_FOUND / _NOT_EXECUTABLE / SP_INVALID_FIELD / SP_IO when it cannot. */
MUST_CHECK int spawn_start(const struct spawn_request *r, const struct oom_score *score,
                           struct spawn_result *ret, struct err *err);
/* Window size of a terminal. */
MUST_CHECK int spawn_resize(int fd, uint16_t cols, uint16_t rows, struct err *err);

#endif
