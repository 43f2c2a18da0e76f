/* test_base_copy.c - what is copied into a base and what is not: by kind and by mode. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "helper/base.h"
#include "helper/tree.h"
#include "tests/lib/unit.h"

static void make_file(int at, const char *name, mode_t mode)
{
    int fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, name, strlen(name)), (ssize_t) strlen(name));
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
}

static void make_source(int at)
{
    make_file(at, "public", 0644);
    make_file(at, "program", 04755);
    make_file(at, "secret", 0640);
    assert_int_equal(mkdirat(at, "open", 0755), 0);
    make_file(at, "open/in", 0444);
    make_file(at, "open/secret", 0600);
    assert_int_equal(mkdirat(at, "closed", 0700), 0);
    make_file(at, "closed/in", 0644);
    assert_int_equal(mkfifoat(at, "fifo", 0666), 0);
    assert_int_equal(symlinkat("/etc/shadow", at, "link"), 0);
}

static int mode_of(int at, const char *name)
{
    struct stat st;

    return fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (int) st.st_mode : -1;
}

static void test_only_what_all_may_read(void **state)
{
    char top[] = "/tmp/sandpool-copy-XXXXXX";
    char from[64];
    struct tree_count count = {0};
    struct err err;
    int at;
    int to;

    (void) state;
    assert_non_null(mkdtemp(top));
    at = open(top, O_RDONLY | O_DIRECTORY);
    assert_int_equal(mkdirat(at, "from", 0755), 0);
    assert_int_equal(mkdirat(at, "to", 0755), 0);
    (void) snprintf(from, sizeof(from), "%s/from", top);
    to = openat(at, "from", O_RDONLY | O_DIRECTORY);
    make_source(to);
    assert_int_equal(close(to), 0);
    to = openat(at, "to", O_RDONLY | O_DIRECTORY);

    assert_int_equal(base_copy_dir(from, to, (uint32_t) geteuid(), NULL, &err), SP_OK);
    assert_int_equal(mode_of(to, "public"), S_IFREG | 0644);
    assert_int_equal(mode_of(to, "program"), S_IFREG | 0755);
    assert_int_equal(mode_of(to, "open/in"), S_IFREG | 0644);
    assert_int_equal(mode_of(to, "link"), S_IFLNK | 0777);
    assert_int_equal(mode_of(to, "secret"), -1);
    assert_int_equal(mode_of(to, "open/secret"), -1);
    assert_int_equal(mode_of(to, "closed"), -1);
    assert_int_equal(mode_of(to, "fifo"), -1);
    assert_int_equal(base_copy_dir("/nonexistent", to, 0, NULL, &err), SP_OK);

    assert_int_equal(close(to), 0);
    assert_int_equal(close(at), 0);
    assert_int_equal(tree_remove(top, &count, &err), SP_OK);
}

static void test_digest_sees_every_change(void **state)
{
    char top[] = "/tmp/sandpool-digest-XXXXXX";
    struct tree_count count = {0};
    char digests[6][65];
    struct err err;
    int at;

    (void) state;
    assert_non_null(mkdtemp(top));
    at = open(top, O_RDONLY | O_DIRECTORY);
    assert_int_equal(base_digest(at, true, digests[0], &err), SP_OK);
    make_file(at, "a", 0644);
    assert_int_equal(base_digest(at, true, digests[1], &err), SP_OK);
    assert_int_equal(fchmodat(at, "a", 0755, 0), 0);
    assert_int_equal(base_digest(at, true, digests[2], &err), SP_OK);
    assert_int_equal(renameat(at, "a", at, "b"), 0);
    assert_int_equal(base_digest(at, true, digests[3], &err), SP_OK);
    assert_int_equal(symlinkat("x", at, "l"), 0);
    assert_int_equal(base_digest(at, true, digests[4], &err), SP_OK);
    assert_int_equal(mkdirat(at, "d", 0755), 0);
    assert_int_equal(base_digest(at, true, digests[5], &err), SP_OK);
    for (size_t i = 0; i < ARRAY_LEN(digests); i++) {
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(digests[i], digests[j]);
    }
    assert_int_equal(close(at), 0);
    assert_int_equal(tree_remove(top, &count, &err), SP_OK);
    assert_int_equal(count.files, 4);
}

static bool look(const char *dir, char *ret)
{
    struct base_look l;
    struct err err;

    base_look_init(&l);
    assert_int_equal(base_copy_dir(dir, -1, 0, &l, &err), SP_OK);
    return base_look_end(&l, ret);
}

static void test_a_look_sees_every_change(void **state)
{
    char top[] = "/tmp/sandpool-look-XXXXXX";
    struct tree_count count = {0};
    char looks[8][65];
    char again[65];
    struct err err;
    int at;
    int fd;

    (void) state;
    assert_non_null(mkdtemp(top));
    at = open(top, O_RDONLY | O_DIRECTORY);
    assert_true(look(top, looks[0])); /* nothing is in it */
    make_file(at, "a", 0644);
    assert_false(look(top, looks[1]));
    assert_int_equal(fchmodat(at, "a", 0755, 0), 0);
    assert_false(look(top, looks[2]));
    assert_int_equal(renameat(at, "a", at, "b"), 0);
    assert_false(look(top, looks[3]));
    fd = openat(at, "b", O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, "more", 4), 4);
    assert_int_equal(close(fd), 0);
    assert_false(look(top, looks[4]));
    assert_int_equal(symlinkat("x", at, "l"), 0);
    assert_false(look(top, looks[5]));
    assert_int_equal(mkdirat(at, "d", 0755), 0);
    assert_false(look(top, looks[6]));
    make_file(at, "d/in", 0644);
    assert_false(look(top, looks[7]));
    assert_false(look(top, again));
    assert_string_equal(again, looks[7]);
    for (size_t i = 0; i < ARRAY_LEN(looks); i++) {
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(looks[i], looks[j]);
    }
    assert_int_equal(close(at), 0);
    assert_int_equal(tree_remove(top, &count, &err), SP_OK);
}

static void test_only_an_old_look_is_relied_on(void **state)
{
    struct timespec now;
    struct base_look l;
    struct stat st = {.st_mode = S_IFREG | 0644};
    char seen[65];

    (void) state;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
    for (int age = -100; age <= 100; age += 50) {
        base_look_init(&l);
        st.st_ctim.tv_sec = now.tv_sec - age;
        base_look_add(&l, "x", &st);
        assert_int_equal(base_look_end(&l, seen), age > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_what_all_may_read),
        cmocka_unit_test(test_digest_sees_every_change),
        cmocka_unit_test(test_a_look_sees_every_change),
        cmocka_unit_test(test_only_an_old_look_is_relied_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
