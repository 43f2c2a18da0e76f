/* usage_rows.c - see usage_rows.h. */
#include "usage_rows.h"

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
