/* test_store_reserve.c - a disk that others have filled: the store has space of its own, uses it, and
 * takes it back when there is some again. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"
#include "store/internal.h"
#include "vfs_fault.h"

static char reserve[128];
static char wal[128];

static int setup(void **state)
{
    struct fixture *f;

    (void) fixture_setup(state);
    f = *state;
    f->config.want_reserve = true;
    (void) snprintf(reserve, sizeof(reserve), "%s-reserve", f->path);
    (void) snprintf(wal, sizeof(wal), "%s-wal", f->path);
    return 0;
}

static long long blocks_of(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? (long long) st.st_blocks * 512 : -1;
}

static bool has_reserve(struct fixture *f)
{
    struct store_stats stats;

    store_get_stats(f->store, &stats);
    return stats.has_reserve;
}

static void test_the_log_keeps_its_blocks(void **state)
{
    struct fixture *f = *state;
    struct put put = put_box(1, "blank");

    fixture_start(f);
    assert_true(has_reserve(f));
    assert_true(blocks_of(reserve) >= 4 << 20);
    assert_true(blocks_of(wal) >= 8 << 20);
    assert_int_equal(fixture_write(f, &put), SP_OK);
    fixture_close(f); /* cuts the log to nothing */
    assert_true(blocks_of(wal) >= 8 << 20);
    fixture_start(f);
    assert_true(blocks_of(wal) >= 8 << 20);
}

/* A checkpoint and a close leave them, so that nobody else can take them in between. */
static void test_the_database_keeps_its_blocks(void **state)
{
    struct fixture *f = *state;
    struct put put = put_box(1, "blank");
    struct image image;

    fixture_start(f);
    assert_true(blocks_of(f->path) >= 8 << 20);
    assert_int_equal(fixture_write(f, &put), SP_OK);
    fixture_close(f);
    assert_true(blocks_of(f->path) >= 8 << 20);
    fixture_open(f);
    fixture_load(f, &image);
    assert_int_equal(image.boxes, 1);
    assert_true(blocks_of(f->path) >= 8 << 20);
}

/* Writes find no space until the reserve is gone: nobody notices but the statistics. */
static void test_a_full_disk_takes_the_reserve(void **state)
{
    struct fixture *f = *state;
    struct put put = put_box(1, "blank");
    struct image image;

    fixture_start(f);
    vfs_fault_while(reserve);
    vfs_fault_arm(VFS_WRITE, SQLITE_FULL, 1, true);
    assert_int_equal(fixture_write(f, &put), SP_OK);
    assert_true(vfs_fault_count() > 0);
    assert_int_equal(f->downs, 0);
    assert_false(has_reserve(f));
    assert_int_equal(blocks_of(reserve), -1);
    vfs_fault_disarm();
    fixture_reload(f, &image);
    assert_int_equal(image.boxes, 1);
}

static void test_the_reserve_comes_back(void **state)
{
    struct fixture *f = *state;
    struct put put = put_box(1, "blank");

    fixture_start(f);
    vfs_fault_while(reserve);
    vfs_fault_arm(VFS_WRITE, SQLITE_FULL, 1, true);
    assert_int_equal(fixture_write(f, &put), SP_OK);
    vfs_fault_disarm();
    assert_false(has_reserve(f));
    fixture_close(f);
    fixture_start(f); /* does not wait for the next try */
    assert_true(has_reserve(f));
    assert_true(blocks_of(reserve) >= 4 << 20);
}

/* The log is full and nothing else can grow: a checkpoint alone is enough, the reserve stays. */
static void test_a_checkpoint_before_the_reserve(void **state)
{
    struct fixture *f = *state;
    struct put put = put_box(1, "blank");

    fixture_start(f);
    assert_int_equal(fixture_write(f, &put), SP_OK);
    vfs_fault_arm(VFS_WRITE, SQLITE_FULL, 1, false);
    assert_int_equal(fixture_write(f, &put), SP_OK);
    assert_int_equal(vfs_fault_count(), 1);
    vfs_fault_disarm();
    assert_true(has_reserve(f));
}

/* More events than are to be kept: opening writes at once. */
static void test_open_on_a_full_disk(void **state)
{
    struct fixture *f = *state;
    struct image image;

    fixture_start(f);
    for (uint64_t id = 1; id <= 3; id++) {
        struct put put = put_event(id);

        assert_int_equal(fixture_write(f, &put), SP_OK);
    }
    fixture_close(f);
    f->config.events_max = 1;
    vfs_fault_while(reserve);
    vfs_fault_arm(VFS_WRITE, SQLITE_FULL, 1, true);
    fixture_open(f);
    assert_true(vfs_fault_count() > 0);
    vfs_fault_disarm();
    fixture_load(f, &image);
    assert_int_equal(image.events, 1);
}

/* Nothing helps: it is down as before, and says why. */
static void test_without_any_space(void **state)
{
    struct fixture *f = *state;
    struct put put = put_box(1, "blank");

    fixture_start(f);
    vfs_fault_arm(VFS_WRITE, SQLITE_FULL, 1, true);
    assert_int_equal(fixture_write(f, &put), SP_STORE_UNAVAILABLE);
    fixture_wait_up(f, false);
    assert_string_not_equal(f->reason, "");
    vfs_fault_disarm();
    fixture_wait_up(f, true);
    assert_int_equal(fixture_write(f, &put), SP_OK);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_the_log_keeps_its_blocks),
        TEST(test_the_database_keeps_its_blocks),
        TEST(test_a_full_disk_takes_the_reserve),
        TEST(test_the_reserve_comes_back),
        TEST(test_a_checkpoint_before_the_reserve),
        TEST(test_open_on_a_full_disk),
        TEST(test_without_any_space),
    };

    vfs_fault_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
