/* test_store_cost.c - what is used has a price: to the last part exact, by the price of its time, in sums, reports and budgets. */
#include "store/budget.h"
#include "usage_rows.h"

#define GB (1024ULL * 1024 * 1024)

/* Nothing but use: a millionth for each second of processor, MB and hour, byte of the network; a disk costs half of that. */
static const struct store_price by_use = {.per_use = {3600, 1024, GB, GB / 2}, .currency = "EUR"};

static void write_priced(struct fixture *f, uint64_t at_ms, struct put p, const char *state,
                         const struct store_price *price)
{
    rt_advance(&f->rt, (T0 + at_ms - rt_wall_ms(&f->rt)) * NS_PER_MS);
    p.w.u.box.state = state;
    p.w.u.box.user = "a";
    p.w.u.box.thread = "t";
    p.w.u.box.profile = "default";
    p.w.u.box.price = *price;
    assert_int_equal(fixture_write(f, &p), SP_OK);
}

static void sample(struct fixture *f, uint64_t at_ms, struct store_counts now)
{
    struct put p = {.w = {.kind = STORE_SAMPLE}};

    p.w.u.sample.box = 1;
    p.w.u.sample.now = now;
    rt_advance(&f->rt, (T0 + at_ms - rt_wall_ms(&f->rt)) * NS_PER_MS);
    assert_int_equal(fixture_write(f, &p), SP_OK);
}

static struct store_counts one(enum store_counter k, uint64_t n)
{
    struct store_counts c = {.known = 1U << k};

    c.n[k] = n;
    return c;
}

static unsigned __int128 nominal(struct fixture *f, uint64_t since, uint64_t until)
{
    struct store_usage u;
    unsigned __int128 ret = 0;

    store_usage_init(&u);
    u.user = "a";
    u.since_ms = since != 0 ? T0 + since : 0;
    u.until_ms = until != 0 ? T0 + until : UINT64_MAX;
    usage_ask(f, &u);
    for (struct list_node *n = list_first(&u.sum_list); n != NULL; n = list_next(&u.sum_list, n))
        ret += container_of(n, struct store_sum, link)->nominal;
    store_usage_fini(&u);
    return ret;
}

static uint64_t cost(struct fixture *f)
{
    return store_usage_cost(nominal(f, 0, 0));
}

static uint64_t spent(struct fixture *f)
{
    struct store_budget b;

    store_get_budget(f->store, "a", &b);
    return b.spent;
}

static void open_counted(struct fixture *f, bool is_monthly)
{
    f->config.budget_currency = "EUR";
    f->config.is_budget_monthly = is_monthly;
    open_metered(f);
}

static void begin(struct fixture *f)
{
    static const struct store_counts zero = {.known = (1U << STORE_COUNTER_COUNT) - 1};

    open_counted(f, false);
    write_priced(f, 1000, put_lease(1, "a", 1), "leased", &by_use);
    sample(f, 1000, zero);
}

/* Each counter alone, and nothing for one that nobody has counted. */
static void test_each_counter(void **state)
{
    struct fixture *f = *state;

    begin(f);
    assert_int_equal(cost(f), 0);
    sample(f, 2000, one(STORE_CPU_US, 5000000));
    assert_int_equal(cost(f), 5);
    sample(f, 3000, one(STORE_NET_IN, 100));
    sample(f, 3000, one(STORE_NET_OUT, 10));
    assert_int_equal(cost(f), 5 + 110);
    sample(f, 4000, one(STORE_DISK_READ, 1000));
    sample(f, 4000, one(STORE_DISK_WRITE, 3000));
    assert_int_equal(cost(f), 115 + 2000);
    sample(f, 4000, one(STORE_MEMORY, 0));
    sample(f, 5000, one(STORE_MEMORY, 2 * 7200 * 1024 * 1024ULL)); /* half of it in the middle */
    assert_int_equal(cost(f), 2115 + 2);
    assert_int_equal(spent(f), 2117);
}

/* The smallest rate for the smallest amounts: nothing is lost before the sum is rounded. */
static void test_smallest_parts(void **state)
{
    struct fixture *f = *state;
    static const struct store_price least = {.per_use = {1, 1, 1, 1}, .currency = "EUR"};

    open_counted(f, false);
    write_priced(f, 0, put_lease(1, "a", 1), "leased", &least);
    sample(f, 0, one(STORE_NET_OUT, 0));
    for (uint64_t i = 1; i <= 64; i++) {
        sample(f, i, one(STORE_NET_OUT, i * (GB / 64)));
        write_priced(f, i, put_lease(1, "a", 1), i % 2 != 0 ? "parked" : "leased", &least);
    }
    assert_true(nominal(f, 0, 0) == STORE_NOMINAL_MICRO);
    assert_int_equal(spent(f), 1);
    sample(f, 65, one(STORE_NET_OUT, GB + 1));
    assert_true(nominal(f, 0, 0) == STORE_NOMINAL_MICRO + STORE_NOMINAL_MICRO / GB);
    sample(f, 66, one(STORE_CPU_US, 0));
    sample(f, 67, one(STORE_CPU_US, 1));
    assert_true(nominal(f, 0, 0) == STORE_NOMINAL_MICRO + STORE_NOMINAL_MICRO / GB +
                                        STORE_NOMINAL_MICRO / 3600000000ULL);
}

/* Ranges that follow each other have the whole of it, to the smallest part. */
static void test_ranges(void **state)
{
    struct fixture *f = *state;
    unsigned __int128 all = 0;

    begin(f);
    sample(f, 11000, one(STORE_CPU_US, 99991));
    write_priced(f, 13000, put_lease(1, "a", 1), "parked", &by_use);
    sample(f, 17000, one(STORE_CPU_US, 199999));
    for (uint64_t at_ms = 700; at_ms < 17000; at_ms += 700)
        all += nominal(f, at_ms, at_ms + 700);
    assert_true(all == nominal(f, 0, 0));
    assert_true(all == STORE_NOMINAL_MICRO / 1000000 * 199999);
}

/* Samples have the price that is valid when they are taken; what was before is left as it was. */
static void test_price_changes(void **state)
{
    struct fixture *f = *state;
    struct put p = {.w = {.kind = STORE_REPRICE}};

    begin(f);
    sample(f, 2000, one(STORE_NET_IN, 100));
    p.w.u.box.profile = "default";
    p.w.u.box.price = by_use;
    assert_int_equal(fixture_write(f, &(struct put){.w = p.w}), SP_OK); /* it is that already */
    assert_int_equal(count_intervals(f), 1);
    p.w.u.box.price.per_use[STORE_RATE_NET] = 3 * GB;
    assert_int_equal(fixture_write(f, &(struct put){.w = p.w}), SP_OK);
    assert_int_equal(count_intervals(f), 2);
    sample(f, 3000, one(STORE_NET_IN, 110));
    assert_int_equal(cost(f), 100 + 30);
    fixture_close(f);
    fixture_start(f);
    sample(f, 4000, one(STORE_NET_IN, 111));
    assert_int_equal(cost(f), 133);
    assert_int_equal(spent(f), 133);
    p.w.u.box.price = (struct store_price){.currency = ""};
    assert_int_equal(fixture_write(f, &(struct put){.w = p.w}), SP_OK);
    sample(f, 5000, one(STORE_NET_IN, 999));
    assert_int_equal(cost(f), 133);
    assert_int_equal(spent(f), 133);
}

/* A box that is leased, sampled and parked in one millisecond: what was used is paid, by the price of the lease. */
static void test_no_time_at_all(void **state)
{
    struct fixture *f = *state;
    struct store_price other = by_use;

    begin(f);
    write_priced(f, 2000, put_lease(1, "a", 1), "parked", &by_use);
    sample(f, 2000, one(STORE_NET_IN, 50));
    other.per_use[STORE_RATE_NET] = 0;
    write_priced(f, 2000, put_lease(1, "a", 1), "leased", &other);
    rt_advance(&f->rt, NS_PER_MS);
    assert_int_equal(cost(f), 50);
    assert_int_equal(spent(f), 50);
    assert_int_equal(count_intervals(f), 3);
    assert_int_equal(store_usage_cost(nominal(f, 2000, 2001)), 50);
    assert_int_equal(store_usage_cost(nominal(f, 2001, 0)), 0);
}

/* The row of the box has it, for the report of its end. */
static void test_report(void **state)
{
    struct fixture *f = *state;
    struct put p = put_deleting(1, "a", "destroyed");
    struct store_used used = {.is_known = false};

    begin(f);
    sample(f, 2000, one(STORE_DISK_WRITE, 1001)); /* 500.5 */
    write_priced(f, 3000, put_lease(1, "a", 1), "parked", &by_use);
    sample(f, 4000, one(STORE_CPU_US, 1000000));
    fixture_close(f);
    fixture_start(f);
    p.w.u.box.used = &used;
    p.w.u.box.generation = 1;
    write_priced(f, 5000, p, "deleting", &by_use);
    assert_int_equal(store_used_cost(&used), 502);
    assert_int_equal(used.micros, 501);
    assert_string_equal(used.currency, "EUR");
    assert_int_equal(cost(f), 502);
}

/* Rows that become one have the same price, and their sum costs the same. */
static void test_folded(void **state)
{
    struct fixture *f = *state;
    struct store_price other = by_use;

    other.per_use[STORE_RATE_NET] = 2 * GB;
    f->config.want_usage = true;
    f->config.usage_max = 100;
    f->config.usage_ms = 1000 * HOUR_MS;
    fixture_start(f);
    write_priced(f, 0, put_lease(1, "a", 1), "leased", &by_use);
    sample(f, 0, one(STORE_NET_IN, 0));
    for (uint64_t i = 1; i <= 400; i++) {
        sample(f, 10 * i - 1, one(STORE_NET_IN, 3 * i));
        write_priced(f, 10 * i, put_lease(1, "a", 1), "leased", i % 2 != 0 ? &other : &by_use);
    }
    assert_int_equal(cost(f), 200 * 3 + 200 * 6);
    fixture_close(f);
    assert_in_range((size_t) fixture_number(f, "SELECT count(*) FROM usage"), 2, 110);
}

/* In a new month only what is sampled in it. */
static void test_months(void **state)
{
    struct fixture *f = *state;
    uint64_t left_ms;

    open_counted(f, true);
    left_ms = store_budget_ends(f->store) - T0;
    write_priced(f, left_ms - 5000, put_lease(1, "a", 1), "leased", &by_use);
    sample(f, left_ms - 5000, one(STORE_NET_IN, 0));
    sample(f, left_ms - 4000, one(STORE_NET_IN, 100));
    assert_int_equal(spent(f), 100);
    sample(f, left_ms + 1000, one(STORE_NET_IN, 111));
    assert_int_equal(spent(f), 11);
    write_priced(f, left_ms + 2000, put_lease(1, "a", 1), "parked", &by_use);
    assert_int_equal(spent(f), 11);
    assert_int_equal(cost(f), 111);
}

/* Amounts of a database of before are counted in larger parts. */
static void test_older_database(void **state)
{
    struct fixture *f = *state;
    struct put p = put_deleting(1, "a", "destroyed");
    struct store_used used;

    open_counted(f, false);
    lease(f, 0, 1, "a");
    park(f, 1500, 1, "a");
    fixture_close(f);
    before_prices_of_use(f);
    /* As if it had a thousand years' cost: the sum is in both halves. */
    fixture_sql(f, "UPDATE boxes SET used_rest = used_rest >> 17;"
                   "UPDATE budgets SET spent_high = 5, spent_low = -131072");
    fixture_start(f);
    assert_int_equal(spent(f),
                     (uint64_t) ((((unsigned __int128) 6 << 64) - 131072) / 3600000000000ULL));
    write_priced(f, 2000, put_lease(1, "a", 1), "leased", &by_use);
    p.w.u.box.used = &used;
    p.w.u.box.generation = 1;
    write_priced(f, 3000, p, "deleting", &by_use);
    assert_int_equal(used.micros, 7 + 2);
    assert_int_equal(used.rest, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_each_counter),  CASE(test_smallest_parts), CASE(test_ranges),
        CASE(test_price_changes), CASE(test_no_time_at_all), CASE(test_report),
        CASE(test_folded),        CASE(test_months),         CASE(test_older_database),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
