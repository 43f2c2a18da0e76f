/* follow.c - output and state of a command, asked for again and again. A question waits in the box for something new; where it
 * does not, and nothing is new, there is a pause before the next. */
#include <string.h>

#include "base/str.h"
#include "box/aio/run.h"

#define WAIT_S 10
#define BLIND_WAIT_S \
    2 /* whether a box that is not asked for output answers at the end at once is not known */
#define ASK_NS ((WAIT_S + 20) * NS_PER_S)
#define PAUSE_NS (200 * NS_PER_MS)
#define GRACE_NS \
    (10 * NS_PER_S) /* behind the time limit of the command, which is the box's affair */
#define NO_OUTPUT \
    ((UINT64_C(1) << 53) - 1) /* an offset that no output reaches, and every reader of JSON takes */

static void ask(struct aio_call *c);
static void on_drain(struct http_exchange *ex);

static uint64_t now(const struct aio_call *c)
{
    return rt_now(&c->g.p->config.loop->rt);
}

/* --- what comes --- */

static void take_text(struct aio_call *c, enum aio_stream stream, const char *text)
{
    struct aio_run *r = c->run;
    size_t len = strlen(text);
    uint64_t start = r->at[stream];
    size_t seen = r->from[stream] > start ? (size_t) MIN_OF(r->from[stream] - start, len) : 0;

    r->at[stream] += len;
    if (!r->wants[stream] || seen == len)
        return;
    if (c->g.is_begun)
        buf_append(&r->pending[stream], text + seen, len - seen);
    else
        aio_text_add(&r->texts[stream], text, len);
}

/* Gives the caller what it takes; false: it is behind, and on_drain() goes on. */
static bool pump(struct aio_call *c)
{
    struct aio_run *r = c->run;

    if (c->g.is_begun)
        http_set_drain(c->g.ex, on_drain);
    for (unsigned i = 0; i < AIO_STREAMS; i++) {
        struct buf *b = &r->pending[i];

        while (r->pending_at[i] < b->len && !r->is_full) {
            size_t n = MIN_OF(b->len - r->pending_at[i], (size_t) AIO_PIECE);

            aio_stream_put(c, i, r->at[i] - (b->len - r->pending_at[i]), b->data + r->pending_at[i],
                           n);
            r->pending_at[i] += n;
        }
        if (r->pending_at[i] < b->len)
            return false;
        buf_reset(b);
        r->pending_at[i] = 0;
    }
    return true;
}

/* True: there was something new. */
static bool take_output(struct aio_call *c, const struct json *data)
{
    static const char *const names[] = {"stdout", "stderr"};
    static const char *const offsets[] = {"offset", "stderr_offset"};
    struct aio_run *r = c->run;
    bool is_new = false;

    for (unsigned i = 0; i < AIO_STREAMS && !r->is_blind; i++) {
        const char *text = json_str(json_get(data, names[i]));
        uint64_t cursor;

        if (text == NULL || str_is_empty(text))
            continue;
        if (!json_u64(json_get(data, offsets[i]), &cursor) || cursor <= r->cursor[i])
            continue; /* it would come again and again */
        r->cursor[i] = cursor;
        is_new = true;
        take_text(c, i, text);
    }
    return is_new;
}

/* --- what is next --- */

static void on_pause_over(struct rt_timer *timer)
{
    struct aio_run *r = container_of(timer, struct aio_run, pause);

    ask(r->call);
}

static bool is_late(const struct aio_call *c)
{
    const struct aio_run *r = c->run;

    return r->started_ns > 0 && r->timeout_ns > 0 &&
           now(c) > rt_after(r->started_ns, r->timeout_ns + GRACE_NS);
}

static void go_on(struct aio_call *c, bool is_new)
{
    struct aio_run *r = c->run;
    bool is_over = !is_new && (r->outcome != AIO_RUNNING || !r->want_follow);

    if (is_over || (r->until_ns > 0 && now(c) >= r->until_ns)) {
        r->on_over(c);
    } else if (r->outcome == AIO_RUNNING && is_late(c)) {
        r->want_kill = true;
        aio_fail(c, SP_TIMEOUT,
                 "the sandbox did not end its command at the time limit; it is killed now");
    } else if (is_new || r->outcome != AIO_RUNNING || now(c) - r->asked_ns >= PAUSE_NS) {
        ask(c);
    } else {
        rt_timer_set(&c->g.p->config.loop->rt, &r->pause, rt_after(now(c), PAUSE_NS),
                     on_pause_over);
    }
}

static void on_drain(struct http_exchange *ex)
{
    struct aio_call *c = http_ctx(ex);

    passage_moved(&c->g);
    if (!c->run->is_full)
        return;
    c->run->is_full = false;
    if (pump(c) && !c->run->is_full)
        go_on(c, true);
}

static void on_answer(struct aio_call *c, const struct aio_answer *a)
{
    struct aio_run *r = c->run;
    const struct json *command = json_get(a->data, "command");
    bool is_new;

    if (a->status == 404) {
        aio_fail(c, SP_NOT_FOUND, "no such job, or its sandbox has dropped it");
        return;
    }
    if (!a->is_ok) {
        aio_fail_answer(c, "the output of the command", a);
        return;
    }
    if (!aio_run_take_state(c, command))
        return;
    if (c->g.ex != NULL && r->on_begin != NULL) {
        r->on_begin(c);
        r->on_begin = NULL;
    }
    is_new = take_output(c, a->data);
    if (!is_new && c->g.is_begun && c->g.stream != PROXY_BYTES && r->outcome == AIO_RUNNING)
        aio_stream_keepalive(c);
    if (pump(c) && !r->is_full)
        go_on(c, is_new);
}

/* --- the question --- */

/* More output at once than an answer may have: how it ends is found out all the same. */
static void on_too_big(struct aio_call *c)
{
    struct aio_run *r = c->run;

    if (r->is_blind || (c->g.is_begun && c->g.stream == PROXY_BYTES)) {
        aio_fail(c, SP_BACKEND_FAILED, "the sandbox gives more than %d bytes of output at once",
                 (int) AIO_ANSWER_MAX);
        return;
    }
    if (c->g.is_begun)
        aio_stream_gap(c);
    r->is_blind = true;
    r->is_truncated = true;
    ask(c);
}

static void ask(struct aio_call *c)
{
    struct aio_run *r = c->run;
    bool want_wait = r->outcome == AIO_RUNNING && r->want_follow && r->asked_ns > 0;
    uint64_t left_ns = r->until_ns > now(c) ? r->until_ns - now(c) : 0;
    struct json_out o;

    r->asked_ns = now(c);
    c->on_too_big = on_too_big;
    aio_say_begin(&o);
    json_put_str(&o, "session_id", r->session);
    if (!str_is_empty(r->command_id))
        json_put_str(&o, "command_id", r->command_id);
    json_put_u64(&o, "offset", r->is_blind ? NO_OUTPUT : r->cursor[AIO_STDOUT]);
    json_put_u64(&o, "stderr_offset", r->is_blind ? NO_OUTPUT : r->cursor[AIO_STDERR]);
    json_put_bool(&o, "wait", want_wait);
    json_put_num(&o, "wait_timeout",
                 r->until_ns > 0
                     ? MIN_OF((double) left_ns / (double) NS_PER_S, (double) BLIND_WAIT_S)
                     : (double) (r->is_blind ? BLIND_WAIT_S : WAIT_S));
    aio_say(c, &o);
    aio_ask(c, "POST", "/v1/bash/output", ASK_NS, true, on_answer);
}

void aio_follow(struct aio_call *c, void (*on_over)(struct aio_call *c))
{
    c->run->on_over = on_over;
    c->run->call = c;
    ask(c);
}
