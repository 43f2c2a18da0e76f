/* mode.h - what changes the pool as a whole: its mode, its configuration, space on the disk. */
#ifndef POOL_MODE_H
#define POOL_MODE_H

#include "pool/pool.h"

/* mode.c */
void mode_step(struct pool *p, const struct pool_event *ev);
void mode_drain(struct pool *p);

/* reconfig.c */
void reconfig_step(struct pool *p, const struct pool_config *config);
void reconfig_init_profile(struct pool *p, unsigned index, const struct pool_profile *conf);

/* space.c */
void space_step(struct pool *p, const struct pool_event *ev);

#endif
