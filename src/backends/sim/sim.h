/* sim.h - the simulated backend, for tests, the bench and trying things out. Without a socket in
 * the profile the machine is in this process and its boxes need no probe; with one it is
 * sandpool-sim, and its boxes outlive the daemon and serve real HTTP. */
#ifndef BACKENDS_SIM_H
#define BACKENDS_SIM_H

#include "backend/backend.h"
#include "base/json.h"
#include "sim/world.h"

/* Registered as "sim"; a backend that was opened with a socket carries sim_host_ops instead. */
extern const struct backend_ops sim_ops;
extern const struct backend_ops sim_host_ops;

/* Tests: a box of the machine in this process dies by itself; on_died() follows. False when there
 * is no such box. `b` must carry sim_ops. */
bool sim_kill(struct backend *b, uint64_t box_id, const char *reason);
/* The machine behind it, for tests and the bench. */
const struct world *sim_world(const struct backend *b);

/* The forms of the machine and those of the backend. The spec borrows the texts. */
void sim_spec_from_labels(const struct backend_labels *labels, const char *token,
                          struct world_spec *ret);
void sim_manners_from_profile(const struct config_profile *profile, struct world_manners *ret);
/* How a late binding goes is said by two of its variables, so that a test can choose for each:
 * SIM_UPDATE_MS (how long it takes; or a mount at /.../SIM_UPDATE_MS=300), SIM_UPDATE_ERROR (the code it
 * fails with, also at a create). */
struct sim_update_manners {
    uint64_t update_ms;
    const char *error; /* NULL: it goes well */
};
/* SP_OK, or the code a create with these extras (NULL: none) shall fail with. */
MUST_CHECK int sim_check_extras(const struct backend_extras *extras, struct err *err);
void sim_update_manners(const struct backend_extras *extras, struct sim_update_manners *ret);
/* BACKEND_LATE_* of a profile. */
unsigned sim_late_of(const struct config_profile *profile);
/* As a member `key` of the object that is open; NULL for the root. */
void sim_put_extras(struct json_out *o, const char *key, const struct backend_extras *extras);
/* False when a text is too long for a box. */
MUST_CHECK bool sim_box_from_spec(const struct world_spec *spec, const char *url,
                                  struct backend_box *ret);

#endif
