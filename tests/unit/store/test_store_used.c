/* test_store_used.c - what a binding has used, in the row of its box: known when the box ends, and after a restart. */
#include "usage_rows.h"

static struct store_used used_at_end(struct fixture *f, uint64_t at_ms, uint64_t box,
                                     const char *user, uint64_t generation)
{
    struct store_used used = {.is_mixed = true};
    struct put p = put_deleting(box, user, "destroyed");

    p.w.u.box.used = &used;
    p.w.u.box.generation = generation;
    write_at(f, at_ms, p, "deleting", user);
    return used;
}

static void expect_used(const struct store_used *used, uint64_t leased, uint64_t parked,
                        uint64_t paused, uint64_t micros)
{
    assert_true(used->is_known);
    assert_int_equal(used->ms[STORE_LEASED], leased);
    assert_int_equal(used->ms[STORE_PARKED], parked);
    assert_int_equal(used->ms[STORE_PAUSED], paused);
    assert_int_equal(store_used_cost(used), micros);
}

static bool see_used(void *ctx, const struct store_box *box)
{
    *(struct store_used *) ctx = *box->used;
    return true;
}

/* The end of a box knows what its binding has used, and the row that says that it ends remembers it. */
static void test_used(void **state)
{
    struct fixture *f = *state;
    struct store_used used;
    struct store_reader reader = {.ctx = &used, .on_box = see_used};
    struct put p = put_lease(1, "a", 1);

    open_metered(f);
    lease(f, 0, 1, "other"); /* a lease that was undone: somebody else's time */
    write_at(f, 400, put_box(1, "blank"), "blank", "");
    lease(f, 1000, 1, "a");
    park(f, 61000, 1, "a");
    p.w.u.box.is_paused = true;
    write_at(f, 71000, p, "parked", "a");
    lease(f, 171000, 1, "a");
    used = used_at_end(f, 171500, 1, "a", 1);
    expect_used(&used, 60500, 10000, 100000, 7 + 171); /* half a millionth is rounded up */
    assert_string_equal(used.currency, "EUR");
    fixture_close(f);
    fixture_open(f);
    assert_int_equal(store_load(f->store, &reader, NULL), SP_OK);
    expect_used(&used, 60500, 10000, 100000, 7 + 171);
    assert_int_equal(store_start(f->store, NULL), SP_OK);
    used = used_at_end(f, 172000, 1, "a", 1); /* it is tried again */
    expect_used(&used, 60500, 10000, 100000, 7 + 171);
    write_at(f, 173000, put_box(2, "blank"), "blank", "");
    used = used_at_end(f, 174000, 2, "", 0);
    expect_used(&used, 0, 0, 0, 0);
    assert_string_equal(used.currency, "");
}

static void test_used_in_two_currencies(void **state)
{
    struct fixture *f = *state;
    struct put p = {.w = {.kind = STORE_REPRICE}};
    struct store_used used;

    open_metered(f);
    lease(f, 0, 1, "a");
    rt_advance(&f->rt, 1000 * NS_PER_MS);
    p.w.u.box.profile = "default";
    p.w.u.box.price = (struct store_price){.per_hour = dear.per_hour, .currency = "USD"};
    assert_int_equal(fixture_write(f, &p), SP_OK);
    used = used_at_end(f, 3000, 1, "a", 1);
    assert_true(used.is_known && used.is_mixed);
    assert_int_equal(used.ms[STORE_LEASED], 3000);
}

static void test_off(void **state)
{
    struct fixture *f = *state;
    struct store_used used;

    fixture_start(f);
    lease(f, 0, 1, "a");
    used = used_at_end(f, 1000, 1, "a", 1);
    assert_false(used.is_known);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_used),
        CASE(test_used_in_two_currencies),
        CASE(test_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
