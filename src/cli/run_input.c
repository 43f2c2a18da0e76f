/* run_input.c - what goes to the command: bytes of our input and signals. One call at a time, signals first; the command's
 * own pace holds back our reading. With a terminal they go the way of run_attach.c. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/run.h"

enum {
    PIECE_MAX = 64 * 1024,
    PAUSE_MIN_MS = 5,
    PAUSE_MAX_MS = 200,
};

/* Nothing will come from there: no descriptor, or the null device. */
static bool is_nothing(int fd)
{
    struct stat st;

    return fstat(fd, &st) != 0 || (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3));
}

void run_input_init(struct run *r)
{
    buf_init(&r->input.piece, PIECE_MAX);
    r->input.pause_ms = PAUSE_MIN_MS;
    r->input.is_open = r->command->want_stdin && !is_nothing(STDIN_FILENO);
}

void run_input_fini(struct run *r)
{
    buf_fini(&r->input.piece);
}

bool run_input_wants(const struct run *r)
{
    return r->phase == RUN_FOLLOWING && r->input.is_open && r->input.piece.len == 0 &&
           (!r->command->want_tty || run_attach_is_open(r));
}

void run_input_read(struct run *r)
{
    struct run_input *in = &r->input;
    ssize_t n;

    if (!buf_reserve(&in->piece, PIECE_MAX - in->piece.len))
        return;
    n = read(STDIN_FILENO, in->piece.data, PIECE_MAX);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) { /* an input that fails has ended, too: a terminal that is gone says EIO */
        in->is_open = false;
        in->has_end = true;
        return;
    }
    in->piece.len = (size_t) n;
}

static void stop_input(struct run_input *in)
{
    in->is_open = false;
    in->has_end = false;
    buf_reset(&in->piece);
}

static void begin(struct run *r, enum run_call kind, const char *what, const void *body, size_t len)
{
    char target[96];
    struct sp_box_call call = {.method = "POST", .target = target, .body = body, .len = len};
    struct sp_failure f;

    (void) snprintf(target, sizeof(target), "/jobs/%s/%s", r->id, what);
    r->call_deadline_ms = run_now_ms() + RUN_CALL_MS;
    r->call = kind;
    if (sp_box_begin(r->control, &call, &f) != SP_OK)
        run_fail(r, &f);
}

static void begin_signal(struct run *r)
{
    char body[48];
    int signum = __builtin_ctzll(r->signals);

    r->signals &= ~(1ULL << signum);
    if (run_attach_signal(r, signum))
        return;
    (void) snprintf(body, sizeof(body), "{\"signal\":\"%s\"}", run_signal_name(signum));
    begin(r, RUN_SIGNAL, "signal", body, strlen(body));
}

void run_control_next(struct run *r, uint64_t now_ms)
{
    const struct run_input *in = &r->input;

    if (r->phase != RUN_FOLLOWING || r->call != RUN_NO_CALL)
        return;
    if (r->signals != 0)
        begin_signal(r);
    else if (r->command->want_tty)
        run_attach_send(r);
    else if ((in->piece.len > 0 || in->has_end) && now_ms >= in->retry_ms)
        begin(r, RUN_STDIN, in->has_end ? "stdin?eof=1" : "stdin", buf_str(&in->piece),
              in->piece.len);
}

static void end_input_call(struct run *r, int code, const struct sp_failure *f)
{
    struct run_input *in = &r->input;

    if (code == SP_OK) {
        in->has_end = false;
        in->pause_ms = PAUSE_MIN_MS;
        buf_reset(&in->piece);
    } else if (code == SP_QUEUE_FULL || code == SP_NO_MEMORY) {
        in->retry_ms = run_now_ms() + in->pause_ms;
        in->pause_ms = MIN_OF(in->pause_ms * 2, (uint64_t) PAUSE_MAX_MS);
    } else if (code == SP_JOB_ENDED || code == SP_NOT_FOUND) {
        stop_input(in); /* the command reads no more */
    } else {
        run_fail(r, f);
    }
}

void run_control_step(struct run *r)
{
    struct sp_failure f;
    int code = sp_box_step(r->control, &f);
    enum run_call call = r->call;

    if (code == SP_OK && sp_box_is_busy(r->control))
        return;
    r->call = RUN_NO_CALL;
    if (call == RUN_STDIN)
        end_input_call(r, code, &f);
    else if (code != SP_OK && f.http_status == 0)
        run_fail(r, &f); /* a refusal is no failure: the command may just have ended */
}
