/* exec_answer.c - head, stdout, stderr and tail of an answer, in this order. */
#include "agent/own/exec_answer.h"

#include <string.h>

/* Each stream is opened, its ranges are written, and it is closed. */
enum step { STEP_HEAD, STEP_STDOUT, STEP_STDERR, STEP_TAIL, STEP_OVER };

/* The kept bytes that begin at 0, and those that end at the end, at most `half` of each. */
static void choose_ends(const struct output *o, uint64_t half, struct exec_range *ranges)
{
    uint64_t whole = output_seek(o, o->head.len) == o->head.len ? o->end : o->head.len;

    ranges[0] = (struct exec_range){.at = 0, .until = MIN_OF(whole, half)};
    ranges[1] = (struct exec_range){.at = o->end - MIN_OF(half, o->end), .until = o->end};
    ranges[1].at = output_seek(o, MAX_OF(ranges[1].at, ranges[0].until));
}

static void choose(struct exec_answer *a, unsigned stream, uint64_t max_output)
{
    const struct output *o = &a->process->streams[stream].output;
    struct exec_range *ranges = a->ranges[stream];
    bool is_kept = output_seek(o, o->head.len) == o->head.len;

    if (o->end <= max_output && is_kept) {
        ranges[0] = (struct exec_range){.at = 0, .until = o->end};
        ranges[1] = (struct exec_range){.at = o->end, .until = o->end};
        return;
    }
    choose_ends(o, max_output / 2, ranges);
    a->gaps[stream] = (struct exec_range){.at = ranges[0].until, .until = ranges[1].at};
    a->is_truncated = true;
}

void exec_answer_init(struct exec_answer *a, const struct process *p, uint64_t max_output,
                      bool is_base64)
{
    memset(a, 0, sizeof(*a));
    a->process = p;
    a->is_base64 = is_base64;
    for (unsigned i = 0; i < PROCESS_STREAM_COUNT; i++)
        choose(a, i, max_output);
}

uint64_t exec_answer_size(const struct exec_answer *a)
{
    uint64_t size = 0;

    for (unsigned i = 0; i < PROCESS_STREAM_COUNT; i++)
        for (unsigned k = 0; k < 2; k++)
            size += a->ranges[i][k].until - a->ranges[i][k].at;
    return size;
}

static void put_head(const struct process *p, struct buf *out)
{
    buf_printf(out,
               "{\"job\":\"%llu\",\"outcome\":\"%s\",\"exit_code\":", (unsigned long long) p->id,
               process_outcome_name(p->outcome));
    if (p->outcome == PROCESS_EXITED)
        buf_printf(out, "%d", p->exit_code);
    else
        buf_puts(out, "null");
    if (p->signum != 0)
        buf_printf(out, ",\"signal\":\"%s\"", process_signal_name(p->signum));
    else
        buf_puts(out, ",\"signal\":null");
}

static void put_gap(const char *name, const struct exec_range *gap, struct buf *out)
{
    if (gap->at < gap->until)
        buf_printf(out, ",\"%s\":{\"from\":%llu,\"to\":%llu}", name, (unsigned long long) gap->at,
                   (unsigned long long) gap->until);
    else
        buf_printf(out, ",\"%s\":null", name);
}

static void put_tail(const struct exec_answer *a, struct buf *out)
{
    const struct process *p = a->process;

    if (a->is_truncated) {
        buf_printf(out,
                   ",\"truncated\":true,\"spill\":{\"job\":\"%llu\",\"stdout_bytes\":%llu"
                   ",\"stderr_bytes\":%llu",
                   (unsigned long long) p->id,
                   (unsigned long long) p->streams[PROCESS_STDOUT].output.end,
                   (unsigned long long) p->streams[PROCESS_STDERR].output.end);
        put_gap("stdout_gap", &a->gaps[PROCESS_STDOUT], out);
        put_gap("stderr_gap", &a->gaps[PROCESS_STDERR], out);
        buf_putc(out, '}');
    } else {
        buf_puts(out, ",\"truncated\":false,\"spill\":null");
    }
    buf_printf(out, ",\"duration_ms\":%llu}",
               (unsigned long long) ((p->ended_ns - p->started_ns) / NS_PER_MS));
}

/* False: bytes that are needed next are lost. */
static bool put_piece(struct exec_answer *a, unsigned stream, struct exec_range *range,
                      struct buf *out)
{
    const struct output *o = &a->process->streams[stream].output;
    char piece[EXEC_PIECE];
    size_t n = (size_t) MIN_OF(sizeof(piece), range->until - range->at);

    if (output_seek(o, range->at) != range->at)
        return false;
    n = output_read(o, range->at, piece, n);
    json_text_put(&a->text, piece, n, out);
    range->at += n;
    return n > 0;
}

static bool put_stream(struct exec_answer *a, unsigned stream, struct buf *out)
{
    struct exec_range *ranges = a->ranges[stream];

    if (ranges[0].at < ranges[0].until)
        return put_piece(a, stream, &ranges[0], out);
    if (a->gaps[stream].at < a->gaps[stream].until && ranges[1].at == a->gaps[stream].until)
        json_text_cut(&a->text);
    if (ranges[1].at < ranges[1].until)
        return put_piece(a, stream, &ranges[1], out);
    json_text_end(&a->text, out);
    buf_putc(out, '"');
    a->step++;
    if (a->step == STEP_STDERR) {
        buf_puts(out, ",\"stderr\":\"");
        json_text_init(&a->text, a->is_base64);
    }
    return true;
}

enum exec_progress exec_answer_put(struct exec_answer *a, struct buf *out)
{
    switch ((enum step) a->step) {
    case STEP_HEAD:
        put_head(a->process, out);
        buf_puts(out, ",\"stdout\":\"");
        json_text_init(&a->text, a->is_base64);
        a->step++;
        return EXEC_MORE;
    case STEP_STDOUT:
        return put_stream(a, PROCESS_STDOUT, out) ? EXEC_MORE : EXEC_LOST;
    case STEP_STDERR:
        return put_stream(a, PROCESS_STDERR, out) ? EXEC_MORE : EXEC_LOST;
    case STEP_TAIL:
        put_tail(a, out);
        a->step++;
        return EXEC_DONE;
    case STEP_OVER:
        break;
    }
    return EXEC_DONE;
}
