/* test_pool_pulse.c - blank boxes are checked now and then, and one that does not answer is not
 * leased. */
#include "fixture.h"

static int setup(void **state)
{
    (void) state;
    fixture_init(&fixture);
    fixture.config.profiles[0].warm_min = 2;
    fixture.config.profiles[0].warm_max = 2;
    fixture.config.profiles[0].blank_check_ns = 10 * NS_PER_S;
    return 0;
}

static void test_blank_boxes_are_asked(void **state)
{
    unsigned made;

    (void) state;
    fixture_start(&fixture);
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 2);
    made = fixture.effects[POOL_FX_PROBE];
    fixture_advance(&fixture, 4900 * NS_PER_MS);
    assert_int_equal(fixture.effects[POOL_FX_PROBE], made);
    fixture_advance(&fixture, 3 * NS_PER_S);
    assert_int_equal(fixture.effects[POOL_FX_PROBE], made + 2);
    fixture_advance(&fixture, 60 * NS_PER_S); /* twice in ten seconds, each */
    assert_in_range(fixture.effects[POOL_FX_PROBE], made + 16, made + 26);
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 2);
    assert_int_equal(fixture.facts[POOL_FACT_READY], 2);
    assert_int_equal(fixture.writes[POOL_WRITE_BOX], 4); /* nothing is written for it */
}

/* The second box answers, the first does not: nobody gets it, and it is replaced. */
static void test_a_box_that_does_not_answer(void **state)
{
    struct box_id mute;

    (void) state;
    fixture_start(&fixture);
    fixture.hold.probe = true;
    fixture_advance(&fixture, 8 * NS_PER_S);
    mute = fixture_held(&fixture, POOL_FX_PROBE)->box;
    assert_true(fixture_answer(&fixture, POOL_FX_PROBE, false));
    fixture.hold.probe = false;
    fixture_answer_all(&fixture, POOL_FX_PROBE, true);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t1", 0)), SP_OK);
    assert_true(fixture_box(&fixture, "t1")->id.v != mute.v);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t2", 0)),
                     SP_OK); /* its substitute */
    assert_true(fixture_box(&fixture, "t2")->id.v != mute.v);
    assert_non_null(pool_find_box(fixture.pool, mute)); /* once may be chance */
    fixture.hold.probe = true;
    fixture_advance(&fixture, NS_PER_S);
    while (fixture_held(&fixture, POOL_FX_PROBE) != NULL)
        assert_true(fixture_answer(&fixture, POOL_FX_PROBE,
                                   fixture_held(&fixture, POOL_FX_PROBE)->box.v != mute.v));
    assert_null(pool_find_box(fixture.pool, mute));
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 1);
}

/* It was busy for a moment and answers again: it is blank as before. */
static void test_a_box_that_answers_late(void **state)
{
    (void) state;
    fixture_start(&fixture);
    fixture.hold.probe = true;
    fixture_advance(&fixture, 8 * NS_PER_S);
    fixture_answer_all(&fixture, POOL_FX_PROBE, false);
    fixture.hold.probe = false;
    fixture_advance(&fixture, NS_PER_S);
    fixture_answer_all(&fixture, POOL_FX_PROBE, true);
    fixture_advance(&fixture, NS_PER_S);
    assert_true(fixture_count(&fixture, POOL_BLANK) >= 2); /* the substitutes are surplus now */
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t1", 0)), SP_OK);
}

/* Time has passed without any answer: it is checked before a caller gets it. */
static void test_a_stale_box_is_asked_first(void **state)
{
    uint64_t a;

    (void) state;
    fixture_start(&fixture);
    fixture.hold.probe = true;
    fixture.now_ns += 3600 * NS_PER_S; /* the machine slept */
    a = fixture_acquire(&fixture, "u", "t1", 5 * NS_PER_S);
    assert_int_equal(fixture_code(&fixture, a), -1000);
    assert_true(fixture_answer(&fixture, POOL_FX_PROBE, true));
    assert_int_equal(fixture_code(&fixture, a), SP_OK);
    fixture_answer_all(&fixture, POOL_FX_PROBE, true);
}

static void test_few_at_a_time(void **state)
{
    unsigned made;

    (void) state;
    fixture.config.max_boxes = 60;
    fixture.config.profiles[0].warm_min = 50;
    fixture.config.profiles[0].warm_max = 50;
    fixture.config.profiles[0].create_max = 50;
    fixture_start(&fixture);
    assert_int_equal(fixture_count(&fixture, POOL_BLANK), 50);
    made = fixture.effects[POOL_FX_PROBE];
    fixture.hold.probe = true;
    fixture_advance(&fixture, 9 * NS_PER_S);
    assert_int_equal(fixture.effects[POOL_FX_PROBE], made + 16);
    for (unsigned i = 0; i < 40; i++) {
        fixture_answer_all(&fixture, POOL_FX_PROBE, true);
        fixture_advance(&fixture, 100 * NS_PER_MS);
    }
    assert_true(fixture.effects[POOL_FX_PROBE] >= made + 50);
    assert_int_equal(fixture.effects[POOL_FX_DESTROY], 0);
}

static void test_off(void **state)
{
    unsigned made;

    (void) state;
    fixture.config.profiles[0].blank_check_ns = 0;
    fixture_start(&fixture);
    made = fixture.effects[POOL_FX_PROBE];
    fixture_advance(&fixture, 3600 * NS_PER_S);
    assert_int_equal(fixture.effects[POOL_FX_PROBE], made);
    assert_int_equal(fixture_code(&fixture, fixture_acquire(&fixture, "u", "t1", 0)), SP_OK);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_blank_boxes_are_asked),   TEST(test_a_box_that_does_not_answer),
        TEST(test_a_box_that_answers_late), TEST(test_a_stale_box_is_asked_first),
        TEST(test_few_at_a_time),           TEST(test_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
