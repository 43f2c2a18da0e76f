/* test_store_model.c - random writes against a plain model: the same after a close, and after
 * kill -9 at any moment. What was acknowledged is there, and what is there is a prefix of what
 * was submitted. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/str.h"
#include "model.h"

#define FLIGHT 48
#define TEXT_MAX (16 * 1024 * 1024)

static uint64_t from_env(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    uint64_t n = fallback;

    if (text != NULL && !str_parse_u64(text, 0, UINT64_MAX, &n))
        fail_msg("%s is no number", name);
    return n;
}

/* --- after a close --- */

struct runner {
    struct fixture *f;
    struct script script;
    struct step steps[FLIGHT];
    uint64_t submitted;
    uint64_t acked;
    uint64_t limit;
    int ack_fd; /* acknowledgements go here; -1: nowhere */
};

static struct runner *current; /* on_done() has no other way to it */

static void on_step_done(struct op *op)
{
    struct runner *r = current;
    struct step *step = container_of(op, struct step, put.w.op);

    if (op->result != SP_OK)
        fail_msg("write %llu: %s", (unsigned long long) (r->acked + 1), op->err.msg);
    assert_ptr_equal(step, &r->steps[r->acked % FLIGHT]); /* in the order of submission */
    r->acked++;
    if (r->ack_fd >= 0) {
        ssize_t n = write(r->ack_fd, &r->acked, sizeof(r->acked));

        assert_int_equal(n, sizeof(r->acked));
    }
    if (r->submitted < r->limit) {
        script_next(&r->script, step);
        r->submitted++;
        step_submit(r->f, step, on_step_done);
    }
}

/* Keeps FLIGHT writes in the air until `limit` are acknowledged. */
static void run_script(struct runner *r, struct fixture *f, uint64_t seed, uint64_t limit,
                       int ack_fd)
{
    *r = (struct runner){.f = f, .limit = limit, .ack_fd = ack_fd};
    current = r;
    script_init(&r->script, seed);
    while (r->submitted < FLIGHT && r->submitted < limit) {
        struct step *step = &r->steps[r->submitted++];

        script_next(&r->script, step);
        step_submit(f, step, on_step_done);
    }
    fixture_settle(f);
}

static void test_the_same_as_the_model(void **state)
{
    uint64_t base = from_env("STORE_MODEL_SEED", 1);

    for (uint64_t seed = base; seed < base + 20; seed++) {
        struct runner *r = calloc(1, sizeof(*r));
        struct fixture f;
        struct script script;
        struct model model;
        struct buf want;
        struct buf got;

        (void) state;
        print_message("seed %llu\n", (unsigned long long) seed);
        fixture_init(&f);
        fixture_start(&f);
        run_script(r, &f, seed, 700, -1);
        fixture_close(&f);
        fixture_open(&f);
        script_init(&script, seed);
        model_init(&model);
        for (uint64_t i = 0; i < r->acked; i++) {
            struct step step;

            script_next(&script, &step);
            model_apply(&model, &step);
        }
        assert_int_equal(r->acked, 700);
        buf_init(&want, TEXT_MAX);
        buf_init(&got, TEXT_MAX);
        model_print(&model, &want);
        model_print_store(&f, &got);
        assert_string_equal(buf_str(&got), buf_str(&want));
        buf_fini(&want);
        buf_fini(&got);
        fixture_fini(&f);
        free(r);
    }
}

/* --- after kill -9 --- */

static void be_the_child(struct fixture *f, uint64_t seed, int ack_fd, const char *crash_at)
{
    struct runner *r = calloc(1, sizeof(*r));

    if (crash_at != NULL)
        (void) setenv("SANDPOOL_CRASH_AT", crash_at, 1);
    (void) alarm(60); /* a child that hangs is a failure, not an orphan */
    fixture_start(f);
    run_script(r, f, seed, UINT64_MAX, ack_fd);
    _exit(3); /* it has no end of its own */
}

static uint64_t read_acks(int fd)
{
    uint64_t acked = 0;
    uint64_t n;

    while (read(fd, &n, sizeof(n)) == (ssize_t) sizeof(n))
        acked = n;
    return acked;
}

/* Starts a child on the fixture's path, lets it die and gives how many writes it acknowledged. */
static uint64_t run_and_kill(struct fixture *f, uint64_t seed, uint64_t after_us,
                             const char *crash_at)
{
    int fds[2];
    int status = 0;
    uint64_t acked;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void) close(fds[0]);
        be_the_child(f, seed, fds[1], crash_at);
    }
    (void) close(fds[1]);
    if (crash_at == NULL) {
        struct pollfd p = {.fd = fds[0], .events = POLLIN};
        const struct timespec pause = {.tv_nsec = (long) (after_us * NS_PER_US)};

        assert_int_equal(poll(&p, 1, FIXTURE_WAIT_MS), 1); /* it is up */
        (void) nanosleep(&pause, NULL);
        assert_int_equal(kill(pid, SIGKILL), 0);
    }
    acked = read_acks(fds[0]); /* until it is dead */
    (void) close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail_msg("the child ended with status %x", (unsigned) status);
    return acked;
}

/* The store holds the script up to some place at or after the last acknowledged write. */
static void check_prefix(struct fixture *f, uint64_t seed, uint64_t acked)
{
    struct script script;
    struct model model;
    struct buf got;
    bool is_same = false;

    fixture_open(f);
    buf_init(&got, TEXT_MAX);
    model_print_store(f, &got);
    script_init(&script, seed);
    model_init(&model);
    for (uint64_t i = 0; i <= acked + FLIGHT && !is_same; i++) {
        struct step step;

        if (i >= acked) {
            struct buf want;

            buf_init(&want, TEXT_MAX);
            model_print(&model, &want);
            is_same = strcmp(buf_str(&want), buf_str(&got)) == 0;
            buf_fini(&want);
        }
        script_next(&script, &step);
        model_apply(&model, &step);
    }
    if (!is_same)
        fail_msg("seed %llu: after %llu acknowledged writes the store holds\n%s",
                 (unsigned long long) seed, (unsigned long long) acked, buf_str(&got));
    buf_fini(&got);
    fixture_close(f);
}

static void test_kill_at_random_moments(void **state)
{
    uint64_t base = from_env("STORE_MODEL_SEED", 1);
    uint64_t count = from_env("STORE_MODEL_KILLS", 25);
    struct rand rand;

    (void) state;
    rand_seed(&rand, base);
    for (uint64_t seed = base; seed < base + count; seed++) {
        struct fixture f;
        uint64_t acked;

        fixture_init(&f);
        acked = run_and_kill(&f, seed, rand_below(&rand, 30000), NULL);
        assert_true(acked > 0);
        check_prefix(&f, seed, acked);
        fixture_fini(&f);
    }
}

/* Every point of the store in the table, at several hits. */
static void test_kill_at_named_points(void **state)
{
    static const unsigned hits[] = {1, 2, 9, 40};
    unsigned points = 0;

    (void) state;
    if (!fault_is_built_in())
        skip();
    for (const char *const *name = fault_names(); *name != NULL; name++) {
        if (strncmp(*name, "store.", 6) != 0)
            continue;
        points++;
        for (size_t i = 0; i < ARRAY_LEN(hits); i++) {
            struct fixture f;
            char at[64];

            (void) snprintf(at, sizeof(at), "%s:%u", *name, hits[i]);
            fixture_init(&f);
            check_prefix(&f, i + 1, run_and_kill(&f, i + 1, 0, at));
            fixture_fini(&f);
        }
    }
    assert_int_equal(points, 2);
}

/* Opening after a crash replays the log and moves it into the database: that may be killed too. */
static void open_and_kill(struct fixture *f, uint64_t after_us)
{
    const struct timespec pause = {.tv_nsec = (long) (after_us * NS_PER_US)};
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void) alarm(60);
        for (;;) {
            fixture_open(f);
            fixture_close(f);
        }
    }
    (void) nanosleep(&pause, NULL);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_kill_while_it_recovers(void **state)
{
    (void) state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct fixture f;
        uint64_t acked;

        fixture_init(&f);
        acked = run_and_kill(&f, seed, 20000, NULL);
        for (uint64_t i = 0; i < 6; i++)
            open_and_kill(&f, 300 + 900 * i);
        check_prefix(&f, seed, acked);
        fixture_fini(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_as_the_model),
        cmocka_unit_test(test_kill_at_random_moments),
        cmocka_unit_test(test_kill_at_named_points),
        cmocka_unit_test(test_kill_while_it_recovers),
    };

    (void) signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
