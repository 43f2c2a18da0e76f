/* test_counters.c - what the kernel writes about a control group of version 1 and 2, and about a network, is read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/counters.h"
#include "base/file.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/unit.h"

#define ID "sandpool-x/00000000000000ab"

enum { PATH_LEN = 512 };

struct tree {
    char root[64];
};

static int set_up(void **state)
{
    struct tree *t = test_calloc(1, sizeof(*t));

    tmpdir_make(t->root);
    *state = t;
    return 0;
}

static int tear_down(void **state)
{
    struct tree *t = *state;

    tmpdir_remove(t->root);
    test_free(t);
    return 0;
}

/* With the directories that lead to it. */
static void put(const struct tree *t, const char *name, const char *text)
{
    char path[PATH_LEN];
    int fd;

    (void) snprintf(path, sizeof(path), "%s/%s", t->root, name);
    for (char *at = path + strlen(t->root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        (void) mkdir(path, 0700); /* it may be there */
        *at = '/';
    }
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(close(fd), 0);
}

static void assert_count(struct backend_count c, uint64_t n)
{
    assert_true(c.is_known);
    assert_int_equal(c.n, n);
}

static void test_version_1(void **state)
{
    static const char lines[] = "12:name=systemd:/user\n"
                                "7:cpu,cpuacct:/" ID "\n"
                                "4:memory:/" ID "/made-inside\n"
                                "0::/\n";
    const struct tree *t = *state;
    struct backend_counters c = {0};

    put(t, "cpuacct/" ID "/cpuacct.usage", "1234567890\n");
    put(t, "memory/" ID "/memory.usage_in_bytes", "1000000\n");
    put(t, "memory/" ID "/memory.stat", "inactive_file 1\ntotal_inactive_file 250000\n");
    counters_read_group(lines, t->root, ID, &c);
    assert_count(c.cpu_us, 1234567);
    assert_count(c.memory, 750000);
    assert_false(c.disk_read.is_known || c.net_in.is_known); /* no list of processes */
}

/* Waits at a pipe until it is to end; before, it and a child that it has waited for write a file of 1 MB each. */
static void write_files(const struct tree *t, int done, int go)
{
    static char block[1024 * 1024];
    char path[PATH_LEN];
    bool is_child = fork() == 0;
    int fd;

    (void) snprintf(path, sizeof(path), "%s/written-%d", t->root, is_child);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || file_write_all(fd, block, sizeof(block)) != 0)
        _exit(1);
    if (is_child)
        _exit(0);
    if (wait(NULL) < 0 || write(done, "", 1) != 1 || read(go, block, 1) < 0)
        _exit(1);
    _exit(0);
}

/* Those that are gone are in who has waited for them; what is not there any more does no harm. */
static void test_disk_of_processes(void **state)
{
    const struct tree *t = *state;
    struct backend_counters c = {0};
    int done[2];
    int go[2];
    char list[128];
    char byte;
    pid_t pid;

    if (access("/proc/self/io", R_OK) != 0)
        skip();
    assert_int_equal(pipe2(done, O_CLOEXEC), 0);
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        (void) close(go[1]);
        write_files(t, done[1], go[0]);
    }
    assert_int_equal(read(done[0], &byte, 1), 1);
    (void) snprintf(list, sizeof(list), "%d\n999999999\n0\n", pid);
    put(t, "procs/cgroup.procs", list);
    (void) snprintf(list, sizeof(list), "%s/procs", t->root);
    counters_read_processes(list, &c);
    assert_true(c.disk_read.is_known && c.disk_write.is_known);
    assert_true(c.disk_write.n >= 2 * 1024 * 1024 && c.disk_write.n < 4 * 1024 * 1024);
    for (int i = 0; i < 2; i++)
        assert_int_equal(close(go[i]), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    counters_read_processes(list, &c);
    assert_count(c.disk_write, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(close(done[i]), 0);
}

static void test_version_2(void **state)
{
    const struct tree *t = *state;
    struct backend_counters c = {0};

    put(t, "cgroup.controllers", "cpu io memory\n");
    put(t, "top/" ID "/cpu.stat", "usage_usec 5000001\nuser_usec 1\nsystem_usec 2\n");
    put(t, "top/" ID "/memory.current", "4096\n");
    put(t, "top/" ID "/memory.stat", "anon 1\ninactive_file 5000\n");
    put(t, "top/" ID "/io.stat",
        "8:0 rbytes=10 wbytes=20 rios=1 wios=1 dbytes=0 dios=0\n254:1 rbytes=1 wbytes=2\n8:16 \n"
        "7:3 rbytes=15 wbytes=5\n");
    counters_read_group("0::/top/" ID "/init.scope\n", t->root, ID, &c);
    assert_count(c.cpu_us, 5000001);
    assert_count(c.memory, 0);
    assert_count(c.disk_read, 15); /* a loop device and what its file lies on show the same bytes */
    assert_count(c.disk_write, 22);
}

/* What is not there, or says something else, is not known. */
static void test_nothing_is_known(void **state)
{
    const struct tree *t = *state;
    struct backend_counters c = {0};

    counters_read_group("9:memory:/" ID "\n9:cpuacct:/other/group\n", t->root, ID, &c);
    assert_false(c.cpu_us.is_known || c.memory.is_known || c.disk_read.is_known);
    put(t, "cpuacct/" ID "/cpuacct.usage", "-1\n");
    put(t, "memory/" ID "/memory.usage_in_bytes", "max\n");
    counters_read_group("9:memory:/" ID "\n9:cpuacct:/" ID "\n", t->root, ID, &c);
    assert_false(c.cpu_us.is_known || c.memory.is_known);
    counters_read_group("", t->root, ID, &c);
    counters_read_group("malformed\n::\n:", t->root, ID, &c);
    assert_false(c.cpu_us.is_known);
    assert_false(counters_read(-1, ID, &c));
    assert_true(counters_read(getpid(), ID, &c)); /* not in this group */
    assert_false(c.cpu_us.is_known || c.net_in.is_known);
}

static void test_no_devices_yet(void **state UNUSED)
{
    struct backend_counters c = {0};

    counters_take_disk("", &c);
    assert_count(c.disk_read, 0);
    assert_count(c.disk_write, 0);
}

static void test_networks(void **state UNUSED)
{
    static const char head[] =
        "Inter-|   Receive                                                |  Transmit\n"
        " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n"
        "    lo:     500       5    0    0    0     0          0         0      500       5\n";
    char text[1024];
    struct backend_counters c = {0};

    counters_take_net(head, &c);
    assert_false(c.net_in.is_known || c.net_out.is_known);
    (void) snprintf(text, sizeof(text),
                    "%s  tap0: 1200 3 0 0 0 0 0 0 34 2 0 0 0 0 0 0\n"
                    "  lo2:1 1 1 1 1 1 1 1 2 1 1 1 1 1 1 1\n  odd: 1 2\n",
                    head);
    counters_take_net(text, &c);
    assert_count(c.net_in, 1201);
    assert_count(c.net_out, 36);
}

static void test_groups_of_engines(void **state UNUSED)
{
    static const char id[] = "0123456789abcdef";
    char path[COUNTERS_GROUP_MAX];
    size_t top;

    assert_true(counters_find_group("3:memory:/docker/0123456789abcdef\n", "/nowhere", NULL, id,
                                    path, &top));
    assert_string_equal(path, "/nowhere/memory/docker/0123456789abcdef");
    assert_int_equal(top, strlen(path));
    assert_true(counters_find_group("3:memory:/m/libpod-0123456789abcdef.scope/container\n",
                                    "/nowhere", "memory", id, path, &top));
    path[top] = '\0';
    assert_string_equal(path, "/nowhere/memory/m/libpod-0123456789abcdef.scope");
    assert_false(counters_find_group("3:memory:/docker/other\n", "/nowhere", NULL, id, path, &top));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_version_1, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_disk_of_processes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_version_2, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_is_known, set_up, tear_down),
        cmocka_unit_test(test_no_devices_yet),
        cmocka_unit_test(test_networks),
        cmocka_unit_test(test_groups_of_engines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
