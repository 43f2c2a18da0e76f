/* Small files and directories: limits, links, what is no file. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/unit.h"

static char dir[64];

static const char *path_of(const char *name)
{
    static char path[128];

    (void) snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static void put(const char *name, const char *text)
{
    AUTO_CLOSE int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, text, strlen(text)), 0);
}

static int setup(void **state)
{
    (void) state;
    tmpdir_make(dir);
    return 0;
}

static int teardown(void **state)
{
    static const char *const names[] = {"text", "link", "pipe"};

    (void) state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        (void) unlink(path_of(names[i]));
    (void) rmdir(path_of("sub"));
    return rmdir(dir);
}

static void test_make_dir(void **state)
{
    struct stat st;
    struct err err;

    (void) state;
    assert_int_equal(file_make_dir(path_of("sub"), &err), SP_OK);
    assert_int_equal(file_make_dir(path_of("sub"), &err), SP_OK);
    assert_int_equal(stat(path_of("sub"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(file_make_dir(path_of("no/sub"), &err), SP_IO);
    assert_int_equal(err.sys, ENOENT);
}

static void test_open_regular(void **state)
{
    AUTO_CLOSE int fd = -1;

    (void) state;
    put("text", "x");
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    assert_int_equal(file_open_regular(path_of("pipe"), &fd), FILE_NOT_REGULAR);
    assert_int_equal(file_open_regular(dir, &fd), FILE_NOT_REGULAR);
    assert_int_equal(file_open_regular(path_of("none"), &fd), ENOENT);
    assert_int_equal(fd, -1);
    assert_int_equal(file_open_regular(path_of("text"), &fd), 0);
    assert_true(fd >= 0);
}

static void test_read_rest(void **state)
{
    struct buf whole;
    struct buf small;

    (void) state;
    put("text", "0123456789");
    buf_init(&whole, 10);
    buf_init(&small, 9);
    for (int i = 0; i < 2; i++) {
        AUTO_CLOSE int fd = -1;

        assert_int_equal(file_open_regular(path_of("text"), &fd), 0);
        assert_int_equal(file_read_rest(fd, i == 0 ? &whole : &small), i == 0 ? 0 : EFBIG);
    }
    assert_string_equal(buf_str(&whole), "0123456789");
    assert_int_equal(file_read_rest(-1, &whole), EBADF);
    buf_fini(&whole);
    buf_fini(&small);
}

static void test_read_start(void **state)
{
    AUTO_CLOSE int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    char text[5] = "old";

    (void) state;
    put("text", "0123456789");
    assert_int_equal(file_read_start(dir_fd, "text", text, sizeof(text)), 4);
    assert_string_equal(text, "0123");
    assert_int_equal(file_read_start(dir_fd, "none", text, sizeof(text)), -1);
    assert_int_equal(errno, ENOENT);
    assert_string_equal(text, "");
    assert_int_equal(symlinkat("text", dir_fd, "link"), 0);
    assert_int_equal(file_read_start(dir_fd, "link", text, sizeof(text)), -1);
    assert_int_equal(errno, ELOOP);
    put("text", "");
    assert_int_equal(file_read_start(AT_FDCWD, path_of("text"), text, sizeof(text)), 0);
    assert_string_equal(text, "");
}

static volatile sig_atomic_t is_stopped;

static bool get_stopped(void)
{
    return is_stopped != 0;
}

static void *send_slowly(void *fd)
{
    for (const char *at = "0123456789"; *at != '\0'; at++)
        assert_int_equal(write(*(int *) fd, at, 1), 1);
    return NULL;
}

static void test_read_exact(void **state)
{
    char text[11] = "";
    pthread_t sender;
    int fds[2];

    (void) state;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(pthread_create(&sender, NULL, send_slowly, &fds[1]), 0);
    assert_true(file_read_exact(fds[0], text, 10, get_stopped)); /* in as many pieces as it takes */
    assert_int_equal(pthread_join(sender, NULL), 0);
    assert_string_equal(text, "0123456789");
    assert_int_equal(write(fds[1], "ab", 2), 2);
    (void) close(fds[1]);
    assert_false(file_read_exact(fds[0], text, 3, get_stopped)); /* it ends before */
    assert_true(file_read_exact(fds[0], text, 0, get_stopped));
    (void) close(fds[0]);
}

static void on_alarm(int signum)
{
    (void) signum;
    is_stopped = 1;
}

static void test_read_exact_is_stopped(void **state)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval often = {{0, 1000}, {0, 1000}};
    struct itimerval never = {{0, 0}, {0, 0}};
    char text[4];
    int fds[2];

    (void) state;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0); /* until one comes in the call */
    assert_false(file_read_exact(fds[0], text, 4, get_stopped));
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    (void) close(fds[0]);
    (void) close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_make_dir),   cmocka_unit_test(test_open_regular),
        cmocka_unit_test(test_read_rest),  cmocka_unit_test(test_read_start),
        cmocka_unit_test(test_read_exact), cmocka_unit_test(test_read_exact_is_stopped),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
