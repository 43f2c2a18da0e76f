/* run.h - one command in one box: our input, output and signals joined to a process there, on one
 * poll(2) loop.
 *
 *   RUN_STARTING --> RUN_FOLLOWING --all output came--> RUN_ASKING --> RUN_FLUSHING --> RUN_OVER
 *                          +-----------with a terminal, its end too-----------^
 *
 * A terminal is one connection for everything (run_attach.c). Without one standard output and standard error have a
 * connection each, so that a reader that waits for one of them is not held up by the other, and a third is for calls.
 * Any failure, and a second SIGINT, leads to RUN_OVER at once. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include <poll.h>
#include <termios.h>

#include "cli/cli.h"
#include "sandpool/box.h"

/* Where it runs: exactly one of the two. */
struct run_place {
    const struct sp_lease *lease;   /* straight to its agent */
    const struct sp_client *client; /* or through the daemon, */
    const char *sandbox_id;         /* to this box */
};

struct run_command {
    const char *job;  /* NULL: it is started; else only the output of this job is shown, */
    bool want_follow; /* as it comes, or what there is so far */
    const char *const *argv;
    unsigned argc;
    const struct cli_args *args; /* its list `env`; NULL: none */
    const char *cwd;             /* NULL: the box's choice */
    const char *user;            /* NULL: the box's choice */
    uint64_t timeout_ms;         /* 0: none */
    bool want_tty;
    bool want_stdin;
    bool is_kept;  /* the box lives on: the command must not */
    int signal_fd; /* of run_signals_open() */
    struct cli *cli;
    /* Called every RUN_TOUCH_MS while the command runs, so that the box does not count as idle; may be NULL. */
    void (*touch)(void *ctx);
    void *ctx;
};

struct run_result {
    int status;   /* what to exit with */
    bool may_run; /* the command may still run in the box */
};

/* --- run.c --- */

enum {
    RUN_TOUCH_MS = 20 * 1000,
    RUN_CALL_MS = 15 * 1000, /* for a call that should be answered at once */
    RUN_GRACE_MS =
        5 * 1000, /* after the command's timeout, for the agent to end it: it waits 2 s */
};

/* False, and the reason is printed: an --env of the command line is not NAME=VALUE. */
bool run_check_env(struct cli *c);
void run_in_box(const struct run_place *place, const struct run_command *command,
                struct run_result *ret);

/* The body of the call that starts it. */
void run_encode(const struct run_command *c, bool has_stdin, struct buf *out);

/* --- run_signals.c --- */

/* Blocks the signals that are passed on and returns a descriptor that reads them; -1, and the reason is printed.
 * Signals that were ignored stay ignored. */
MUST_CHECK int run_signals_open(const struct cli *c);
/* The next one that has come, 0 for none. */
int run_signals_next(int fd);
/* "INT" */
const char *run_signal_name(int signum);
/* "SIGKILL", as the agent names what ended a command, or "SIG34"; SIGTERM for what is not known. */
int run_signal_number(const char *name);

/* --- run_terminal.c --- */

struct run_terminal {
    bool is_raw;
    struct termios before;
};

void run_terminal_make_raw(struct run_terminal *t);
void run_terminal_restore(struct run_terminal *t);
/* Of our terminal; 80 by 24 when there is none. */
void run_terminal_size(unsigned *ret_cols, unsigned *ret_rows);

/* --- the rest is shared by run.c, run_attach.c, run_output.c and run_input.c --- */

enum run_phase { RUN_STARTING, RUN_FOLLOWING, RUN_ASKING, RUN_FLUSHING, RUN_OVER, RUN_PHASE_COUNT };
enum { RUN_STDOUT, RUN_STDERR, RUN_STREAM_COUNT };
enum run_call { RUN_NO_CALL, RUN_SIGNAL, RUN_STDIN, RUN_CALL_COUNT };

/* One of our outputs. */
struct run_stream {
    struct sp_box *box; /* where it comes from; stdout's is used for the start and the end, too */
    int fd;
    bool is_closed;    /* nobody reads it any more: the rest is dropped */
    bool is_ready;     /* takes any amount at any time: a file */
    bool is_new;       /* the answer's first byte is still to come */
    bool has_ended;    /* all has come */
    unsigned retries;  /* since it last brought something */
    uint64_t retry_ms; /* when to follow it again; 0: it is being followed, or has ended */
    uint64_t offset;   /* of the next byte that the agent sends */
    uint64_t lost;
    struct buf pending; /* to be written, from `written` on */
    size_t written;
};

struct run_input {
    bool is_open; /* more may be read */
    bool has_end; /* the end was read and must be sent */
    struct buf piece;
    uint64_t retry_ms; /* not before; the command does not read */
    uint64_t pause_ms;
};

struct run {
    const struct run_command *command;
    const struct run_place *place;
    enum run_phase phase;
    struct run_result result;
    char id[24];
    struct sp_box *control;
    struct sp_attach *attach; /* of a terminal; NULL: not connected */
    uint64_t came_ms;         /* when something came there */
    uint64_t opened_ms;       /* when it was accepted last; 0: never */
    uint64_t ping_ms;
    struct run_stream streams[RUN_STREAM_COUNT];
    struct run_input input;
    enum run_call call;
    uint64_t call_deadline_ms;
    uint64_t signals; /* bits of those to pass on */
    bool want_resize;
    unsigned interrupts;
    bool is_oom;
    bool is_late; /* it was ended by our --timeout */
    uint64_t touch_ms;
    uint64_t give_up_ms; /* UINT64_MAX: never */
    struct run_terminal terminal;
    bool want_raw; /* our terminal while the command has it */
};

uint64_t run_now_ms(void);
/* Ends it: sandpool itself failed. The command may still run. */
void run_fail(struct run *r, const struct sp_failure *f);

/* --- run_output.c --- */

void run_output_init(struct run *r);
void run_output_fini(struct run *r);
/* Begins to follow the output from where we are. */
void run_output_follow(struct run *r);
void run_output_step(struct run *r, struct run_stream *s);
/* Follows again what broke, when its time has come. */
void run_output_retry(struct run *r, uint64_t now_ms);
void run_output_ask_step(struct run *r);
/* The command's end, as the agent reports it. */
void run_output_take_end(struct run *r, const char *text);
/* A reader that pauses for long is cut off, and one that is overtaken; a daemon may restart. False: it has no use. */
bool run_stream_try_again(struct run *r, struct run_stream *s, int code);
bool run_output_is_written(const struct run *r);
/* All is over and written: what there is to say about it. */
void run_output_finish(struct run *r);
bool run_stream_has_pending(const struct run_stream *s);
/* Writes what goes now; the descriptor was polled. */
void run_stream_write(struct run *r, struct run_stream *s);

/* --- run_attach.c --- */

/* Connects, to continue where we are. */
void run_attach_begin(struct run *r);
void run_attach_end(struct run *r);
bool run_attach_is_open(const struct run *r);
/* While there is a connection: what to poll for, and what to do then. */
void run_attach_poll(struct run *r, struct pollfd *p);
void run_attach_step(struct run *r);
uint64_t run_attach_due_ms(const struct run *r);
void run_attach_look_at_clock(struct run *r, uint64_t now_ms);
/* False: it cannot be sent there now. */
bool run_attach_signal(struct run *r, int signum);
/* Passes on what was read, and the size of our window. */
void run_attach_send(struct run *r);

/* --- run_input.c: our input, signals and window changes, one call at a time --- */

void run_input_init(struct run *r);
void run_input_fini(struct run *r);
bool run_input_wants(const struct run *r);
void run_input_read(struct run *r);
/* Begins the next call when none is under way. */
void run_control_next(struct run *r, uint64_t now_ms);
void run_control_step(struct run *r);

#endif
