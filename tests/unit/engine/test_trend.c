/* test_trend.c - the last hour: steps come with time, those in which nothing happened are filled in, and the ring ends. */
#include <stdlib.h>

#include "base/mem.h"
#include "engine/internal.h"
#include "tests/lib/unit.h"

#define STEP_NS (TREND_STEP_S * NS_PER_S)

static struct rt rt;

static int setup(void **state)
{
    static const struct pool_config config = {
        .max_boxes = 8, .max_waiters = 8, .profile_count = 1, .profiles = {{.name = "default"}}};
    struct engine *e = xcalloc(1, sizeof(*e));

    rt_init_fake(&rt, 5 * NS_PER_S, 1000);
    e->rt = &rt;
    e->pool = pool_new(&config);
    assert_non_null(e->pool);
    trend_init(e);
    *state = e;
    return 0;
}

static int teardown(void **state)
{
    struct engine *e = *state;

    trend_close(e);
    e->pool = pool_free(e->pool);
    rt_fini(&rt);
    free(e);
    return 0;
}

static void pass(uint64_t ns)
{
    rt_advance(&rt, ns);
    rt_run(&rt);
}

static void acquire(struct engine *e, enum pool_source source, unsigned count, uint64_t ns)
{
    for (unsigned i = 0; i < count; i++)
        histogram_add(&e->counts.acquires[source], ns);
    if (!e->trend.is_running)
        trend_wake(e);
}

static void test_a_step_has_what_came_in_it(void **state)
{
    struct engine *e = *state;
    const struct trend_step *s;

    acquire(e, POOL_SRC_WARM, 99, 80 * NS_PER_US);
    acquire(e, POOL_SRC_COLD, 1, 400 * NS_PER_MS);
    e->counts.refused[2] = 3;
    assert_int_equal(engine_trend(e)->count, 0); /* it has not ended */
    pass(STEP_NS);
    assert_int_equal(engine_trend(e)->count, 1);
    s = trend_step(engine_trend(e), 0);
    assert_int_equal(s->acquires[POOL_SRC_WARM], 99);
    assert_int_equal(s->acquires[POOL_SRC_COLD], 1);
    assert_int_equal(s->refused, 3);
    assert_int_equal(s->p50_us[POOL_SRC_WARM], 75); /* half of the bucket from 50 to 100 */
    assert_in_range(s->p99_us[POOL_SRC_COLD], 495000, 500000);
    assert_int_equal(s->p50_us[POOL_SRC_KEPT], TREND_NONE);
    acquire(e, POOL_SRC_WARM, 1, 100 * NS_PER_S);
    pass(STEP_NS);
    s = trend_step(engine_trend(e), 1);
    assert_int_equal(s->acquires[POOL_SRC_WARM], 1);
    assert_int_equal(s->acquires[POOL_SRC_COLD], 0);
    assert_int_equal(s->refused, 0);
    assert_int_equal(s->p50_us[POOL_SRC_WARM], TREND_LONGER);
}

/* No timer is left: an idle daemon sleeps. */
static void test_nothing_costs_nothing(void **state)
{
    struct engine *e = *state;

    acquire(e, POOL_SRC_WARM, 1, NS_PER_MS);
    assert_true(rt_next_deadline(&rt) != RT_NEVER);
    pass(STEP_NS);
    assert_true(e->trend.is_running); /* something had happened */
    pass(STEP_NS);
    assert_false(e->trend.is_running);
    assert_true(rt_next_deadline(&rt) == RT_NEVER);
    pass(10 * STEP_NS + NS_PER_S);
    assert_int_equal(e->trend.count, 2);
    assert_int_equal(engine_trend(e)->count, 12);
    assert_int_equal(trend_step(engine_trend(e), 11)->acquires[POOL_SRC_WARM], 0);
    acquire(e, POOL_SRC_WARM, 7, NS_PER_MS);
    pass(STEP_NS);
    assert_int_equal(engine_trend(e)->count, 13);
    assert_int_equal(trend_step(engine_trend(e), 12)->acquires[POOL_SRC_WARM], 7);
}

/* Of the steps before, the boxes stay what they were. */
static void test_what_is_filled_in_goes_on(void **state)
{
    struct engine *e = *state;

    acquire(e, POOL_SRC_WARM, 1, NS_PER_MS);
    pass(STEP_NS);
    e->trend.steps[0].boxes[TREND_LEASED] = 5;
    trend_close(e);
    pass(3 * STEP_NS);
    assert_int_equal(engine_trend(e)->count, 4);
    assert_int_equal(trend_step(engine_trend(e), 3)->boxes[TREND_LEASED], 5);
    assert_int_equal(trend_step(engine_trend(e), 3)->acquires[POOL_SRC_WARM], 0);
    pass((uint64_t) 1000000 * STEP_NS); /* longer than the ring */
    assert_int_equal(engine_trend(e)->count, 1000004);
    assert_int_equal(trend_step(engine_trend(e), 1000003)->boxes[TREND_LEASED], 5);
    assert_int_equal(e->trend.end_ns, 5 * NS_PER_S + 1000004 * STEP_NS);
}

static void test_the_ring_keeps_an_hour(void **state)
{
    struct engine *e = *state;

    for (unsigned i = 0; i < TREND_STEPS + 2; i++) {
        acquire(e, POOL_SRC_WARM, i + 1, NS_PER_MS);
        pass(STEP_NS);
    }
    assert_int_equal(engine_trend(e)->count, TREND_STEPS + 2);
    for (unsigned i = 2; i < TREND_STEPS + 2; i++)
        assert_int_equal(trend_step(&e->trend, i)->acquires[POOL_SRC_WARM], i + 1);
}

static void test_the_last_minute(void **state)
{
    struct engine *e = *state;
    struct histogram all;
    struct histogram minute;

    acquire(e, POOL_SRC_WARM, 1000, NS_PER_MS);
    engine_acquires(e, POOL_SRC_WARM, &all, &minute);
    assert_int_equal(histogram_count(&minute), 1000); /* before the first step has ended */
    for (unsigned i = 1; i <= 8; i++) {
        pass(STEP_NS);
        acquire(e, POOL_SRC_WARM, i, NS_PER_MS);
    }
    engine_acquires(e, POOL_SRC_WARM, &all, &minute);
    assert_int_equal(histogram_count(&all), 1000 + 36);
    assert_int_equal(histogram_count(&minute),
                     3 + 4 + 5 + 6 + 7 + 8); /* five steps and what is now */
    engine_acquires(e, POOL_SRC_COLD, &all, &minute);
    assert_int_equal(histogram_count(&all) + histogram_count(&minute), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_step_has_what_came_in_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_costs_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_filled_in_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_ring_keeps_an_hour, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_last_minute, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
