/* run.h - a command in a session of its own of the box's bash API. A job is such a session: its number is in the session's
 * name, so that the daemon need not remember it.
 *
 * The API gives output from an offset on, as text, with bytes that are no UTF-8 replaced. What its offsets count is its own
 * affair: here they are only given back to it, and our offsets count the bytes of the texts. */
#ifndef BOX_AIO_RUN_H
#define BOX_AIO_RUN_H

#include "box/aio/call.h"
#include "box/aio/text.h"

enum aio_stream { AIO_STDOUT, AIO_STDERR, AIO_STREAMS };

enum {
    AIO_PIECE = 24 * 1024
}; /* of output in an event; a multiple of three: base64 without padding */

enum { AIO_SHOWN_MAX = 1024 }; /* of the text of a command */

enum aio_outcome {
    AIO_RUNNING,
    AIO_EXITED,
    AIO_SIGNALLED,
    AIO_TIMED_OUT,
    AIO_KILLED,
    AIO_OOM,
    AIO_OUTCOME_COUNT
};

struct aio_run {
    uint64_t job;
    char session[AIO_NAME_MAX];
    char command_id[AIO_NAME_MAX]; /* "": the session's last */
    struct buf request;            /* of the command, until its session is there */
    char command[AIO_SHOWN_MAX];   /* as the box shows it; "": not known */
    enum aio_outcome outcome;
    int exit_code;
    int signum;
    uint64_t started_ns; /* by us; 0: before this call */
    uint64_t timeout_ns; /* 0: none */
    /* following */
    uint64_t cursor[AIO_STREAMS]; /* the box's offsets */
    uint64_t at[AIO_STREAMS];     /* bytes of text so far */
    uint64_t from[AIO_STREAMS];   /* those before are not wanted */
    bool wants[AIO_STREAMS];
    bool want_follow;
    struct buf pending[AIO_STREAMS]; /* of a stream: what the caller has not taken yet, */
    size_t pending_at[AIO_STREAMS];  /* from here on */
    bool is_blind;                   /* the output is not asked for */
    bool want_start;                 /* the event of that name */
    bool is_full;                    /* the caller is behind */
    uint64_t asked_ns;
    uint64_t until_ns; /* the caller waits no longer; 0: for ever */
    struct rt_timer pause;
    void (*on_started)(struct aio_call *c, const struct aio_answer *a);
    unsigned wait_s;                    /* of the start */
    struct aio_text texts[AIO_STREAMS]; /* of an answer in one piece */
    bool is_base64;
    bool is_truncated;
    bool is_asked_to_end; /* TERM was sent */
    bool is_killed;       /* KILL was */
    bool want_kill;       /* when the caller goes */
    bool want_close;      /* the session, when all is said */
    void (*on_over)(struct aio_call *c);
    void (*on_begin)(struct aio_call *c); /* it is there: once, before its output */
    struct aio_call *call;
};

/* Of a command that begins, with a new number. */
struct aio_run *aio_run_new(struct aio_call *c);
/* Of the job that the path names. */
struct aio_run *aio_run_of_path(struct aio_call *c);
void aio_run_free(struct aio_call *c);

/* command.c */
#define AIO_COMMAND_HEAD "exec </dev/null\n" /* what a command begins with that has no input */
struct aio_command_form {
    const char *const *known; /* fields; ends with NULL */
    unsigned wait_s;          /* the box answers when it has ended, or after this; 0: at once */
    uint64_t max_output;      /* with wait_s */
};
/* Reads the caller's body into the request for the box; false: it has been answered. */
bool aio_command_read(struct aio_call *c, const struct aio_command_form *form);

/* run.c */
/* Makes the session and sends the request; then on_started(), with what the box said. */
void aio_run_start(struct aio_call *c, unsigned wait_s,
                   void (*on_run)(struct aio_call *c, const struct aio_answer *a));
/* What the box says of a command; false: it has been answered. */
bool aio_run_take_state(struct aio_call *c, const struct json *command);
/* The command without what was put before it. */
void aio_run_show_command(const char *text, char ret[AIO_SHOWN_MAX]);
/* Members into the object that is open: how it ended; the job. */
void aio_run_put(struct json_out *o, const struct aio_call *c);
void aio_run_put_job(struct json_out *o, const struct aio_call *c);
void aio_run_reply(struct aio_call *c); /* with the job */
bool aio_run_parse_session(const char *name, uint64_t *ret_job);
/* A signal to it; then on_answer(). */
void aio_run_signal(struct aio_call *c, const char *name,
                    void (*on_answer)(struct aio_call *c, const struct aio_answer *a));
bool aio_run_clean(struct aio_call *c); /* aio_call.clean */

/* follow.c */
/* Asks for output and state, again and again until it has ended or until_ns is over, then on_over(). */
void aio_follow(struct aio_call *c, void (*on_over)(struct aio_call *c));

/* stream.c */
/* Begins an answer that comes as the output does. */
void aio_stream_begin(struct aio_call *c, enum proxy_stream form);
/* A piece that begins at `offset`. */
void aio_stream_put(struct aio_call *c, enum aio_stream stream, uint64_t offset, const char *text,
                    size_t len);
/* More than an answer may have is missing; how much more is not known. */
void aio_stream_gap(struct aio_call *c);
void aio_stream_keepalive(struct aio_call *c);
void aio_stream_end(struct aio_call *c);
/* What the request accepts. */
enum proxy_stream aio_stream_accepted(struct http_exchange *ex);

#endif
