/* seeds.h - the command line of a program of random walks, and its seeds: first those of a file,
 * which once failed, then a range of new ones. */
#ifndef SIM_SEEDS_H
#define SIM_SEEDS_H

#include <stdbool.h>
#include <stdint.h>

struct seeds {
    uint64_t start;
    uint64_t count;
    uint64_t steps;
    const char *file; /* NULL: none */
    bool is_verbose;
    bool want_twice; /* each seed twice: the same must happen */
};

/* Set the defaults first. False, after a line on standard error, if it is not valid. */
bool seeds_parse(struct seeds *s, int argc, char **argv);
/* False when the file cannot be read. */
bool seeds_walk(const struct seeds *s, void (*walk)(const struct seeds *s, uint64_t seed));

#endif
