/* Users of a box from its files, and where the kernel's count of memory kills is found. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/core/identity.h"
#include "agent/core/oom.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/unit.h"

struct fixture {
    char dir[64];
};

static int set_up(void **state)
{
    struct fixture *f = test_calloc(1, sizeof(*f));

    tmpdir_make(f->dir);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    tmpdir_remove(f->dir);
    test_free(f);
    return 0;
}

static void put(const struct fixture *f, const char *name, const char *text)
{
    char path[512];
    FILE *file;

    (void) snprintf(path, sizeof(path), "%s/%s", f->dir, name);
    for (char *p = strchr(path + strlen(f->dir) + 1, '/'); p != NULL; p = strchr(p + 1, '/')) {
        *p = '\0';
        (void) mkdir(path, 0755);
        *p = '/';
    }
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void test_user_and_groups(void **state)
{
    struct fixture *f = *state;
    struct identity id;

    put(f, "passwd",
        "root:x:0:0:root:/root:/bin/sh\n"
        "al:x:7:8:Al, the first:/home/al:/bin/sh\n"
        "alice:x:9:10::/home/alice\n"
        "al:x:70:80:second:/elsewhere:/bin/sh\n");
    put(f, "group", "a:x:20:alice\nb:x:21:xal,al\nc:x:22:al\nd:x:23:\ne:x:8:al\nf:x:x:al\n");
    assert_int_equal(identity_find_in(f->dir, "al", &id, NULL), SP_OK);
    assert_string_equal(id.name, "al");
    assert_string_equal(id.home, "/home/al");
    assert_int_equal(id.uid, 7);
    assert_int_equal(id.gid, 8);
    assert_int_equal(id.group_count, 3);
    assert_int_equal(id.groups[0], 8);
    assert_int_equal(id.groups[1], 21);
    assert_int_equal(id.groups[2], 22);
    assert_int_equal(identity_find_in(f->dir, "alice", &id, NULL), SP_OK);
    assert_int_equal(id.uid, 9);
    assert_int_equal(id.group_count, 2);
}

static void test_lines_that_are_none(void **state)
{
    struct fixture *f = *state;
    char text[20000];
    struct identity id;
    struct err err;

    put(f, "passwd",
        "\n:::::\nbad:x:-1:1::/h:/s\nbad:x:1:4294967295::/h:/s\nbad:x:1\nbad\n+\n"
        "rel:x:5:5::relative:/s\nlast:x:6:6::/h");
    assert_int_equal(identity_find_in(f->dir, "bad", &id, &err), SP_INVALID_FIELD);
    assert_non_null(strstr(err.msg, "no user 'bad'"));
    assert_int_equal(identity_find_in(f->dir, "rel", &id, NULL), SP_OK);
    assert_string_equal(id.home, "/");
    assert_int_equal(identity_find_in(f->dir, "last", &id, NULL), SP_OK);
    assert_int_equal(id.uid, 6);
    assert_int_equal(id.group_count, 1); /* no file of groups */
    /* The rest of a line that is too long is not a line of its own. */
    memset(text, 'x', sizeof(text));
    (void) snprintf(text + 9000, sizeof(text) - 9000, "%s", "evil:x:0:0::/:/s\nfine:x:3:3::/:/s\n");
    put(f, "passwd", text);
    assert_int_equal(identity_find_in(f->dir, "evil", &id, NULL), SP_INVALID_FIELD);
    assert_int_equal(identity_find_in(f->dir, "fine", &id, NULL), SP_OK);
}

static void test_names(void **state)
{
    static const char *const bad[] = {"", "a:b", "a/b", "a b", "a\n", "../x"};
    struct fixture *f = *state;
    struct identity id;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(identity_find_in(f->dir, bad[i], &id, NULL), SP_INVALID_FIELD);
    assert_int_equal(identity_find_in(f->dir, "other", &id, NULL), SP_INVALID_FIELD);
    assert_int_equal(identity_find_in(f->dir, "user", &id, NULL), SP_OK);
    assert_int_equal(id.uid, 1000);
    assert_int_equal(id.gid, 1000);
    assert_string_equal(id.home, "/home/user");
    put(f, "passwd", "user:x:5:6::/srv:/bin/sh\n");
    assert_int_equal(identity_find_in(f->dir, "user", &id, NULL), SP_OK);
    assert_int_equal(id.uid, 5);
}

static void check_count(const struct fixture *f, uint64_t expected)
{
    int fd = oom_open(f->dir);

    assert_true(fd >= 0);
    assert_int_equal(oom_count(fd), expected);
    (void) close(fd);
}

static void test_count_v2(void **state)
{
    static const char events[] = "low 0\nhigh 9\nmax 8\noom 7\noom_kill 3\noom_group_kill 0\n";
    struct fixture *f = *state;

    /* A namespace of its own, whose top is the box's group. */
    put(f, "proc/self/cgroup", "0::/\n");
    assert_int_equal(oom_open(f->dir), -1);
    put(f, "sys/fs/cgroup/memory.events", events);
    check_count(f, 3);
    /* The host's path, which does not exist in the box. */
    put(f, "proc/self/cgroup", "0::/sandpool/box\n");
    check_count(f, 3);
    /* The host's path, which exists. */
    put(f, "sys/fs/cgroup/sandpool/box/memory.events", "oom 1\noom_kill 1\noom_group_kill 4\n");
    check_count(f, 5);
    /* Above the top of the namespace. */
    put(f, "proc/self/cgroup", "0::/../other\n");
    check_count(f, 3);
    /* No group is listed: what is mounted is used. */
    put(f, "proc/self/cgroup", "");
    check_count(f, 3);
}

static void test_count_v1(void **state)
{
    static const char control[] = "oom_kill_disable 0\nunder_oom 1\noom_kill 6\n";
    struct fixture *f = *state;

    put(f, "proc/self/cgroup", "9:pids:/\n8:memory:/\n1:name=systemd:/\n0::/\n");
    put(f, "sys/fs/cgroup/memory/memory.oom_control", control);
    check_count(f, 6);
    put(f, "proc/self/cgroup", "9:pids:/a\n8:memory:/not/seen\n");
    check_count(f, 6);
    put(f, "proc/self/cgroup", "3:cpu,memory:/box\n");
    check_count(f, 6);
    put(f, "sys/fs/cgroup/memory/box/memory.oom_control", "oom_kill 2\n");
    check_count(f, 2);
    put(f, "proc/self/cgroup", "no line\n:\n::\n");
    check_count(f, 6);
    /* Older kernels do not count. */
    put(f, "sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n");
    check_count(f, 0);
}

static void test_count_together(void **state)
{
    struct fixture *f = *state;

    put(f, "proc/self/cgroup", "3:hugetlb,memory:/\n");
    put(f, "sys/fs/cgroup/hugetlb,memory/memory.oom_control", "oom_kill 1\n");
    check_count(f, 1);
    assert_int_equal(oom_count(-1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_user_and_groups, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lines_that_are_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_count_v2, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_count_v1, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_count_together, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
