/* What all backends share: turns, the table of boxes with the destroys that join one removal, and the end. */
#include <stdlib.h>
#include <string.h>

#include "backend/boxes.h"
#include "backend/gate.h"
#include "base/compiler.h"
#include "tests/lib/unit.h"

struct fixture {
    struct rt rt;
    struct closing closing;
    struct boxes boxes;
    unsigned freed;
    unsigned closed;
    bool is_refusing; /* the owner begins something else instead of being freed */
};

static bool free_owner(struct closing *c)
{
    struct fixture *w = container_of(c, struct fixture, closing);

    if (w->is_refusing)
        return false;
    w->freed++;
    return true;
}

static void on_closed(void *ctx)
{
    ((struct fixture *) ctx)->closed++;
}

static void set_up(struct fixture *w)
{
    memset(w, 0, sizeof(*w));
    rt_init_fake(&w->rt, 0, 0);
    closing_init(&w->closing, &w->rt, free_owner);
    boxes_init(&w->boxes, &w->closing, 16);
}

static void tear_down(struct fixture *w)
{
    boxes_fini(&w->boxes);
    rt_fini(&w->rt);
}

/* --- turns --- */

struct guest {
    struct waiter waiter;
    struct gate *gate;
    struct guest *other;
    unsigned entered;
};

static void on_turn(struct waiter *w)
{
    struct guest *g = container_of(w, struct guest, waiter);

    g->entered++;
}

/* Takes the other one off the list that is being resumed. */
static void on_turn_leaving(struct waiter *w)
{
    struct guest *g = container_of(w, struct guest, waiter);

    g->entered++;
    list_remove(&g->gate->waiting, &g->other->waiter.link);
}

static void test_turns_are_in_order(void **state UNUSED)
{
    struct gate gate;
    struct guest guests[4] = {0};

    gate_init(&gate, 2);
    for (size_t i = 0; i < ARRAY_LEN(guests); i++) {
        guests[i].waiter.resume = on_turn;
        assert_int_equal(gate_enter(&gate, &guests[i].waiter), i < 2);
    }
    gate_leave(&gate);
    assert_int_equal(guests[2].entered, 1);
    assert_int_equal(guests[3].entered, 0);
    gate_leave(&gate);
    assert_int_equal(guests[3].entered, 1);
    gate_leave(&gate);
    gate_leave(&gate);
    assert_int_equal(gate.inside, 0);
    assert_true(gate_enter(&gate, &guests[0].waiter));
}

static void test_who_leaves_meanwhile_is_not_resumed(void **state UNUSED)
{
    struct gate gate;
    struct guest leaver = {.waiter.resume = on_turn};
    struct guest first = {.waiter.resume = on_turn_leaving, .gate = &gate, .other = &leaver};

    gate_init(&gate, 1);
    list_push_back(&gate.waiting, &first.waiter.link);
    list_push_back(&gate.waiting, &leaver.waiter.link);
    waiter_resume_all(&gate.waiting);
    assert_int_equal(first.entered, 1);
    assert_int_equal(leaver.entered, 0);
    assert_true(list_is_empty(&gate.waiting));
}

/* --- destroys --- */

struct ending {
    struct backend_destroy request;
    unsigned done;
    int result;
};

static void on_done(struct op *op)
{
    struct ending *e = container_of(op, struct ending, request.op);

    e->done++;
    e->result = op->result;
}

static void test_destroys_join_one_removal(void **state UNUSED)
{
    struct fixture w;
    struct box_entry box = {0};
    struct ending a = {0};
    struct ending b = {0};
    struct ending left = {0};
    struct list removers;
    const struct backend_released released = {.text = "it was removed",
                                              .processes = backend_counted(3)};

    set_up(&w);
    boxes_add(&w.boxes, &box, 7, BOX_RUNNING);
    assert_ptr_equal(boxes_find(&w.boxes, 7), &box);
    boxes_destroy(&box, &a.request, RT_NEVER, on_done);
    boxes_destroy(&box, &b.request, RT_NEVER, on_done);
    boxes_destroy(&box, &left.request, 5, on_done);
    boxes_set(&box, BOX_REMOVING);
    rt_advance(&w.rt, 10); /* one leaves by its deadline; the removal goes on */
    rt_run(&w.rt);
    assert_int_equal(left.done, 1);
    assert_int_equal(left.result, SP_TIMEOUT);
    assert_int_equal(box.removers.len, 2);

    list_move(&box.removers, &removers);
    boxes_drop(&box);
    assert_null(boxes_find(&w.boxes, 7));
    boxes_removed(&removers, SP_OK, NULL, &released);
    assert_int_equal(a.done + b.done, 0); /* never from inside */
    rt_run(&w.rt);
    assert_int_equal(a.done, 1);
    assert_int_equal(b.done, 1);
    assert_int_equal(b.result, SP_OK);
    assert_string_equal(a.request.released.text, "it was removed");
    assert_int_equal(b.request.released.processes.n, 3);
    assert_true(b.request.released.processes.is_known);
    assert_false(b.request.released.mounts.is_known);
    assert_null(a.request.priv);
    tear_down(&w);
}

static void test_a_failed_removal_reports_its_cause(void **state UNUSED)
{
    struct fixture w;
    struct box_entry box = {0};
    struct ending a = {0};
    struct list removers;
    const struct backend_released nothing = {.text = ""};
    struct err err;

    set_up(&w);
    boxes_add(&w.boxes, &box, 7, BOX_DEAD);
    boxes_destroy(&box, &a.request, RT_NEVER, on_done);
    list_move(&box.removers, &removers);
    (void) err_set(&err, SP_BACKEND_FAILED, "it did not go");
    boxes_removed(&removers, SP_BACKEND_FAILED, &err, &nothing);
    rt_run(&w.rt);
    assert_int_equal(a.result, SP_BACKEND_FAILED);
    assert_string_equal(a.request.op.err.msg, "it did not go");
    boxes_drop(&box);
    tear_down(&w);
}

/* --- the end --- */

struct inner {
    struct op op;
    struct fixture *fixture;
    unsigned done;
    unsigned cancels;
};

static void on_inner_cancel(struct op *op)
{
    struct inner *i = container_of(op, struct inner, op);

    i->cancels++;
    closing_finish(&i->fixture->closing, op, SP_CANCELLED, NULL);
}

static void on_inner_done(struct op *op)
{
    struct inner *i = container_of(op, struct inner, op);

    i->done++;
    assert_int_equal(i->fixture->closed, 0);
}

static void test_the_end_comes_after_the_last_completion(void **state UNUSED)
{
    struct fixture w;
    struct box_entry box = {0};
    struct ending a = {0};
    struct inner i = {.fixture = &w};

    set_up(&w);
    boxes_add(&w.boxes, &box, 7, BOX_REMOVING);
    boxes_destroy(&box, &a.request, RT_NEVER, on_done);
    op_begin(&i.op, &w.rt, &w.closing.inner, RT_NEVER, NULL, on_inner_done);
    closing_begin(&w.closing, NS_PER_S, on_closed, &w);
    rt_run(&w.rt);
    assert_int_equal(a.result, SP_CANCELLED); /* what callers wait for is cancelled */
    assert_int_equal(a.done, 1);
    assert_int_equal(w.closed, 0); /* what the backend does for itself may finish */
    boxes_drop(&box);
    closing_finish(&w.closing, &i.op, SP_OK, NULL);
    rt_run(&w.rt);
    assert_int_equal(i.done, 1);
    assert_int_equal(w.closed, 1);
    tear_down(&w);
}

static void test_what_is_stuck_is_cancelled_at_the_limit(void **state UNUSED)
{
    struct fixture w;
    struct inner i = {.fixture = &w};

    set_up(&w);
    op_begin(&i.op, &w.rt, &w.closing.inner, RT_NEVER, on_inner_cancel, on_inner_done);
    closing_begin(&w.closing, NS_PER_S, on_closed, &w);
    rt_run(&w.rt);
    assert_int_equal(i.cancels, 0);
    rt_advance(&w.rt, NS_PER_S + 1);
    rt_run(&w.rt);
    assert_int_equal(i.done, 1);
    assert_int_equal(w.freed, 1);
    assert_int_equal(w.closed, 1);
    tear_down(&w);
}

/* That of a child that nobody waits for any more, for example. */
static void test_an_end_that_nobody_reports_is_noticed(void **state UNUSED)
{
    struct fixture w;
    struct inner i = {.fixture = &w};

    set_up(&w);
    op_begin(&i.op, &w.rt, &w.closing.inner, RT_NEVER, on_inner_cancel, on_inner_done);
    closing_begin(&w.closing, NS_PER_S, on_closed, &w);
    op_finish(&i.op, SP_OK, NULL);
    rt_run(&w.rt);
    assert_int_equal(i.done, 1);
    rt_advance(&w.rt, NS_PER_S / 10);
    rt_run(&w.rt);
    assert_int_equal(w.closed, 1);
    tear_down(&w);
}

static void test_an_owner_that_is_not_done_is_asked_again(void **state UNUSED)
{
    struct fixture w;

    set_up(&w);
    w.is_refusing = true;
    closing_begin(&w.closing, NS_PER_S, on_closed, &w);
    rt_run(&w.rt);
    assert_int_equal(w.closed, 0);
    w.is_refusing = false;
    closing_settle(&w.closing);
    rt_run(&w.rt);
    assert_int_equal(w.freed, 1);
    assert_int_equal(w.closed, 1);
    tear_down(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns_are_in_order),
        cmocka_unit_test(test_who_leaves_meanwhile_is_not_resumed),
        cmocka_unit_test(test_destroys_join_one_removal),
        cmocka_unit_test(test_a_failed_removal_reports_its_cause),
        cmocka_unit_test(test_the_end_comes_after_the_last_completion),
        cmocka_unit_test(test_what_is_stuck_is_cancelled_at_the_limit),
        cmocka_unit_test(test_an_end_that_nobody_reports_is_noticed),
        cmocka_unit_test(test_an_owner_that_is_not_done_is_asked_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
