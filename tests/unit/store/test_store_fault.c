/* test_store_fault.c - a disk that fails: everything in flight fails, the store says so, comes back
 * by itself when the disk does, and has lost nothing it acknowledged. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "store/internal.h"
#include "vfs_fault.h"

#define BOXES 64

/* What was acknowledged: box i has the generation acked[i]; 0: never. A write that failed may
 * still be there after a new start, so tried[i] is the other value allowed. */
struct ledger {
    uint64_t acked[BOXES + 1];
    uint64_t tried[BOXES + 1];
    uint64_t next;
};

static void submit_round(struct fixture *f, struct ledger *l, struct put *puts, bool want_power)
{
    for (uint64_t id = 1; id <= BOXES; id++) {
        puts[id] = put_box(id, "blank");
        puts[id].w.u.box.generation = ++l->next;
        puts[id].w.want_power = want_power;
        fixture_submit(f, &puts[id]);
    }
}

static unsigned settle_round(struct fixture *f, struct ledger *l, const struct put *puts)
{
    unsigned failures = 0;

    fixture_settle(f);
    for (uint64_t id = 1; id <= BOXES; id++) {
        assert_true(puts[id].is_done);
        if (puts[id].result == SP_OK) {
            l->acked[id] = puts[id].w.u.box.generation;
            l->tried[id] = l->acked[id];
        } else {
            assert_int_equal(puts[id].result, SP_STORE_UNAVAILABLE);
            l->tried[id] = puts[id].w.u.box.generation;
            failures++;
        }
        if (id > 1)
            assert_true(puts[id].place > puts[id - 1].place);
    }
    return failures;
}

static bool check_box(void *ctx, const struct store_box *box)
{
    struct ledger *l = ctx;

    assert_in_range(box->id, 1, BOXES);
    if (box->generation != l->acked[box->id] && box->generation != l->tried[box->id])
        fail_msg("box %u has generation %u, acknowledged was %u", (unsigned) box->id,
                 (unsigned) box->generation, (unsigned) l->acked[box->id]);
    l->acked[box->id] = 0; /* seen */
    return true;
}

static void check_ledger(struct fixture *f, struct ledger *l)
{
    const struct store_reader reader = {.ctx = l, .on_box = check_box};
    struct err err = {0};

    fixture_close(f);
    fixture_open(f);
    if (store_load(f->store, &reader, &err) != SP_OK)
        fail_msg("store_load: %s", err.msg);
    for (uint64_t id = 1; id <= BOXES; id++) {
        if (l->acked[id] != 0)
            fail_msg("box %u is lost", (unsigned) id);
    }
}

/* Breaks the n-th call in a round, goes on until the disk is well again. True when it had an
 * effect. */
static bool survive(unsigned calls, int rc, uint64_t nth, bool is_persistent, bool want_power)
{
    struct ledger *l = calloc(1, sizeof(*l));
    struct put puts[BOXES + 1];
    struct fixture f;
    bool is_hit;
    unsigned failures;

    fixture_init(&f);
    f.config.batch_max = 8;
    fixture_start(&f);
    submit_round(&f, l, puts, want_power);
    assert_int_equal(settle_round(&f, l, puts), 0);
    vfs_fault_arm(calls, rc, nth, is_persistent);
    submit_round(&f, l, puts, want_power);
    failures = settle_round(&f, l, puts);
    is_hit = vfs_fault_count() > 0;
    if (failures > 0) {
        assert_true(f.downs >= 1); /* reported before the writes that failed */
        assert_non_null(strstr(f.reason, "cannot be written"));
    }
    if (is_persistent && failures > 0) {
        /* Refused at once while it is down. */
        assert_false(store_is_up(f.store));
        submit_round(&f, l, puts, want_power);
        rt_run(&f.rt);
        assert_int_equal(store_pending(f.store), 0);
        assert_int_equal(settle_round(&f, l, puts), BOXES);
    }
    vfs_fault_disarm();
    fixture_wait_up(&f, true);
    assert_int_equal(f.ups, f.downs);
    submit_round(&f, l, puts, want_power);
    assert_int_equal(settle_round(&f, l, puts), 0);
    check_ledger(&f, l);
    fixture_fini(&f);
    free(l);
    return is_hit;
}

/* Every place at which a round can break, until it no longer does. */
static void sweep(unsigned calls, int rc, bool is_persistent, bool want_power)
{
    uint64_t nth = 1;

    while (survive(calls, rc, nth, is_persistent, want_power)) {
        nth++;
        assert_true(nth < 2000);
    }
    print_message("%u places\n", (unsigned) (nth - 1));
    assert_true(nth > 1);
}

static void test_write_fails_once(void **state)
{
    (void) state;
    sweep(VFS_WRITE, SQLITE_IOERR_WRITE, false, false);
}

static void test_write_fails_for_a_while(void **state)
{
    (void) state;
    sweep(VFS_WRITE, SQLITE_IOERR_WRITE, true, false);
}

static void test_disk_full_once(void **state)
{
    (void) state;
    sweep(VFS_WRITE, SQLITE_FULL, false, false);
}

static void test_disk_full_for_a_while(void **state)
{
    (void) state;
    sweep(VFS_WRITE, SQLITE_FULL, true, true);
}

static void test_sync_fails_once(void **state)
{
    (void) state;
    sweep(VFS_SYNC, SQLITE_IOERR_FSYNC, false, true);
}

static void test_sync_fails_for_a_while(void **state)
{
    (void) state;
    sweep(VFS_SYNC, SQLITE_IOERR_FSYNC, true, true);
}

static void test_everything_fails(void **state)
{
    (void) state;
    for (uint64_t nth = 1; nth < 60; nth += 7)
        (void) survive(VFS_WRITE | VFS_SYNC | VFS_OPEN | VFS_READ | VFS_TRUNCATE, SQLITE_IOERR, nth,
                       true, true);
}

/* While the file cannot even be opened again, and then can. */
static void test_the_connection_is_opened_again(void **state)
{
    struct fixture *f = *state;
    struct put put = put_box(1, "blank");
    struct image image;

    fixture_start(f);
    assert_int_equal(fixture_write(f, &put), SP_OK);
    vfs_fault_arm(VFS_WRITE | VFS_OPEN, SQLITE_IOERR, 1, true);
    put = put_box(2, "blank");
    assert_int_equal(fixture_write(f, &put), SP_STORE_UNAVAILABLE);
    fixture_wait_up(f, false);
    while (vfs_fault_count() < 8) /* it keeps trying */
        (void) fixture_turn(f, 1);
    vfs_fault_disarm();
    fixture_wait_up(f, true);
    put = put_box(3, "blank");
    assert_int_equal(fixture_write(f, &put), SP_OK);
    fixture_reload(f, &image);
    assert_in_range(image.boxes, 2, 3);
    assert_int_equal(image.metas, 0); /* the probe's row is the store's own */
}

static void test_close_while_down(void **state)
{
    struct fixture *f = *state;
    struct put put = put_box(1, "blank");

    fixture_start(f);
    vfs_fault_arm(VFS_WRITE, SQLITE_FULL, 1, true);
    assert_int_equal(fixture_write(f, &put), SP_STORE_UNAVAILABLE);
    fixture_close(f);
    vfs_fault_disarm();
}

/* The loop is busy: it goes on submitting without having been notified. None of that may succeed. */
static void test_nothing_succeeds_behind_a_failure(void **state)
{
    struct fixture *f = *state;
    struct put puts[50];

    fixture_start(f);
    vfs_fault_arm(VFS_WRITE, SQLITE_IOERR, 1, false); /* well again right after */
    for (uint64_t i = 0; i < 50; i++) {
        puts[i] = put_box(i + 1, "blank");
        fixture_submit(f, &puts[i]);
        (void) usleep(400);
    }
    fixture_settle(f);
    for (size_t i = 0; i < 50; i++) {
        assert_int_equal(puts[i].result, SP_STORE_UNAVAILABLE);
        assert_true(i == 0 || puts[i].place == puts[i - 1].place + 1);
    }
    fixture_wait_up(f, true);
    assert_int_equal(f->downs, 1);
    assert_int_equal(fixture_write(f, &puts[0]), SP_OK);
    vfs_fault_disarm();
}

static void test_power_means_sync(void **state)
{
    struct fixture *f = *state;
    struct put put = put_box(1, "blank");
    uint64_t before;

    fixture_start(f);
    assert_int_equal(fixture_write(f, &put), SP_OK); /* the header of the log is synced once */
    before = vfs_sync_count();
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(fixture_write(f, &put), SP_OK);
    assert_true(vfs_sync_count() == before);
    put.w.want_power = true;
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(fixture_write(f, &put), SP_OK);
    assert_true(vfs_sync_count() >= before + 10);
    put.w.want_power = false;
    before = vfs_sync_count();
    assert_int_equal(fixture_write(f, &put), SP_OK);
    assert_true(vfs_sync_count() == before);
}

static void test_a_moved_file_takes_no_promises(void **state)
{
    struct fixture *f = *state;
    struct put put = put_box(1, "blank");
    char away[128];
    struct image image;

    (void) snprintf(away, sizeof(away), "%s.away", f->path);
    fixture_start(f);
    assert_int_equal(fixture_write(f, &put), SP_OK);
    assert_int_equal(rename(f->path, away), 0);
    put = put_box(2, "blank");
    assert_int_equal(fixture_write(f, &put), SP_STORE_UNAVAILABLE);
    fixture_wait_up(f, false);
    for (unsigned i = 0; i < 10; i++)
        (void) fixture_turn(f, 10);
    assert_false(store_is_up(f->store));
    assert_int_not_equal(access(f->path, F_OK), 0); /* no empty one was put in its place */
    assert_int_equal(rename(away, f->path), 0);
    fixture_wait_up(f, true);
    assert_int_equal(fixture_write(f, &put), SP_OK);
    fixture_reload(f, &image);
    assert_int_equal(image.boxes, 2);
}

static void copy_file(const char *from, const char *to)
{
    FILE *in = fopen(from, "rb");
    FILE *out = fopen(to, "wb");
    char data[4096];
    size_t n;

    assert_non_null(in);
    assert_non_null(out);
    for (n = fread(data, 1, sizeof(data), in); n > 0; n = fread(data, 1, sizeof(data), in))
        assert_int_equal(fwrite(data, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
    (void) fclose(in); /* was only read */
}

/* The open connection is of no use any more: a new one finds the file that is there now. */
static void test_a_replaced_file_is_opened_again(void **state)
{
    struct fixture *f = *state;
    struct put put = put_box(1, "blank");
    char away[128];
    struct image image;

    (void) snprintf(away, sizeof(away), "%s.away", f->path);
    fixture_start(f);
    assert_int_equal(fixture_write(f, &put), SP_OK);
    fixture_close(f);
    fixture_start(f);
    assert_int_equal(rename(f->path, away), 0);
    put = put_box(2, "blank");
    assert_int_equal(fixture_write(f, &put), SP_STORE_UNAVAILABLE);
    copy_file("/dev/null", f->path); /* an empty one is not a store to go on with */
    for (unsigned i = 0; i < 10; i++)
        (void) fixture_turn(f, 10);
    assert_false(store_is_up(f->store));
    assert_int_equal(unlink(f->path), 0);
    copy_file(away, f->path);
    fixture_wait_up(f, true);
    assert_int_equal(fixture_write(f, &put), SP_OK);
    fixture_reload(f, &image);
    assert_int_equal(image.boxes, 2);
}

static void test_a_failing_checkpoint_loses_nothing(void **state)
{
    struct fixture *f = *state;
    struct put put = put_box(1, "blank");
    struct store_stats stats;
    struct image image;

    fixture_start(f);
    do {
        assert_int_equal(fixture_write(f, &put), SP_OK);
        store_get_stats(f->store, &stats);
    } while (stats.wal_pages < 1100);
    vfs_fault_arm(VFS_SYNC, SQLITE_IOERR_FSYNC, 1, true); /* only the checkpoint syncs */
    for (unsigned i = 0; i < 40 && vfs_fault_count() == 0; i++)
        (void) fixture_turn(f, 10);
    assert_true(vfs_fault_count() > 0);
    vfs_fault_disarm();
    assert_true(store_is_up(f->store));
    put = put_box(2, "blank");
    assert_int_equal(fixture_write(f, &put), SP_OK);
    fixture_reload(f, &image);
    assert_int_equal(image.boxes, 2);
}

/* The engine submits the same struct again after a failure: what a write says in the end must come
 * from this commit and not from the one before. */
static void test_writes_behind_a_wrong_one_are_right(void **state)
{
    struct fixture *f = *state;
    struct put puts[8];
    struct image image;

    fixture_open(f); /* not started: all of them will be in one batch */
    vfs_fault_arm(VFS_WRITE, SQLITE_FULL, 1, true);
    for (uint64_t i = 0; i < 8; i++) {
        puts[i] = put_box(i + 1, "blank");
        fixture_submit(f, &puts[i]);
    }
    fixture_start(f);
    fixture_settle(f);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(puts[i].result, SP_STORE_UNAVAILABLE);
    vfs_fault_disarm();
    fixture_close(f);
    fixture_open(f);
    puts[2].w.u.box.state = "no such state";
    for (size_t i = 0; i < 8; i++)
        fixture_submit(f, &puts[i]);
    fixture_start(f);
    fixture_settle(f);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(puts[i].result, i == 2 ? SP_INTERNAL : SP_OK);
    fixture_reload(f, &image);
    assert_int_equal(image.boxes, 7);
}

/* The disk fails while the writes of a batch are tried one by one: none of them is on it, and none
 * says that it is. */
static void test_a_batch_that_fails_apart_fails_whole(void **state)
{
    (void) state;
    for (uint64_t nth = 1;; nth++) {
        struct fixture f;
        struct put puts[8];
        struct image image;
        bool is_hit;

        fixture_init(&f);
        fixture_open(&f);
        for (uint64_t i = 0; i < 8; i++)
            puts[i] = put_box(i + 1, "blank");
        puts[2].w.u.box.state = "no such state";
        for (size_t i = 0; i < 8; i++)
            fixture_submit(&f, &puts[i]);
        vfs_fault_arm(VFS_WRITE, SQLITE_FULL, nth, false);
        fixture_start(&f);
        fixture_settle(&f);
        is_hit = vfs_fault_count() > 0;
        vfs_fault_disarm();
        for (size_t i = 0; i < 8; i++)
            assert_int_equal(puts[i].result, is_hit   ? SP_STORE_UNAVAILABLE
                                             : i == 2 ? SP_INTERNAL
                                                      : SP_OK);
        fixture_wait_up(&f, true);
        fixture_reload(&f, &image);
        assert_int_equal(image.boxes, is_hit ? 0 : 7);
        fixture_fini(&f);
        if (!is_hit) {
            assert_true(nth > 1);
            return;
        }
    }
}

/* A disk that hangs is down after a while, and up when it answers: what was in flight is done then. */
static void test_a_disk_that_hangs(void **state)
{
    struct fixture *f = *state;
    struct put first = put_box(1, "blank");
    struct put second = put_box(2, "blank");
    struct put late = put_box(3, "blank");
    struct image image;

    f->config.timeout_ns = 5 * NS_PER_S;
    fixture_start(f);
    assert_int_equal(fixture_write(f, &first), SP_OK);
    vfs_fault_hang(true);
    fixture_submit(f, &first);
    rt_advance(&f->rt, 3 * NS_PER_S);
    fixture_submit(f, &second);
    rt_advance(&f->rt, 1 * NS_PER_S);
    rt_run(&f->rt);
    assert_true(store_is_up(f->store));
    rt_advance(&f->rt, 1 * NS_PER_S);
    rt_run(&f->rt);
    assert_false(store_is_up(f->store));
    assert_true(store_is_hung(f->store));
    assert_int_equal(f->downs, 1);
    assert_non_null(strstr(f->reason, "has not answered for 5 s"));
    fixture_submit(f, &late);
    rt_run(&f->rt);
    assert_int_equal(late.result, SP_STORE_UNAVAILABLE);
    assert_false(first.is_done);
    vfs_fault_hang(false);
    fixture_settle(f);
    fixture_wait_up(f, true);
    assert_int_equal(f->ups, 1);
    assert_int_equal(first.result, SP_OK);
    assert_int_equal(second.result, SP_OK);
    fixture_reload(f, &image);
    assert_int_equal(image.boxes, 2);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_write_fails_once),
        cmocka_unit_test(test_write_fails_for_a_while),
        cmocka_unit_test(test_disk_full_once),
        cmocka_unit_test(test_disk_full_for_a_while),
        cmocka_unit_test(test_sync_fails_once),
        cmocka_unit_test(test_sync_fails_for_a_while),
        cmocka_unit_test(test_everything_fails),
        TEST(test_the_connection_is_opened_again),
        TEST(test_close_while_down),
        TEST(test_nothing_succeeds_behind_a_failure),
        TEST(test_power_means_sync),
        TEST(test_a_moved_file_takes_no_promises),
        TEST(test_a_replaced_file_is_opened_again),
        TEST(test_a_failing_checkpoint_loses_nothing),
        TEST(test_a_disk_that_hangs),
        TEST(test_writes_behind_a_wrong_one_are_right),
        cmocka_unit_test(test_a_batch_that_fails_apart_fails_whole),
    };

    vfs_fault_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
