/* snapshot_side.h - what the daemon itself keeps of a snapshot, beside what its backend has: the variables of the lease
 * (they may be secrets: a backend's record can be seen by others), and when it was used last. One file for each,
 * <state_dir>/snapshots/<id>, for us alone: JSON, or nothing. The time of its last change is that of the last use. */
#ifndef ENGINE_SNAPSHOT_SIDE_H
#define ENGINE_SNAPSHOT_SIDE_H

#include "backend/snapshot.h"
#include "engine/engine.h"

struct snapshot_side {
    uint64_t used_ms;            /* 0: not known */
    struct backend_extras *envs; /* from malloc; NULL: none */
    bool was_unequipped;         /* as of struct engine_snapshot */
};

void side_dir(const struct engine *e, char dst[CONFIG_PATH_MAX + 32]);
/* On any thread. What cannot be read is as what is not there, and said in the log. */
void side_read(const char *dir, uint64_t id, struct snapshot_side *ret);
/* Without variables `used_ms` is now. */
MUST_CHECK int side_write(const char *dir, uint64_t id, const struct snapshot_side *side,
                          struct err *err);

/* Nobody waits for these. */
void side_touch(struct engine *e, uint64_t id);
void side_remove(struct engine *e, uint64_t id);
/* Removes those of an earlier life that no snapshot has. */
void side_sweep(struct engine *e);

#endif
