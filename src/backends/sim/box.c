/* box.c - boxes of the simulated machine as boxes of a backend, and back. */
#include <string.h>

#include "backends/sim/sim.h"
#include "base/str.h"

void sim_spec_from_labels(const struct backend_labels *labels, const char *token,
                          struct world_spec *ret)
{
    *ret = (struct world_spec){
        .box_id = labels->box_id,
        .spec_hash = labels->spec_hash,
        .generation = labels->generation,
        .principal = labels->principal,
        .text =
            {
                [WORLD_INSTANCE] = labels->instance,
                [WORLD_PROFILE] = labels->profile,
                [WORLD_SANDBOX_ID] = labels->sandbox_id,
                [WORLD_USER] = labels->user,
                [WORLD_THREAD] = labels->thread,
                [WORLD_TOKEN] = token,
            },
    };
}

void sim_manners_from_profile(const struct config_profile *profile, struct world_manners *ret)
{
    *ret = (struct world_manners){
        .create_ms = profile->sim.create_ms,
        .create_jitter_ms = profile->sim.create_jitter_ms,
        .ready_ms = profile->sim.ready_ms,
        .fail_percent = profile->sim.fail_percent,
        .hang_percent = profile->sim.hang_percent,
        .seed = profile->sim.seed,
    };
}

bool sim_box_from_spec(const struct world_spec *spec, const char *url, struct backend_box *ret)
{
    struct backend_labels *l = &ret->labels;

    memset(ret, 0, sizeof(*ret));
    l->box_id = spec->box_id;
    l->spec_hash = spec->spec_hash;
    l->generation = spec->generation;
    l->principal = spec->principal;
    str_hex64(ret->ref, spec->box_id);
    return str_copy(l->instance, sizeof(l->instance), spec->text[WORLD_INSTANCE]) &&
           str_copy(l->profile, sizeof(l->profile), spec->text[WORLD_PROFILE]) &&
           str_copy(l->sandbox_id, sizeof(l->sandbox_id), spec->text[WORLD_SANDBOX_ID]) &&
           str_copy(l->user, sizeof(l->user), spec->text[WORLD_USER]) &&
           str_copy(l->thread, sizeof(l->thread), spec->text[WORLD_THREAD]) &&
           str_copy(ret->token, sizeof(ret->token), spec->text[WORLD_TOKEN]) &&
           str_copy(ret->url, sizeof(ret->url), url);
}
