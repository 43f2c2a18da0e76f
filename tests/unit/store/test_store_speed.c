/* test_store_speed.c - what a commit costs, and that writes in flight share one. Prints numbers;
 * fails only on what no noisy machine excuses. The loop sleeps in poll() as the real one does. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/str.h"
#include "fixture.h"
#include "tests/lib/at_most.h"

#define FLIGHT 32

static uint64_t now_ns(void)
{
    struct timespec ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts); /* cannot fail for this clock */
    return (uint64_t) ts.tv_sec * NS_PER_S + (uint64_t) ts.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *) a;
    const uint64_t y = *(const uint64_t *) b;

    return x < y ? -1 : x > y;
}

static unsigned rounds(void)
{
    const char *text = getenv("STORE_SPEED_ROUNDS");
    uint64_t n = 2000;

    if (text != NULL && !str_parse_u64(text, 1, 10000000, &n))
        fail_msg("STORE_SPEED_ROUNDS is no number");
    return (unsigned) n;
}

/* A row as big as a real one, of one of 10,000 boxes. */
static void fill(struct put *put, char id[17], uint64_t i)
{
    str_hex64(id, (i * 0x9e3779b97f4a7c15ULL) % 10000);
    *put = put_lease(i * 0x9e3779b97f4a7c15ULL % 10000, id, i);
    put->w.u.box.profile = "default";
    put->w.u.box.backend = "sim";
    put->w.u.box.user = "default";
    put->w.u.box.thread = "3f0c2c1e-7b8e-4f54-9a4c-2a1b3c4d5e6f";
    put->w.u.box.url = "http://127.0.0.1:43210";
    put->w.u.box.token = "0123456789abcdef0123456789abcdef";
    put->w.u.box.ref = "sandpool-0123456789abcdef";
    put->w.u.box.created_ms = 1700000000000;
}

/* Only the round trip counts; `gap_ns` passes between two, as between two requests. */
static void measure_latency(struct fixture *f, const char *name, bool want_power, uint64_t gap_ns,
                            unsigned n)
{
    uint64_t *took = calloc(n, sizeof(*took));
    struct put put;
    char id[17];

    fixture_start(f);
    for (unsigned i = 0; i < n; i++) {
        uint64_t until = now_ns() + gap_ns;

        while (now_ns() < until)
            ;
        fill(&put, id, i);
        put.w.want_power = want_power;
        took[i] = now_ns();
        assert_int_equal(fixture_write(f, &put), SP_OK);
        took[i] = now_ns() - took[i];
    }
    qsort(took, n, sizeof(*took), by_size);
    print_message("%-24s p50 %7.1f us  p99 %8.1f us  max %9.1f us  (%u writes)\n", name,
                  (double) took[n / 2] / 1e3, (double) took[n / 100 * 99] / 1e3,
                  (double) took[n - 1] / 1e3, n);
    assert_true(took[n / 2] < at_most(NS_PER_S));
    free(took);
    fixture_close(f);
}

static void test_latency(void **state)
{
    struct fixture *f = *state;
    unsigned n = rounds();

    measure_latency(f, "process, back to back", false, 0, n);
    measure_latency(f, "process, 30 us apart", false, 30 * NS_PER_US, n);
    measure_latency(f, "process, 1 ms apart", false, NS_PER_MS, n / 10 + 1);
    measure_latency(f, "power, back to back", true, 0, n / 20 + 1);
}

static void test_throughput(void **state)
{
    struct fixture *f = *state;
    struct put puts[FLIGHT];
    char ids[FLIGHT][17];
    unsigned n = rounds() * 5;
    unsigned sent = 0;
    unsigned done = 0;
    struct store_stats stats;
    uint64_t started;

    fixture_start(f);
    started = now_ns();
    for (; sent < FLIGHT; sent++) {
        fill(&puts[sent], ids[sent], sent);
        fixture_submit(f, &puts[sent]);
    }
    while (done < n) {
        if (!fixture_turn(f, FIXTURE_WAIT_MS))
            fail_msg("the store hangs");
        for (unsigned i = 0; i < FLIGHT; i++) {
            if (!puts[i].is_done)
                continue;
            assert_int_equal(puts[i].result, SP_OK);
            puts[i].is_done = false;
            done++;
            if (sent >= n)
                continue;
            fill(&puts[i], ids[i], sent++);
            fixture_submit(f, &puts[i]);
        }
    }
    store_get_stats(f->store, &stats);
    print_message("%u in flight: %.0f rows/s, %.1f writes per commit, slowest commit %.1f ms\n",
                  FLIGHT, (double) n * 1e9 / (double) (now_ns() - started),
                  (double) stats.writes / (double) stats.commits,
                  (double) stats.commit_ns_max / 1e6);
    assert_true(stats.writes == n);
    assert_true(stats.commits < n / 2); /* they do share commits */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_latency, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_throughput, fixture_setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
