/* run_attach.c - a command with a terminal: its output, our input, size and signals on one connection. One that breaks is
 * made again and continues where it was; meanwhile our terminal is as before, so that Ctrl-C ends the waiting. */
#include <string.h>
#include <unistd.h>

#include "cli/run.h"
#include "sandpool/attach.h"

enum {
    SILENCE_MS = 60 * 1000, /* the box says something every 15 s */
    PING_MS = 20 * 1000,    /* while our own output waits: the box wants to hear from us, too */
    STEADY_MS = 10 * 1000,  /* a connection that held so long was a good one */
};

static struct run_stream *stream_of(struct run *r)
{
    return &r->streams[RUN_STDOUT]; /* a terminal is one stream */
}

static void on_output(void *ctx, int number, const char *data, size_t len)
{
    struct run_stream *s = stream_of(ctx);

    (void) number;
    s->retries = 0;
    s->offset += len;
    if (!s->is_closed)
        buf_append(&s->pending, data, len);
}

static void on_gap(void *ctx, int number, uint64_t len)
{
    struct run_stream *s = stream_of(ctx);

    (void) number;
    s->offset += len;
    s->lost += len;
}

/* --- the end of a connection --- */

static void fail_lost(struct run *r, const struct sp_failure *why)
{
    struct sp_failure f = *why;

    if (why->http_status == 0)
        (void) snprintf(f.message, sizeof(f.message),
                        "%.400s; 'sandpool get' shows whether the box lives", why->message);
    run_fail(r, &f);
}

static void lose(struct run *r, const struct sp_failure *f)
{
    struct run_stream *s = stream_of(r);
    bool is_taken = r->attach == NULL || sp_attach_is_taken(r->attach);
    bool was_steady = run_attach_is_open(r) && run_now_ms() - r->opened_ms >= STEADY_MS;

    sp_attach_free(r->attach);
    r->attach = NULL;
    if (was_steady)
        s->retries = 0;
    /* A person sees what is missing and types it again. */
    if ((!is_taken && isatty(STDIN_FILENO) == 0) || !run_stream_try_again(r, s, f->code)) {
        fail_lost(r, f);
        return;
    }
    run_terminal_restore(&r->terminal);
    if (!is_taken)
        (void) fprintf(r->command->cli->err,
                       "\nsandpool: the connection broke; what was typed last may be lost\n");
    else if (s->retries == 2)
        (void) fprintf(r->command->cli->err, "\nsandpool: the connection broke; trying again\n");
}

/* --- the connection --- */

void run_attach_begin(struct run *r)
{
    struct run_stream *s = stream_of(r);
    struct sp_attach_options o = {
        .job = r->id, .offset = s->offset, .on_output = on_output, .on_gap = on_gap, .ctx = r};
    struct sp_failure f;
    uint64_t now_ms = run_now_ms();

    s->retry_ms = 0;
    r->call_deadline_ms = now_ms + RUN_CALL_MS;
    r->came_ms = now_ms;
    r->attach = sp_attach_begin(s->box, &o, &f);
    if (r->attach == NULL)
        lose(r, &f);
}

void run_attach_end(struct run *r)
{
    sp_attach_free(r->attach);
    r->attach = NULL;
}

bool run_attach_is_open(const struct run *r)
{
    return r->attach != NULL && sp_attach_is_open(r->attach);
}

void run_attach_poll(struct run *r, struct pollfd *p)
{
    short events;

    /* One piece at a time: what is not written holds back what is read. */
    sp_attach_pause(r->attach, run_stream_has_pending(stream_of(r)));
    events = sp_attach_events(r->attach);
    if (events != 0) /* else the end of the connection would wake us again and again */
        *p = (struct pollfd){.fd = sp_attach_fd(r->attach), .events = events};
}

static void take_opened(struct run *r)
{
    r->opened_ms = run_now_ms();
    r->ping_ms = r->opened_ms + PING_MS;
    r->want_resize = true; /* it may have changed since the start, or while we were away */
    if (r->want_raw)
        run_terminal_make_raw(&r->terminal);
}

void run_attach_step(struct run *r)
{
    struct sp_failure f = {.code = SP_NO_MEMORY, .message = "no memory for the command's output"};
    bool was_open = run_attach_is_open(r);
    int code = sp_attach_step(r->attach, &f);

    r->came_ms = run_now_ms();
    if (code != SP_OK) {
        lose(r, &f);
        return;
    }
    if (buf_failed(&stream_of(r)->pending)) {
        run_fail(r, &f);
        return;
    }
    if (!was_open && run_attach_is_open(r))
        take_opened(r);
    if (sp_attach_end(r->attach) != NULL)
        run_output_take_end(r, sp_attach_end(r->attach));
}

uint64_t run_attach_due_ms(const struct run *r)
{
    if (!run_attach_is_open(r))
        return UINT64_MAX;
    return run_stream_has_pending(&r->streams[RUN_STDOUT]) ? r->ping_ms : r->came_ms + SILENCE_MS;
}

void run_attach_look_at_clock(struct run *r, uint64_t now_ms)
{
    struct sp_failure f = {.code = SP_IO, .message = "nothing came from the box for a minute"};

    if (now_ms < run_attach_due_ms(r))
        return;
    if (!run_stream_has_pending(stream_of(r))) {
        lose(r, &f);
        return;
    }
    sp_attach_ping(r->attach);
    r->ping_ms = now_ms + PING_MS;
    r->came_ms = now_ms; /* nothing is read meanwhile */
}

/* --- what goes to the command --- */

bool run_attach_signal(struct run *r, int signum)
{
    /* Not behind input that the command does not read. */
    if (!run_attach_is_open(r) || !sp_attach_is_taken(r->attach))
        return false;
    sp_attach_signal(r->attach, run_signal_name(signum));
    return true;
}

void run_attach_send(struct run *r)
{
    struct run_input *in = &r->input;
    unsigned cols;
    unsigned rows;

    if (!run_attach_is_open(r))
        return;
    if (r->want_resize) {
        r->want_resize = false;
        run_terminal_size(&cols, &rows);
        sp_attach_resize(r->attach, cols, rows);
    }
    buf_consume(&in->piece, sp_attach_write(r->attach, in->piece.data, in->piece.len));
    if (in->has_end && in->piece.len == 0) {
        in->has_end = false;
        sp_attach_end_input(r->attach);
    }
}
