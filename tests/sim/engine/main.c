/* main.c - random walks over the engine, one per seed. A seed that fails is printed with the
 * command that replays it; add it to seeds.txt permanently. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../seeds.h"
#include "walk.h"

static struct {
    uint64_t walks;
    uint64_t steps;
    uint64_t lives;
    uint64_t crashes;
    uint64_t ok;
    uint64_t refused;
    uint64_t undelivered;
    uint64_t updates;
    uint64_t by_code[SP_ERROR_INDEX_COUNT];
} totals;

/* Of the sanitizers, where they are built in. */
extern void __asan_set_death_callback(void (*fn)(void)) __attribute__((weak));
extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

/* An assertion, or a wrong address: only what is allowed in a signal handler. */
static void say_seed(void)
{
    char text[96] = "replay: sim_engine --verbose --seed ";
    size_t len = strlen(text);
    char digits[24];
    size_t at = sizeof(digits);
    uint64_t seed = walk.seed;

    do {
        digits[--at] = (char) ('0' + seed % 10);
        seed /= 10;
    } while (seed > 0);
    memcpy(text + len, digits + at, sizeof(digits) - at);
    len += sizeof(digits) - at;
    text[len] = '\n';
    (void) !write(STDERR_FILENO, text, len + 1);
}

static void on_signal(int number)
{
    say_seed();
    (void) signal(number, SIG_DFL);
    (void) raise(number);
}

static void watch(void)
{
    if (__asan_set_death_callback != NULL)
        __asan_set_death_callback(say_seed);
    else
        (void) signal(SIGSEGV, on_signal);
    (void) signal(SIGABRT, on_signal);
}

static void count(void)
{
    totals.walks++;
    totals.steps += walk.steps;
    totals.lives += walk.lives;
    totals.crashes += walk.crashes;
    totals.ok += walk.replies_ok;
    totals.refused += walk.replies_refused;
    totals.undelivered += walk.undelivered;
    totals.updates += walk.updates;
    for (int i = 0; i < SP_ERROR_INDEX_COUNT; i++)
        totals.by_code[i] += walk.by_code[i];
}

static uint64_t walk_once(const struct seeds *s, uint64_t seed)
{
    walk.is_verbose = s->is_verbose;
    walk.want_digest = s->want_twice;
    walk_init(seed);
    operator_init();
    lives_start();
    for (uint64_t i = 0; i < s->steps; i++) {
        walk_run(walk_now() + (walk_one_in(4) ? 0 : walk_ms(0, 300)));
        callers_act();
        operator_act();
    }
    settle();
    lives_end();
    count();
    walk_fini();
    if (__lsan_do_recoverable_leak_check != NULL && __lsan_do_recoverable_leak_check() != 0)
        walk_fail("memory is left");
    return walk.digest;
}

static void walk_seed(const struct seeds *s, uint64_t seed)
{
    uint64_t first = walk_once(s, seed);

    if (s->want_twice && walk_once(s, seed) != first)
        walk_fail("the same seed gave another walk");
}

int main(int argc, char **argv)
{
    struct seeds s = {.start = 1, .count = 1, .steps = 200};

    watch();
    if (!seeds_parse(&s, argc, argv) || !seeds_walk(&s, walk_seed))
        return 2;
    (void) printf("%" PRIu64 " walks, %" PRIu64 " steps, %" PRIu64 " lives (%" PRIu64
                  " killed), %" PRIu64 " requests granted (%" PRIu64 " not delivered, %" PRIu64
                  " updates of boxes), %" PRIu64 " refused:",
                  totals.walks, totals.steps, totals.lives, totals.crashes, totals.ok,
                  totals.undelivered, totals.updates, totals.refused);
    for (int i = 1; i < SP_ERROR_INDEX_COUNT; i++)
        if (totals.by_code[i] > 0)
            (void) printf(" %s %" PRIu64, sp_error_info(-i)->name, totals.by_code[i]);
    (void) printf("\n");
    return totals.walks > 0 ? 0 : 1;
}
