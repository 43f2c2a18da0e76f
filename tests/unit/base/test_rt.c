/* Order of tasks and timers on a clock that stands still, and the clock that does not. */
#include <string.h>

#include "base/compiler.h"
#include "base/rand.h"
#include "base/rt.h"
#include "tests/lib/unit.h"

struct thing {
    struct rt_task task;
    struct rt_timer timer;
    char name;
    struct thing *other;
};

static struct {
    struct rt rt;
    char order[64];
    size_t len;
} w;

static int set_up(void **state)
{
    (void) state;
    memset(&w, 0, sizeof(w));
    rt_init_fake(&w.rt, 1000, 5000000);
    return 0;
}

static int tear_down(void **state)
{
    (void) state;
    rt_fini(&w.rt);
    return 0;
}

static void note(char c)
{
    assert_true(w.len + 1 < sizeof(w.order));
    w.order[w.len] = c;
    w.len++;
}

static void run_note(struct rt_task *task)
{
    note(container_of(task, struct thing, task)->name);
}

static void fire_note(struct rt_timer *timer)
{
    note(container_of(timer, struct thing, timer)->name);
}

static void run_defer_other(struct rt_task *task)
{
    struct thing *t = container_of(task, struct thing, task);

    note(t->name);
    rt_defer(&w.rt, &t->other->task, run_note);
}

static void fire_defer_other(struct rt_timer *timer)
{
    struct thing *t = container_of(timer, struct thing, timer);

    note(t->name);
    rt_defer(&w.rt, &t->other->task, run_note);
}

static void run_undefer_other(struct rt_task *task)
{
    struct thing *t = container_of(task, struct thing, task);

    note(t->name);
    rt_undefer(&w.rt, &t->other->task);
}

static void fire_cancel_other(struct rt_timer *timer)
{
    struct thing *t = container_of(timer, struct thing, timer);

    note(t->name);
    rt_timer_cancel(&w.rt, &t->other->timer);
}

static void fire_again_once(struct rt_timer *timer)
{
    struct thing *t = container_of(timer, struct thing, timer);

    note(t->name);
    rt_timer_set(&w.rt, timer, rt_now(&w.rt), fire_note); /* due at once: same run */
}

static void test_tasks_in_order(void **state)
{
    struct thing a = {.name = 'a'};
    struct thing b = {.name = 'b'};
    struct thing c = {.name = 'c'};

    (void) state;
    a.other = &c;
    rt_defer(&w.rt, &a.task, run_defer_other);
    rt_defer(&w.rt, &b.task, run_note);
    rt_defer(&w.rt, &a.task, run_defer_other); /* already deferred: nothing */
    assert_string_equal(w.order, "");          /* never from inside */
    rt_run(&w.rt);
    assert_string_equal(w.order, "abc");
    rt_run(&w.rt);
    assert_string_equal(w.order, "abc");
}

static void test_undefer(void **state)
{
    struct thing a = {.name = 'a'};
    struct thing b = {.name = 'b'};

    (void) state;
    a.other = &b;
    rt_defer(&w.rt, &a.task, run_undefer_other);
    rt_defer(&w.rt, &b.task, run_note);
    rt_run(&w.rt);
    assert_string_equal(w.order, "a");
    rt_undefer(&w.rt, &b.task); /* not deferred: harmless */
}

static void test_timers_by_time(void **state)
{
    struct thing a = {.name = 'a'};
    struct thing b = {.name = 'b'};
    struct thing c = {.name = 'c'};

    (void) state;
    assert_true(rt_next_deadline(&w.rt) == RT_NEVER);
    rt_timer_set(&w.rt, &a.timer, 1030, fire_note);
    rt_timer_set(&w.rt, &b.timer, 1010, fire_note);
    rt_timer_set(&w.rt, &c.timer, RT_NEVER, fire_note);
    assert_int_equal(rt_next_deadline(&w.rt), 1010);
    rt_run(&w.rt);
    assert_string_equal(w.order, "");
    rt_advance(&w.rt, 9);
    rt_run(&w.rt);
    assert_string_equal(w.order, "");
    rt_advance(&w.rt, 1);
    rt_run(&w.rt);
    assert_string_equal(w.order, "b");
    rt_timer_set(&w.rt, &b.timer, 1020, fire_note); /* again */
    rt_advance(&w.rt, 100);
    rt_run(&w.rt);
    assert_string_equal(w.order, "bba");
    assert_true(rt_next_deadline(&w.rt) == RT_NEVER);
}

static void test_rearm_and_cancel(void **state)
{
    struct thing a = {.name = 'a'};

    (void) state;
    rt_timer_set(&w.rt, &a.timer, 1010, fire_note);
    rt_timer_set(&w.rt, &a.timer, 1050, fire_note); /* later */
    rt_advance(&w.rt, 20);
    rt_run(&w.rt);
    assert_string_equal(w.order, "");
    rt_timer_cancel(&w.rt, &a.timer);
    rt_timer_cancel(&w.rt, &a.timer);
    rt_advance(&w.rt, 100);
    rt_run(&w.rt);
    assert_string_equal(w.order, "");
    rt_timer_set(&w.rt, &a.timer, 2000, fire_note);
    rt_timer_set(&w.rt, &a.timer, RT_NEVER, fire_note); /* is a cancel */
    assert_true(rt_next_deadline(&w.rt) == RT_NEVER);
}

static void test_tasks_between_timers(void **state)
{
    struct thing a = {.name = 'a'};
    struct thing b = {.name = 'b'};
    struct thing c = {.name = 'c'};
    struct thing d = {.name = 'd'};

    (void) state;
    a.other = &c;
    rt_timer_set(&w.rt, &a.timer, 1000, fire_defer_other);
    rt_timer_set(&w.rt, &b.timer, 1000 + 1, fire_note);
    rt_defer(&w.rt, &d.task, run_note);
    rt_advance(&w.rt, 5);
    rt_run(&w.rt);
    assert_string_equal(w.order, "dacb"); /* task, timer, its task, next timer */
}

static void test_cancel_inside_a_timer(void **state)
{
    struct thing a = {.name = 'a'};
    struct thing b = {.name = 'b'};

    (void) state;
    a.other = &b;
    rt_timer_set(&w.rt, &a.timer, 1000, fire_cancel_other);
    rt_timer_set(&w.rt, &b.timer, 1001, fire_note); /* due as well, and cancelled before */
    rt_advance(&w.rt, 5);
    rt_run(&w.rt);
    assert_string_equal(w.order, "a");
    a.other = &a; /* a timer that cancels itself */
    rt_timer_set(&w.rt, &a.timer, 1000, fire_cancel_other);
    rt_run(&w.rt);
    assert_string_equal(w.order, "aa");
    rt_timer_set(&w.rt, &a.timer, 1000, fire_again_once);
    rt_run(&w.rt);
    assert_string_equal(w.order, "aaaa");
}

static void test_wall_clock(void **state)
{
    (void) state;
    assert_int_equal(rt_wall_ms(&w.rt), 5000000);
    rt_advance(&w.rt, 3 * NS_PER_S);
    assert_int_equal(rt_wall_ms(&w.rt), 5003000);
    assert_int_equal(rt_wall_at(&w.rt, 10 * NS_PER_S), 5010000);
    w.rt.wall_offset_ms += 7200000; /* it was set; what is stored has the clock of before */
    assert_int_equal(rt_wall_at(&w.rt, 10 * NS_PER_S), 12210000);
    assert_int_equal(rt_stored_at(&w.rt, 10 * NS_PER_S), 5010000);
    assert_int_equal(rt_mono_of_stored(&w.rt, 5010000), 10 * NS_PER_S);
    assert_int_equal(rt_mono_of_stored(&w.rt, 1), 0); /* long before the machine started */
    assert_true(rt_after(5, RT_NEVER) == RT_NEVER);
    assert_true(rt_after(RT_NEVER - 1, 1) == RT_NEVER);
    assert_int_equal(rt_after(5, 6), 11);
}

static void test_stale_clock(void **state)
{
    struct rt rt;
    uint64_t before;

    (void) state;
    rt_init(&rt);
    before = rt_now(&rt);
    assert_int_equal(rt_now(&rt), before); /* one time for the whole turn */
    rt.now_ns -= NS_PER_S;                 /* as after a sleep */
    rt.is_stale = true;
    assert_true(rt_now(&rt) >= before);
    assert_false(rt.is_stale);
    assert_true(rt_wall_ms(&rt) > 1600000000000);
    rt_fini(&rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tasks_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_undefer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_timers_by_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rearm_and_cancel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tasks_between_timers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cancel_inside_a_timer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wall_clock, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stale_clock, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
