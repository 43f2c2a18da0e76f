/* test_store_stamp.c - an older copy of the database that was put back is known. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"

static char copy[160];
static char stamp[128];

static int setup(void **state)
{
    struct fixture *f;

    (void) fixture_setup(state);
    f = *state;
    f->config.want_stamp = true;
    (void) snprintf(copy, sizeof(copy), "%s.copy", f->path);
    (void) snprintf(stamp, sizeof(stamp), "%s-stamp", f->path);
    return 0;
}

static void copy_file(const char *from, const char *to)
{
    char buf[4096];
    size_t n;
    FILE *in = fopen(from, "rb");
    FILE *out = fopen(to, "wb");

    assert_non_null(in);
    assert_non_null(out);
    while ((n = fread(buf, 1, sizeof(buf), in)) > 0)
        assert_int_equal(fwrite(buf, 1, n, out), n);
    assert_int_equal(fclose(in), 0);
    assert_int_equal(fclose(out), 0);
}

/* With its log, as of a store that runs. */
static void copy_db(const char *from, const char *to)
{
    char wal_from[200];
    char wal_to[200];

    (void) snprintf(wal_from, sizeof(wal_from), "%s-wal", from);
    (void) snprintf(wal_to, sizeof(wal_to), "%s-wal", to);
    copy_file(from, to);
    copy_file(wal_from, wal_to);
}

static void remove_copy(void)
{
    char wal[200];

    (void) snprintf(wal, sizeof(wal), "%s-wal", copy);
    (void) unlink(copy);
    (void) unlink(wal);
}

static void test_fresh(void **state)
{
    struct fixture *f = *state;
    struct put put = put_lease(1, "a", 1);

    put.w.want_stamp = true;
    for (int i = 0; i < 3; i++) {
        fixture_start(f);
        assert_true(store_is_fresh(f->store));
        assert_int_equal(fixture_write(f, &put), SP_OK);
        fixture_close(f);
    }
}

/* The row that had the highest number goes; the number stays. */
static void test_fresh_after_a_forget(void **state)
{
    struct fixture *f = *state;
    struct put put = put_lease(1, "a", 1);
    struct put other = put_lease(2, "b", 1);
    struct put gone = put_forget(1);

    put.w.want_stamp = true;
    fixture_start(f);
    assert_int_equal(fixture_write(f, &other), SP_OK);
    assert_int_equal(fixture_write(f, &put), SP_OK);
    assert_int_equal(fixture_write(f, &gone), SP_OK);
    fixture_close(f);
    fixture_start(f);
    assert_true(store_is_fresh(f->store));
    fixture_close(f);
}

/* Nothing was handed out, but the store has been open since. */
static void test_copy_of_an_earlier_run(void **state)
{
    struct fixture *f = *state;

    fixture_start(f);
    fixture_close(f);
    copy_file(f->path, copy);
    fixture_start(f);
    fixture_close(f);
    copy_file(copy, f->path);
    fixture_start(f);
    assert_false(store_is_fresh(f->store));
    fixture_close(f);
    fixture_start(f); /* said once: from now on it is the last one */
    assert_true(store_is_fresh(f->store));
    fixture_close(f);
    remove_copy();
}

/* The stamp says so once, the rows until they are written again, however often the store is opened. */
static void test_rows_of_a_copy(void **state)
{
    struct fixture *f = *state;
    struct put a = put_box(1, "blank");
    struct put b = put_box(2, "blank");
    struct put c = put_box(3, "blank");
    struct image image;

    fixture_start(f);
    assert_int_equal(fixture_write(f, &a), SP_OK);
    assert_int_equal(fixture_write(f, &b), SP_OK);
    fixture_close(f);
    copy_file(f->path, copy);
    fixture_start(f);
    fixture_close(f);
    copy_file(copy, f->path);
    for (int i = 0; i < 2; i++) {
        fixture_reload(f, &image);
        assert_int_equal(image.boxes, 2);
        assert_true(image.are_stale[0] && image.are_stale[1]);
    }
    fixture_start(f);
    assert_int_equal(fixture_write(f, &b), SP_OK);
    assert_int_equal(fixture_write(f, &c), SP_OK);
    fixture_reload(f, &image);
    assert_int_equal(image.boxes, 3);
    assert_true(image.are_stale[0]);
    assert_false(image.are_stale[1] || image.are_stale[2]);
    remove_copy();
}

static void check_same_run(struct fixture *f, bool want_stamp)
{
    struct put before = put_lease(1, "a", 1);
    struct put after = put_lease(2, "b", 1);

    before.w.want_stamp = true;
    after.w.want_stamp = want_stamp;
    fixture_start(f);
    assert_int_equal(fixture_write(f, &before), SP_OK);
    copy_db(f->path, copy);
    assert_int_equal(fixture_write(f, &after), SP_OK);
    fixture_close(f);
    copy_db(copy, f->path);
    fixture_start(f);
    assert_int_equal(store_is_fresh(f->store), !want_stamp);
    fixture_close(f);
    remove_copy();
}

static void test_copy_of_the_same_run(void **state)
{
    check_same_run(*state, true);
    check_same_run(*state, false);
}

/* The only file of that name in the directory of the test. */
static void remove_boot_file(const struct fixture *f)
{
    char pattern[160];
    glob_t found;

    (void) snprintf(pattern, sizeof(pattern), "%s/sandpool-stamp-*", f->dir);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    assert_int_equal(unlink(found.gl_pathv[0]), 0);
    globfree(&found);
}

/* With the stamp beside it, of a store that runs, before a lease that asks for no stamp. */
static void test_copy_of_everything(void **state)
{
    struct fixture *f = *state;
    struct put blank = put_box(1, "blank");
    struct put lease = put_lease(1, "a", 1);
    char stamp_copy[160];

    (void) snprintf(stamp_copy, sizeof(stamp_copy), "%s.copy-stamp", f->path);
    f->config.boot_dir = f->dir;
    for (int has_booted = 0; has_booted < 2; has_booted++) {
        fixture_start(f);
        assert_true(store_is_fresh(f->store));
        assert_int_equal(fixture_write(f, &blank), SP_OK);
        copy_db(f->path, copy);
        copy_file(stamp, stamp_copy);
        assert_int_equal(fixture_write(f, &lease), SP_OK);
        fixture_close(f);
        if (has_booted)
            remove_boot_file(f);
        copy_db(copy, f->path);
        copy_file(stamp_copy, stamp);
        fixture_start(f);
        assert_int_equal(store_is_fresh(f->store), has_booted);
        fixture_close(f);
    }
    remove_boot_file(f);
    remove_copy();
    assert_int_equal(unlink(stamp_copy), 0);
}

/* An older copy is put back, and the database is opened by another name of the same file. */
static void check_spelling(struct fixture *f, const char *path)
{
    struct put blank = put_box(1, "blank");
    struct put lease = put_lease(1, "a", 1);
    char stamp_copy[160];

    (void) snprintf(stamp_copy, sizeof(stamp_copy), "%s.copy-stamp", f->path);
    fixture_start(f);
    assert_int_equal(fixture_write(f, &blank), SP_OK);
    copy_db(f->path, copy);
    copy_file(stamp, stamp_copy);
    assert_int_equal(fixture_write(f, &lease), SP_OK);
    fixture_close(f);
    copy_db(copy, f->path);
    copy_file(stamp_copy, stamp);
    f->config.path = path;
    fixture_start(f);
    assert_false(store_is_fresh(f->store));
    fixture_close(f);
    fixture_start(f);
    assert_true(store_is_fresh(f->store));
    fixture_close(f);
    f->config.path = f->path;
    fixture_start(f); /* the first name says the same */
    assert_true(store_is_fresh(f->store));
    fixture_close(f);
    remove_copy();
    assert_int_equal(unlink(stamp_copy), 0);
}

static void remove_boot_files(const struct fixture *f)
{
    char pattern[160];
    glob_t found;

    (void) snprintf(pattern, sizeof(pattern), "%s/sandpool-stamp-*", f->dir);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++)
        assert_int_equal(unlink(found.gl_pathv[i]), 0);
    globfree(&found);
}

static void test_other_spellings(void **state)
{
    static const char *const betweens[] = {"/./", "//", "/.//./", "/link/", "/link/./link/"};
    struct fixture *f = *state;
    const char *name = strrchr(f->path, '/') + 1;
    char *cwd = getcwd(NULL, 0);
    char link[160];
    char path[200];

    assert_non_null(cwd);
    f->config.boot_dir = f->dir;
    (void) snprintf(link, sizeof(link), "%s/link", f->dir);
    assert_int_equal(symlink(f->dir, link), 0);
    for (size_t i = 0; i < ARRAY_LEN(betweens); i++) {
        (void) snprintf(path, sizeof(path), "%s%s%s", f->dir, betweens[i], name);
        check_spelling(f, path);
    }
    assert_int_equal(chdir(f->dir), 0);
    check_spelling(f, name);
    (void) snprintf(path, sizeof(path), "./%s", name);
    check_spelling(f, path);
    assert_int_equal(chdir(cwd), 0);
    free(cwd);
    remove_boot_files(f);
    assert_int_equal(unlink(link), 0);
}

/* The name stays, and leads to a copy that was made before the last lease. */
static void test_moved_link(void **state)
{
    struct fixture *f = *state;
    struct put blank = put_box(1, "blank");
    struct put lease = put_lease(1, "a", 1);
    char link[160];
    char other[160];
    char file[200];

    f->config.boot_dir = f->dir;
    (void) snprintf(link, sizeof(link), "%s/link", f->dir);
    (void) snprintf(other, sizeof(other), "%s/other", f->dir);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(symlink(f->dir, link), 0);
    (void) snprintf(file, sizeof(file), "%s%s", link, strrchr(f->path, '/'));
    f->config.path = file;
    fixture_start(f);
    assert_int_equal(fixture_write(f, &blank), SP_OK);
    (void) snprintf(copy, sizeof(copy), "%s%s", other, strrchr(f->path, '/'));
    copy_db(f->path, copy);
    assert_int_equal(fixture_write(f, &lease), SP_OK);
    fixture_close(f);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink(other, link), 0);
    fixture_start(f);
    assert_false(store_is_fresh(f->store));
    fixture_close(f);
    remove_boot_files(f);
    remove_copy();
    (void) snprintf(file, sizeof(file), "%s-stamp", copy);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(rmdir(other), 0);
}

static void test_no_proof(void **state)
{
    static const char *const texts[] = {NULL, "", "00000000000000000", "no number at all...\n"};
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        FILE *out;

        fixture_start(f);
        fixture_close(f);
        assert_int_equal(unlink(stamp), 0);
        if (texts[i] != NULL) {
            out = fopen(stamp, "w");
            assert_non_null(out);
            assert_true(fputs(texts[i], out) >= 0);
            assert_int_equal(fclose(out), 0);
        }
        fixture_start(f);
        assert_false(store_is_fresh(f->store));
        fixture_close(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fresh, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_fresh_after_a_forget, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_copy_of_an_earlier_run, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rows_of_a_copy, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_copy_of_the_same_run, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_copy_of_everything, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_other_spellings, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_moved_link, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_no_proof, setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
