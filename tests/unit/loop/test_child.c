/* test_child.c - children, work on threads and watched descriptors on a real loop. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "loop/child.h"
#include "loop/fdwatch.h"
#include "loop/work.h"
#include "tests/lib/unit.h"

/* ThreadSanitizer makes a fork() of vfork(): the child cannot write into our memory why it did not start. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VFORK_IS_FORK 1
#endif
#endif
#ifndef VFORK_IS_FORK
#define VFORK_IS_FORK 0
#endif

struct fixture {
    struct loop loop;
    struct child child;
    struct list ops;
    bool is_done;
};

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    (void) signal(SIGPIPE, SIG_IGN);
    assert_int_equal(loop_init(&f->loop, NULL), SP_OK);
    list_init(&f->ops);
    f->child.pass_fd = -1;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    child_fini(&f->child);
    loop_fini(&f->loop); /* asserts that every handle is closed */
    free(f);
    return 0;
}

static void on_child(struct op *op)
{
    struct fixture *f = container_of(op, struct fixture, child.op);

    assert_false(f->is_done);
    f->is_done = true;
    loop_stop(&f->loop);
}

static void run_for(struct fixture *f, const char *const *argv, uint64_t ms)
{
    f->child.argv = argv;
    child_start(&f->loop, &f->child, &f->ops, rt_after(rt_now(&f->loop.rt), ms * NS_PER_MS),
                on_child);
    loop_run(&f->loop);
    assert_true(f->is_done);
    assert_true(list_is_empty(&f->ops));
}

static void test_input_and_outputs(void **state)
{
    const char *const argv[] = {"/bin/sh", "-c", "cat; echo bad >&2; exit 7", NULL};
    struct fixture *f = *state;

    f->child.input = "hello";
    f->child.input_len = 5;
    run_for(f, argv, 20000);
    assert_int_equal(f->child.op.result, SP_OK);
    assert_int_equal(f->child.exit_code, 7);
    assert_string_equal(buf_str(&f->child.out), "hello");
    assert_string_equal(buf_str(&f->child.err), "bad\n");
}

static void test_much_of_both(void **state)
{
    const char *const argv[] = {"/bin/sh", "-c", "cat >/dev/null; head -c 1000000 /dev/zero", NULL};
    struct fixture *f = *state;
    char *input = xcalloc(1, 1000000);

    f->child.input = input;
    f->child.input_len = 1000000;
    run_for(f, argv, 20000);
    assert_int_equal(f->child.exit_code, 0);
    assert_int_equal(f->child.out.len, CHILD_OUTPUT_MAX);
    free(input);
}

static void test_input_that_nobody_reads(void **state)
{
    const char *const argv[] = {"/bin/true", NULL};
    struct fixture *f = *state;
    char *input = xcalloc(1, 1000000);

    f->child.input = input;
    f->child.input_len = 1000000;
    run_for(f, argv, 20000);
    assert_int_equal(f->child.exit_code, 0);
    free(input);
}

/* Ended, whether init has reaped it or not yet. */
static bool has_ended(int pid)
{
    char path[64];
    char text[256] = "";
    int fd;

    (void) snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return true;
    (void) !read(fd, text, sizeof(text) - 1);
    (void) close(fd);
    return strstr(text, ") Z ") != NULL;
}

static void test_deadline_kills_the_group(void **state)
{
    const char *const argv[] = {"/bin/sh", "-c", "trap '' TERM; sleep 1000 & echo $!; sleep 1000",
                                NULL};
    struct fixture *f = *state;
    int pid;

    run_for(f, argv, 200);
    assert_int_equal(f->child.op.result, SP_TIMEOUT);
    assert_int_equal(f->child.signum, SIGKILL);
    pid = (int) strtol(buf_str(&f->child.out), NULL, 10);
    assert_true(pid > 1);
    for (int i = 0; i < 100 && !has_ended(pid); i++)
        usleep(10000);
    assert_true(has_ended(pid));
}

static void test_success_beats_the_cancel(void **state)
{
    const char *const argv[] = {"/bin/true", NULL};
    struct fixture *f = *state;

    f->child.argv = argv;
    child_start(&f->loop, &f->child, &f->ops, RT_NEVER, on_child);
    usleep(100000); /* it has ended, nobody has looked */
    op_cancel(&f->child.op);
    loop_run(&f->loop);
    assert_int_equal(f->child.op.result, SP_OK);
}

/* As the parent of a daemon may have left it. It waits for its input, which comes from the loop: so
 * it is not gone before somebody watches it. */
static void test_ignored_sigchld(void **state)
{
    const char *const argv[] = {"/bin/cat", NULL};
    struct fixture *f = *state;

    f->child.input = "done\n";
    f->child.input_len = 5;
    (void) signal(SIGCHLD, SIG_IGN);
    run_for(f, argv, 20000);
    (void) signal(SIGCHLD, SIG_DFL);
    assert_int_equal(f->child.op.result, SP_OK);
    assert_int_equal(f->child.exit_code, -1);
    assert_string_equal(buf_str(&f->child.out), "done\n");
}

static void test_pipe_kept_by_another(void **state)
{
    const char *const argv[] = {"/bin/sh", "-c", "sleep 1000 & echo $!", NULL};
    struct fixture *f = *state;
    int pid;

    run_for(f, argv, 20000);
    assert_int_equal(f->child.op.result, SP_OK); /* not waited for until the deadline */
    pid = (int) strtol(buf_str(&f->child.out), NULL, 10);
    assert_true(pid > 1);
    assert_int_equal(kill(pid, SIGKILL), 0);
}

static void test_no_such_program(void **state)
{
    const char *const argv[] = {"/nonexistent/program", NULL};
    struct fixture *f = *state;

    if (VFORK_IS_FORK)
        skip();
    run_for(f, argv, 20000);
    assert_int_equal(f->child.op.result, SP_IO);
    assert_non_null(strstr(f->child.op.err.msg, "/nonexistent/program"));
}

static void test_passed_descriptor_and_no_other(void **state)
{
    const char *const argv[] = {"/bin/sh", "-c", "cat <&3; ls -m /proc/$$/fd; :", NULL};
    struct fixture *f = *state;
    int leak = open("/dev/null", O_RDONLY); /* not close-on-exec, as libcurl's are */
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], "passed ", 7), 7);
    (void) close(fds[1]);
    f->child.pass_fd = fds[0];
    run_for(f, argv, 20000);
    assert_string_equal(buf_str(&f->child.out), "passed 0, 1, 2, 3\n");
    (void) close(fds[0]);
    (void) close(leak);
}

struct sum {
    struct work work;
    struct loop *loop;
    int value;
};

static int add(struct work *w, struct err *err)
{
    struct sum *s = container_of(w, struct sum, work);

    s->value++;
    return s->value == 1 ? SP_OK : err_set(err, SP_IO, "value is %d", s->value);
}

static void on_worked(struct op *op)
{
    loop_stop(container_of(op, struct sum, work.op)->loop);
}

static void test_work(void **state)
{
    struct fixture *f = *state;
    struct sum s = {.loop = &f->loop, .work.run = add};

    work_start(&f->loop, &s.work, &f->ops, RT_NEVER, on_worked);
    loop_run(&f->loop);
    assert_int_equal(s.work.op.result, SP_OK);
    work_start(&f->loop, &s.work, &f->ops, RT_NEVER, on_worked);
    loop_run(&f->loop);
    assert_int_equal(s.work.op.result, SP_IO);
    assert_string_equal(s.work.op.err.msg, "value is 2");
}

static void count_call(void *ctx)
{
    struct fixture *f = ctx;

    f->child.exit_code++;
    loop_stop(&f->loop);
}

static void test_fdwatch(void **state)
{
    struct fixture *f = *state;
    struct fdwatch *w;
    int fds[2];

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(fdwatch_new(&f->loop, fds[0], count_call, f, &w, NULL), SP_OK);
    assert_int_equal(write(fds[1], "x", 1), 1);
    loop_run(&f->loop);
    (void) loop_run_once(&f->loop);
    assert_int_equal(f->child.exit_code, 1);
    fdwatch_free(w);
    fdwatch_free(NULL);
    (void) close(fds[1]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_input_and_outputs),
        TEST(test_much_of_both),
        TEST(test_input_that_nobody_reads),
        TEST(test_deadline_kills_the_group),
        TEST(test_success_beats_the_cancel),
        TEST(test_ignored_sigchld),
        TEST(test_pipe_kept_by_another),
        TEST(test_no_such_program),
        TEST(test_passed_descriptor_and_no_other),
        TEST(test_work),
        TEST(test_fdwatch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
