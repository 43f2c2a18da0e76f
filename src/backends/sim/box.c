/* box.c - boxes of the simulated machine as boxes of a backend, and back. */
#include <stdio.h>
#include <string.h>

#include "backends/sim/internal.h"
#include "base/str.h"
#include "sim/wire.h"

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

bool sim_fill_box(const struct world_box *from, struct backend_box *ret)
{
    char hex[17];
    char url[32];
    struct world_spec spec;

    str_hex64(hex, from->box_id);
    (void) snprintf(url, sizeof(url), "sim://%s", hex);
    world_box_spec(from, &spec);
    if (!sim_box_from_spec(&spec, url, ret))
        return false;
    ret->is_ready = true;
    return true;
}

/* The machine writes down what it did to a box; this comes first. */
void sim_write_down(struct sim *s, uint64_t box_id, const struct backend_extras *extras)
{
    struct json_out o;
    struct buf text;

    json_out_init(&o);
    sim_put_extras(&o, NULL, extras);
    buf_init(&text, WIRE_UPDATE_MAX);
    json_out_finish(&o, &text);
    world_update_end(&s->world, box_id, buf_str(&text));
    buf_fini(&text);
}
