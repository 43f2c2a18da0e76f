/* snapshot_profiles.c - which snapshots the boxes of which profiles are made from, or can be. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "engine/internal.h"
#include "engine/snapshots.h"

bool engine_snapshot_fits(struct engine *e, const struct engine_snapshot *s, unsigned profile)
{
    return profiles_backend(e, profile) == &e->backends[s->backend];
}

bool engine_profile_lacks(struct engine *e, unsigned profile, char *dst, size_t cap)
{
    const struct config_profile *c = profiles_config(e, profile);
    const struct engine_snapshot *s = NULL;
    uint64_t id;

    if (c == NULL || str_is_empty(c->snapshot))
        return false;
    if (str_parse_hex64(c->snapshot, &id))
        s = engine_snapshot_find(e, id);
    if (s != NULL && engine_snapshot_fits(e, s, profile))
        return false;
    (void) snprintf(dst, cap, "the snapshot %s of profile %.64s %s", c->snapshot, c->name,
                    s == NULL ? "does not exist" : "is of another backend");
    return true;
}

const char *engine_snapshot_profile(const struct engine *e, uint64_t id)
{
    const struct config *c = e->config->config;
    char hex[17];

    str_hex64(hex, id);
    for (unsigned i = 0; i < c->profile_count; i++)
        if (strcmp(c->profiles[i].snapshot, hex) == 0)
            return c->profiles[i].name;
    return NULL;
}
