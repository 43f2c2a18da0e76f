/* main.c - random walks over the pool, one per seed. A seed that fails is printed with the command
 * that replays it, and belongs into seeds.txt for ever. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "world.h"

struct options {
    uint64_t start;
    uint64_t seeds;
    uint64_t steps;
    const char *file;
    bool is_verbose;
};

struct totals {
    uint64_t walks;
    uint64_t steps;
    uint64_t ok;
    uint64_t specials;
    uint64_t refused;
    uint64_t lives;
    uint64_t absences;
    uint64_t uses[POOL_USE_COUNT];
    uint64_t by_code[SP_ERROR_INDEX_COUNT];
};

static struct world world; /* too large for the stack */

static void walk(const struct options *o, uint64_t seed, struct totals *t)
{
    struct world *w = &world;

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
    t->lives += w->lives;
    t->absences += w->absences;
    for (int i = 0; i < POOL_USE_COUNT; i++)
        t->uses[i] += w->uses[i];
    for (int i = 0; i < SP_ERROR_INDEX_COUNT; i++)
        t->by_code[i] += w->by_code[i];
    world_fini(w);
}

static bool walk_file(const struct options *o, struct totals *t)
{
    FILE *f = fopen(o->file, "r");
    char line[64];

    if (f == NULL) {
        perror(o->file);
        return false;
    }
    while (fgets(line, sizeof(line), f) != NULL) {
        uint64_t seed = 0;

        line[strcspn(line, " #\n")] = '\0';
        if (str_parse_u64(line, 0, UINT64_MAX, &seed))
            walk(o, seed, t);
    }
    fclose(f);
    return true;
}

static bool parse(int argc, char **argv, struct options *ret)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        bool is_ok = true;

        if (strcmp(argv[i], "--verbose") == 0) {
            ret->is_verbose = true;
            continue;
        }
        if (strcmp(argv[i], "--seeds") == 0)
            is_ok = str_parse_u64(value, 0, UINT64_MAX, &ret->seeds);
        else if (strcmp(argv[i], "--start") == 0)
            is_ok = str_parse_u64(value, 0, UINT64_MAX, &ret->start);
        else if (strcmp(argv[i], "--steps") == 0)
            is_ok = str_parse_u64(value, 1, 100000, &ret->steps);
        else if (strcmp(argv[i], "--file") == 0)
            ret->file = value;
        else
            is_ok = false;
        if (!is_ok)
            return false;
        i++;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct options o = {.start = 1, .seeds = 1, .steps = 600};
    struct totals t = {0};

    if (!parse(argc, argv, &o)) {
        fprintf(stderr, "usage: sim_pool [--start S] [--seeds N] [--steps N] [--file seeds.txt] "
                        "[--verbose]\n");
        return 2;
    }
    if (o.file != NULL && !walk_file(&o, &t))
        return 2;
    for (uint64_t seed = o.start; seed < o.start + o.seeds; seed++)
        walk(&o, seed, &t);
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
    return t.walks > 0 ? 0 : 1;
}
