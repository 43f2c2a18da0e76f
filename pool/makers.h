/* makers.h - for whom boxes are being made, and how many at once that may be for one principal. */
#ifndef POOL_MAKERS_H
#define POOL_MAKERS_H

#include "base/list.h"
#include "base/map.h"
#include "pool/pool.h"

struct profile;
struct slot;

/* A principal for which boxes of a profile are being made, each with what one of its acquires asked for. */
struct maker {
    uint64_t principal;
    unsigned profile;
    unsigned flying;       /* as those of the profile, never both 0 while in use */
    unsigned landing;      /* STARTING */
    struct list_node link; /* free list */
    struct map_node by_key;
};

struct makers {
    struct maker *all; /* room for one for each slot */
    size_t count;      /* ever used */
    struct list free;
    struct map map;
};

void makers_init(struct pool *p, struct maker *all);
void makers_fini(struct pool *p);
/* With the state of the box: both are called whatever it is. */
void maker_count_in(struct pool *p, struct slot *s);
void maker_count_out(struct pool *p, struct slot *s);
/* Whether boxes of this profile that only have to become ready hold a place among its creates. */
bool maker_counts_starting(const struct profile *f);
/* How many more boxes may be made at once with what acquires of this principal ask for. */
unsigned maker_room(const struct pool *p, unsigned profile, uint64_t principal);
const char *makers_check(const struct pool *p);

#endif
