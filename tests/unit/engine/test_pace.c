/* test_pace.c - who is too slow for the place that it holds, on a clock that stands still. */
#include "base/compiler.h"
#include "engine/pace.h"
#include "tests/lib/unit.h"

static struct {
    struct rt rt;
    struct pace pace;
    unsigned over;
} w;

static void on_over(struct pace *p UNUSED)
{
    w.over++;
}

static int set_up(void **state UNUSED)
{
    w.over = 0;
    rt_init_fake(&w.rt, 1000, 5000000);
    pace_begin(&w.pace, &w.rt, on_over);
    return 0;
}

static int tear_down(void **state UNUSED)
{
    pace_end(&w.pace);
    assert_int_equal(rt_next_deadline(&w.rt), RT_NEVER);
    rt_fini(&w.rt);
    return 0;
}

static void pass(uint64_t seconds)
{
    rt_advance(&w.rt, seconds * NS_PER_S);
    rt_run(&w.rt);
}

/* Until it is over, `seconds` at most; for how many seconds it was not. */
static unsigned trickle(size_t bytes, unsigned seconds)
{
    unsigned i;

    for (i = 0; i < seconds && w.over == 0; i++) {
        pace_moved(&w.pace, bytes, true);
        pass(1);
    }
    return i;
}

static void test_never_begun(void **state UNUSED)
{
    struct pace p = {0};

    pace_end(&p);
}

static void test_silence(void **state UNUSED)
{
    pass(PACE_PATIENCE_S - 1);
    assert_int_equal(w.over, 0);
    pass(1);
    assert_int_equal(w.over, 1);
}

static void test_a_byte_now_and_then(void **state UNUSED)
{
    assert_in_range(trickle(1, 1000), PACE_PATIENCE_S, PACE_PATIENCE_S + 1);
    assert_int_equal(w.over, 1);
}

static void test_half_the_rate_lasts_twice(void **state UNUSED)
{
    assert_in_range(trickle(PACE_RATE / 2, 1000), 2 * PACE_PATIENCE_S - 2, 2 * PACE_PATIENCE_S + 2);
    assert_int_equal(w.over, 1);
}

static void test_the_rate_is_enough(void **state UNUSED)
{
    assert_int_equal(trickle(PACE_RATE + 1, 3600), 3600);
    assert_int_equal(w.over, 0);
}

static void test_much_at_once_buys_no_hour(void **state UNUSED)
{
    pace_moved(&w.pace, (size_t) 1 << 30, true);
    assert_in_range(trickle(1, 3600), PACE_PATIENCE_S, PACE_PATIENCE_S + 1);
}

/* Each of them is silent for nearly as long as the process may be, and none of that is the caller's. */
static void test_turns_of_the_process(void **state UNUSED)
{
    for (unsigned i = 0; i < 20; i++) {
        pace_moved(&w.pace, 1, false);
        pass(PACE_PATIENCE_S - 1);
        assert_int_equal(w.over, 0);
        pace_moved(&w.pace, 0, true);
        pass(1);
    }
    assert_int_equal(w.over, 0);
    pace_moved(&w.pace, 0, false);
    pass(PACE_PATIENCE_S);
    assert_int_equal(w.over, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_begun),
        cmocka_unit_test_setup_teardown(test_silence, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_byte_now_and_then, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_half_the_rate_lasts_twice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_rate_is_enough, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_much_at_once_buys_no_hour, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_turns_of_the_process, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
