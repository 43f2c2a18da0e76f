/* mode.h - what changes the pool as a whole: its mode, its configuration, space on the disk. */
#ifndef POOL_MODE_H
#define POOL_MODE_H

#include "pool/emit.h"
#include "pool/pool.h"

struct profile;
struct slot;

/* mode.c */
void mode_step(struct pool *p, const struct pool_event *ev);
void mode_drain(struct pool *p);
/* A box has become parked. */
void mode_parked(struct pool *p, const struct slot *s);
/* Of the pool or of the profile, whichever allows less. */
enum pool_mode mode_of(const struct pool *p, const struct profile *f);
/* Code and reason for an acquire that is refused because of mode_of(), which is not RUNNING. */
void mode_refuse(const struct pool *p, const struct profile *f, struct refusal *ret);

/* reconfig.c */
void reconfig_step(struct pool *p, const struct pool_config *config);
void reconfig_init_profile(struct pool *p, unsigned index, const struct pool_profile *conf);

/* space.c */
void space_step(struct pool *p, const struct pool_event *ev);

#endif
