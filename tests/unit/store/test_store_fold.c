/* test_store_fold.c - more metered intervals than there is room for: they become fewer rows with the same sums, and only of the
 * principal that has the most. */
#include <stdio.h>
#include <string.h>

#include "store/usage.h"
#include "usage_rows.h"

static size_t rows_in_file(struct fixture *f)
{
    fixture_close(f);
    return (size_t) fixture_number(f, "SELECT count(*) FROM usage");
}

static void bound(struct fixture *f, uint64_t rows)
{
    f->config.usage_max = rows;
    f->config.want_usage = true;
    f->config.usage_ms = INT64_MAX;
    fixture_start(f);
}

/* All of them, and what of them fits in few rows. */
static void test_bounds(void **state)
{
    struct fixture *f = *state;
    size_t count;

    f->config.usage_max = 100;
    f->config.want_usage = true;
    f->config.usage_ms = 1000 * HOUR_MS;
    fixture_start(f);
    for (uint64_t i = 1; i <= 400; i++) {
        lease(f, 10 * i, 1, "a");
        park(f, 10 * i + 5, 1, "a");
    }
    expect_usage(f, 0, 0, "a", 400 * 5, 399 * 5, 0, 7 + 4);
    count = rows_in_file(f);
    assert_in_range(count, 2, 110);
    f->config.usage_ms = 500; /* the newest 50 or so */
    fixture_start(f);
    for (uint64_t i = 401; i <= 420; i++) {
        lease(f, 10 * i, 1, "a");
        park(f, 10 * i + 5, 1, "a");
    }
    count = rows_in_file(f);
    assert_in_range(count, 2, 110);
    f->config.usage_ms = 50;
    fixture_open(f);
    count = rows_in_file(f);
    assert_in_range(count, 1, 12);
}

/* One principal has many boxes after others had a few. */
static void test_bounds_by_principal(void **state)
{
    struct fixture *f = *state;
    size_t count;

    f->config.usage_max = 100;
    f->config.want_usage = true;
    f->config.usage_ms = 1000 * HOUR_MS;
    fixture_start(f);
    for (uint64_t i = 1; i <= 600; i++) {
        struct put p = put_lease(i, "a", i);

        p.w.u.box.principal = i <= 20 ? i % 2 : 2;
        write_at(f, 10 * i, p, "leased", i <= 20 ? "few" : "many");
        end(f, 10 * i + 5, i, i <= 20 ? "few" : "many");
    }
    expect_usage(f, 0, 0, "few", 100, 0, 0, 20 * 7);
    expect_usage(f, 0, 0, "many", 580 * 5, 0, 0, 580 * 7 + 3);
    count = rows_in_file(f);
    assert_in_range(count, 21, 110);
    assert_int_equal(fixture_number(f, "SELECT count(*) FROM usage WHERE user_id = 'few'"), 20);
    f->config.usage_ms = 6000 - 105; /* those of the few grow old, and are not counted any more */
    fixture_start(f);
    for (uint64_t i = 601; i <= 700; i++) {
        lease(f, 10 * i, i, "c");
        end(f, 10 * i + 5, i, "c");
    }
    expect_usage(f, 0, 0, "c", 100 * 5, 0, 0, 100 * 7 + 1);
    count = rows_in_file(f);
    assert_in_range(count, 2, 110);
    assert_int_equal(fixture_number(f, "SELECT count(*) FROM usage WHERE user_id = 'few'"), 0);
}

static void all_of(struct fixture *f, uint64_t since, uint64_t until, struct store_sum *ret)
{
    struct store_usage u;

    store_usage_init(&u);
    u.since_ms = since;
    u.until_ms = until;
    usage_ask(f, &u);
    *ret = (struct store_sum){.nominal = 0};
    if (u.sum_list.len > 0)
        *ret = *container_of(list_first(&u.sum_list), struct store_sum, link);
    store_usage_fini(&u);
}

/* Boxes and users without end, for weeks: fewer and fewer details, and the same sum. Two ranges have together what both have. */
static void test_sums_stay(void **state)
{
    struct fixture *f = *state;
    struct store_sum all;

    bound(f, 60);
    for (uint64_t i = 0; i < 2000; i++) {
        char user[16];

        (void) snprintf(user, sizeof(user), "u%llu", (unsigned long long) (i % 200));
        lease(f, i * HOUR_MS / 4, i + 1, user);
        end(f, i * HOUR_MS / 4 + 1 + i, i + 1, user);
    }
    all_of(f, 0, UINT64_MAX, &all);
    assert_int_equal(all.ms[STORE_LEASED], 2000 * 2001 / 2);
    assert_true(all.nominal == (unsigned __int128) 2000 * 7 * STORE_NOMINAL_MICRO +
                                   store_usage_nominal(dear.per_hour, 2000 * 2001 / 2, 0));
    for (uint64_t i = 1; i < 50; i++) {
        struct store_sum before;
        struct store_sum after;
        uint64_t at_ms = T0 + i * 12345678;

        all_of(f, 0, at_ms, &before);
        all_of(f, at_ms, UINT64_MAX, &after);
        assert_int_equal(before.ms[STORE_LEASED] + after.ms[STORE_LEASED], all.ms[STORE_LEASED]);
        assert_true(before.nominal + after.nominal == all.nominal);
    }
    assert_in_range(rows_in_file(f), 2, 80);
}

/* What lies between full hours is exact for the newer ones, whose box is known, too. */
static void test_whole_hours(void **state)
{
    struct fixture *f = *state;
    const uint64_t at = HOUR_MS - T0 % HOUR_MS; /* a full hour */

    bound(f, 60);
    lease(f, at, 1, "a");
    for (uint64_t i = 1; i < 400; i++)
        i % 2 == 1 ? park(f, at + i * HOUR_MS / 40, 1, "a")
                   : lease(f, at + i * HOUR_MS / 40, 1, "a");
    for (uint64_t i = 0; i < 9; i++)
        expect_usage(f, at + i * HOUR_MS, at + (i + 1) * HOUR_MS, "a", HOUR_MS / 2, HOUR_MS / 2, 0,
                     3600 + (i == 0 ? 7 : 0));
    assert_in_range(rows_in_file(f), 2, 80);
    assert_int_equal(fixture_number(f, "SELECT count(*) FROM usage WHERE box_id <> 1"), 0);
}

/* Sums that are being added up while rows become one: none is counted twice, none is left out. */
static void test_folded_between_steps(void **state)
{
    struct fixture *f = *state;
    unsigned given_up = 0; /* many changes for each step are too fast for so small a table */
    unsigned restarts = 0;
    uint64_t at = 10;

    bound(f, 200);
    lease(f, 0, 1, "a");
    park(f, at, 1, "a");
    for (unsigned i = 1; i <= 100; i++) {
        struct store_usage u;

        store_usage_init(&u);
        u.by = STORE_BY_USER;
        u.max = 10;
        u.scan_max = 12 + i;
        do {
            struct put p = {.w = {.kind = STORE_READ_USAGE, .u.usage = &u}};

            u.is_stepped = false;
            assert_int_equal(fixture_write(f, &p), SP_OK);
            for (unsigned k = 0; !u.is_end && k < 5; k++, at += 2) { /* meanwhile it goes on */
                park(f, at + 1, 1, "a");
                lease(f, at + 2, 1, "a");
            }
        } while (!u.is_end);
        if (!u.is_unsteady)
            assert_int_equal(usage_sum_of(&u, "a")->ms[STORE_LEASED] +
                                 usage_sum_of(&u, "a")->ms[STORE_PARKED],
                             u.until_ms - T0);
        restarts += u.restarts;
        given_up += u.is_unsteady ? 1 : 0;
        store_usage_fini(&u);
    }
    assert_true(restarts > 0);
    assert_true(given_up < 20);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_bounds),      CASE(test_bounds_by_principal),  CASE(test_sums_stay),
        CASE(test_whole_hours), CASE(test_folded_between_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
