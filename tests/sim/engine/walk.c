/* walk.c - virtual time, random decisions and the trace. */
#include "walk.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/map.h"

#define START_NS (1000 * NS_PER_S)
#define START_MS 1700000000000ULL

struct walk walk;

void walk_fail(const char *why)
{
    (void) fflush(stdout);
    (void) fprintf(stderr, "seed %llu, at %.3f ms: %s\n", (unsigned long long) walk.seed,
                   (double) (walk_now() - START_NS) / 1e6, why);
    (void) fprintf(stderr, "replay: sim_engine --seed %llu --verbose\n",
                   (unsigned long long) walk.seed);
    _exit(1); /* no leak check: nothing was freed */
}

void walk_say(const char *fmt, ...)
{
    char line[640];
    va_list args;

    if (!walk.is_verbose && !walk.want_digest)
        return;
    va_start(args, fmt);
    (void) vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    walk.digest = hash_u64(walk.digest + hash_str(line) + walk_now());
    if (walk.is_verbose) {
        (void) printf("%12.3f %s\n", (double) (walk_now() - START_NS) / 1e6, line);
        (void) fflush(stdout);
    }
}

bool walk_one_in(unsigned n)
{
    return rand_below(&walk.rand, n) == 0;
}

bool walk_chance(unsigned percent)
{
    return !walk.is_calm && rand_below(&walk.rand, 100) < percent;
}

uint64_t walk_ms(uint64_t lo, uint64_t hi)
{
    return rand_between(&walk.rand, lo * NS_PER_MS, hi * NS_PER_MS);
}

uint64_t walk_now(void)
{
    return walk.rt.now_ns;
}

static void set_clock(uint64_t now_ns)
{
    walk.rt.now_ns = now_ns;
    walk.loop.rt.now_ns = now_ns;
}

/* Runs all that is due now. Returns when the next thing is due. */
static uint64_t turn(void)
{
    for (unsigned spins = 0;; spins++) {
        uint64_t next_ns;

        rt_run(&walk.loop.rt);
        rt_run(&walk.rt);
        if (spins > 20000)
            walk_fail("the engine is busy for ever");
        if (!list_is_empty(&walk.loop.rt.tasks))
            continue;
        if (walk.is_dirty)
            checks_run();
        next_ns = MIN_OF(rt_next_deadline(&walk.loop.rt), rt_next_deadline(&walk.rt));
        if (next_ns > walk_now())
            return next_ns;
    }
}

void walk_run(uint64_t until_ns)
{
    for (uint64_t next_ns = turn(); next_ns <= until_ns; next_ns = turn())
        set_clock(next_ns);
    set_clock(MAX_OF(until_ns, walk_now()));
}

bool walk_run_to(const bool *flag, uint64_t limit_ns)
{
    uint64_t next_ns = turn();

    while (!*flag && next_ns <= limit_ns) {
        set_clock(next_ns);
        next_ns = turn();
    }
    return *flag;
}

void walk_init(uint64_t seed)
{
    bool is_verbose = walk.is_verbose;
    bool want_digest = walk.want_digest;

    memset(&walk, 0, offsetof(struct walk, boxes));
    memset(&walk.box_count, 0, sizeof(walk) - offsetof(struct walk, box_count));
    walk.is_verbose = is_verbose;
    walk.want_digest = want_digest;
    walk.seed = seed;
    rand_seed(&walk.rand, seed);
    rand_seed(&walk.secrets, ~seed);
    rand_seed(&walk.clock, seed ^ 0x5555);
    rt_init_fake(&walk.loop.rt, START_NS, START_MS);
    rt_init_fake(&walk.rt, START_NS, START_MS);
    list_init(&walk.comings);
    list_init(&walk.requests);
    list_init(&walk.questions);
    machine_init();
    disk_init();
    callers_init();
    walk.max_boxes = (unsigned) rand_between(&walk.rand, 3, 10);
}

void walk_fini(void)
{
    boxes_fini();
    if (walk.loop.rt.timers.len > 0 || !list_is_empty(&walk.loop.rt.tasks))
        walk_fail("something of the engine is left");
    if (!list_is_empty(&walk.rt.tasks))
        walk_fail("something of the world is left");
    rt_fini(&walk.loop.rt);
    rt_fini(&walk.rt);
}
