/* test_store_open.c - files that are not ours, not whole, not writable or not of this version: each
 * is refused with a sentence that says what to do, and left as it was. And migrations. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "store/internal.h"

static void write_file(const struct fixture *f, const char *text, size_t len)
{
    FILE *file = fopen(f->path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

/* A database of ours with one row, closed. */
static void make_store(struct fixture *f)
{
    struct put put = put_box(1, "blank");

    fixture_start(f);
    assert_int_equal(fixture_write(f, &put), SP_OK);
    fixture_close(f);
}

static void test_foreign_database(void **state)
{
    struct fixture *f = *state;
    struct err err;

    fixture_sql(f, "CREATE TABLE other(x); INSERT INTO other VALUES(1)");
    assert_int_equal(fixture_refused(f, &err), SP_CONFIG);
    assert_non_null(strstr(err.msg, "another program"));
    fixture_sql(f, "SELECT x FROM other"); /* untouched */
    fixture_sql(f, "PRAGMA application_id=5; DROP TABLE other; VACUUM");
    assert_int_equal(fixture_refused(f, &err), SP_CONFIG);
}

static void test_newer_version(void **state)
{
    struct fixture *f = *state;
    struct err err;

    make_store(f);
    fixture_sql(f, "PRAGMA user_version=99");
    assert_int_equal(fixture_refused(f, &err), SP_CONFIG);
    assert_non_null(strstr(err.msg, "99"));
    assert_non_null(strstr(err.msg, "newer sandpool"));
}

static void test_no_database_at_all(void **state)
{
    struct fixture *f = *state;
    static char junk[8192];
    struct err err;

    memset(junk, 'x', sizeof(junk));
    write_file(f, junk, sizeof(junk));
    assert_int_equal(fixture_refused(f, &err), SP_IO);
    assert_non_null(strstr(err.msg, "not a database"));
}

static void test_damaged_header(void **state)
{
    struct fixture *f = *state;
    struct err err;
    int fd;

    make_store(f);
    fd = open(f->path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "garbage!", 8, 0), 8);
    (void) close(fd);
    assert_int_equal(fixture_refused(f, &err), SP_IO);
    assert_non_null(strstr(err.msg, "restore a copy"));
}

static void test_damaged_tables(void **state)
{
    struct fixture *f = *state;
    struct err err;

    make_store(f);
    fixture_sql(f, "DROP VIEW intents; DROP TABLE boxes");
    assert_int_equal(fixture_refused(f, &err), SP_IO);
    assert_non_null(strstr(err.msg, "boxes"));
}

static void test_empty_file_is_a_new_store(void **state)
{
    struct fixture *f = *state;
    struct image image;

    write_file(f, "", 0);
    fixture_open(f);
    fixture_load(f, &image);
    assert_int_equal(image.boxes, 0);
}

static void test_no_directory(void **state)
{
    struct fixture *f = *state;
    struct err err;
    char path[160];

    (void) snprintf(path, sizeof(path), "%s/none/state.db", f->dir);
    f->config.path = path;
    assert_int_equal(fixture_refused(f, &err), SP_IO);
    assert_non_null(strstr(err.msg, "No such file or directory"));
    f->config.path = f->dir;
    assert_int_equal(fixture_refused(f, &err), SP_IO);
}

/* Root may write anywhere, so it is tried by somebody else. */
static void test_unwritable(void **state)
{
    struct fixture *f = *state;
    int status = 0;
    pid_t pid;

    make_store(f);
    assert_int_equal(chmod(f->path, 0444), 0);
    assert_int_equal(chmod(f->dir, 0555), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct err err = {0};
        char path[128];
        int r;

        if (geteuid() == 0 && setuid(65534) != 0)
            _exit(77);
        r = store_open(&f->config, &f->store, &err);
        if (r != SP_IO || strstr(err.msg, "read-only") == NULL)
            _exit(1);
        (void) snprintf(path, sizeof(path), "%s/new.db", f->dir);
        f->config.path = path;
        r = store_open(&f->config, &f->store, &err);
        _exit(r == SP_IO && strstr(err.msg, "Permission denied") != NULL ? 0 : 2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(chmod(f->dir, 0700), 0);
    assert_int_equal(status, 0);
}

static void test_two_at_once(void **state)
{
    struct fixture *f = *state;
    struct store *second = NULL;
    int status = 0;
    struct err err = {0};
    pid_t pid;

    fixture_open(f);
    assert_int_equal(store_open(&f->config, &second, &err), SP_LOCKED);
    assert_non_null(strstr(err.msg, "in use by another process"));
    pid = fork(); /* the child only opens; it never touches the connection of its parent */
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(store_open(&f->config, &second, &err) == SP_LOCKED ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* --- migrations --- */

static const struct migration steps[] = {
    {1, "CREATE TABLE t(a)"},
    {2, "ALTER TABLE t ADD COLUMN b DEFAULT 7; INSERT INTO t(a) VALUES(1)"},
    {3, "UPDATE t SET a = a + 10"},
    {4, "CREATE TABLE u(x); INSERT INTO nowhere VALUES(1)"},
};

static int64_t read_i64(struct db *db, const char *sql)
{
    int64_t v = 0;

    assert_int_equal(sql_read_i64(db, sql, &v), SQLITE_OK);
    return v;
}

static void test_migrations_run_in_order_and_once(void **state)
{
    struct fixture *f = *state;
    struct db db = {0};
    struct err err = {0};

    assert_int_equal(sqlite3_open(f->path, &db.conn), SQLITE_OK);
    assert_int_equal(schema_migrate(&db, steps, 1, &err), SP_OK);
    assert_int_equal(read_i64(&db, "PRAGMA user_version"), 1);
    assert_int_equal(read_i64(&db, "PRAGMA application_id"), STORE_APPLICATION_ID);
    assert_int_equal(schema_migrate(&db, steps, 3, &err), SP_OK);
    assert_int_equal(schema_migrate(&db, steps, 3, &err), SP_OK); /* nothing left to do */
    assert_int_equal(read_i64(&db, "PRAGMA user_version"), 3);
    assert_int_equal(read_i64(&db, "SELECT a * 100 + b FROM t"), 1107);
    /* One that fails leaves everything as it was. */
    assert_int_equal(schema_migrate(&db, steps, 4, &err), SP_IO);
    assert_non_null(strstr(err.msg, "nowhere"));
    assert_int_equal(read_i64(&db, "PRAGMA user_version"), 3);
    assert_int_equal(read_i64(&db, "SELECT count(*) FROM sqlite_schema WHERE name = 'u'"), 0);
    assert_int_equal(sqlite3_close(db.conn), SQLITE_OK);
}

/* A start that was cut short before its first transaction: ours, version 0, no tables. */
static void test_version_0_becomes_the_current_one(void **state)
{
    struct fixture *f = *state;
    struct put put = put_box(1, "blank");

    fixture_sql(f, "PRAGMA journal_mode=WAL; PRAGMA application_id=1936748396");
    assert_int_equal(STORE_APPLICATION_ID, 1936748396);
    fixture_start(f);
    assert_int_equal(read_i64(&f->store->db, "PRAGMA user_version"), STORE_SCHEMA_VERSION);
    assert_int_equal(fixture_write(f, &put), SP_OK);
}

static void test_intents_are_a_view(void **state)
{
    struct fixture *f = *state;
    struct put puts[] = {put_box(1, "intent"), put_box(2, "blank"), put_deleting(3, "", "aged")};

    fixture_start(f);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(fixture_write(f, &puts[i]), SP_OK);
    fixture_close(f);
    fixture_open(f);
    assert_int_equal(read_i64(&f->store->db, "SELECT count(*) FROM intents"), 2);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_foreign_database),
        TEST(test_newer_version),
        TEST(test_no_database_at_all),
        TEST(test_damaged_header),
        TEST(test_damaged_tables),
        TEST(test_empty_file_is_a_new_store),
        TEST(test_no_directory),
        TEST(test_unwritable),
        TEST(test_two_at_once),
        TEST(test_migrations_run_in_order_and_once),
        TEST(test_version_0_becomes_the_current_one),
        TEST(test_intents_are_a_view),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
