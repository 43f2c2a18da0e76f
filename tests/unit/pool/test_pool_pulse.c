/* test_pool_pulse.c - blank boxes are checked now and then, and one that does not answer is not
 * leased. */
#include "rig.h"

static int setup(void **state)
{
    (void) state;
    rig_init(&rig);
    rig.config.profiles[0].warm_min = 2;
    rig.config.profiles[0].warm_max = 2;
    rig.config.profiles[0].blank_check_ns = 10 * NS_PER_S;
    return 0;
}

static void test_blank_boxes_are_asked(void **state)
{
    unsigned made;

    (void) state;
    rig_start(&rig);
    assert_int_equal(rig_count(&rig, POOL_BLANK), 2);
    made = rig.effects[POOL_FX_PROBE];
    rig_advance(&rig, 4900 * NS_PER_MS);
    assert_int_equal(rig.effects[POOL_FX_PROBE], made);
    rig_advance(&rig, 3 * NS_PER_S);
    assert_int_equal(rig.effects[POOL_FX_PROBE], made + 2);
    rig_advance(&rig, 60 * NS_PER_S); /* twice in ten seconds, each */
    assert_in_range(rig.effects[POOL_FX_PROBE], made + 16, made + 26);
    assert_int_equal(rig_count(&rig, POOL_BLANK), 2);
    assert_int_equal(rig.facts[POOL_FACT_READY], 2);
    assert_int_equal(rig.writes[POOL_WRITE_BOX], 4); /* nothing is written for it */
}

/* The second box answers, the first does not: nobody gets it, and it is replaced. */
static void test_a_box_that_does_not_answer(void **state)
{
    struct box_id mute;

    (void) state;
    rig_start(&rig);
    rig.hold.probe = true;
    rig_advance(&rig, 8 * NS_PER_S);
    mute = rig_held(&rig, POOL_FX_PROBE)->box;
    assert_true(rig_answer(&rig, POOL_FX_PROBE, false));
    rig.hold.probe = false;
    rig_answer_all(&rig, POOL_FX_PROBE, true);
    assert_int_equal(rig_code(&rig, rig_acquire(&rig, "u", "t1", 0)), SP_OK);
    assert_true(rig_box(&rig, "t1")->id.v != mute.v);
    assert_int_equal(rig_code(&rig, rig_acquire(&rig, "u", "t2", 0)), SP_OK); /* its substitute */
    assert_true(rig_box(&rig, "t2")->id.v != mute.v);
    assert_non_null(pool_find_box(rig.pool, mute)); /* once may be chance */
    rig.hold.probe = true;
    rig_advance(&rig, NS_PER_S);
    while (rig_held(&rig, POOL_FX_PROBE) != NULL)
        assert_true(
            rig_answer(&rig, POOL_FX_PROBE, rig_held(&rig, POOL_FX_PROBE)->box.v != mute.v));
    assert_null(pool_find_box(rig.pool, mute));
    assert_int_equal(rig.effects[POOL_FX_DESTROY], 1);
}

/* It was busy for a moment and answers again: it is blank as before. */
static void test_a_box_that_answers_late(void **state)
{
    (void) state;
    rig_start(&rig);
    rig.hold.probe = true;
    rig_advance(&rig, 8 * NS_PER_S);
    rig_answer_all(&rig, POOL_FX_PROBE, false);
    rig.hold.probe = false;
    rig_advance(&rig, NS_PER_S);
    rig_answer_all(&rig, POOL_FX_PROBE, true);
    rig_advance(&rig, NS_PER_S);
    assert_true(rig_count(&rig, POOL_BLANK) >= 2); /* the substitutes are surplus now */
    assert_int_equal(rig_code(&rig, rig_acquire(&rig, "u", "t1", 0)), SP_OK);
}

/* Time has passed without any answer: it is checked before a caller gets it. */
static void test_a_stale_box_is_asked_first(void **state)
{
    uint64_t a;

    (void) state;
    rig_start(&rig);
    rig.hold.probe = true;
    rig.now_ns += 3600 * NS_PER_S; /* the machine slept */
    a = rig_acquire(&rig, "u", "t1", 5 * NS_PER_S);
    assert_int_equal(rig_code(&rig, a), -1000);
    assert_true(rig_answer(&rig, POOL_FX_PROBE, true));
    assert_int_equal(rig_code(&rig, a), SP_OK);
    rig_answer_all(&rig, POOL_FX_PROBE, true);
}

static void test_few_at_a_time(void **state)
{
    unsigned made;

    (void) state;
    rig.config.max_boxes = 60;
    rig.config.profiles[0].warm_min = 50;
    rig.config.profiles[0].warm_max = 50;
    rig.config.profiles[0].create_max = 50;
    rig_start(&rig);
    assert_int_equal(rig_count(&rig, POOL_BLANK), 50);
    made = rig.effects[POOL_FX_PROBE];
    rig.hold.probe = true;
    rig_advance(&rig, 9 * NS_PER_S);
    assert_int_equal(rig.effects[POOL_FX_PROBE], made + 16);
    for (unsigned i = 0; i < 40; i++) {
        rig_answer_all(&rig, POOL_FX_PROBE, true);
        rig_advance(&rig, 100 * NS_PER_MS);
    }
    assert_true(rig.effects[POOL_FX_PROBE] >= made + 50);
    assert_int_equal(rig.effects[POOL_FX_DESTROY], 0);
}

static void test_off(void **state)
{
    unsigned made;

    (void) state;
    rig.config.profiles[0].blank_check_ns = 0;
    rig_start(&rig);
    made = rig.effects[POOL_FX_PROBE];
    rig_advance(&rig, 3600 * NS_PER_S);
    assert_int_equal(rig.effects[POOL_FX_PROBE], made);
    assert_int_equal(rig_code(&rig, rig_acquire(&rig, "u", "t1", 0)), SP_OK);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_blank_boxes_are_asked),   TEST(test_a_box_that_does_not_answer),
        TEST(test_a_box_that_answers_late), TEST(test_a_stale_box_is_asked_first),
        TEST(test_few_at_a_time),           TEST(test_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
