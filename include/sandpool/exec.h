/* exec.h - commands in a box, for programs that wait for them. Every call here blocks.
 *
 * The object is one connection and carries one call at a time: a program that follows one command while
 * it writes to another uses two. */
#ifndef SANDPOOL_EXEC_H
#define SANDPOOL_EXEC_H

#include "sandpool/box.h"

#define SP_NO_TIMEOUT UINT64_MAX

enum { SP_JOB_SIZE = 24, SP_SIGNAL_SIZE = 16 };

/* How a command ended. Only SP_OUTCOME_EXITED has an exit code. */
enum sp_outcome {
    SP_OUTCOME_EXITED,
    SP_OUTCOME_SIGNALLED,
    SP_OUTCOME_TIMED_OUT,
    SP_OUTCOME_KILLED, /* by request */
    SP_OUTCOME_OOM,    /* the box ran out of memory */
    /* The end was not seen: the box died or was removed, */
    SP_OUTCOME_SANDBOX_LOST,
    /* or it may live, but its answers do not arrive. The command may still run. */
    SP_OUTCOME_TRANSPORT_LOST,
    SP_OUTCOME_COUNT
};

/* "timed_out" */
const char *sp_outcome_name(enum sp_outcome outcome);

/* Strings are UTF-8; NULL, 0 and false are the defaults. */
struct sp_exec {
    /* Exactly one of the two. */
    const char *command;     /* for the box's shell */
    const char *const *argv; /* a program and its arguments, ends with NULL */
    const char *cwd;         /* NULL: the box's choice */
    const char *user;        /* NULL: the box's user */
    const char *tag;         /* to find the job by */
    const struct sp_env *envs;
    size_t env_count;
    const void *input; /* of sp_exec(), 4 MiB at most; NULL: none */
    size_t input_len;
    bool want_input;     /* of sp_job_start(): the input stays open for sp_job_write() */
    uint64_t timeout_ms; /* 0: a minute, of sp_job_start() none; SP_NO_TIMEOUT: none */
    /* Ends the command when this connection breaks. Without it the command goes on, and its output is followed again. */
    bool want_kill_on_disconnect;
    size_t max_output; /* bytes of each stream in the result; 0: 1 MiB */
    /* Get the output as it comes; return false to end the command. */
    bool (*on_stdout)(void *ctx, const char *data, size_t len);
    bool (*on_stderr)(void *ctx, const char *data, size_t len);
    void *ctx;
};

struct sp_exec_result {
    enum sp_outcome outcome;
    int exit_code;               /* -1 unless it exited */
    char signal[SP_SIGNAL_SIZE]; /* "SIGKILL" when one ended it, else "" */
    char job[SP_JOB_SIZE];       /* "" when it is not known */
    /* The first and the last half of max_output when there was more. NUL-terminated, freed by sp_exec_result_fini(). */
    char *out;
    size_t out_len;
    char *err;
    size_t err_len;
    bool is_truncated;  /* not everything is in `out` and `err` */
    uint64_t out_bytes; /* that the command wrote */
    uint64_t err_bytes;
    uint64_t duration_ms;
};

/* Runs a command and waits for its end. A negative code: it was not started. SP_OK: see `outcome`; `failure` is filled, too, when
 * that is SP_OUTCOME_SANDBOX_LOST or SP_OUTCOME_TRANSPORT_LOST. A connection that breaks is made again for about a minute, as for a daemon that
 * restarts, and the output goes on where it ended. */
int sp_exec(struct sp_box *b, const struct sp_exec *e, struct sp_exec_result *ret,
            struct sp_failure *failure);
/* Also of a result that was zeroed and never filled. */
void sp_exec_result_fini(struct sp_exec_result *r);

/* --- jobs: commands that nobody waits for, or that get input while they run --- */

int sp_job_start(struct sp_box *b, const struct sp_exec *e, char ret_job[SP_JOB_SIZE],
                 struct sp_failure *failure);
/* From the beginning of its output, as far as that is kept, to its end; as sp_exec(). Of `e` max_output and the callbacks
 * count; may be NULL. */
int sp_job_follow(struct sp_box *b, const char *job, const struct sp_exec *e,
                  struct sp_exec_result *ret, struct sp_failure *failure);
/* Waits while the command does not read. is_end: nothing follows. SP_JOB_ENDED when it takes no more. */
int sp_job_write(struct sp_box *b, const char *job, const void *data, size_t len, bool is_end,
                 struct sp_failure *failure);
/* "INT" */
int sp_job_signal(struct sp_box *b, const char *job, const char *signal,
                  struct sp_failure *failure);
/* Ends it with all that it started, and waits for that. SP_OK, too, when it had ended. */
int sp_job_kill(struct sp_box *b, const char *job, struct sp_failure *failure);

#endif
