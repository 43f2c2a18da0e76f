/* test_store_budget.c - what users have spent: by the same intervals as GET /v1/usage, exact through late ends, prices that change,
 * months, restarts and times in which nothing was counted. */
#include "store/budget.h"
#include "usage_rows.h"

#define DAY_MS (24 * HOUR_MS)

static void open_counted(struct fixture *f, bool is_monthly)
{
    f->config.budget_currency = "EUR";
    f->config.is_budget_monthly = is_monthly;
    open_metered(f);
}

static void at(struct fixture *f, uint64_t at_ms)
{
    rt_advance(&f->rt, (T0 + at_ms - rt_wall_ms(&f->rt)) * NS_PER_MS);
}

static uint64_t spent_by(struct fixture *f, const char *user)
{
    struct store_budget b;

    store_get_budget(f->store, user, &b);
    return b.spent;
}

static int change(struct fixture *f, enum store_budget_deed deed, const char *user, uint64_t amount)
{
    struct store_budget_call c = {.deed = deed, .user = user, .amount = amount};
    struct put p = {.w = {.kind = STORE_BUDGET, .u.budget = &c}};

    return fixture_write(f, &p);
}

/* One millionth a second for each box, and 7 for its start. */
static void test_line(void **state)
{
    struct fixture *f = *state;

    open_counted(f, false);
    assert_int_equal(spent_by(f, "a"), 0);
    lease(f, 0, 1, "a");
    at(f, 10000);
    assert_int_equal(spent_by(f, "a"), 7 + 10);
    lease(f, 20000, 2, "a");
    lease(f, 20000, 3, "b");
    park(f, 25000, 1, "a");
    at(f, 30000);
    assert_int_equal(spent_by(f, "a"), 14 + 30 + 10);
    assert_int_equal(spent_by(f, "b"), 7 + 10);
    end(f, 30000, 1, "a");
    end(f, 40000, 2, "a");
    at(f, 90000);
    assert_int_equal(spent_by(f, "a"), 14 + 30 + 20);
    assert_int_equal(spent_by(f, "b"), 7 + 70);
}

/* A box that is lost ended before other intervals began and ended. */
static void test_late_end(void **state)
{
    struct fixture *f = *state;
    struct put p = put_deleting(1, "a", "died");

    open_counted(f, false);
    lease(f, 0, 1, "a");
    lease(f, 50000, 2, "a");
    p.w.u.box.true_ms = T0 + 20000;
    write_at(f, 80000, p, "deleting", "a");
    assert_int_equal(spent_by(f, "a"), 14 + 20 + 30);
    at(f, 100000);
    assert_int_equal(spent_by(f, "a"), 14 + 20 + 50);
    p = put_deleting(2, "a", "died"); /* last seen before it began: nothing but the start */
    p.w.u.box.true_ms = T0 + 1000;
    write_at(f, 110000, p, "deleting", "a");
    assert_int_equal(spent_by(f, "a"), 14 + 20);
}

static void test_price_and_currency(void **state)
{
    struct fixture *f = *state;
    struct put p = {.w = {.kind = STORE_REPRICE}};

    open_counted(f, false);
    lease(f, 0, 1, "a");
    at(f, 10000);
    p.w.u.box.profile = "default";
    p.w.u.box.price = (struct store_price){.per_hour = 2 * dear.per_hour, .currency = "EUR"};
    assert_int_equal(fixture_write(f, &(struct put){.w = p.w}), SP_OK);
    at(f, 20000);
    assert_int_equal(spent_by(f, "a"), 7 + 10 + 20);
    p.w.u.box.price = (struct store_price){.per_hour = dear.per_hour,
                                           .currency = "USD"}; /* which does not count */
    assert_int_equal(fixture_write(f, &(struct put){.w = p.w}), SP_OK);
    at(f, 50000);
    assert_int_equal(spent_by(f, "a"), 7 + 10 + 20);
    end(f, 60000, 1, "a");
    assert_int_equal(spent_by(f, "a"), 7 + 10 + 20);
}

static void test_restart(void **state)
{
    struct fixture *f = *state;

    open_counted(f, false);
    lease(f, 0, 1, "a");
    park(f, 5500, 1, "a");
    assert_int_equal(change(f, STORE_BUDGET_SET, "a", 100), SP_OK);
    fixture_close(f);
    at(f, 20000);
    fixture_start(f);
    assert_int_equal(spent_by(f, "a"), 7 + 20);
    end(f, 30000, 1, "a");
    fixture_close(f);
    fixture_start(f);
    at(f, 90000);
    assert_int_equal(spent_by(f, "a"), 7 + 30);
}

/* Turned off nothing is counted; turned on again it goes on, with what is open by then. */
static void test_off_for_a_while(void **state)
{
    struct fixture *f = *state;
    struct store_budget b;

    open_counted(f, false);
    lease(f, 0, 1, "a");
    assert_int_equal(change(f, STORE_BUDGET_CREDIT, "a", 55), SP_OK);
    end(f, 10000, 1, "a");
    fixture_close(f);
    f->config.budget_currency = NULL;
    fixture_start(f);
    lease(f, 20000, 1, "a");
    lease(f, 20000, 2, "b");
    end(f, 30000, 1, "a");
    fixture_close(f);
    at(f, 40000);
    open_counted(f, false);
    assert_int_equal(spent_by(f, "a"), 7 + 10);
    assert_int_equal(spent_by(f, "b"), 0);
    at(f, 50000);
    assert_int_equal(spent_by(f, "a"), 7 + 10);
    assert_int_equal(spent_by(f, "b"), 10);
    fixture_close(f);
    f->config.budget_currency = "USD"; /* another count; what was given stays */
    fixture_start(f);
    at(f, 60000);
    assert_int_equal(spent_by(f, "b"), 0);
    store_get_budget(f->store, "a", &b);
    assert_int_equal(b.spent, 0);
    assert_int_equal(b.credit, 55);
}

/* The month of T0 ends, and the next one has only its own part; credits end with it. */
static void test_months(void **state)
{
    struct fixture *f = *state;
    struct put p = put_deleting(2, "a", "died");
    struct store_budget b;
    uint64_t left_ms;

    open_counted(f, true);
    left_ms = store_budget_ends(f->store) - T0;
    assert_true(left_ms > 0 && left_ms <= 31 * DAY_MS);
    lease(f, left_ms - 100000, 1, "a");
    lease(f, left_ms - 60000, 2, "a");
    assert_int_equal(change(f, STORE_BUDGET_SET, "a", 1000), SP_OK);
    assert_int_equal(change(f, STORE_BUDGET_CREDIT, "a", 500), SP_OK);
    assert_int_equal(change(f, STORE_BUDGET_CREDIT, "a", 5), SP_OK);
    at(f, left_ms - 1);
    store_get_budget(f->store, "a", &b);
    assert_int_equal(b.spent, 14 + 159);
    assert_true(b.has_amount);
    assert_int_equal(b.amount, 1000);
    assert_int_equal(b.credit, 505);
    at(f, left_ms + 10000);
    store_get_budget(f->store, "a", &b);
    assert_int_equal(b.spent, 20);
    assert_int_equal(b.amount, 1000);
    assert_int_equal(b.credit, 0);
    park(f, left_ms + 20000, 1, "a");
    at(f, left_ms + 30000);
    assert_int_equal(spent_by(f, "a"), 60);
    p.w.u.box.true_ms = T0 + left_ms - 50000; /* it was seen last in the month before */
    write_at(f, left_ms + 40000, p, "deleting", "a");
    assert_int_equal(spent_by(f, "a"), 40);
    assert_true(store_budget_ends(f->store) > T0 + left_ms);
    assert_int_equal(change(f, STORE_BUDGET_DEFAULT, "a", 0), SP_OK);
    store_get_budget(f->store, "a", &b);
    assert_false(b.has_amount);
    fixture_close(f);
    fixture_start(f);
    assert_int_equal(spent_by(f, "a"), 40);
}

/* The wall clock is set, also over the end of a month and back. */
static void test_clock_is_set(void **state)
{
    struct fixture *f = *state;
    int64_t far_ms;

    open_counted(f, true);
    lease(f, 0, 1, "a");
    at(f, 10000);
    assert_int_equal(spent_by(f, "a"), 17);
    f->rt.wall_offset_ms += 3600 * 1000;
    assert_int_equal(spent_by(f, "a"), 17);
    far_ms = (int64_t) (store_budget_ends(f->store) - rt_wall_ms(&f->rt) + 3 * DAY_MS);
    f->rt.wall_offset_ms += far_ms;
    assert_int_equal(spent_by(f, "a"),
                     10); /* another month: time since the last change of the row */
    f->rt.wall_offset_ms -= far_ms;
    assert_int_equal(spent_by(f, "a"), 17); /* nothing was written meanwhile */
}

static void test_list(void **state)
{
    struct fixture *f = *state;
    struct store_budget_call c = {.deed = STORE_BUDGET_LIST, .user = "", .max = 2};
    struct put p = {.w = {.kind = STORE_BUDGET, .u.budget = &c}};

    open_counted(f, false);
    assert_int_equal(change(f, STORE_BUDGET_SET, "c", 3), SP_OK);
    assert_int_equal(change(f, STORE_BUDGET_SET, "a", 1), SP_OK);
    lease(f, 0, 1, "b");
    at(f, 1000);
    assert_int_equal(fixture_write(f, &(struct put){.w = p.w}), SP_OK);
    assert_int_equal(c.count, 2);
    assert_true(c.has_more);
    assert_string_equal(c.lines[0].user, "a");
    assert_string_equal(c.lines[1].user, "b");
    assert_int_equal(c.lines[1].budget.spent, 8);
    store_budget_call_fini(&c);
    c.user = "b";
    assert_int_equal(fixture_write(f, &(struct put){.w = p.w}), SP_OK);
    assert_int_equal(c.count, 1);
    assert_false(c.has_more);
    assert_int_equal(c.lines[0].budget.amount, 3);
    store_budget_call_fini(&c);
}

/* A batch with a write that is wrong in itself is tried twice; what it spends is shown once. */
static void test_batch_tried_twice(void **state)
{
    struct fixture *f = *state;
    struct put good = put_lease(1, "a", 1);
    struct put bad = put_box(2, "nonsense");

    open_counted(f, false);
    good.w.u.box.user = "a";
    good.w.u.box.price = dear;
    fixture_submit(f, &good);
    fixture_submit(f, &bad);
    fixture_settle(f);
    assert_int_equal(good.result, SP_OK);
    assert_int_not_equal(bad.result, SP_OK);
    assert_int_equal(spent_by(f, "a"), 7);
}

/* Names cost nothing: those that spent least are forgotten, not those that spent long ago. */
static void test_many_users(void **state)
{
    struct fixture *f = *state;

    open_counted(f, false);
    lease(f, 0, 1, "a");
    end(f, 10000, 1, "a");
    lease(f, 0, 2, "rich");
    end(f, 10 * DAY_MS, 2, "rich");
    at(f, 11 * DAY_MS);
    fixture_close(f);
    /* Half of them spent as much as a box's start; the sums are two halves, of which the lower has no sign. */
    fixture_sql(f,
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150000) "
                "INSERT INTO budgets SELECT 'n' || i, -1, 0, 0, 0, at_ms + 1000, 0, 0, 0, "
                "iif(i % 2, 0, 1) FROM n, (SELECT max(at_ms) AS at_ms FROM budgets)");
    fixture_sql(f, "UPDATE budgets SET spent_low = -5 WHERE user_id = 'rich' AND spent_high = 0");
    fixture_start(f);
    assert_int_equal(spent_by(f, "a"), 7 + 10);
    assert_true(spent_by(f, "rich") > 100000);
    fixture_close(f);
    assert_int_equal(fixture_number(f, "SELECT count(*) FROM budgets"), STORE_BUDGETS_MAX);
    assert_int_equal(fixture_number(f, "SELECT count(*) FROM budgets WHERE spent_low = 1"), 75000);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_line),
        CASE(test_late_end),
        CASE(test_price_and_currency),
        CASE(test_restart),
        CASE(test_off_for_a_while),
        CASE(test_months),
        CASE(test_clock_is_set),
        CASE(test_list),
        CASE(test_batch_tried_twice),
        CASE(test_many_users),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
