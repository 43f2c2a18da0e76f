/* test_hoard.c - what processes of a control group hold is counted, in groups of version 1 and 2, with those in it. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/hoard.h"
#include "base/rand.h"
#include "base/str.h"
#include "tests/lib/unit.h"

enum {
    DIRS = 20,
    LOCKS = 30,
    HOLDERS = 2,
    PATH_LEN = 256,
};

#define NO_BOUND (1ULL << 40)

struct groups {
    char outer[PATH_LEN];
    char inner[PATH_LEN + 8];
    pid_t holders[HOLDERS];
};

/* --- what holds something --- */

static void hold(void)
{
    char name[] = "/tmp/sandpool-test-XXXXXX";
    int fd = mkstemp(name);

    (void) unlink(name);
    for (int i = 0; i < LOCKS; i++) {
        struct flock lock = {.l_type = F_WRLCK, .l_start = 2 * i, .l_len = 1};

        if (fcntl(fd, F_SETLK, &lock) != 0)
            _exit(1);
    }
    for (int i = 0; i < DIRS; i++)
        if (open("/tmp", O_RDONLY | O_DIRECTORY) < 0)
            _exit(1);
}

/* Whoever started us may have left directories open, and others may have locked what we have from them, our input too. */
static void leave_inherited(int *keep)
{
    (void) dup2(*keep, 3);
    *keep = 3;
    (void) close_range(4, ~0u, 0);
    for (int fd = 0; fd < 3; fd++) {
        int own = open("/dev/null", O_RDWR);

        if (own < 0 || dup2(own, fd) < 0 || close(own) != 0)
            _exit(1);
    }
}

static pid_t start_holder(void)
{
    int ready[2];
    char word;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        leave_inherited(&ready[1]);
        hold();
        if (write(ready[1], "r", 1) != 1)
            _exit(1);
        for (;;)
            (void) pause();
    }
    (void) close(ready[1]);
    assert_int_equal(read(ready[0], &word, 1), 1); /* 0: it has failed */
    (void) close(ready[0]);
    return pid;
}

static bool write_pid(const char *group, pid_t pid)
{
    char path[PATH_LEN + 32];
    FILE *f;
    bool is_written;

    (void) snprintf(path, sizeof(path), "%s/cgroup.procs", group);
    f = fopen(path, "we");
    if (f == NULL)
        return false;
    is_written = fprintf(f, "%d", (int) pid) > 0;
    return fclose(f) == 0 && is_written;
}

/* --- groups --- */

/* False: there is no such hierarchy, or it is not ours to write to. */
static bool make_groups(struct groups *g, const char *top)
{
    uint64_t number;

    rand_secure(&number, sizeof(number));
    (void) snprintf(g->outer, sizeof(g->outer), "%s/sandpool-test-%016llx", top,
                    (unsigned long long) number);
    (void) snprintf(g->inner, sizeof(g->inner), "%s/inner", g->outer);
    if (access(top, W_OK) != 0 || mkdir(g->outer, 0700) != 0)
        return false;
    assert_int_equal(mkdir(g->inner, 0700), 0);
    for (int i = 0; i < HOLDERS; i++)
        g->holders[i] = start_holder();
    return true;
}

static void remove_groups(const struct groups *g)
{
    for (int i = 0; i < HOLDERS; i++) {
        assert_int_equal(kill(g->holders[i], SIGKILL), 0);
        assert_int_equal(waitpid(g->holders[i], NULL, 0), g->holders[i]);
    }
    assert_int_equal(rmdir(g->inner), 0);
    assert_int_equal(rmdir(g->outer), 0);
}

static void count_in(const char *top)
{
    struct groups g;
    struct hoard held;

    if (!make_groups(&g, top))
        skip();
    hoard_count(g.outer, NO_BOUND, &held);
    assert_int_equal(held.tasks, 0);
    assert_int_equal(hoard_bytes(&held), 0);
    assert_true(write_pid(g.outer, g.holders[0]));
    hoard_count(g.outer, NO_BOUND, &held);
    assert_int_equal(held.tasks, 1);
    assert_int_equal(held.dirs, DIRS);
    assert_int_equal(held.locks, LOCKS);
    assert_true(write_pid(g.inner, g.holders[1]));
    hoard_count(g.outer, NO_BOUND, &held);
    assert_int_equal(held.tasks, 2);
    assert_int_equal(held.dirs, 2 * DIRS);
    assert_int_equal(held.locks, 2 * LOCKS);
    assert_false(held.is_unreadable);
    assert_false(hoard_is_over(&held, hoard_bytes(&held)));
    hoard_count(g.outer, hoard_bytes(&held) - 1, &held);
    assert_true(held.locks > 0);
    remove_groups(&g);
    hoard_count(g.outer, NO_BOUND, &held);
    assert_int_equal(held.tasks, 0);
}

static void test_version_1(void **state)
{
    (void) state;
    count_in("/sys/fs/cgroup/pids");
}

/* Beside version 1 the machine may have it for what systemd does. */
static void test_version_2(void **state)
{
    bool is_alone = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;

    (void) state;
    count_in(is_alone ? "/sys/fs/cgroup" : "/sys/fs/cgroup/unified");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version_1),
        cmocka_unit_test(test_version_2),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
