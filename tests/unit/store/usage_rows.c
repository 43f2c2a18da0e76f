/* usage_rows.c - see usage_rows.h. */
#include "usage_rows.h"

#include <string.h>

const struct store_price dear = {.per_hour = 3600000000ULL, .per_start = 7, .currency = "EUR"};

void open_metered(struct fixture *f)
{
    f->config.want_usage = true;
    f->config.usage_max = 100000;
    f->config.usage_ms = 1000 * HOUR_MS;
    fixture_start(f);
}

void write_at(struct fixture *f, uint64_t at_ms, struct put p, const char *state, const char *user)
{
    rt_advance(&f->rt, (T0 + at_ms - rt_wall_ms(&f->rt)) * NS_PER_MS);
    p.w.u.box.state = state;
    p.w.u.box.user = user;
    p.w.u.box.thread = "t";
    p.w.u.box.profile = "default";
    p.w.u.box.price = dear;
    assert_int_equal(fixture_write(f, &p), SP_OK);
}

void lease(struct fixture *f, uint64_t at_ms, uint64_t box, const char *user)
{
    write_at(f, at_ms, put_lease(box, user, box), "leased", user);
}

void park(struct fixture *f, uint64_t at_ms, uint64_t box, const char *user)
{
    write_at(f, at_ms, put_lease(box, user, box), "parked", user);
}

void end(struct fixture *f, uint64_t at_ms, uint64_t box, const char *user)
{
    write_at(f, at_ms, put_deleting(box, user, "destroyed"), "deleting", user);
}

void usage_ask(struct fixture *f, struct store_usage *u)
{
    u->max = u->max != 0 ? u->max : 100;
    do {
        struct put p = {.w = {.kind = STORE_READ_USAGE, .u.usage = u}};

        u->scan_max = u->scan_max != 0 ? u->scan_max : 3;
        u->is_stepped = false;
        assert_int_equal(fixture_write(f, &p), SP_OK);
    } while (!u->is_end);
}

const struct store_sum *usage_sum_of(struct store_usage *u, const char *user)
{
    for (struct list_node *n = list_first(&u->sum_list); n != NULL;
         n = list_next(&u->sum_list, n)) {
        const struct store_sum *sum = container_of(n, struct store_sum, link);

        if (strcmp(sum->user, user) == 0)
            return sum;
    }
    fail_msg("nothing of %s", user);
    return NULL;
}

void expect_usage(struct fixture *f, uint64_t since, uint64_t until, const char *user,
                  uint64_t leased, uint64_t parked, uint64_t paused, uint64_t micros)
{
    struct store_usage u;
    const struct store_sum *sum;

    store_usage_init(&u);
    u.by = STORE_BY_USER;
    u.since_ms = since != 0 ? T0 + since : 0;
    u.until_ms = until != 0 ? T0 + until : UINT64_MAX;
    usage_ask(f, &u);
    sum = usage_sum_of(&u, user);
    assert_int_equal(sum->ms[STORE_LEASED], leased);
    assert_int_equal(sum->ms[STORE_PARKED], parked);
    assert_int_equal(sum->ms[STORE_PAUSED], paused);
    assert_int_equal(store_usage_cost(sum->nominal), micros);
    store_usage_fini(&u);
}

size_t count_intervals(struct fixture *f)
{
    struct store_usage u;
    size_t count;

    rt_advance(&f->rt, NS_PER_MS); /* else those that began right now are not yet in the range */
    store_usage_init(&u);
    u.want_rows = true;
    u.max = 1000;
    usage_ask(f, &u);
    count = u.row_count;
    store_usage_fini(&u);
    return count;
}

void before_prices_of_use(struct fixture *f)
{
    fixture_sql(f, "DROP TABLE tokens;"
                   "ALTER TABLE boxes DROP COLUMN per_use; ALTER TABLE usage DROP COLUMN per_use;"
                   "PRAGMA user_version=14");
}
