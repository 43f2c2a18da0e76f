/* Programs that wait for those who follow their output: nothing is lost, and nobody waits for ever. And programs that
 * write in small pieces: nobody is woken for each. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "agent/process/follow.h"
#include "tests/lib/unit.h"

#define WAIT_NS (120 * NS_PER_S) /* a busy machine */
#define LINES "1000000"
enum { LINE_COUNT = 1000000, TOTAL = 6888896, WINDOW = 1024 * 1024 };

struct fixture {
    struct loop loop;
    struct signals signals;
    struct process_table table;
    struct identity user;
    bool is_closed;
};

/* One that reads what seq writes, and knows what that is. */
struct reader {
    struct process_watch watch;
    struct process_follower follower;
    uint64_t at[PROCESS_STREAM_COUNT];
    unsigned line;
    char text[16];
    size_t text_at;
    uint64_t lost;
};

static void on_signal(void *ctx, int signum)
{
    struct fixture *f = ctx;

    (void) signum;
    process_table_reap(&f->table);
}

static void on_closed(void *ctx)
{
    struct fixture *f = ctx;

    f->is_closed = true;
}

static void turn(struct fixture *f)
{
    (void) uv_run(&f->loop.uv, UV_RUN_ONCE); /* timers and signals wake it */
}

static void setup(struct fixture *f, const char *dir)
{
    const int signums[] = {SIGCHLD, 0};
    struct err err;

    memset(f, 0, sizeof(*f));
    assert_int_equal(loop_init(&f->loop, &err), SP_OK);
    process_table_init(&f->table, &f->loop, dir);
    f->table.disk.stream_max = WINDOW;
    identity_own(&f->user, "/tmp");
    assert_int_equal(signals_init(&f->signals, &f->loop, signums, on_signal, f, &err), SP_OK);
}

static void teardown(struct fixture *f)
{
    process_table_close(&f->table, on_closed, f);
    while (!f->is_closed)
        turn(f);
    signals_close(&f->signals);
    process_table_fini(&f->table);
    loop_fini(&f->loop);
}

static struct process *start_on(struct fixture *f, const char *script, uint64_t timeout_ns,
                                bool want_pty)
{
    static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    const char *const argv[] = {"sh", "-c", script, NULL};
    struct process_request r = {.spawn = {.argv = argv,
                                          .env = env,
                                          .identity = &f->user,
                                          .want_stdin = !want_pty,
                                          .want_pty = want_pty},
                                .command = script,
                                .timeout_ns = timeout_ns};
    struct process *p = NULL;
    struct err err;

    assert_int_equal(process_start(&f->table, &r, &p, &err), SP_OK);
    return p;
}

static struct process *start(struct fixture *f, const char *script, uint64_t timeout_ns)
{
    return start_on(f, script, timeout_ns, false);
}

static unsigned changes;

/* A timer may have read what there was, before the turn waits for more. */
static void on_change(struct process_watch *w)
{
    changes++;
    uv_stop(&w->process->table->loop->uv);
}

static void reader_begin(struct reader *r, struct process *p)
{
    memset(r, 0, sizeof(*r));
    process_watch(p, &r->watch, on_change);
    process_follow(p, &r->follower, r->at);
}

static void reader_end(struct reader *r)
{
    process_unfollow(&r->follower);
    process_unwatch(&r->watch);
}

static void check_bytes(struct reader *r, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (r->text[r->text_at] == '\0') {
            r->line++;
            (void) snprintf(r->text, sizeof(r->text), "%u\n", r->line);
            r->text_at = 0;
        }
        if (data[i] != r->text[r->text_at])
            fail_msg("wrong byte %zu behind line %u", i, r->line);
        r->text_at++;
    }
}

/* Reads up to `max` bytes of stdout. */
static size_t reader_read(struct reader *r, size_t max)
{
    const struct output *o = &r->watch.process->streams[PROCESS_STDOUT].output;
    uint64_t from = output_seek(o, r->at[PROCESS_STDOUT]);
    char chunk[8192];
    size_t n = output_read(o, from, chunk, MIN_OF(max, sizeof(chunk)));

    r->lost += from - r->at[PROCESS_STDOUT];
    if (r->lost == 0)
        check_bytes(r, chunk, n);
    r->at[PROCESS_STDOUT] = from + n;
    process_followed(&r->follower, r->at);
    return n;
}

static void read_all(struct fixture *f, struct reader *r)
{
    const struct process *p = r->watch.process;

    while (reader_read(r, SIZE_MAX) > 0 || process_is_running(p))
        if (process_is_running(p) && r->at[PROCESS_STDOUT] >= p->streams[PROCESS_STDOUT].output.end)
            turn(f);
}

static void wait_held(struct fixture *f, const struct process *p)
{
    uint64_t until_ns = rt_after(rt_now(&f->loop.rt), WAIT_NS);

    while (!p->streams[PROCESS_STDOUT].is_held) {
        assert_true(process_is_running(p) && rt_now(&f->loop.rt) < until_ns);
        turn(f);
    }
}

static void test_it_waits_for_the_reader(void **state)
{
    struct fixture f;
    struct reader r;
    struct process *p;
    uint64_t end;

    (void) state;
    setup(&f, "/tmp");
    p = start(&f, "seq " LINES, 0);
    reader_begin(&r, p);
    wait_held(&f, p);
    end = p->streams[PROCESS_STDOUT].output.end;
    assert_true(end <= OUTPUT_HEAD_MAX + WINDOW);
    for (unsigned i = 0; i < 64; i++) /* each time a little, which wakes nobody or the program */
        assert_true(reader_read(&r, 100) > 0);
    read_all(&f, &r);
    assert_int_equal(r.at[PROCESS_STDOUT], TOTAL);
    assert_int_equal(r.line, LINE_COUNT);
    assert_int_equal(r.lost, 0);
    assert_int_equal(p->outcome, PROCESS_EXITED);
    reader_end(&r);
    teardown(&f);
}

static void test_without_a_follower_it_runs(void **state)
{
    struct fixture f;
    struct reader r;
    struct process *p;

    (void) state;
    setup(&f, "/tmp");
    p = start(&f, "seq " LINES, 0);
    while (process_is_running(p))
        turn(&f);
    assert_int_equal(p->streams[PROCESS_STDOUT].output.end, TOTAL);
    p = start(&f, "seq " LINES, 0);
    reader_begin(&r, p);
    wait_held(&f, p);
    process_unfollow(&r.follower); /* it goes */
    while (process_is_running(p))
        turn(&f);
    assert_int_equal(p->outcome, PROCESS_EXITED);
    assert_int_equal(p->streams[PROCESS_STDOUT].output.end, TOTAL);
    reader_end(&r);
    teardown(&f);
}

static void test_no_disk(void **state)
{
    struct fixture f;
    struct reader r;
    struct process *p;

    (void) state;
    setup(&f, "/proc/nowhere");
    p = start(&f, "seq 100000; sleep 0.01",
              0); /* the rest of a pipe may be more than memory keeps */
    reader_begin(&r, p);
    wait_held(&f, p);
    read_all(&f, &r);
    assert_int_equal(r.line, 100000);
    assert_int_equal(r.lost, 0);
    reader_end(&r);
    teardown(&f);
}

static void test_a_slow_one_does_not_hold_the_others(void **state)
{
    struct fixture f;
    struct reader slow;
    struct reader fast;
    struct process *p;

    (void) state;
    setup(&f, "/tmp");
    f.table.hold_max_ns = 20 * NS_PER_MS;
    p = start(&f, "seq " LINES, 0);
    reader_begin(&slow, p);
    reader_begin(&fast, p);
    read_all(&f, &fast);
    assert_int_equal(fast.at[PROCESS_STDOUT], TOTAL);
    assert_int_equal(fast.lost, 0);
    assert_true(slow.follower.is_left_behind);
    read_all(&f, &slow);
    assert_true(slow.lost > 0);
    assert_int_equal(slow.at[PROCESS_STDOUT], TOTAL);
    assert_false(slow.follower.is_left_behind);
    reader_end(&slow);
    reader_end(&fast);
    teardown(&f);
}

static void test_one_alone_is_waited_for_and_the_timeout_ends_it(void **state)
{
    struct fixture f;
    struct reader r;
    struct process *p;

    (void) state;
    setup(&f, "/tmp");
    f.table.hold_max_ns = NS_PER_MS;
    f.table.grace_ns = 10 * NS_PER_MS;
    p = start(&f, "seq " LINES "; sleep 300", NS_PER_S);
    reader_begin(&r, p);
    while (process_is_running(p))
        turn(&f);
    assert_int_equal(p->outcome, PROCESS_TIMED_OUT);
    assert_true(p->streams[PROCESS_STDOUT].output.end < 2 * WINDOW);
    read_all(&f, &r);
    assert_int_equal(r.lost, 0); /* what came until then is all there */
    assert_true(r.at[PROCESS_STDOUT] > 0);
    reader_end(&r);
    teardown(&f);
}

/* Only the stream that is followed waits. */
static void test_the_other_stream_goes_on(void **state)
{
    struct fixture f;
    struct reader r;
    struct process *p;

    (void) state;
    setup(&f, "/tmp");
    p = start(&f, "seq " LINES " >&2; seq 10", 0);
    memset(&r, 0, sizeof(r));
    process_watch(p, &r.watch, on_change);
    process_follow(p, &r.follower, (const uint64_t[]){0, FOLLOW_NOT});
    while (process_is_running(p))
        turn(&f);
    assert_int_equal(p->streams[PROCESS_STDERR].output.end, TOTAL);
    read_all(&f, &r);
    assert_int_equal(r.line, 10);
    reader_end(&r);
    teardown(&f);
}

/* At most once in a millisecond, and at the beginning and the end. */
static void test_small_pieces_come_together(void **state)
{
    struct fixture f;
    struct process_watch watch;
    struct process *p;
    uint64_t begin_ns;

    (void) state;
    setup(&f, "/tmp");
    p = start(&f, "i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i + 1)); done", 0);
    changes = 0;
    memset(&watch, 0, sizeof(watch));
    process_watch(p, &watch, on_change);
    begin_ns = rt_now(&f.loop.rt);
    while (process_is_running(p))
        turn(&f);
    assert_int_equal(p->streams[PROCESS_STDOUT].output.end, 108890);
    assert_true(changes <= 16 + (rt_now(&f.loop.rt) - begin_ns) / NS_PER_MS);
    process_unwatch(&watch);
    teardown(&f);
}

/* The fewer bytes, the longer until the next are read; on a terminal not. */
static void test_a_slow_flow_is_read_less_often(void **state)
{
    struct fixture f;
    struct process_stream *s;
    struct process *p;

    (void) state;
    setup(&f, "/tmp");
    /* slow enough on a fast machine, too: thousands of bytes at once are no slow flow */
    p = start(&f, "while :; do i=$((i + 1)); [ $((i % 16)) != 0 ] || echo; done", 0);
    s = &p->streams[PROCESS_STDOUT];
    while (!s->is_resting || s->rest_ns < PROCESS_REST_MAX_NS)
        turn(&f);
    process_kill(p);
    /* all that is written until the end is read, however long it would rest */
    p = start(&f, "i=0; while [ $i -lt 5000 ]; do echo $i; i=$((i + 1)); done", 0);
    while (process_is_running(p))
        turn(&f);
    assert_int_equal(p->streams[PROCESS_STDOUT].output.end, 23890);
    p = start_on(&f, "i=0; while [ $i -lt 5000 ]; do echo $i; i=$((i + 1)); done", 0, true);
    s = &p->streams[PROCESS_STDOUT];
    while (process_is_running(p)) {
        turn(&f);
        assert_true(s->rest_ns <= PROCESS_REST_NS);
    }
    teardown(&f);
}

/* By a part of the time for which it has gone on; what comes after silence is not late for what was before. */
static void test_one_that_goes_on_is_read_later(struct fixture *f)
{
    struct process *p = start(f, "while :; do echo; sleep 0.005; done", 0);
    struct process_stream *s = &p->streams[PROCESS_STDOUT];
    const struct rt *rt = &f->loop.rt;
    const uint64_t age_ns = 40 * PROCESS_STEADY_PART * NS_PER_MS;

    while (s->rest_ns < PROCESS_STEADY_REST_MAX_NS) {
        turn(f);
        /* also after a break, which a slow machine makes */
        if (s->pieces == PROCESS_STEADY && rt_now(rt) - s->flow_ns < age_ns)
            s->flow_ns -= age_ns;
        assert_true(s->rest_ns <= MAX_OF((rt_now(rt) - s->flow_ns) / PROCESS_STEADY_PART,
                                         PROCESS_STEADY_REST_NS));
    }
    assert_int_equal(s->rest_ns, PROCESS_STEADY_REST_MAX_NS);
    process_kill(p);
}

/* Pieces that are too far apart for that are read together only when many have come. */
static void test_a_steady_flow_of_small_pieces(void **state)
{
    struct fixture f;
    struct process_stream *s;
    struct process *p;
    struct err err;

    (void) state;
    setup(&f, "/tmp");
    p = start(&f, "while :; do echo; sleep 0.01; done", 0);
    s = &p->streams[PROCESS_STDOUT];
    while (s->pieces < PROCESS_STEADY) {
        turn(&f);
        assert_true(s->pieces == PROCESS_STEADY || s->rest_ns <= PROCESS_REST_MAX_NS);
    }
    while (!s->is_resting || s->rest_ns < PROCESS_STEADY_REST_NS)
        turn(&f);
    assert_int_equal(process_write(p, "x", 1, &err), SP_OK);
    assert_int_equal(s->pieces, 0);
    process_kill(p);
    test_one_that_goes_on_is_read_later(&f);
    p = start_on(&f, "i=0; while [ $i -lt 60 ]; do echo $i; sleep 0.01; i=$((i + 1)); done", 0,
                 true);
    s = &p->streams[PROCESS_STDOUT];
    while (process_is_running(p)) {
        turn(&f);
        assert_true(s->rest_ns <= PROCESS_REST_NS);
    }
    teardown(&f);
}

static void test_the_answer_to_input_does_not_wait(void **state)
{
    struct fixture f;
    struct process_stream *s;
    struct process *p;
    struct err err;

    (void) state;
    setup(&f, "/tmp");
    p = start(&f, "while :; do echo $i; i=$((i + 1)); done", 0);
    s = &p->streams[PROCESS_STDOUT];
    while (!s->is_resting)
        turn(&f);
    assert_int_equal(process_write(p, "x", 1, &err), SP_OK);
    assert_true(!s->is_resting && uv_is_active((uv_handle_t *) &s->poll));
    process_kill(p);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_waits_for_the_reader),
        cmocka_unit_test(test_without_a_follower_it_runs),
        cmocka_unit_test(test_no_disk),
        cmocka_unit_test(test_a_slow_one_does_not_hold_the_others),
        cmocka_unit_test(test_one_alone_is_waited_for_and_the_timeout_ends_it),
        cmocka_unit_test(test_the_other_stream_goes_on),
        cmocka_unit_test(test_small_pieces_come_together),
        cmocka_unit_test(test_a_slow_flow_is_read_less_often),
        cmocka_unit_test(test_the_answer_to_input_does_not_wait),
        cmocka_unit_test(test_a_steady_flow_of_small_pieces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
