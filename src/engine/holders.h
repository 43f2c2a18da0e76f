/* holders.h - who holds boxes: names of the users of this machine, what was done last with a box and by whom, and
 * leases that last longer than their profile's leak_after_s. Kept in memory: a restart forgets all but the leases. */
#ifndef ENGINE_HOLDERS_H
#define ENGINE_HOLDERS_H

#include "engine/engine.h"

enum { ENGINE_VERB_MAX = 15, ENGINE_FROM_MAX = 63 };

/* What was done last with a box. */
struct engine_deed {
    uint64_t at_ns; /* 0: nothing yet */
    char verb[ENGINE_VERB_MAX + 1];
    char from[ENGINE_FROM_MAX + 1]; /* "pid 4242", "10.0.0.7:5555" */
};

struct engine_leaks {
    uint64_t now;   /* leases that are over it and still held */
    uint64_t total; /* since the start */
};

/* "ana"; "" when the uid has no name or it is not known yet: it is looked up on a thread then. */
const char *engine_uid_name(struct engine *e, uint64_t uid);
void engine_note_deed(struct engine *e, struct box_id box, const char *verb, const char *from);
/* NULL: none since the daemon started. */
const struct engine_deed *engine_deed(const struct engine *e, struct box_id box);
bool engine_is_leaking(const struct engine *e, struct box_id box);
void engine_get_leaks(const struct engine *e, unsigned profile, struct engine_leaks *ret);

/* --- for the engine --- */

void leases_init(struct engine *e, const struct config *c);
/* No timer comes any more. */
void leases_close(struct engine *e);
void leases_fini(struct engine *e);
/* The box is leased, since its leased_ns. */
void holder_begin(struct engine *e, const struct pool_box *box);
/* Its lease is over. */
void holder_end(struct engine *e, struct box_id box);
/* There is no such box any more. */
void holder_drop(struct engine *e, struct box_id box);
/* What a fact about a box means for its lease. */
void holder_event(struct engine *e, const struct pool_fx *fx);
/* leak_after_s of a profile may have changed. */
void leases_rank(struct engine *e);

#endif
