/* test_store_counts.c - what boxes have used: samples become parts of intervals, of each owner its own, and nothing of it is
 * there twice or less than nothing, whatever the counters and the process do. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rand.h"
#include "store/usage.h"
#include "usage_rows.h"

#define MB (1024 * 1024ULL)
#define NOT_COUNTED UINT64_MAX

static struct put sample_of(uint64_t box, enum store_counter k, uint64_t n)
{
    struct put p = {.w = {.kind = STORE_SAMPLE}};

    p.w.u.sample.box = box;
    p.w.u.sample.now.known = 1U << k;
    p.w.u.sample.now.n[k] = n;
    return p;
}

static void sample(struct fixture *f, uint64_t at_ms, uint64_t box, enum store_counter k,
                   uint64_t n)
{
    struct put p = sample_of(box, k, n);

    rt_advance(&f->rt, (T0 + at_ms - rt_wall_ms(&f->rt)) * NS_PER_MS);
    assert_int_equal(fixture_write(f, &p), SP_OK);
}

static void ask(struct fixture *f, struct store_usage *u)
{
    u->max = u->max != 0 ? u->max : 100;
    u->scan_max = 3;
    do {
        struct put p = {.w = {.kind = STORE_READ_USAGE, .u.usage = u}};

        u->is_stepped = false;
        assert_int_equal(fixture_write(f, &p), SP_OK);
    } while (!u->is_end);
}

/* The sum of one user; 0 when there is none. */
static uint64_t used_between(struct fixture *f, const char *user, enum store_counter k,
                             uint64_t since_ms, uint64_t until_ms)
{
    uint64_t n = 0;
    struct store_usage u;

    store_usage_init(&u);
    u.user = user;
    u.since_ms = since_ms;
    u.until_ms = until_ms;
    ask(f, &u);
    assert_true(u.sum_list.len <= 1);
    if (!list_is_empty(&u.sum_list)) {
        const struct store_sum *sum = container_of(list_first(&u.sum_list), struct store_sum, link);

        n = (sum->counts.known & (1U << k)) != 0 ? sum->counts.n[k] : NOT_COUNTED;
    }
    store_usage_fini(&u);
    return n;
}

static uint64_t used(struct fixture *f, const char *user, enum store_counter k)
{
    return used_between(f, user, k, 0, UINT64_MAX);
}

/* What a blank box has used is nobody's; what came since the last sample of it is its owner's. */
static void test_from_the_first_sample_on(void **state)
{
    struct fixture *f = *state;

    open_metered(f);
    write_at(f, 0, put_box(1, "blank"), "blank", "");
    sample(f, 10, 1, STORE_CPU_US, 5000);
    sample(f, 500, 1, STORE_CPU_US, 6000);
    lease(f, 1000, 1, "a");
    rt_advance(&f->rt, 10 * NS_PER_MS);
    assert_true(used(f, "a", STORE_CPU_US) == NOT_COUNTED);
    sample(f, 2000, 1, STORE_CPU_US, 6700);
    assert_int_equal(used(f, "a", STORE_CPU_US), 700);
    assert_true(used(f, "a", STORE_NET_IN) == NOT_COUNTED);
    park(f, 3000, 1, "a");
    sample(f, 4000, 1, STORE_CPU_US, 6701);
    end(f, 5000, 1, "a");
    assert_int_equal(used(f, "a", STORE_CPU_US), 701);
    sample(f, 6000, 1, STORE_CPU_US, 9999); /* too late */
    assert_int_equal(fixture_write(f, &(struct put){.w = put_forget(1).w}), SP_OK);
    sample(f, 7000, 1, STORE_CPU_US, 19999);
    assert_int_equal(used(f, "a", STORE_CPU_US), 701);
    fixture_close(f);
    assert_int_equal(fixture_number(f, "SELECT count(*) FROM counters"), 0);
    assert_int_equal(fixture_number(f, "SELECT sum(cpu_us) FROM usage"), 701);
}

/* One that was taken back goes to somebody else. */
static void test_each_owner_has_its_own(void **state)
{
    struct fixture *f = *state;

    open_metered(f);
    lease(f, 0, 1, "a");
    sample(f, 10, 1, STORE_NET_OUT, 100);
    sample(f, 20, 1, STORE_NET_OUT, 150);
    write_at(f, 30, put_box(1, "blank"), "blank", "");
    sample(f, 40, 1, STORE_NET_OUT, 1000);
    lease(f, 50, 1, "b");
    sample(f, 60, 1, STORE_NET_OUT, 1003);
    assert_int_equal(used(f, "a", STORE_NET_OUT), 50);
    assert_int_equal(used(f, "b", STORE_NET_OUT), 3);
    lease(f, 70, 1, "c"); /* from one to the next, without a sample between */
    sample(f, 80, 1, STORE_NET_OUT, 1010);
    assert_int_equal(used(f, "b", STORE_NET_OUT), 3);
    assert_int_equal(used(f, "c", STORE_NET_OUT), 7);
}

static void test_counters_that_go_back(void **state)
{
    struct fixture *f = *state;

    open_metered(f);
    lease(f, 0, 1, "a");
    sample(f, 10, 1, STORE_DISK_WRITE, 1000);
    sample(f, 20, 1, STORE_DISK_WRITE, 3000);
    sample(f, 30, 1, STORE_DISK_WRITE, 2500); /* a part was missed */
    sample(f, 40, 1, STORE_DISK_WRITE, 3000);
    assert_int_equal(used(f, "a", STORE_DISK_WRITE), 2000);
    sample(f, 50, 1, STORE_DISK_WRITE, 3001);
    sample(f, 50, 1, STORE_DISK_WRITE, 3001);
    assert_int_equal(used(f, "a", STORE_DISK_WRITE), 2001);
    sample(f, 60, 1, STORE_DISK_WRITE, INT64_MAX);
    sample(f, 70, 1, STORE_DISK_WRITE, 0);
    assert_true(used(f, "a", STORE_DISK_WRITE) == INT64_MAX - 1000);
}

/* As if it had changed evenly; not before it had an owner. */
static void test_memory(void **state)
{
    struct fixture *f = *state;

    open_metered(f);
    write_at(f, 0, put_box(1, "blank"), "blank", "");
    sample(f, 0, 1, STORE_MEMORY, 10 * MB);
    lease(f, 60000, 1, "a");
    sample(f, 61000, 1, STORE_MEMORY, 30 * MB);
    assert_int_equal(used(f, "a", STORE_MEMORY), 20 * 1000);
    park(f, 62000, 1, "a");
    sample(f, 63000, 1, STORE_MEMORY, 30 * MB);
    end(f, 64000, 1, "a");
    assert_int_equal(used(f, "a", STORE_MEMORY), 20 * 1000 + 30 * 2000);
}

/* Ranges that follow each other have the whole of it. */
static void test_ranges(void **state)
{
    struct fixture *f = *state;
    uint64_t all = 0;

    open_metered(f);
    lease(f, 0, 1, "a");
    sample(f, 0, 1, STORE_CPU_US, 0);
    sample(f, 10000, 1, STORE_CPU_US, 99991);
    for (uint64_t at_ms = 0; at_ms < 10000; at_ms += 700)
        all += used_between(f, "a", STORE_CPU_US, T0 + at_ms, T0 + at_ms + 700);
    assert_int_equal(all, 99991);
    end(f, 15000, 1, "a");
    for (uint64_t at_ms = 0; at_ms < 15000; at_ms += 700)
        all += used_between(f, "a", STORE_CPU_US, T0 + at_ms, T0 + at_ms + 700);
    assert_int_equal(all, 2 * 99991);
    assert_int_equal(used_between(f, "a", STORE_CPU_US, T0 + 3000, T0 + 6000), 99991 / 5);
}

/* The row that says that it is deleted gives what the binding has used, also when it is written again. */
static void test_used_at_the_end(void **state)
{
    struct fixture *f = *state;

    open_metered(f);
    lease(f, 0, 1, "a");
    sample(f, 10, 1, STORE_DISK_READ, 5);
    sample(f, 20, 1, STORE_DISK_READ, 45);
    park(f, 30, 1, "a");
    fixture_close(f);
    fixture_start(f);
    sample(f, 40, 1, STORE_DISK_READ, 47);
    for (unsigned i = 0; i < 2; i++) {
        struct store_used at_end = {.is_known = false};
        struct put p = put_deleting(1, "a", "destroyed");

        p.w.u.box.used = &at_end;
        p.w.u.box.generation = 1;
        write_at(f, 50 + i, p, "deleting", "a");
        assert_int_equal(at_end.counts.known, 1U << STORE_DISK_READ);
        assert_int_equal(at_end.counts.n[STORE_DISK_READ], 42);
    }
    assert_int_equal(used(f, "a", STORE_DISK_READ), 42);
}

/* Rows that become one when there are too many have the sum of what was counted. */
static void test_folded(void **state)
{
    struct fixture *f = *state;

    f->config.want_usage = true;
    f->config.usage_max = 100;
    f->config.usage_ms = 1000 * HOUR_MS;
    fixture_start(f);
    lease(f, 0, 1, "a");
    sample(f, 0, 1, STORE_NET_IN, 0);
    for (uint64_t i = 1; i <= 400; i++) {
        sample(f, 10 * i - 1, 1, STORE_NET_IN, 3 * i);
        (i % 2 == 0 ? lease : park)(f, 10 * i, 1, "a");
    }
    assert_int_equal(used(f, "a", STORE_NET_IN), 1200);
    assert_true(used(f, "a", STORE_NET_OUT) == NOT_COUNTED);
    fixture_close(f);
    assert_in_range((size_t) fixture_number(f, "SELECT count(*) FROM usage"), 2, 110);
    assert_int_equal(fixture_number(f, "SELECT sum(net_in) FROM usage"), 1200);
}

static void test_off(void **state)
{
    struct fixture *f = *state;

    fixture_start(f);
    lease(f, 0, 1, "a");
    sample(f, 10, 1, STORE_CPU_US, 5);
    fixture_close(f);
    assert_int_equal(fixture_number(f, "SELECT count(*) FROM counters"), 0);
}

/* --- a database of before --- */

static void test_older_database(void **state)
{
    struct fixture *f = *state;

    open_metered(f);
    lease(f, 0, 1, "a");
    park(f, 1000, 1, "a");
    fixture_close(f);
    before_prices_of_use(f);
    fixture_sql(f, "DROP TABLE counters;"
                   "ALTER TABLE usage DROP COLUMN cpu_us; ALTER TABLE usage DROP COLUMN memory;"
                   "ALTER TABLE usage DROP COLUMN net_in; ALTER TABLE usage DROP COLUMN net_out;"
                   "ALTER TABLE usage DROP COLUMN disk_read;"
                   "ALTER TABLE usage DROP COLUMN disk_write;"
                   "PRAGMA user_version=13");
    fixture_start(f);
    assert_true(used(f, "a", STORE_CPU_US) == NOT_COUNTED);
    sample(f, 2000, 1, STORE_CPU_US, 50);
    sample(f, 3000, 1, STORE_CPU_US, 51);
    end(f, 4000, 1, "a");
    assert_int_equal(used(f, "a", STORE_CPU_US), 1);
}

/* --- kills --- */

enum { LIVES = 12, STEPS = 3000, STEP_US = 10 };

/* Never ends by itself before it has done all steps. Reports the last sample that is stored. */
static void be_the_child(struct fixture *f, uint64_t from, int fd)
{
    (void) alarm(60);
    fixture_start(f);
    for (uint64_t n = from; n < from + STEPS; n++) {
        struct put p = sample_of(1, STORE_CPU_US, n * STEP_US);

        if (n % 5 == 0)
            (n % 2 == 0 ? lease : park)(f, n, 1, "a");
        rt_advance(&f->rt, (T0 + n - rt_wall_ms(&f->rt)) * NS_PER_MS);
        if (fixture_write(f, &p) != SP_OK || write(fd, &n, sizeof(n)) != sizeof(n))
            _exit(1);
    }
    _exit(0);
}

/* Whenever it is killed: the sum is that of a sample that was stored, or was about to be. */
static void test_kills(void **state)
{
    struct fixture *f = *state;
    uint64_t last = 0;

    open_metered(f);
    lease(f, 0, 1, "a");
    sample(f, 0, 1, STORE_CPU_US, 0);
    fixture_close(f);
    for (int life = 0; life < LIVES; life++) {
        uint64_t until;
        uint64_t n;
        int fds[2];
        pid_t pid;

        rand_secure(&until, sizeof(until));
        until = last + 1 + until % 200;
        assert_int_equal(pipe(fds), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            (void) close(fds[0]);
            be_the_child(f, last + 1, fds[1]);
        }
        (void) close(fds[1]);
        while (read(fds[0], &n, sizeof(n)) == (ssize_t) sizeof(n)) {
            last = n;
            if (n == until)
                assert_int_equal(kill(pid, SIGKILL), 0);
        }
        (void) close(fds[0]);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        rt_advance(&f->rt, (T0 + last + 10 - rt_wall_ms(&f->rt)) * NS_PER_MS);
        fixture_start(f);
        n = used(f, "a", STORE_CPU_US);
        assert_true(n == last * STEP_US || n == (last + 1) * STEP_US);
        last = n / STEP_US;
        fixture_close(f);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_from_the_first_sample_on),
        CASE(test_each_owner_has_its_own),
        CASE(test_counters_that_go_back),
        CASE(test_memory),
        CASE(test_ranges),
        CASE(test_used_at_the_end),
        CASE(test_folded),
        CASE(test_off),
        CASE(test_older_database),
        CASE(test_kills),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
