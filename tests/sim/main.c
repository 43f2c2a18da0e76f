/* main.c - random walks over the pool, one per seed. A seed that fails is printed with the command
 * that replays it; add it to seeds.txt permanently. */
#include <inttypes.h>
#include <stdio.h>

#include "seeds.h"
#include "world.h"

struct totals {
    uint64_t walks;
    uint64_t steps;
    uint64_t ok;
    uint64_t specials;
    uint64_t refused;
    uint64_t quota_refused;
    uint64_t lives;
    uint64_t absences;
    uint64_t uses[POOL_USE_COUNT];
    uint64_t by_code[SP_ERROR_INDEX_COUNT];
};

static struct world world; /* too large for the stack */
static struct totals totals;

static void walk(const struct seeds *o, uint64_t seed)
{
    struct world *w = &world;
    struct totals *t = &totals;

    w->is_verbose = o->is_verbose;
    world_init(w, seed);
    while (w->steps < o->steps) {
        uint64_t pause_ns = rand_below(&w->rand, 4) == 0 ? 0 : world_ms(w, 0, 12);

        world_advance(w, w->now_ns + pause_ns);
        clients_act(w);
        operator_act(w);
    }
    settle(w);
    t->walks++;
    t->steps += w->steps;
    t->ok += w->replies_ok;
    t->specials += w->specials;
    t->refused += w->replies_refused;
    t->quota_refused += w->quota_refused;
    t->lives += w->lives;
    t->absences += w->absences;
    for (int i = 0; i < POOL_USE_COUNT; i++)
        t->uses[i] += w->uses[i];
    for (int i = 0; i < SP_ERROR_INDEX_COUNT; i++)
        t->by_code[i] += w->by_code[i];
    world_fini(w);
}

int main(int argc, char **argv)
{
    struct seeds o = {.start = 1, .count = 1, .steps = 600};
    struct totals t;

    if (!seeds_parse(&o, argc, argv) || !seeds_walk(&o, walk))
        return 2;
    t = totals;
    printf("%" PRIu64 " walks, %" PRIu64 " steps, %" PRIu64 " restarts, %" PRIu64
           " absences of a backend, %" PRIu64 " requests granted (%" PRIu64
           " with a box made for them), agents asked for use: %" PRIu64 " busy, %" PRIu64
           " idle, %" PRIu64 " without, %" PRIu64 " silent; %" PRIu64 " refused:",
           t.walks, t.steps, t.lives, t.absences, t.ok, t.specials, t.uses[POOL_USE_BUSY],
           t.uses[POOL_USE_NONE], t.uses[POOL_USE_CANNOT], t.uses[POOL_USE_UNKNOWN], t.refused);
    for (int i = 1; i < SP_ERROR_INDEX_COUNT; i++)
        if (t.by_code[i] > 0)
            printf(" %s %" PRIu64, sp_error_info(-i)->name, t.by_code[i]);
    printf("\n");
    if (t.walks >= 400 && t.quota_refused == 0) {
        printf("no caller was refused by its quota\n");
        return 1;
    }
    return t.walks > 0 ? 0 : 1;
}
