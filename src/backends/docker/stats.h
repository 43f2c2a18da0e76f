/* stats.h - what a box has used (stats.c). */
#ifndef DOCKER_STATS_H
#define DOCKER_STATS_H

#include "backend/backend.h"

void docker_stats(struct backend *b, struct backend_stats *r, uint64_t deadline_ns,
                  void (*on_done)(struct op *));

#endif
