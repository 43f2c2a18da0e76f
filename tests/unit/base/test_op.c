/* The contract of operations, in random walks: whatever is started, cancelled or timed out, in
 * whatever order, completes exactly once, never from inside a call, with the truth as its result. */
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/op.h"
#include "base/rand.h"
#include "tests/lib/unit.h"

/* How the work behind an op behaves. */
enum work_kind {
    WORK_FINISHES_IN_START,
    WORK_FINISHES_LATER,
    WORK_STOPS_AT_ONCE,   /* on_cancel finishes it */
    WORK_STOPS_LATER,     /* on_cancel only asks; the end comes with the timer */
    WORK_CANNOT_STOP,     /* no on_cancel */
    WORK_SUCCEEDS_ANYHOW, /* the cancel comes too late */
    WORK_KIND_COUNT,
};

struct job {
    struct op op;
    struct fixture *w;
    enum work_kind kind;
    int outcome; /* what the work itself comes to */
    struct rt_timer work;
    unsigned done;
    bool was_stopped;
    int expect_cause;
};

struct fixture {
    struct rt rt;
    struct list owner;
    struct rand rand;
    bool is_calling;
    unsigned completed;
};

static void init_fixture(struct fixture *w, uint64_t seed)
{
    memset(w, 0, sizeof(*w));
    rt_init_fake(&w->rt, 0, 0);
    list_init(&w->owner);
    rand_seed(&w->rand, seed);
}

static void work_ends(struct job *j, int result)
{
    struct err err;

    rt_timer_cancel(&j->w->rt, &j->work);
    (void) err_set(&err, result, "the work's own words");
    op_finish(&j->op, result, rand_below(&j->w->rand, 2) == 0 ? &err : NULL);
}

static void on_work_time(struct rt_timer *timer)
{
    struct job *j = container_of(timer, struct job, work);

    work_ends(j, j->outcome);
}

static void on_cancel(struct op *op)
{
    struct job *j = container_of(op, struct job, op);

    assert_false(j->was_stopped); /* asked once, however often it is cancelled */
    j->was_stopped = true;
    assert_int_equal(op->state, OP_CANCELING);
    if (j->kind == WORK_STOPS_AT_ONCE)
        work_ends(j, SP_CANCELLED);
    else if (j->kind == WORK_SUCCEEDS_ANYHOW)
        work_ends(j, SP_OK);
    else if (j->kind == WORK_STOPS_LATER)
        j->outcome = SP_IO; /* torn down, and reports so when it is done */
}

static void on_done(struct op *op)
{
    struct job *j = container_of(op, struct job, op);
    struct fixture *w = j->w;

    assert_false(w->is_calling);
    assert_int_equal(op->state, OP_IDLE);
    assert_false(list_is_linked(&op->link));
    assert_false(heap_has(&op->deadline.node));
    assert_false(list_is_linked(&op->finish.link));
    j->done++;
    assert_int_equal(j->done, 1);
    w->completed++;
    if (j->kind == WORK_SUCCEEDS_ANYHOW || op->result == SP_OK) {
        assert_int_equal(op->result, SP_OK); /* truth wins */
    } else {
        if (op->cause != SP_OK)
            assert_int_equal(op->result, op->cause); /* the first cause wins */
        else
            assert_int_equal(op->result, j->outcome);
        assert_int_equal(op->err.code, op->result);
        assert_true(op->err.msg[0] != '\0');
    }
    if (j->expect_cause != SP_OK)
        assert_int_equal(op->cause, j->expect_cause);
    memset(op, 0xa5, sizeof(*op)); /* the op layer must not touch it again */
}

static void start_job(struct fixture *w, struct job *j)
{
    uint64_t now_ns = rt_now(&w->rt);
    uint64_t deadline_ns =
        rand_below(&w->rand, 3) == 0 ? RT_NEVER : now_ns + rand_below(&w->rand, 30);

    memset(j, 0, sizeof(*j));
    j->w = w;
    j->kind = (enum work_kind) rand_below(&w->rand, WORK_KIND_COUNT);
    j->outcome = rand_below(&w->rand, 3) == 0 ? SP_BACKEND_FAILED : SP_OK;
    if (j->kind == WORK_SUCCEEDS_ANYHOW)
        j->outcome = SP_OK;
    w->is_calling = true;
    op_begin(&j->op, &w->rt, rand_below(&w->rand, 4) == 0 ? NULL : &w->owner, deadline_ns,
             j->kind == WORK_CANNOT_STOP ? NULL : on_cancel, on_done);
    assert_true(op_is_active(&j->op));
    if (j->kind == WORK_FINISHES_IN_START)
        work_ends(j, j->outcome);
    else
        rt_timer_set(&w->rt, &j->work, now_ns + rand_below(&w->rand, 30), on_work_time);
    w->is_calling = false;
}

static void cancel_job(struct fixture *w, struct job *j)
{
    w->is_calling = true;
    op_cancel(&j->op);
    w->is_calling = false;
}

static void walk(uint64_t seed)
{
    struct job jobs[4] = {0};
    struct fixture w;
    unsigned started = 0;

    init_fixture(&w, seed);
    for (int step = 0; step < 40; step++) {
        struct job *j = &jobs[rand_below(&w.rand, ARRAY_LEN(jobs))];
        bool is_live = j->w != NULL && j->done == 0;

        switch (rand_below(&w.rand, 4)) {
        case 0:
            if (!is_live) {
                start_job(&w, j);
                started++;
            }
            break;
        case 1:
            if (is_live)
                cancel_job(&w, j);
            break;
        case 2:
            if (rand_below(&w.rand, 20) == 0) {
                w.is_calling = true;
                op_cancel_all(&w.owner);
                w.is_calling = false;
            }
            break;
        default:
            rt_advance(&w.rt, rand_below(&w.rand, 10));
            rt_run(&w.rt);
            break;
        }
    }
    rt_advance(&w.rt, 1000);
    rt_run(&w.rt);
    assert_int_equal(w.completed, started);
    assert_true(list_is_empty(&w.owner));
    assert_true(rt_next_deadline(&w.rt) == RT_NEVER);
    rt_fini(&w.rt);
}

static void test_random_walks(void **state)
{
    (void) state;
    for (uint64_t seed = 1; seed <= 20000; seed++)
        walk(seed);
}

/* The first cause wins, and a deadline is SP_TIMEOUT. */
static void test_causes(void **state)
{
    struct fixture w;
    struct job j;

    (void) state;
    for (int is_deadline_first = 0; is_deadline_first < 2; is_deadline_first++) {
        init_fixture(&w, 1);
        memset(&j, 0, sizeof(j));
        j.w = &w;
        j.kind = WORK_STOPS_LATER;
        j.expect_cause = is_deadline_first ? SP_TIMEOUT : SP_CANCELLED;
        op_begin(&j.op, &w.rt, &w.owner, 100, on_cancel, on_done);
        rt_timer_set(&w.rt, &j.work, 300, on_work_time);
        if (!is_deadline_first)
            op_cancel(&j.op);
        rt_advance(&w.rt, 200);
        rt_run(&w.rt);
        op_cancel(&j.op);
        assert_int_equal(j.done, 0);
        rt_advance(&w.rt, 200);
        rt_run(&w.rt);
        assert_int_equal(j.done, 1);
        rt_fini(&w.rt);
    }
}

static void free_on_done(struct op *op)
{
    struct job *j = container_of(op, struct job, op);

    j->w->completed++;
    free(j);
}

static void restart_on_done(struct op *op)
{
    struct job *j = container_of(op, struct job, op);

    j->w->completed++;
    if (j->w->completed < 5) {
        op_begin(op, &j->w->rt, &j->w->owner, RT_NEVER, NULL, restart_on_done);
        op_finish(op, SP_IO, NULL);
    }
}

static void test_free_and_restart_in_on_done(void **state)
{
    struct job *j = calloc(1, sizeof(*j));
    struct job again = {0};
    struct fixture w;

    (void) state;
    assert_non_null(j);
    init_fixture(&w, 1);
    j->w = &w;
    op_begin(&j->op, &w.rt, &w.owner, 50, NULL, free_on_done);
    op_finish(&j->op, SP_OK, NULL);
    rt_run(&w.rt);
    assert_int_equal(w.completed, 1);
    rt_advance(&w.rt, 100); /* the deadline of the freed op must not fire */
    rt_run(&w.rt);
    again.w = &w;
    op_begin(&again.op, &w.rt, &w.owner, RT_NEVER, NULL, restart_on_done);
    op_finish(&again.op, SP_OK, NULL);
    rt_run(&w.rt);
    assert_int_equal(w.completed, 5);
    assert_int_equal(again.op.result, SP_IO);
    assert_int_equal(again.op.err.code, SP_IO); /* a failure always has a sentence */
    rt_fini(&w.rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_walks),
        cmocka_unit_test(test_causes),
        cmocka_unit_test(test_free_and_restart_in_on_done),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
