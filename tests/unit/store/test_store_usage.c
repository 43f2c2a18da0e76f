/* test_store_usage.c - metered time: intervals that open and close with the rows, ranges, sums, pages, prices. Bounds are in test_store_fold.c; the walk
 * that compares it with exact bookkeeping through crashes is test_store_meter.c. */
#include <stdio.h>
#include <string.h>

#include "store/usage.h"
#include "usage_rows.h"

/* A hundred hours at 3600 millionths of a EUR: one for each second, and 7 for the start. */
static void test_states(void **state)
{
    struct fixture *f = *state;
    struct put p = put_lease(1, "a", 1);

    open_metered(f);
    write_at(f, 0, put_box(1, "blank"), "blank", "");
    lease(f, 1000, 1, "a");
    park(f, 61000, 1, "a");
    p.w.u.box.is_paused = true;
    write_at(f, 71000, p, "parked", "a");
    lease(f, 171000, 1, "a");
    expect_usage(f, 0, 0, "a", 60000, 10000, 100000, 7 + 170);
    rt_advance(&f->rt, 5000 * NS_PER_MS); /* open time counts until now */
    expect_usage(f, 0, 0, "a", 65000, 10000, 100000, 7 + 175);
    end(f, 177000, 1, "a");
    rt_advance(&f->rt, 5000 * NS_PER_MS);
    expect_usage(f, 0, 0, "a", 66000, 10000, 100000, 7 + 176);
    assert_int_equal(fixture_write(f, &(struct put){.w = put_forget(1).w}), SP_OK);
    expect_usage(f, 0, 0, "a", 66000, 10000, 100000, 7 + 176);
}

static void test_range_cuts(void **state)
{
    struct fixture *f = *state;

    open_metered(f);
    lease(f, 1000, 1, "a");
    park(f, 11000, 1, "a");
    lease(f, 21000, 1, "a");
    rt_advance(&f->rt, 10000 * NS_PER_MS);
    expect_usage(f, 5000, 25000, "a", 10000, 10000, 0, 20); /* the start was before */
    expect_usage(f, 1000, 2000, "a", 1000, 0, 0, 7 + 1);
    expect_usage(f, 12000, 13000, "a", 0, 1000, 0, 1);
    expect_usage(f, 22000, 999000, "a", 9000, 0, 0, 9); /* not beyond now */
}

/* A row that is written again, and metadata or deadlines that change, end nothing. */
static void test_same_interval(void **state)
{
    struct fixture *f = *state;
    struct put p = put_lease(1, "a", 1);

    open_metered(f);
    lease(f, 1000, 1, "a");
    p.w.u.box.expires_ms = 99;
    p.w.u.box.meta = "{}";
    write_at(f, 2000, p, "leased", "a");
    lease(f, 3000, 1, "a");
    assert_int_equal(count_intervals(f), 1);
    park(f, 3000, 1, "a");
    lease(f, 3000, 1, "a"); /* parked for no time at all */
    assert_int_equal(count_intervals(f), 2);
    expect_usage(f, 0, 0, "a", 2001, 0, 0, 7 + 2);
}

/* What ends before it began, by a clock that went wrong, has no length. */
static void test_never_negative(void **state)
{
    struct fixture *f = *state;
    struct put p = put_deleting(1, "a", "died");

    open_metered(f);
    lease(f, 5000, 1, "a");
    p.w.u.box.true_ms = T0 + 1000;
    write_at(f, 9000, p, "deleting", "a");
    expect_usage(f, 0, 0, "a", 0, 0, 0, 7);
    lease(f, 10000, 2, "b");
    p = put_deleting(2, "b", "died");
    p.w.u.box.true_ms = T0 + 12000; /* last seen */
    write_at(f, 90000, p, "deleting", "b");
    expect_usage(f, 0, 0, "b", 2000, 0, 0, 7 + 2);
    lease(f, 100000, 3, "c"); /* nor does the next one begin before it */
    p = put_lease(3, "c", 3);
    p.w.u.box.true_ms = T0 + 1000;
    write_at(f, 101000, p, "parked", "c");
    end(f, 105000, 3, "c");
    expect_usage(f, 0, 0, "c", 0, 5000, 0, 7 + 5);
}

/* A box that goes from one owner to another, and one whose row goes without being deleted first. */
static void test_owner_changes(void **state)
{
    struct fixture *f = *state;
    struct put p;

    open_metered(f);
    lease(f, 1000, 1, "a");
    lease(f, 2000, 1, "b");
    p = put_forget(1);
    rt_advance(&f->rt, 4000 * NS_PER_MS);
    assert_int_equal(fixture_write(f, &p), SP_OK);
    rt_advance(&f->rt, 4000 * NS_PER_MS);
    expect_usage(f, 0, 0, "a", 1000, 0, 0, 7 + 1);
    expect_usage(f, 0, 0, "b", 4000, 0, 0, 7 + 4);
}

static void test_price_changes(void **state)
{
    struct fixture *f = *state;
    struct put p = {.w = {.kind = STORE_REPRICE}};

    open_metered(f);
    lease(f, 0, 1, "a");
    lease(f, 0, 2, "a");
    rt_advance(&f->rt, 10000 * NS_PER_MS);
    p.w.u.box.profile = "default";
    p.w.u.box.price =
        (struct store_price){.per_hour = 2 * dear.per_hour, .per_start = 100, .currency = "EUR"};
    assert_int_equal(fixture_write(f, &p), SP_OK);
    assert_int_equal(count_intervals(f), 4);
    assert_int_equal(fixture_write(f, &(struct put){.w = p.w}), SP_OK); /* it is that already */
    assert_int_equal(count_intervals(f), 4);
    rt_advance(&f->rt, 9998 * NS_PER_MS);
    expect_usage(f, 0, 0, "a", 40000, 0, 0, 14 + 20 + 40);
    p.w.u.box.profile = "other";
    p.w.u.box.price = (struct store_price){.currency = ""};
    assert_int_equal(fixture_write(f, &p), SP_OK);
    expect_usage(f, 0, 0, "a", 40000, 0, 0, 14 + 20 + 40);
}

/* Whoever does not know the price leaves it as it is. */
static void test_unknown_price(void **state)
{
    struct fixture *f = *state;
    struct put p = put_lease(1, "a", 1);

    open_metered(f);
    lease(f, 0, 1, "a");
    rt_advance(&f->rt, 1000 * NS_PER_MS);
    p.w.u.box.state = "parked";
    p.w.u.box.user = "a";
    p.w.u.box.thread = "t";
    p.w.u.box.profile = "default";
    assert_int_equal(fixture_write(f, &p), SP_OK);
    rt_advance(&f->rt, 1000 * NS_PER_MS);
    expect_usage(f, 0, 0, "a", 1000, 1000, 0, 7 + 2);
}

static void test_pages(void **state)
{
    struct fixture *f = *state;
    struct store_usage u;
    uint64_t seen = 0;
    uint64_t total = 0;
    bool is_past_open = false;
    bool has_place = false;
    int64_t place = 0;

    open_metered(f);
    for (uint64_t i = 1; i <= 20; i++) {
        lease(f, 1000 * i, i, "a");
        if (i % 2 == 0)
            end(f, 1000 * i + i, i, "a");
    }
    do {
        store_usage_init(&u);
        u.want_rows = true;
        u.max = 3;
        u.scan_max = 4;
        u.until_ms = T0 + 30000;
        u.is_past_open = is_past_open;
        u.has_place = has_place;
        u.place = place;
        usage_ask(f, &u);
        for (size_t i = 0; i < u.row_count; i++)
            total += u.rows[i].ended_ms != 0 ? u.rows[i].ended_ms - u.rows[i].began_ms : 0;
        seen += u.row_count;
        is_past_open = u.is_past_open;
        has_place = u.has_place;
        place = u.place;
        store_usage_fini(&u);
    } while (seen < 20);
    assert_int_equal(seen, 20);
    assert_int_equal(total, 2 + 4 + 6 + 8 + 10 + 12 + 14 + 16 + 18 + 20);
}

/* Sums that are being added up while intervals close count each of them once. */
static void test_closed_between_steps(void **state)
{
    struct fixture *f = *state;
    struct store_usage u;
    uint64_t next = 1;

    open_metered(f);
    for (uint64_t i = 1; i <= 30; i++)
        lease(f, 0, i, "a");
    rt_advance(&f->rt, 10000 * NS_PER_MS);
    store_usage_init(&u);
    u.by = STORE_BY_USER;
    u.max = 10;
    u.scan_max = 4;
    do { /* boxes that were looked at, and boxes that were not, end meanwhile */
        struct put p = {.w = {.kind = STORE_READ_USAGE, .u.usage = &u}};

        u.is_stepped = false;
        assert_int_equal(fixture_write(f, &p), SP_OK);
        if (next <= 15) {
            end(f, 10000 + next, next, "a");
            end(f, 10000 + next, 31 - next, "a");
            lease(f, 10000 + next, 100 + next, "a");
            next++;
        }
    } while (!u.is_end);
    assert_int_equal(usage_sum_of(&u, "a")->ms[STORE_LEASED], 30 * 10000);
    store_usage_fini(&u);
}

static void test_filters(void **state)
{
    struct fixture *f = *state;
    struct store_usage u;
    struct put p = put_lease(3, "c", 3);

    open_metered(f);
    lease(f, 0, 1, "a");
    lease(f, 0, 2, "b");
    p.w.u.box.principal = 77;
    write_at(f, 0, p, "leased", "a");
    rt_advance(&f->rt, 1000 * NS_PER_MS);
    for (int i = 0; i < 5; i++) {
        static const unsigned sums[] = {1, 0, 1, 1, 2};
        static const uint64_t total[] = {2000, 0, 1000, 1000, 3000};
        uint64_t ms = 0;

        store_usage_init(&u);
        u.user = i == 0 ? "a" : NULL;
        u.profile = i == 1 ? "none" : NULL;
        u.sandbox_id = i == 2 ? "b" : NULL;
        u.has_principal = i == 3;
        u.principal = 77;
        u.by = STORE_BY_USER;
        usage_ask(f, &u);
        assert_int_equal(u.sum_list.len, sums[i]);
        for (struct list_node *n = list_first(&u.sum_list); n != NULL;
             n = list_next(&u.sum_list, n))
            ms += container_of(n, struct store_sum, link)->ms[STORE_LEASED];
        assert_int_equal(ms, total[i]);
        store_usage_fini(&u);
    }
    store_usage_init(&u);
    u.by = STORE_BY_SANDBOX;
    u.max = 2;
    usage_ask(f, &u);
    assert_true(u.is_cut && u.is_end);
    store_usage_fini(&u);
}

static void test_off_costs_nothing(void **state)
{
    struct fixture *f = *state;

    open_metered(f);
    lease(f, 0, 1, "a");
    fixture_close(f);
    f->config.want_usage = false;
    fixture_start(f);
    rt_advance(&f->rt, 9000 * NS_PER_MS);
    park(f, 9000, 1, "a");
    end(f, 9500, 1, "a");
    assert_int_equal(count_intervals(f), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_states),
        CASE(test_range_cuts),
        CASE(test_same_interval),
        CASE(test_never_negative),
        CASE(test_owner_changes),
        CASE(test_price_changes),
        CASE(test_unknown_price),
        CASE(test_pages),
        CASE(test_closed_between_steps),
        CASE(test_filters),
        CASE(test_off_costs_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
