/* templates.c - mounts of a profile whose directories depend on who has the box. They are bound late, with what the
 * acquire itself asks for: before the reply, to a box that has its owner. A thread so finds its data again in the next box. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/internal.h"

enum { TEMPLATES_MAX = CONFIG_TEXT_MAX / 16 }; /* no shorter one is valid */

struct made {
    char host_path[CONFIG_PATH_MAX + 1];
    char base[CONFIG_PATH_MAX + 1];
    char box_path[CONFIG_PATH_MAX + 1];
};

/* By whom a directory is used: an id of this machine, or what stands for a token. */
struct holder {
    char name[24];
};

static void name_holder(uint64_t principal, struct holder *ret)
{
    if (principal >> 63 == 0)
        (void) snprintf(ret->name, sizeof(ret->name), "%llu", (unsigned long long) principal);
    else
        str_hex64(ret->name, principal);
}

static bool has_any(const struct config_profile *c)
{
    return c != NULL && strchr(c->mounts, '{') != NULL;
}

int templates_check_support(struct engine *e, const struct config *config, struct err *err)
{
    for (unsigned i = 0; i < config->profile_count; i++) {
        const struct config_profile *c = &config->profiles[i];
        char key[sizeof(e->backends[0].key)];

        if (!has_any(c))
            continue;
        backend_key(c, key, sizeof(key));
        if ((special_late_of(e->backends[profiles_find_backend(e, key)].ops, c) &
             BACKEND_LATE_MOUNTS) == 0)
            return err_set(err, SP_CONFIG,
                           "profile '%s': mounts with {...} are for boxes that take mounts while "
                           "they run, and those of this backend do not",
                           c->name);
    }
    return SP_OK;
}

/* NULL, or why one of them has no path. */
static const char *find_path(const struct config_mount *m, const char *const ids[CONFIG_ID_COUNT],
                             struct made *ret)
{
    config_template_base(m->host_path, ret->base);
    str_copy_cut(ret->box_path, sizeof(ret->box_path), m->box_path);
    return config_template_path(m->host_path, ids, ret->host_path);
}

bool templates_fit(struct engine *e, const struct pool_acquire *a, struct pool_fx *refusal)
{
    const struct config_profile *c = profiles_config(e, a->profile);
    struct holder holder;
    const char *ids[CONFIG_ID_COUNT] = {a->user, a->thread, a->sandbox_id, holder.name};
    struct config_mount m;
    struct made made;

    if (!has_any(c) || pool_find_sandbox(e->pool, a->sandbox_id) != NULL)
        return true;
    name_holder(a->principal, &holder);
    for (const char *list = c->mounts; config_mount_next(&list, &m);) {
        const char *why = m.is_template ? find_path(&m, ids, &made) : NULL;

        if (why == NULL)
            continue;
        *refusal = (struct pool_fx){.kind = POOL_FX_REPLY};
        refusal->u.reply.code = SP_INVALID_FIELD;
        (void) snprintf(refusal->reason, sizeof(refusal->reason), "profile '%.64s': %s", c->name,
                        why);
        return false;
    }
    return true;
}

static bool is_fresh(enum pool_source source)
{
    return source == POOL_SRC_WARM || source == POOL_SRC_COLD || source == POOL_SRC_RESTORED;
}

/* A box that its thread has had before has them, as far as this process knows; it may have been made by another recipe. */
static bool are_due(struct engine *e, const struct pool_fx *fx)
{
    const struct engine_note *note;

    if (is_fresh(fx->u.reply.source))
        return true;
    if (fx->u.reply.source != POOL_SRC_KEPT && fx->u.reply.source != POOL_SRC_PARKED)
        return false;
    note = note_find(e, fx->box);
    return (note == NULL || !note->has_mounts) &&
           fx->snapshot.spec_hash == pool_profile(e->pool, fx->snapshot.profile)->spec_hash;
}

static bool is_asked_for(const struct backend_extras *x, const char *box_path)
{
    for (size_t i = 0; x != NULL && i < x->mount_count; i++) {
        if (strcmp(x->mounts[i].box_path, box_path) == 0)
            return true;
    }
    return false;
}

/* The profile's come first: what the caller asks for may be in them, or in their place. */
static void join(struct engine_call *call, const struct backend_mount *mounts, size_t count)
{
    struct backend_extras x = {0};
    struct backend_extras *joined;
    struct backend_mount *all;

    if (call->extras != NULL)
        x = *call->extras;
    all = xcalloc(count + x.mount_count + 1, sizeof(*all));
    memcpy(all, mounts, count * sizeof(*all));
    if (x.mount_count > 0)
        memcpy(all + count, x.mounts, x.mount_count * sizeof(*all));
    x.mounts = all;
    x.mount_count += count;
    joined = backend_extras_copy(&x);
    free(all);
    free(call->extras);
    call->extras = joined;
}

const char *templates_add(struct engine *e, struct engine_call *call, const struct pool_fx *fx)
{
    const struct pool_box *box = &fx->snapshot;
    const struct config_profile *c = profiles_of_box(e, box);
    struct holder holder;
    const char *ids[CONFIG_ID_COUNT] = {box->user, box->thread, box->sandbox_id, holder.name};
    struct backend_mount mounts[TEMPLATES_MAX];
    struct config_mount m;
    struct made *made;
    const char *why = NULL;
    size_t count = 0;

    if (!has_any(c) || !are_due(e, fx))
        return NULL;
    name_holder(box->principal, &holder);
    made = xcalloc(TEMPLATES_MAX, sizeof(*made));
    for (const char *list = c->mounts; why == NULL && config_mount_next(&list, &m);) {
        if (!m.is_template || is_asked_for(call->extras, m.box_path))
            continue;
        assert(count < TEMPLATES_MAX);
        why = find_path(&m, ids, &made[count]);
        mounts[count] = (struct backend_mount){
            .host_path = made[count].host_path,
            .box_path = made[count].box_path,
            .is_read_only = m.is_read_only,
            .base = made[count].base,
            /* a directory of this caller alone needs no note of whose it is */
            .holder = config_template_has(m.host_path, CONFIG_ID_PRINCIPAL) ? "" : holder.name};
        count++;
    }
    if (why == NULL && count > 0)
        join(call, mounts, count);
    free(made);
    return why;
}

void templates_note(struct engine *e, struct box_id box, const struct backend_extras *extras)
{
    for (size_t i = 0; i < extras->mount_count; i++) {
        if (extras->mounts[i].holder != NULL)
            note_make(e, box)->has_mounts = true;
    }
}
