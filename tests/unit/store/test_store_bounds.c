/* test_store_bounds.c - nothing grows without end: the queue, the tables, the log. */
#include <stdio.h>
#include <stdlib.h>

#include "fixture.h"

static void test_the_queue_is_bounded(void **state)
{
    struct fixture *f = *state;
    struct put puts[6];

    f->config.queue_max = 4;
    fixture_open(f); /* not started: nothing leaves the queue */
    for (uint64_t i = 0; i < 6; i++) {
        puts[i] = put_box(i + 1, "blank");
        fixture_submit(f, &puts[i]);
    }
    rt_run(&f->rt);
    assert_int_equal(puts[4].result, SP_STORE_UNAVAILABLE);
    assert_int_equal(puts[5].result, SP_STORE_UNAVAILABLE);
    assert_false(puts[3].is_done);
    assert_int_equal(store_pending(f->store), 4);
    fixture_start(f);
    fixture_settle(f);
    assert_int_equal(puts[3].result, SP_OK);
    assert_int_equal(fixture_write(f, &puts[5]), SP_OK); /* there is room again */
}

static void test_events_are_bounded(void **state)
{
    struct fixture *f = *state;
    struct put put;
    struct image image;

    f->config.events_max = 100;
    fixture_start(f);
    for (uint64_t id = 1; id <= 500; id++) {
        put = put_event(id);
        assert_int_equal(fixture_write(f, &put), SP_OK);
    }
    fixture_close(f);
    f->config.events_max = 1000000; /* so that opening does not remove any */
    fixture_open(f);
    fixture_load(f, &image);
    assert_in_range(image.events, 100, 130);
    assert_true(image.last_event == 500);
    fixture_close(f);
    f->config.events_max = 10;
    fixture_open(f);
    fixture_load(f, &image);
    assert_int_equal(image.events, 10);
    assert_true(image.first_event == 491);
}

/* One principal writes many after others wrote a few; some writes are refused. */
static void test_events_are_bounded_by_principal(void **state)
{
    static const uint64_t few[] = {1, STORE_NOBODY, 3};
    struct fixture *f = *state;
    uint64_t id = 0;

    f->config.events_max = 100;
    fixture_start(f);
    for (size_t who = 0; who < ARRAY_LEN(few); who++) {
        for (unsigned i = 0; i < 10; i++) {
            struct put put = put_event(++id);

            put.w.u.event.principal = few[who];
            assert_int_equal(fixture_write(f, &put), SP_OK);
        }
    }
    for (unsigned i = 0; i < 1000; i++) {
        struct put put = put_event(++id);

        put.w.u.event.principal = 2;
        assert_int_equal(fixture_write(f, &put), SP_OK);
        if (i % 100 > 90) {
            put = put_event(id); /* the id is there */
            assert_int_equal(fixture_write(f, &put), SP_INTERNAL);
        }
    }
    fixture_close(f);
    assert_int_equal(fixture_number(f, "SELECT count(*) FROM events WHERE principal <> 2"), 30);
    assert_in_range(fixture_number(f, "SELECT count(*) FROM events"), 100, 130);
    f->config.events_max = 40; /* equal shares of what is left: the newest of each */
    fixture_open(f);
    fixture_close(f);
    assert_int_equal(fixture_number(f, "SELECT count(*) FROM events"), 40);
    assert_int_equal(fixture_number(f, "SELECT count(*) FROM events WHERE principal = 1"), 10);
    assert_int_equal(fixture_number(f, "SELECT max(id) FROM events"), (int64_t) id);
    assert_int_equal(fixture_number(f, "SELECT min(id) FROM events WHERE principal = 2"),
                     (int64_t) id - 9);
}

static void test_past_leases_are_bounded_and_leave_a_floor(void **state)
{
    struct fixture *f = *state;
    struct image image;

    f->config.past_max = 32;
    fixture_start(f);
    for (uint64_t i = 1; i <= 200; i++) {
        char id[16];
        struct put lease;
        struct put gone;
        struct put forget = put_forget(i);

        (void) snprintf(id, sizeof(id), "s%03u", (unsigned) i);
        lease = put_lease(i, id, i == 20 ? 1000 : i);
        gone = put_deleting(i, id, "idle");
        rt_advance(&f->rt, NS_PER_MS);
        assert_int_equal(fixture_write(f, &lease), SP_OK);
        assert_int_equal(fixture_write(f, &gone), SP_OK);
        assert_int_equal(fixture_write(f, &forget), SP_OK);
    }
    fixture_reload(f, &image);
    assert_int_equal(image.past, 32);
    assert_int_equal(image.boxes, 0);
    assert_string_equal(image.past_ids[0], "s169"); /* the oldest that is left comes first */
    assert_string_equal(image.past_ids[31], "s200");
    assert_true(image.floor == 1000);
}

/* One principal ends many boxes after another ended a few. */
static void test_past_leases_are_bounded_by_principal(void **state)
{
    struct fixture *f = *state;
    struct image image;

    f->config.past_max = 32;
    fixture_start(f);
    for (uint64_t i = 1; i <= 200; i++) {
        char id[16];
        struct put lease;
        struct put gone;
        struct put forget = put_forget(i);

        (void) snprintf(id, sizeof(id), "s%03u", (unsigned) i);
        lease = put_lease(i, id, i == 30 ? 1000 : i);
        lease.w.u.box.principal = i <= 10 ? 1 : 2;
        gone = put_deleting(i, id, "died");
        rt_advance(&f->rt, NS_PER_MS);
        assert_int_equal(fixture_write(f, &lease), SP_OK);
        assert_int_equal(fixture_write(f, &gone), SP_OK);
        assert_int_equal(fixture_write(f, &forget), SP_OK);
    }
    fixture_reload(f, &image);
    assert_int_equal(image.past, 32);
    assert_string_equal(image.past_ids[0], "s001");
    assert_string_equal(image.past_ids[9], "s010");
    assert_string_equal(image.past_ids[10], "s179");
    assert_string_equal(image.past_ids[31], "s200");
    assert_true(image.floor == 1000);
}

/* Callers that hang up before they get an answer: one box after the other is leased and blank again, or
 * leased to the next at once. */
static void test_undone_leases_are_bounded(void **state)
{
    struct fixture *f = *state;
    struct image image;

    f->config.past_max = 32;
    fixture_start(f);
    for (uint64_t i = 1; i <= 400; i++) {
        char id[16];
        struct put lease;
        struct put blank = put_box(1 + i % 3, "blank");

        (void) snprintf(id, sizeof(id), "s%03u", (unsigned) i);
        lease = put_lease(1 + i % 3, id, i);
        rt_advance(&f->rt, NS_PER_MS);
        assert_int_equal(fixture_write(f, &lease), SP_OK);
        if (i % 2 == 0)
            assert_int_equal(fixture_write(f, &blank), SP_OK);
    }
    fixture_close(f);
    assert_in_range((int) fixture_number(f, "SELECT count(*) FROM leases"), 32, 60);
    fixture_open(f);
    fixture_load(f, &image);
    assert_true(image.floor >= 300); /* no generation comes twice */
}

/* Refs are "ref-N", N from the oldest on. */
struct gone_rows {
    unsigned count;
    unsigned first;
    unsigned last;
    uint64_t last_ms;
};

static bool see_gone(void *ctx, const struct store_gone *gone)
{
    struct gone_rows *rows = ctx;
    unsigned n = 0;

    assert_int_equal(sscanf(gone->ref, "ref-%u", &n), 1);
    assert_string_equal(gone->backend, "remote:a");
    assert_string_equal(gone->life, "a-life");
    assert_true(rows->count == 0 || n == rows->last + 1);
    assert_true(gone->gone_ms > FIXTURE_WALL_MS && gone->gone_ms > rows->last_ms);
    rows->last_ms = gone->gone_ms;
    rows->first = rows->count == 0 ? n : rows->first;
    rows->last = n;
    rows->count++;
    return true;
}

static struct gone_rows load_gone(struct fixture *f)
{
    struct gone_rows rows = {0};
    struct store_reader reader = {.ctx = &rows, .on_gone = see_gone};
    struct err err = {0};

    fixture_close(f);
    fixture_open(f);
    assert_int_equal(store_load(f->store, &reader, &err), SP_OK);
    return rows;
}

static void forget_named(struct fixture *f, unsigned n, bool want_gone)
{
    struct put box = put_box(n, "deleting");
    struct put forget = put_forget(n);
    char ref[16];

    (void) snprintf(ref, sizeof(ref), "ref-%u", n);
    forget.w.want_gone = want_gone;
    forget.w.u.box.backend = "remote:a";
    forget.w.u.box.ref = ref;
    forget.w.u.box.life = "a-life";
    rt_advance(&f->rt, NS_PER_S);
    fixture_submit(f, &box);
    assert_int_equal(fixture_write(f, &forget), SP_OK);
}

static void test_boxes_that_are_gone_are_kept_and_bounded(void **state)
{
    struct fixture *f = *state;
    struct gone_rows rows;
    struct image image;

    fixture_start(f);
    forget_named(f, 1, true);
    forget_named(f, 2, true);
    forget_named(f, 3, false);
    rows = load_gone(f);
    assert_int_equal(rows.count, 2);
    fixture_load(f, &image);
    assert_int_equal(image.boxes, 0);
    fixture_start(f);
    for (unsigned n = 3; n <= STORE_GONE_MAX + 10; n++)
        forget_named(f, n, true);
    rows = load_gone(f);
    assert_int_equal(rows.count, STORE_GONE_MAX);
    assert_int_equal(rows.first, 11);
}

static uint64_t log_pages(struct fixture *f)
{
    struct store_stats stats;

    store_get_stats(f->store, &stats);
    return stats.wal_pages;
}

static void test_the_log_is_emptied_in_a_pause(void **state)
{
    struct fixture *f = *state;
    struct put put = put_box(1, "blank");
    unsigned turns = 0;

    fixture_start(f);
    while (log_pages(f) < 1000)
        assert_int_equal(fixture_write(f, &put), SP_OK);
    while (log_pages(f) > 0 && turns++ < 2000)
        (void) fixture_turn(f, 5);
    assert_true(log_pages(f) == 0);
}

/* The queue is kept full, and every write is a commit of its own. */
static void test_the_log_is_bounded_without_a_pause(void **state)
{
    enum { FLIGHT = 1000, COUNT = 40000 };
    struct fixture *f = *state;
    struct put *puts = calloc(FLIGHT, sizeof(*puts));
    uint64_t most = 0;

    assert_non_null(puts);
    f->config.batch_max = 1;
    fixture_start(f);
    for (uint64_t i = 0; i < FLIGHT; i++) {
        puts[i] = put_box(i % 8, "blank");
        puts[i].is_done = true;
    }
    for (unsigned sent = 0; sent < COUNT;) {
        for (size_t i = 0; i < FLIGHT; i++) {
            if (!puts[i].is_done)
                continue;
            fixture_submit(f, &puts[i]);
            sent++;
        }
        most = MAX_OF(most, log_pages(f));
        assert_true(fixture_turn(f, FIXTURE_WAIT_MS));
    }
    fixture_settle(f);
    assert_in_range(most, 1000, 16000 + 2 * FLIGHT);
    free(puts);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_the_queue_is_bounded),
        TEST(test_events_are_bounded),
        TEST(test_events_are_bounded_by_principal),
        TEST(test_past_leases_are_bounded_and_leave_a_floor),
        TEST(test_past_leases_are_bounded_by_principal),
        TEST(test_undone_leases_are_bounded),
        TEST(test_boxes_that_are_gone_are_kept_and_bounded),
        TEST(test_the_log_is_emptied_in_a_pause),
        TEST(test_the_log_is_bounded_without_a_pause),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
