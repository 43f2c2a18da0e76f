/* call.h - one native call to a box of the AIO API, and what is said to the box for it: one request after the other, each
 * with a deadline and an answer that is read whole, up to AIO_ANSWER_MAX. Answers of that API are envelopes:
 * {"success", "message", "data"}. */
#ifndef BOX_AIO_CALL_H
#define BOX_AIO_CALL_H

#include "base/json.h"
#include "box/proxy_internal.h"

enum {
    AIO_ANSWER_MAX = 8 * 1024 * 1024,
    AIO_VALUES_MAX = 64 * 1024, /* of an answer: what is long in it are texts */
    AIO_BODY_MAX = 256 * 1024,  /* of a caller that sends JSON */
    AIO_NAME_MAX = 128,         /* of a session, of a command */
    AIO_SCRIPTS_MAX = 3,        /* of one call */
};

struct aio_answer {
    int status;
    bool is_ok;              /* it says that it did what was asked */
    const struct json *data; /* may be NULL */
    const char *message;     /* why not; never NULL */
};

struct aio_call {
    struct passage g; /* the first member: it is freed as one */
    char base[BOX_URL_MAX + 1];
    char authorization[BOX_TOKEN_MAX + 32];
    const char *headers[4];
    struct buf given;     /* the caller's body */
    struct json_doc *doc; /* the same, an object */
    void (*on_given)(struct aio_call *c);
    struct buf path;
    struct buf said; /* the body of the request under way */
    void (*on_answer)(struct aio_call *c, const struct aio_answer *a);
    /* Sees an answer as a whole first; true: it has been dealt with. May be NULL. */
    bool (*on_whole)(struct aio_call *c, const struct json *root);
    /* An answer was too long; NULL: that fails the call. */
    void (*on_too_big)(struct aio_call *c);
    /* The caller has been answered or has gone: says the next thing that is left to be said to the box by aio_ask()
     * and gives true; false: nothing is. NULL: nothing ever. */
    bool (*clean)(struct aio_call *c);
    /* Of scripts: sessions of the box that have to be closed. */
    char sessions[AIO_SCRIPTS_MAX][AIO_NAME_MAX];
    unsigned session_count;
    void (*on_script)(struct aio_call *c, const struct buf *out);
    struct aio_run *run;   /* of commands and jobs (run.h) */
    struct aio_file *file; /* of files (file.h) */
    size_t held;           /* bytes of both bodies, in the sum of the proxy */
    bool want_answer;      /* of the request under way, also when the caller has gone */
    bool is_cleaning;
    bool is_crowded; /* that sum was too much */
};

/* NULL: it has been answered. */
struct aio_call *aio_call_new(struct box_proxy *p, struct http_exchange *ex,
                              const struct box_proxy_limits *limits, const struct box_proxy_to *to);
/* Reads the body of the caller, a JSON object (nothing is an empty one), into c->doc; then on_given(). */
void aio_read_given(struct aio_call *c, void (*on_given)(struct aio_call *c));
/* Begins a body for aio_ask(), an object; end it with json_end() and aio_say(). */
void aio_say_begin(struct json_out *o);
void aio_say(struct aio_call *c, struct json_out *o);
/* Sends what was said (of a GET nothing). `is_repeatable`: it changes nothing, so it may be sent twice. */
void aio_ask(struct aio_call *c, const char *method, const char *path, uint64_t timeout_ns,
             bool is_repeatable, void (*on_answer)(struct aio_call *c, const struct aio_answer *a));
/* POST with a body that comes in pieces, by httpc_body_write() to c->g.up; its deadline is that something moves. */
void aio_ask_streamed(struct aio_call *c, const char *path, int64_t size,
                      void (*on_drain)(struct httpc_request *up),
                      void (*on_answer)(struct aio_call *c, const struct aio_answer *a));
/* Each answers the caller, unless it has gone or its answer has begun, and ends the call. */
void aio_fail(struct aio_call *c, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
void aio_fail_answer(struct aio_call *c, const char *what, const struct aio_answer *a);
void aio_reply(struct aio_call *c, struct json_out *o);
/* The caller has been answered: what is left is said to the box, then it is freed. */
void aio_end(struct aio_call *c);
static inline struct aio_call *aio_of(struct passage *g)
{
    return container_of(g, struct aio_call, g);
}
void aio_on_gone(void *ctx); /* of http_set_ctx() */

/* script.c */
/* Puts a word that the shell takes as it is. */
void aio_quote(struct buf *out, const char *word);
/* Runs a script of ours by the box's shell; it is in c->said as plain text. Its output is base64, which on_script() gets
 * decoded. One that fails is answered: the last line of its errors is that of a system call. */
void aio_script(struct aio_call *c, void (*on_script)(struct aio_call *c, const struct buf *out));
/* aio_call.clean of calls with scripts. */
bool aio_script_clean(struct aio_call *c);

/* exec.c, jobs.c, file.c, transfer.c: the calls; the route has been found. */
void aio_exec(struct aio_call *c);
void aio_job_start(struct aio_call *c);
void aio_job_list(struct aio_call *c);
void aio_job_get(struct aio_call *c);
void aio_job_end(struct aio_call *c);
void aio_job_wait(struct aio_call *c);
void aio_job_signal(struct aio_call *c);
void aio_job_output(struct aio_call *c);
void aio_file_get(struct aio_call *c);
void aio_file_put(struct aio_call *c);
void aio_file_delete(struct aio_call *c);
void aio_file_stat(struct aio_call *c);
void aio_file_list(struct aio_call *c);
void aio_file_mkdir(struct aio_call *c);
void aio_file_move(struct aio_call *c);
void aio_file_copy(struct aio_call *c);
void aio_port_list(struct aio_call *c);

#endif
