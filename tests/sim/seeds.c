/* seeds.c - selects the walks to run. */
#include "seeds.h"

#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/str.h"

static bool parse_one(struct seeds *s, const char *name, const char *value)
{
    if (strcmp(name, "--seeds") == 0)
        return str_parse_u64(value, 0, UINT64_MAX, &s->count);
    if (strcmp(name, "--start") == 0)
        return str_parse_u64(value, 0, UINT64_MAX, &s->start);
    if (strcmp(name, "--steps") == 0)
        return str_parse_u64(value, 1, 100000, &s->steps);
    if (strcmp(name, "--file") == 0) {
        s->file = value;
        return true;
    }
    s->count = 1; /* only one */
    s->file = NULL;
    return strcmp(name, "--seed") == 0 && str_parse_u64(value, 0, UINT64_MAX, &s->start);
}

bool seeds_parse(struct seeds *s, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0) {
            s->is_verbose = true;
        } else if (strcmp(argv[i], "--twice") == 0) {
            s->want_twice = true;
        } else if (i + 1 == argc || !parse_one(s, argv[i], argv[i + 1])) {
            (void) fprintf(stderr,
                           "usage: %s [--seed N] [--start S] [--seeds N] [--steps N] "
                           "[--file seeds.txt] [--twice] [--verbose]\n",
                           argv[0]);
            return false;
        } else {
            i++;
        }
    }
    return true;
}

static bool walk_file(const struct seeds *s, void (*walk)(const struct seeds *s, uint64_t seed))
{
    FILE *f = fopen(s->file, "re");
    char line[160];

    if (f == NULL) {
        perror(s->file);
        return false;
    }
    while (fgets(line, sizeof(line), f) != NULL) {
        uint64_t seed = 0;

        line[strcspn(line, " #\n")] = '\0';
        if (str_parse_u64(line, 0, UINT64_MAX, &seed))
            walk(s, seed);
    }
    (void) fclose(f); /* was only read */
    return true;
}

bool seeds_walk(const struct seeds *s, void (*walk)(const struct seeds *s, uint64_t seed))
{
    if (s->file != NULL && !walk_file(s, walk))
        return false;
    for (uint64_t i = 0; i < s->count; i++)
        walk(s, s->start + i);
    return true;
}
