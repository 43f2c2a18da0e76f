/* test_store.c - the contract of store.h on a healthy disk: what is written is read back, in order,
 * wrong writes fail alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fixture.h"
#include "store/internal.h"

static const struct store_box full_box = {
    .id = 0xfedcba9876543210,
    .state = "leased",
    .profile = "default",
    .backend = "sim",
    .spec_hash = 0xffffffffffffffff,
    .sandbox_id = "fe0dc8182dec7b77",
    .user = "us'er",
    .thread = "thr\"ead",
    .principal = 0x8000000000000001,
    .generation = 7,
    .made_with = UINT64_MAX - 3,
    .url = "http://127.0.0.1:1",
    .token = "tok",
    .ref = "ref",
    .meta = "{\"k\":\"\xc3\xa4\"}",
    .created_ms = 1,
    .ready_ms = 2,
    .leased_ms = 3,
    .parked_ms = 4,
    .active_ms = 5,
    .expires_ms = 6,
    .idle_limit_ms = 7,
    .end = "idle",
};

static bool expect_full_box(void *ctx, const struct store_box *box)
{
    const struct store_box *want = &full_box;

    (*(unsigned *) ctx)++;
    assert_true(box->id == want->id);
    assert_string_equal(box->state, want->state);
    assert_string_equal(box->profile, want->profile);
    assert_string_equal(box->backend, want->backend);
    assert_true(box->spec_hash == want->spec_hash);
    assert_string_equal(box->sandbox_id, want->sandbox_id);
    assert_string_equal(box->user, want->user);
    assert_string_equal(box->thread, want->thread);
    assert_true(box->principal == want->principal);
    assert_true(box->generation == want->generation);
    assert_true(box->made_with == want->made_with);
    assert_string_equal(box->url, want->url);
    assert_string_equal(box->token, want->token);
    assert_string_equal(box->ref, want->ref);
    assert_string_equal(box->meta, want->meta);
    assert_true(box->created_ms == 1 && box->ready_ms == 2 && box->leased_ms == 3);
    assert_true(box->parked_ms == 4 && box->active_ms == 5 && box->expires_ms == 6);
    assert_true(box->idle_limit_ms == 7);
    assert_string_equal(box->end, want->end);
    return true;
}

static bool expect_event(void *ctx, const struct store_event *event)
{
    (*(unsigned *) ctx)++;
    assert_true(event->id == 1 && event->at_ms == 99);
    assert_string_equal(event->kind, "leased");
    assert_string_equal(event->body, "{\"a\":1}");
    return true;
}

static bool expect_meta(void *ctx, const char *key, const char *value)
{
    (*(unsigned *) ctx)++;
    assert_string_equal(key, "mode");
    assert_string_equal(value, "paused");
    return true;
}

static void test_every_field_comes_back(void **state)
{
    struct fixture *f = *state;
    struct put box = {.w = {.kind = STORE_PUT_LEASE, .u.box = full_box}};
    struct put event = {
        .w = {.kind = STORE_ADD_EVENT,
              .u.event = {.id = 1, .at_ms = 99, .kind = "leased", .body = "{\"a\":1}"}}};
    struct put meta = put_meta("mode", "running");
    unsigned rows = 0;
    struct store_reader reader = {.ctx = &rows,
                                  .on_box = expect_full_box,
                                  .on_event = expect_event,
                                  .on_meta = expect_meta,
                                  .events_tail = 10};
    struct err err;

    fixture_start(f);
    assert_int_equal(fixture_write(f, &box), SP_OK);
    assert_int_equal(fixture_write(f, &event), SP_OK);
    assert_int_equal(fixture_write(f, &meta), SP_OK);
    meta.w.u.meta.value = "paused"; /* replaces */
    meta.w.want_power = true;
    assert_int_equal(fixture_write(f, &meta), SP_OK);
    fixture_close(f);
    fixture_open(f);
    assert_int_equal(store_load(f->store, &reader, &err), SP_OK);
    assert_int_equal(rows, 3);
}

static void test_null_is_empty_text(void **state)
{
    struct fixture *f = *state;
    struct put box = put_box(1, "blank");
    struct image image;

    fixture_start(f);
    assert_int_equal(fixture_write(f, &box), SP_OK);
    fixture_reload(f, &image);
    assert_int_equal(image.boxes, 1);
}

static void test_boxes_come_by_age_then_id(void **state)
{
    struct fixture *f = *state;
    struct put puts[] = {put_box(UINT64_MAX, "blank"), put_box(3, "blank"), put_box(1, "blank"),
                         put_box(2, "blank")};
    const uint64_t want[] = {2, 1, 3, UINT64_MAX};
    struct image image;

    puts[3].w.u.box.created_ms = 5;
    for (size_t i = 0; i < 3; i++)
        puts[i].w.u.box.created_ms = 6;
    fixture_start(f);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(fixture_write(f, &puts[i]), SP_OK);
    fixture_reload(f, &image);
    assert_int_equal(image.boxes, 4);
    assert_memory_equal(image.box_ids, want, sizeof(want));
}

static void test_a_lease_ends_only_with_its_own_box(void **state)
{
    struct fixture *f = *state;
    struct put first = put_lease(1, "a", 1);
    struct put second = put_lease(2, "a", 2);
    struct put old_gone = put_deleting(1, "a", "died");
    struct put gone = put_deleting(2, "a", "ttl");
    struct put twice = put_deleting(2, "a", "drained");
    struct image image;

    fixture_start(f);
    assert_int_equal(fixture_write(f, &first), SP_OK);
    assert_int_equal(fixture_write(f, &second), SP_OK);
    assert_int_equal(fixture_write(f, &old_gone), SP_OK);
    fixture_reload(f, &image);
    assert_int_equal(image.past, 0); /* the newer binding stands */
    assert_int_equal(image.boxes, 2);
    fixture_start(f);
    rt_advance(&f->rt, 7 * NS_PER_MS);
    assert_int_equal(fixture_write(f, &gone), SP_OK);
    rt_advance(&f->rt, 7 * NS_PER_MS);
    assert_int_equal(fixture_write(f, &twice), SP_OK);
    fixture_reload(f, &image);
    assert_int_equal(image.past, 1);
    assert_string_equal(image.past_ids[0], "a");
    assert_string_equal(image.past_ends[0], "ttl"); /* the first cause stays */
    assert_true(image.past_generations[0] == 2);
    assert_true(image.past_ended[0] == FIXTURE_WALL_MS + 7);
}

static void test_a_new_lease_revives_the_row(void **state)
{
    struct fixture *f = *state;
    struct put lease = put_lease(1, "a", 1);
    struct put gone = put_deleting(1, "a", "idle");
    struct put again = put_lease(2, "a", 2);
    struct image image;

    fixture_start(f);
    assert_int_equal(fixture_write(f, &lease), SP_OK);
    assert_int_equal(fixture_write(f, &gone), SP_OK);
    assert_int_equal(fixture_write(f, &again), SP_OK);
    fixture_reload(f, &image);
    assert_int_equal(image.past, 0);
}

static void test_forgetting_a_box_ends_its_lease(void **state)
{
    struct fixture *f = *state;
    struct put lease = put_lease(1, "a", 5);
    struct put forget = put_forget(1);
    struct put unknown = put_forget(77);
    struct image image;

    fixture_start(f);
    assert_int_equal(fixture_write(f, &lease), SP_OK);
    assert_int_equal(fixture_write(f, &forget), SP_OK);
    assert_int_equal(fixture_write(f, &unknown), SP_OK);
    fixture_reload(f, &image);
    assert_int_equal(image.boxes, 0);
    assert_int_equal(image.past, 1);
    assert_true(image.past_generations[0] == 5);
}

static void test_an_undone_lease_is_ended_at_the_next_open(void **state)
{
    struct fixture *f = *state;
    struct put lease = put_lease(1, "a", 3);
    struct put undone = put_box(1, "blank"); /* the same box, owned by nobody again */
    struct image image;

    fixture_start(f);
    assert_int_equal(fixture_write(f, &lease), SP_OK);
    assert_int_equal(fixture_write(f, &undone), SP_OK);
    fixture_reload(f, &image);
    assert_int_equal(image.boxes, 1);
    assert_int_equal(image.past, 1);
    assert_true(image.past_generations[0] == 3);
    assert_string_equal(image.past_ends[0], ""); /* its owner has released nothing */
}

/* The same when the box is destroyed because nobody needs it. */
static void test_an_undone_lease_is_not_released(void **state)
{
    struct fixture *f = *state;
    struct put leases[] = {put_lease(1, "a", 3), put_lease(2, "b", 4)};
    struct put ends[] = {put_deleting(1, "a", "released"), put_deleting(2, "b", "released")};
    struct image image;

    ends[1].w.u.box.leased_ms = 7; /* this one was given to somebody */
    fixture_start(f);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(fixture_write(f, &leases[i]), SP_OK);
        assert_int_equal(fixture_write(f, &ends[i]), SP_OK);
    }
    fixture_reload(f, &image);
    assert_int_equal(image.past, 2);
    for (size_t i = 0; i < 2; i++)
        assert_string_equal(image.past_ends[i], image.past_ids[i][0] == 'a' ? "" : "released");
}

static void test_wrong_writes_fail_alone(void **state)
{
    struct fixture *f = *state;
    struct put puts[40];
    struct image image;
    const size_t count = sizeof(puts) / sizeof(puts[0]);

    fixture_open(f);
    for (size_t i = 0; i < count; i++)
        puts[i] = put_box(i + 1, "blank");
    puts[3].w.u.box.state = "no such state";
    puts[17] = put_lease(18, "", 1); /* the box row fits, the lease row does not */
    puts[39] = put_meta("", "no key");
    for (size_t i = 0; i < count; i++)
        fixture_submit(f, &puts[i]);
    fixture_start(f);
    fixture_settle(f);
    for (size_t i = 0; i < count; i++) {
        bool is_wrong = i == 3 || i == 17 || i == 39;

        assert_int_equal(puts[i].result, is_wrong ? SP_INTERNAL : SP_OK);
        if (is_wrong)
            assert_non_null(strstr(puts[i].w.op.err.msg, "CHECK constraint failed"));
        if (i > 0)
            assert_int_equal(puts[i].place, puts[i - 1].place + 1);
    }
    assert_true(store_is_up(f->store));
    fixture_reload(f, &image);
    assert_int_equal(image.boxes, count - 3);
}

static void test_groups_and_order(void **state)
{
    struct fixture *f = *state;
    enum { COUNT = 1000 };
    struct put *puts = calloc(COUNT, sizeof(*puts));
    struct store_stats stats;
    struct image image;

    fixture_open(f);
    for (uint64_t i = 0; i < COUNT; i++) {
        puts[i] = put_event(i + 1);
        fixture_submit(f, &puts[i]);
    }
    assert_int_equal(store_pending(f->store), COUNT);
    fixture_start(f);
    fixture_settle(f);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(puts[i].result, SP_OK);
        assert_int_equal(puts[i].place, puts[0].place + i);
    }
    store_get_stats(f->store, &stats);
    assert_true(stats.writes == COUNT && stats.failures == 0);
    assert_true(stats.commits >= COUNT / 64 && stats.commits <= COUNT / 64 + 1); /* batch_max */
    assert_true(stats.commit_ns_max > 0 && stats.wal_pages > 0);
    store_get_stats(f->store, &stats);
    assert_true(stats.commit_ns_max > 0);
    store_forget_slowest(f->store);
    store_get_stats(f->store, &stats);
    assert_true(stats.commit_ns_max == 0);
    fixture_reload(f, &image);
    assert_int_equal(image.events, COUNT);
    free(puts);
}

static void test_close_finishes_what_is_queued(void **state)
{
    struct fixture *f = *state;
    struct put puts[200];
    struct image image;

    fixture_start(f);
    for (uint64_t i = 0; i < 200; i++) {
        puts[i] = put_event(i + 1);
        fixture_submit(f, &puts[i]);
    }
    f->store = store_close(f->store);
    assert_false(puts[199].is_done); /* deferred, not from inside */
    rt_run(&f->rt);
    for (size_t i = 0; i < 200; i++)
        assert_true(puts[i].is_done && puts[i].result == SP_OK);
    fixture_open(f);
    fixture_load(f, &image);
    assert_int_equal(image.events, 200);
}

static void test_close_without_start(void **state)
{
    struct fixture *f = *state;
    struct put put = put_box(1, "blank");

    assert_null(store_close(NULL));
    fixture_open(f);
    fixture_submit(f, &put);
    fixture_close(f);
    assert_true(put.is_done);
    assert_int_equal(put.result, SP_STORE_UNAVAILABLE);
}

static void test_a_cancelled_write_that_succeeded_says_so(void **state)
{
    struct fixture *f = *state;
    struct put put = put_box(1, "blank");

    fixture_open(f);
    fixture_submit(f, &put);
    op_cancel(&put.w.op);
    fixture_start(f);
    fixture_settle(f);
    assert_int_equal(put.result, SP_OK);
}

static bool refuse_box(void *ctx, const struct store_box *box)
{
    (void) ctx;
    (void) box;
    return false;
}

static void test_a_reader_can_stop_the_load(void **state)
{
    struct fixture *f = *state;
    struct put put = put_box(1, "blank");
    struct store_reader reader = {.on_box = refuse_box};
    struct err err;

    fixture_start(f);
    assert_int_equal(fixture_write(f, &put), SP_OK);
    fixture_close(f);
    fixture_open(f);
    assert_int_equal(store_load(f->store, &reader, &err), SP_INTERNAL);
    assert_non_null(strstr(err.msg, "boxes"));
}

static void test_the_tail_of_the_events(void **state)
{
    struct fixture *f = *state;
    struct image image = {0};
    struct store_reader reader = {.events_tail = 3};
    struct put put;
    struct err err;

    fixture_start(f);
    for (uint64_t id = 1; id <= 9; id++) {
        put = put_event(id);
        assert_int_equal(fixture_write(f, &put), SP_OK);
    }
    put = put_event(9);
    assert_int_equal(fixture_write(f, &put), SP_INTERNAL); /* a number is used once */
    fixture_reload(f, &image);
    assert_int_equal(image.events, 9);
    assert_int_equal(store_load(f->store, &reader, &err), SP_OK); /* no callback is a must */
}

static void test_only_the_owner_can_read_the_file(void **state)
{
    struct fixture *f = *state;
    struct put put = put_box(1, "blank");
    char wal[128];
    struct stat st;

    fixture_start(f);
    assert_int_equal(fixture_write(f, &put), SP_OK);
    (void) snprintf(wal, sizeof(wal), "%s-wal", f->path);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat(wal, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    fixture_close(f);
    assert_true(stat(wal, &st) != 0 || st.st_size == 0); /* all is in the database */
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_every_field_comes_back),
        TEST(test_null_is_empty_text),
        TEST(test_boxes_come_by_age_then_id),
        TEST(test_a_lease_ends_only_with_its_own_box),
        TEST(test_a_new_lease_revives_the_row),
        TEST(test_forgetting_a_box_ends_its_lease),
        TEST(test_an_undone_lease_is_ended_at_the_next_open),
        TEST(test_an_undone_lease_is_not_released),
        TEST(test_wrong_writes_fail_alone),
        TEST(test_groups_and_order),
        TEST(test_close_finishes_what_is_queued),
        TEST(test_close_without_start),
        TEST(test_a_cancelled_write_that_succeeded_says_so),
        TEST(test_a_reader_can_stop_the_load),
        TEST(test_the_tail_of_the_events),
        TEST(test_only_the_owner_can_read_the_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
