/* sampler.h - when what boxes use is read, for the meter of the store. */
#ifndef ENGINE_SAMPLER_H
#define ENGINE_SAMPLER_H

#include <stdbool.h>

struct box_id;
struct engine;
struct pool_fx;

/* Each row that is written calls it: boxes take turns as long as there are any. */
void sampler_arm(struct engine *e);
void sampler_close(struct engine *e);
/* The box is ready for the first time, as far as this life knows. */
void sampler_ready(struct engine *e, struct box_id box);
/* True: this write is the end of a lease, and is done by fx_store_now() when the box was read, in half a second at most. */
bool sampler_hold_end(struct engine *e, const struct pool_fx *fx);

#endif
