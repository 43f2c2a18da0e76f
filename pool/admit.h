/* admit.h - who gets the free places; runs at the end of every step. */
#ifndef POOL_ADMIT_H
#define POOL_ADMIT_H

#include "pool/pool.h"

struct profile;

void admit_run(struct pool *p);
void admit_count_arrival(struct pool *p, struct profile *f);
double admit_rate(const struct profile *f, uint64_t now_ns);
unsigned admit_target(const struct profile *f, uint64_t now_ns);

#endif
