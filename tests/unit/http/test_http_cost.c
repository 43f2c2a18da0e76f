/* test_http_cost.c - what a round trip and an idle connection cost, with a client in a process of
 * its own. The bounds are loose: they catch a mistake of a kind, not a slow machine; the numbers
 * are printed. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "fixture.h"
#include "tests/lib/at_most.h"

enum { ROUNDS = 20000, WARM_UP = 500, IDLE_MAX = 8000 };

static pid_t child;
static int child_status;
static struct rt_timer watch;

static void on_watch(struct rt_timer *timer)
{
    if (waitpid(child, &child_status, WNOHANG) == child)
        loop_stop(&fx.loop);
    else
        rt_timer_set(&fx.loop.rt, timer, rt_after(rt_now(&fx.loop.rt), 20 * NS_PER_MS), on_watch);
}

/* Serves as the daemon does, asleep between requests, until the child has ended. */
static void serve_child(void)
{
    rt_timer_set(&fx.loop.rt, &watch, rt_now(&fx.loop.rt), on_watch);
    loop_run(&fx.loop);
    assert_true(WIFEXITED(child_status));
    assert_int_equal(WEXITSTATUS(child_status), 0);
}

static uint64_t now_ns(void)
{
    struct timespec ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t) ts.tv_sec * NS_PER_S + (uint64_t) ts.tv_nsec;
}

static int connect_blocking(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || !str_copy(addr.sun_path, sizeof(addr.sun_path), fx.path) ||
        connect(fd, (struct sockaddr *) &addr, sizeof(addr)) != 0)
        _exit(2);
    return fd;
}

static void ask(int fd)
{
    static const char request[] = "GET /healthz HTTP/1.1\r\nHost: sandpool\r\n\r\n";
    char answer[512];

    if (write(fd, request, strlen(request)) != (ssize_t) strlen(request) ||
        read(fd, answer, sizeof(answer)) < 80 || memcmp(answer, "HTTP/1.1 200", 12) != 0)
        _exit(3);
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;

    return *x < *y ? -1 : *x > *y;
}

static void measure_round_trips(void)
{
    static uint64_t took[ROUNDS];
    int fd = connect_blocking();

    (void) alarm(60);
    for (unsigned i = 0; i < WARM_UP; i++)
        ask(fd);
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t start = now_ns();

        ask(fd);
        took[i] = now_ns() - start;
    }
    qsort(took, ROUNDS, sizeof(took[0]), compare);
    (void) printf("round trip: p50 %.1f us, p99 %.1f us\n", (double) took[ROUNDS / 2] / 1000,
                  (double) took[ROUNDS * 99 / 100] / 1000);
    (void) fflush(stdout);
    _exit(took[ROUNDS / 2] < at_most(2 * NS_PER_MS) ? 0 : 4);
}

static void test_round_trip(void **state)
{
    (void) state;
    fixture_start(&fx, NULL);
    (void) fflush(stdout);
    child = fork();
    if (child == 0)
        measure_round_trips();
    assert_true(child > 0);
    serve_child();
    fixture_stop(&fx);
}

static unsigned idle_count(void)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return (unsigned) MIN_OF(limit.rlim_max - 100, (rlim_t) IDLE_MAX);
}

/* Opens them, uses each once, and holds them until the other end of the pipe is closed. */
static void hold_connections(unsigned count, int ready, int go)
{
    int *fds = calloc(count, sizeof(*fds));
    char c = 'r';

    (void) alarm(100);
    if (fds == NULL)
        _exit(2);
    for (unsigned i = 0; i < count; i++) {
        fds[i] = connect_blocking();
        ask(fds[i]);
    }
    if (write(ready, &c, 1) != 1 || read(go, &c, 1) != 0)
        _exit(5);
    ask(fds[0]);
    ask(fds[count - 1]);
    _exit(0);
}

static bool is_ready(int fd)
{
    struct timeval none = {0, 0};
    fd_set set;

    FD_ZERO(&set);
    FD_SET(fd, &set);
    return select(fd + 1, &set, NULL, NULL, &none) == 1;
}

static void test_idle_connections(void **state)
{
    struct http_limits limits;
    unsigned count = idle_count();
    int ready[2];
    int go[2];
    size_t before;
    size_t each;
    uint64_t end = fixture_now_ms() + 60000;

    (void) state;
    fixture_limits(&limits);
    limits.max_connections = count;
    limits.idle_timeout_ms = 100000;
    fixture_start(&fx, &limits);
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    (void) fflush(stdout);
    child = fork();
    if (child == 0) {
        (void) close(go[1]);
        hold_connections(count, ready[1], go[0]);
    }
    assert_true(child > 0);
    before = mallinfo2().uordblks;
    while (!is_ready(ready[0])) {
        assert_true(fixture_now_ms() < end);
        (void) loop_run_once(&fx.loop);
    }
    assert_int_equal(http_server_connections(fx.server), count);
    each = (mallinfo2().uordblks - before) / count;
    (void) printf("idle connection: %zu bytes (of %u)\n", each, count);
    assert_true(each <= 1024);
    (void) close(go[1]);
    serve_child();
    fixture_until(&fx, http_server_connections(fx.server) == 0);
    (void) close(go[0]);
    (void) close(ready[0]);
    (void) close(ready[1]);
    fixture_stop(&fx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_idle_connections),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
