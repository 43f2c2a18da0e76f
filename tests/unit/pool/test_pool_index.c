/* test_pool_index.c - boxes in the order of listings, and those of one principal without the others. */
#include <stdio.h>
#include <string.h>

#include "fixture.h"

static int setup(void **state)
{
    (void) state;
    fixture_init(&fixture);
    fixture.config.max_boxes = 32;
    fixture_start(&fixture);
    return 0;
}

static void acquire(const char *who, uint64_t principal)
{
    struct pool_acquire more = {.principal = principal};

    assert_int_equal(
        fixture_code(&fixture, fixture_acquire_with(&fixture, "u", who, NS_PER_S, &more)), SP_OK);
}

/* The threads of a principal's boxes in their order, one letter each. */
static const char *boxes_of(uint64_t principal, uint64_t after)
{
    static char text[64];
    size_t len = 0;

    for (const struct pool_box *b = pool_first_of(fixture.pool, principal, after); b != NULL;
         b = pool_next_of(b))
        text[len++] = b->thread[0];
    text[len] = '\0';
    return text;
}

static const char *all_boxes(uint64_t after)
{
    static char text[64];
    size_t len = 0;
    size_t at;

    for (const struct pool_box *b = pool_first(fixture.pool, after, &at); b != NULL;
         b = pool_next(fixture.pool, &at))
        text[len++] = b->thread[0] != '\0' ? b->thread[0] : '-';
    text[len] = '\0';
    return text;
}

static void test_by_owner(void **state)
{
    uint64_t c_order;

    (void) state;
    acquire("a", 1);
    acquire("b", 2);
    acquire("c", 1);
    acquire("d", 1);
    c_order = fixture_box(&fixture, "c")->order;
    assert_string_equal(boxes_of(1, 0), "acd");
    assert_string_equal(boxes_of(2, 0), "b");
    assert_string_equal(boxes_of(3, 0), "");
    assert_string_equal(all_boxes(0), "abcd");
    assert_string_equal(boxes_of(1, fixture_box(&fixture, "a")->order), "cd");
    assert_string_equal(all_boxes(fixture_box(&fixture, "b")->order), "cd");
    assert_string_equal(boxes_of(1, c_order), "d");
    assert_string_equal(boxes_of(1, fixture_box(&fixture, "b")->order),
                        "cd"); /* it is of another one */
    assert_string_equal(boxes_of(1, fixture_box(&fixture, "d")->order), "");
    assert_string_equal(boxes_of(1, UINT64_MAX), "");
    assert_string_equal(all_boxes(UINT64_MAX), "");
    fixture.hold.destroy = true;
    fixture_died(&fixture,
                 fixture_box(&fixture, "c")->id); /* its end is its owner's business, too */
    assert_string_equal(boxes_of(1, 0), "acd");
    assert_non_null(pool_find_ending(fixture.pool, "s-c"));
    fixture_answer_all(&fixture, POOL_FX_DESTROY, true);
    assert_string_equal(boxes_of(1, 0), "ad");
    assert_string_equal(all_boxes(0), "abd");
    assert_string_equal(boxes_of(1, c_order),
                        "d"); /* a page may end with one that is gone by then */
    assert_string_equal(all_boxes(c_order), "d");
    assert_null(pool_find_ending(fixture.pool, "s-c"));
}

/* Nearer to the boxes behind it than to the owner's first: it is found among those of everybody. */
static void test_after_one_that_is_gone(void **state)
{
    uint64_t order;

    (void) state;
    for (const char *who = "hijklmnopabcdxefg"; *who != '\0'; who++)
        acquire((char[]){*who, '\0'}, *who == 'x' ? 2 : 1);
    order = fixture_box(&fixture, "d")->order;
    fixture_died(&fixture, fixture_box(&fixture, "d")->id);
    assert_string_equal(boxes_of(1, 0), "hijklmnopabcefg");
    assert_string_equal(boxes_of(1, order), "efg");
    assert_string_equal(boxes_of(2, order), "x");
    assert_string_equal(boxes_of(1, fixture_box(&fixture, "g")->order), "");
}

/* A blank box that gets an owner moves to the end: a caller that reads page after page does not
 * miss it. */
static void test_bound_boxes_come_last(void **state)
{
    struct pool_config config;
    struct pool_event ev = {.kind = POOL_EV_RECONFIG};

    (void) state;
    config = fixture.config;
    config.profiles[0].warm_min = 3;
    config.profiles[0].warm_max = 3;
    ev.u.reconfig = &config;
    fixture_send(&fixture, &ev);
    assert_string_equal(all_boxes(0), "---");
    acquire("a", 1);
    assert_string_equal(all_boxes(0), "--a-"); /* and one more is made after it */
    acquire("b", 1);
    assert_string_equal(all_boxes(0), "--ab-");
    assert_string_equal(boxes_of(1, 0), "ab");
}

/* The order is kept in an array that is compacted when gaps fill it. */
static void test_many_changes(void **state)
{
    (void) state;
    acquire("a", 1);
    for (unsigned i = 0; i < 1000; i++) {
        acquire("x", 1 + i % 5);
        (void) fixture_on(&fixture, POOL_EV_DESTROY, "x", 0, false);
        fixture_died(&fixture, fixture_box(&fixture, "x") != NULL ? fixture_box(&fixture, "x")->id
                                                                  : (struct box_id){0});
        fixture.req = 1;
        memset(fixture.has_reply, 0, sizeof(fixture.has_reply));
    }
    assert_string_equal(boxes_of(1, 0), "a");
    assert_string_equal(all_boxes(0), "a");
    acquire("b", 1); /* behind the gaps */
    assert_string_equal(boxes_of(1, fixture_box(&fixture, "a")->order), "b");
    assert_string_equal(all_boxes(fixture_box(&fixture, "a")->order), "b");
    assert_string_equal(all_boxes(fixture_box(&fixture, "b")->order), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_by_owner, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_after_one_that_is_gone, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_bound_boxes_come_last, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_many_changes, setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
