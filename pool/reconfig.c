/* reconfig.c - profiles change while their boxes exist. The index of a profile never changes; one
 * that was removed from the configuration is retired and keeps its index while there are boxes of
 * it, or acquires that refer to it. */
#include <string.h>

#include "pool/internal.h"

void reconfig_init_profile(struct pool *p, unsigned index, const struct pool_profile *conf)
{
    struct profile *f = &p->profiles[index];

    memset(f, 0, sizeof(*f));
    for (int k = 0; k < BLANK_KIND_COUNT; k++)
        list_init(&f->blank[k]);
    for (int i = 0; i < LINE_COUNT; i++)
        list_init(&f->round[i]);
    list_init(&f->queue);
    if (conf != NULL)
        f->conf = *conf;
}

static bool is_empty(const struct profile *f)
{
    unsigned boxes = 0;

    for (int i = 0; i < POOL_STATE_COUNT; i++)
        boxes += f->by_state[i];
    return boxes == 0 && f->meant == 0;
}

/* Blank boxes of the old recipe have drifted, or match again. */
static void sort_blanks(struct pool *p, struct profile *f)
{
    for (int k = BLANK_FRESH; k <= BLANK_DRIFTED; k++) {
        struct list moving;
        struct list_node *n;

        list_move(&f->blank[k], &moving);
        for (n = list_first(&moving); n != NULL; n = list_first(&moving)) {
            struct slot *s = slot_of(n);

            s->list = &moving;
            box_relink(p, s);
        }
    }
}

static void refuse_waiting(struct pool *p, struct profile *f)
{
    struct refusal r = {.code = SP_NOT_FOUND, .reason = "profile removed"};

    for (unsigned i = 0; i < LINE_COUNT; i++)
        turn_refuse_all(p, f, i, &r);
}

static void update(struct pool *p, struct profile *f, const struct pool_profile *conf)
{
    bool is_changed = f->conf.spec_hash != conf->spec_hash;

    f->conf = *conf;
    if (is_changed) {
        sort_blanks(p, f);
        f->failures = 0; /* the new recipe may work */
        f->retry_ns = 0;
        f->is_open = false;
    }
    if (f->conf.is_retired)
        refuse_waiting(p, f);
}

static void add(struct pool *p, const struct pool_profile *conf)
{
    unsigned index = 0;

    while (index < p->profile_count &&
           !(p->profiles[index].conf.is_retired && is_empty(&p->profiles[index])))
        index++;
    if (index == POOL_PROFILES_MAX)
        return;
    reconfig_init_profile(p, index, conf);
    p->profile_count = MAX_OF(p->profile_count, index + 1);
}

void reconfig_step(struct pool *p, const struct pool_config *config)
{
    bool is_kept[POOL_PROFILES_MAX] = {false};

    holders_set(p, config);
    for (unsigned i = 0; i < config->profile_count; i++) {
        int index = pool_profile_index(p, config->profiles[i].name);

        if (index < 0)
            continue;
        update(p, &p->profiles[index], &config->profiles[i]);
        is_kept[index] = true;
    }
    for (unsigned i = 0; i < p->profile_count; i++)
        if (!is_kept[i]) {
            p->profiles[i].conf.is_retired = true;
            refuse_waiting(p, &p->profiles[i]);
        }
    for (unsigned i = 0; i < config->profile_count; i++)
        if (pool_profile_index(p, config->profiles[i].name) < 0)
            add(p, &config->profiles[i]);
    for (size_t i = 0; i < p->slot_count; i++)
        if (p->slots[i].box.state != POOL_FREE)
            expiry_update(p, &p->slots[i]);
    away_count_used(p);
}
