/* run.c - the loop that joins our descriptors to a process in a box, and the process's start. */
#include "cli/run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"

enum { REQUEST_MAX = 8 * 1024 * 1024, ANSWER_MAX = 1024 * 1024, LONGEST_POLL_MS = 60 * 1000 };

uint64_t run_now_ms(void)
{
    struct timespec ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts); /* cannot fail for this clock */
    return (uint64_t) ts.tv_sec * 1000 + (uint64_t) ts.tv_nsec / NS_PER_MS;
}

/* The connection of the start and the end. */
static struct sp_box *box_of(const struct run *r)
{
    return r->streams[RUN_STDOUT].box;
}

static void say(struct run *r, const struct sp_failure *f)
{
    run_terminal_restore(&r->terminal);
    if (r->opened_ms != 0)
        (void) fputc('\n', r->command->cli->err); /* the cursor is where the command left it */
    if (r->command->job != NULL && f->code == SP_NOT_FOUND)
        (void) cli_fail(r->command->cli, f); /* with what to do: the number was typed */
    else
        cli_say(r->command->cli, f);
}

static void end(struct run *r, int status)
{
    r->phase = RUN_OVER;
    r->result.status = status;
}

void run_fail(struct run *r, const struct sp_failure *f)
{
    if (r->phase == RUN_OVER)
        return;
    say(r, f);
    end(r, CLI_RUN_FAILED);
}

/* --- start --- */

bool run_check_env(struct cli *c)
{
    for (unsigned i = 0;; i++) {
        const char *pair = cli_list(&c->args, "env", i);
        size_t len = pair != NULL ? strcspn(pair, "=") : 0;

        if (pair == NULL)
            return true;
        if (len == 0 || len > 255 || pair[len] != '=') {
            (void) cli_fail_usage(c, "--env must be NAME=VALUE, not '%.64s'", pair);
            return false;
        }
    }
}

/* A later one has the same name: the last one counts. */
static bool is_repeated(const struct cli_args *args, unsigned index, const char *pair)
{
    size_t len = strcspn(pair, "=") + 1;

    for (unsigned i = index + 1;; i++) {
        const char *other = cli_list(args, "env", i);

        if (other == NULL)
            return false;
        if (strncmp(other, pair, len) == 0)
            return true;
    }
}

static void put_env(const struct run_command *c, struct json_out *o)
{
    const char *term = c->want_tty ? getenv("TERM") : NULL;

    json_begin_obj(o, "env");
    for (unsigned i = 0; c->args != NULL; i++) {
        const char *pair = cli_list(c->args, "env", i);
        char name[256];

        if (pair == NULL)
            break;
        if (strncmp(pair, "TERM=", 5) == 0)
            term = NULL;
        if (!is_repeated(c->args, i, pair) &&
            str_copy_n(name, sizeof(name), pair, strcspn(pair, "=")))
            json_put_str(o, name, strchr(pair, '=') + 1);
    }
    if (term != NULL)
        json_put_str(o, "TERM", term);
    json_end(o);
}

static void put_size(struct json_out *o)
{
    unsigned cols;
    unsigned rows;

    run_terminal_size(&cols, &rows);
    json_begin_obj(o, "pty");
    json_put_u64(o, "cols", cols);
    json_put_u64(o, "rows", rows);
    json_end(o);
}

void run_encode(const struct run_command *c, bool has_stdin, struct buf *out)
{
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_begin_arr(&o, "argv");
    for (unsigned i = 0; i < c->argc; i++)
        json_put_str(&o, NULL, c->argv[i]);
    json_end(&o);
    put_env(c, &o);
    if (c->cwd != NULL)
        json_put_str(&o, "cwd", c->cwd);
    if (c->user != NULL)
        json_put_str(&o, "user", c->user);
    if (has_stdin)
        json_put_bool(&o, "stdin", true);
    if (c->timeout_ms > 0)
        json_put_num(&o, "timeout_s", (double) c->timeout_ms / 1000);
    if (c->want_tty)
        put_size(&o);
    json_end(&o);
    json_out_finish(&o, out);
}

static void start(struct run *r)
{
    struct sp_box_call call = {.method = "POST", .target = "/jobs"};
    struct sp_failure f = {.code = SP_BAD_REQUEST};
    struct buf body;

    for (unsigned i = 0; i < r->command->argc; i++) {
        if (!str_is_utf8(r->command->argv[i], strlen(r->command->argv[i]))) {
            (void) snprintf(f.message, sizeof(f.message),
                            "argument %u of the command is not valid UTF-8", i);
            run_fail(r, &f);
            return;
        }
    }
    buf_init(&body, REQUEST_MAX);
    run_encode(r->command, r->input.is_open, &body);
    call.body = buf_str(&body);
    call.len = body.len;
    /* The time of the command is over also when it could not begin. */
    r->call_deadline_ms =
        run_now_ms() + MIN_OF((uint64_t) RUN_CALL_MS,
                              r->command->timeout_ms > 0 ? r->command->timeout_ms : UINT64_MAX);
    if (sp_box_begin(box_of(r), &call, &f) != SP_OK)
        run_fail(r, &f);
    buf_fini(&body);
}

static void begin_following(struct run *r)
{
    const char *text = sp_box_answer(box_of(r));
    struct json_doc *doc = json_parse(text, strlen(text), ANSWER_MAX, NULL);
    const char *id = json_str(json_get(json_root(doc), "job"));
    struct sp_failure f = {.code = SP_PROTOCOL,
                           .message = "the agent of the box has another version"};
    uint64_t now_ms = run_now_ms();
    uint64_t number;

    if (id == NULL || !str_parse_u64(id, 1, UINT64_MAX, &number) ||
        !str_copy(r->id, sizeof(r->id), id)) {
        run_fail(r, &f);
    } else {
        r->phase = RUN_FOLLOWING;
        if (r->command->timeout_ms > 0)
            r->give_up_ms = now_ms + r->command->timeout_ms + RUN_GRACE_MS;
        if (r->command->want_tty)
            run_attach_begin(r);
        else
            run_output_follow(r);
    }
    (void) json_doc_free(doc);
}

static int refusal_status(const struct sp_failure *f)
{
    if (f->code == SP_PROGRAM_NOT_FOUND)
        return CLI_RUN_UNKNOWN;
    if (f->code == SP_PROGRAM_NOT_EXECUTABLE)
        return CLI_RUN_CANNOT;
    return CLI_RUN_FAILED;
}

static void step_start(struct run *r)
{
    struct sp_failure f;
    int code = sp_box_step(box_of(r), &f);

    if (code == SP_OK && sp_box_is_busy(box_of(r)))
        return;
    if (code == SP_OK) {
        begin_following(r);
        return;
    }
    if (f.http_status != 0)
        r->result.may_run = false; /* it was refused */
    run_fail(r, &f);
    r->result.status = refusal_status(&f);
}

/* --- the loop --- */

static void take_signals(struct run *r)
{
    for (;;) {
        int signum = run_signals_next(r->command->signal_fd);

        if (signum == 0)
            return;
        if (signum == SIGWINCH) {
            r->want_resize = r->command->want_tty;
            continue;
        }
        if (r->command->job != NULL) { /* it is not ours */
            end(r, 128 + signum);
            return;
        }
        r->interrupts += signum == SIGINT;
        r->signals |= 1ULL << signum;
        if (r->interrupts > 1 || r->phase == RUN_ASKING || r->phase == RUN_FLUSHING) {
            end(r, 128 + signum);
            return;
        }
    }
}

static bool waits_for_answer(const struct run *r)
{
    return r->phase == RUN_STARTING || r->phase == RUN_ASKING || r->call != RUN_NO_CALL ||
           (r->attach != NULL && !run_attach_is_open(r));
}

static void look_at_clocks(struct run *r, uint64_t now_ms)
{
    struct sp_failure f = {.code = SP_TIMEOUT,
                           .message = "the box does not answer; 'sandpool get' shows its state"};

    if (r->phase == RUN_FOLLOWING && now_ms >= r->give_up_ms) {
        str_copy_cut(f.message, sizeof(f.message),
                     "the command's time is over and the box cannot end it");
        say(r, &f);
        end(r, CLI_RUN_TIMEOUT);
    } else if (waits_for_answer(r) && now_ms >= r->call_deadline_ms) {
        bool is_late = r->phase == RUN_STARTING && r->command->timeout_ms > 0;

        run_fail(r, &f);
        if (is_late)
            r->result.status = CLI_RUN_TIMEOUT;
    }
    run_attach_look_at_clock(r, now_ms);
    run_output_retry(r, now_ms);
    if (now_ms >= r->touch_ms && r->command->touch != NULL) {
        r->touch_ms = now_ms + RUN_TOUCH_MS;
        r->command->touch(r->command->ctx);
    }
}

static int wait_ms(const struct run *r, uint64_t now_ms)
{
    uint64_t at_ms = MIN_OF(MIN_OF(r->touch_ms, r->give_up_ms), run_attach_due_ms(r));

    for (unsigned i = 0; i < RUN_STREAM_COUNT; i++) {
        if (r->streams[i].retry_ms != 0)
            at_ms = MIN_OF(at_ms, r->streams[i].retry_ms);
    }
    if (waits_for_answer(r))
        at_ms = MIN_OF(at_ms, r->call_deadline_ms);
    else if (!r->command->want_tty && (r->input.piece.len > 0 || r->input.has_end))
        at_ms = MIN_OF(at_ms, r->input.retry_ms);
    return at_ms > now_ms ? (int) MIN_OF(at_ms - now_ms, (uint64_t) LONGEST_POLL_MS) : 0;
}

enum {
    AT_SIGNALS,
    AT_CONTROL,
    AT_STDIN,
    AT_BOXES,
    AT_STREAMS = AT_BOXES + 2,
    AT_COUNT = AT_STREAMS + 2
};

static void poll_box(struct pollfd *p, const struct sp_box *b)
{
    *p = (struct pollfd){.fd = sp_box_fd(b), .events = sp_box_events(b)};
}

static void fill(struct run *r, struct pollfd *p)
{
    for (unsigned i = 0; i < AT_COUNT; i++)
        p[i] = (struct pollfd){.fd = -1};
    p[AT_SIGNALS] = (struct pollfd){.fd = r->command->signal_fd, .events = POLLIN};
    if (r->call != RUN_NO_CALL)
        poll_box(&p[AT_CONTROL], r->control);
    if (run_input_wants(r))
        p[AT_STDIN] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    for (unsigned i = 0; i < RUN_STREAM_COUNT; i++) {
        const struct run_stream *s = &r->streams[i];

        /* One piece at a time: what is not written holds back what is read. */
        if (run_stream_has_pending(s))
            p[AT_STREAMS + i] = (struct pollfd){.fd = s->fd, .events = POLLOUT};
        if (r->attach == NULL && sp_box_is_busy(s->box) &&
            (!run_stream_has_pending(s) || r->phase == RUN_ASKING))
            poll_box(&p[AT_BOXES + i], s->box);
    }
    if (r->attach != NULL && r->phase == RUN_FOLLOWING)
        run_attach_poll(r, &p[AT_BOXES]);
}

static void step_box(struct run *r, struct run_stream *s)
{
    if (r->phase == RUN_STARTING)
        step_start(r);
    else if (r->phase == RUN_FOLLOWING && r->attach != NULL)
        run_attach_step(r);
    else if (r->phase == RUN_FOLLOWING)
        run_output_step(r, s);
    else if (r->phase == RUN_ASKING)
        run_output_ask_step(r);
}

static void dispatch(struct run *r, const struct pollfd *p)
{
    if (p[AT_SIGNALS].revents != 0)
        take_signals(r);
    for (unsigned i = 0; i < RUN_STREAM_COUNT && r->phase != RUN_OVER; i++) {
        if (p[AT_STREAMS + i].revents != 0)
            run_stream_write(r, &r->streams[i]);
    }
    if (p[AT_CONTROL].revents != 0 && r->phase != RUN_OVER)
        run_control_step(r);
    if (p[AT_STDIN].revents != 0 && r->phase != RUN_OVER)
        run_input_read(r);
    for (unsigned i = 0; i < RUN_STREAM_COUNT; i++) {
        if (p[AT_BOXES + i].revents != 0)
            step_box(r, &r->streams[i]);
    }
}

static void loop(struct run *r)
{
    while (r->phase != RUN_OVER) {
        uint64_t now_ms = run_now_ms();
        struct pollfd p[AT_COUNT];

        if (r->phase == RUN_FLUSHING && run_output_is_written(r)) {
            run_output_finish(r);
            return;
        }
        look_at_clocks(r, now_ms);
        run_control_next(r, now_ms);
        if (r->phase == RUN_OVER)
            return;
        fill(r, p);
        if (poll(p, AT_COUNT, wait_ms(r, now_ms)) > 0)
            dispatch(r, p);
    }
}

static void kill_command(struct run *r)
{
    char target[96];
    struct sp_box_call call = {.method = "DELETE", .target = target};

    (void) snprintf(target, sizeof(target), "/jobs/%s", r->id);
    /* Asked for, not waited for: the agent takes its time between TERM and KILL. */
    if (sp_box_begin(r->control, &call, NULL) == SP_OK)
        (void) sp_box_wait(r->control, 200, NULL);
}

/* A signal that came while we waited for the box ends it before it begins. */
static void begin(struct run *r)
{
    take_signals(r);
    if (r->phase == RUN_STARTING && r->signals != 0)
        end(r, 128 + __builtin_ctzll(r->signals));
    if (r->phase != RUN_STARTING)
        return;
    if (r->command->job == NULL) {
        start(r);
    } else {
        str_copy_cut(r->id, sizeof(r->id), r->command->job);
        r->phase = RUN_FOLLOWING;
        run_output_follow(r);
    }
}

static int open_boxes(struct run *r, struct sp_failure *f)
{
    const struct run_place *p = r->place;
    struct sp_box **boxes[] = {&r->streams[RUN_STDOUT].box, &r->streams[RUN_STDERR].box,
                               &r->control};

    for (size_t i = 0; i < ARRAY_LEN(boxes); i++) {
        *boxes[i] = p->client != NULL ? sp_box_new(p->client, p->sandbox_id)
                                      : sp_box_new_direct(p->lease, f);
        if (*boxes[i] == NULL)
            return f->code;
    }
    return SP_OK;
}

void run_in_box(const struct run_place *place, const struct run_command *command,
                struct run_result *ret)
{
    uint64_t now_ms = run_now_ms();
    struct run r = {.command = command,
                    .place = place,
                    .touch_ms = command->touch != NULL ? now_ms + RUN_TOUCH_MS : UINT64_MAX,
                    .give_up_ms = UINT64_MAX,
                    .result = {.may_run = true}};
    struct sp_failure f = {0};

    run_input_init(&r);
    run_output_init(&r);
    r.want_raw = command->want_tty && r.input.is_open;
    if (open_boxes(&r, &f) != SP_OK)
        run_fail(&r, &f);
    else
        begin(&r);
    if (r.want_raw)
        run_terminal_make_raw(&r.terminal);
    loop(&r);
    run_terminal_restore(&r.terminal);
    if (r.result.may_run && command->is_kept && command->job == NULL && !str_is_empty(r.id))
        kill_command(&r);
    *ret = r.result;
    run_attach_end(&r);
    sp_box_free(r.control);
    run_output_fini(&r);
    run_input_fini(&r);
}
