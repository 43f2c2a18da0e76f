/* test_pool_past.c - how bindings ended is remembered for each principal: one that ends many boxes makes no other
 * forget. */
#include <stdio.h>

#include "fixture.h"

enum {
    ROOM = 1024, /* with max_boxes 8 */
    VICTIM = 1,
    FLOODER = 1000,
};

static const char *id_of(uint64_t principal, unsigned i)
{
    static char id[64];

    (void) snprintf(id, sizeof(id), "p%llu-%u", (unsigned long long) principal, i);
    return id;
}

static void end(uint64_t principal, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        pool_restore_past(fixture.pool, id_of(principal, i), 1, POOL_END_DIED, principal);
    assert_null(pool_check(fixture.pool));
}

static unsigned known(uint64_t principal, unsigned to)
{
    unsigned found = 0;

    for (unsigned i = 0; i < to; i++)
        found += pool_find_past(fixture.pool, id_of(principal, i), NULL, NULL) == POOL_END_DIED;
    return found;
}

static void test_flood_of_another(void **state)
{
    uint64_t principal = 0;

    (void) state;
    fixture_start(&fixture);
    end(VICTIM, 0, 100);
    end(FLOODER, 0, 5 * ROOM);
    assert_int_equal(known(VICTIM, 100), 100);
    assert_int_equal(known(FLOODER, 5 * ROOM), ROOM - 100);
    assert_int_equal(pool_find_past(fixture.pool, id_of(FLOODER, 5 * ROOM - 1), NULL, &principal),
                     POOL_END_DIED);
    assert_int_equal(principal, FLOODER);
    assert_int_equal(pool_find_past(fixture.pool, id_of(FLOODER, 0), NULL, NULL), POOL_END_NONE);
}

/* Alone it has all of the room; with others no more than they. */
static void test_equal_shares(void **state)
{
    (void) state;
    fixture_start(&fixture);
    end(VICTIM, 0, 2 * ROOM);
    assert_int_equal(known(VICTIM, 2 * ROOM), ROOM);
    end(VICTIM + 1, 0, 2 * ROOM);
    assert_in_range(known(VICTIM, 2 * ROOM), ROOM / 2 - 1, ROOM / 2 + 1);
    for (unsigned i = 0; i < 2 * ROOM; i++)
        end(FLOODER + i % 6, i / 6, i / 6 + 1);
    assert_in_range(known(VICTIM, 2 * ROOM), ROOM / 8 - 1, ROOM / 8 + 1);
    assert_in_range(known(VICTIM + 1, 2 * ROOM), ROOM / 8 - 1, ROOM / 8 + 1);
    assert_in_range(known(FLOODER, 2 * ROOM), ROOM / 8 - 1, ROOM / 8 + 1);
}

/* As many principals as there is room, each with one, and then others. */
static void test_many_principals(void **state)
{
    (void) state;
    fixture_start(&fixture);
    for (unsigned i = 0; i < 3 * ROOM; i++)
        end(FLOODER + i, 0, 1);
    assert_int_equal(known(FLOODER + 3 * ROOM - 1, 1), 1);
    end(VICTIM, 0, 2);
    assert_int_equal(known(VICTIM, 2), 2);
}

/* An id that another principal had before counts for the one that had it last. */
static void test_id_changes_hands(void **state)
{
    uint64_t principal = 0;

    (void) state;
    fixture_start(&fixture);
    pool_restore_past(fixture.pool, "s-shared", 1, POOL_END_DIED, VICTIM);
    pool_restore_past(fixture.pool, "s-shared", 2, POOL_END_DIED, FLOODER);
    end(FLOODER, 0, ROOM);
    assert_int_equal(pool_find_past(fixture.pool, "s-shared", NULL, NULL), POOL_END_NONE);
    pool_restore_past(fixture.pool, "s-shared", 3, POOL_END_DIED, VICTIM);
    end(FLOODER, 0, 2 * ROOM);
    assert_int_equal(pool_find_past(fixture.pool, "s-shared", NULL, &principal), POOL_END_DIED);
    assert_int_equal(principal, VICTIM);
    (void) fixture_acquire(&fixture, "u", "shared", NS_PER_S);
    assert_int_equal(fixture_box(&fixture, "shared")->generation, 4);
    assert_null(pool_check(fixture.pool));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_flood_of_another, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_equal_shares, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_many_principals, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_id_changes_hands, fixture_setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
