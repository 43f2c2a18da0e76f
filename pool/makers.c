/* makers.c - counts the boxes that are being made for one caller each, by profile and principal. What such a box is made from
 * (a snapshot, mounts, limits) is chosen by its caller, and so is how long it takes. A create that has begun is not taken
 * back, so a principal never has all places of a profile: the last one is kept for others, also while nobody else waits.
 * With one place there is nothing to be kept. */
#include "pool/internal.h"

struct maker_key {
    unsigned profile;
    uint64_t principal;
};

enum { MAP_MAX = 1024 };

static uint64_t hash_maker(const struct maker_key *k)
{
    return hash_u64(k->principal) ^ hash_u64(k->profile + 1);
}

static bool eq_maker(const struct map_node *node, const void *key)
{
    const struct maker *m = container_of(node, struct maker, by_key);
    const struct maker_key *k = key;

    return m->profile == k->profile && m->principal == k->principal;
}

static struct maker *find(const struct pool *p, const struct maker_key *key)
{
    struct map_node *n = map_find(&p->makers.map, hash_maker(key), eq_maker, key);

    return n != NULL ? container_of(n, struct maker, by_key) : NULL;
}

static struct maker *make(struct pool *p, const struct maker_key *key)
{
    struct makers *all = &p->makers;
    struct list_node *n = list_pop_front(&all->free);
    struct maker *m = n != NULL ? container_of(n, struct maker, link) : &all->all[all->count];

    if (n == NULL) {
        assert(all->count < p->slot_count); /* each has a box */
        all->count++;
    }
    m->principal = key->principal;
    m->profile = key->profile;
    m->flying = 0;
    m->landing = 0;
    map_insert(&all->map, &m->by_key, hash_maker(key));
    return m;
}

/* Boxes of a personal profile are bound as well, but made as the profile says. */
static bool is_counted(const struct slot *s)
{
    return s->box.made_with != 0 && (box_is_flying(s) || box_is_landing(s));
}

void maker_count_in(struct pool *p, struct slot *s)
{
    struct maker_key key = {s->box.profile, s->box.principal};

    assert(s->maker == NULL);
    if (!is_counted(s))
        return;
    s->maker = find(p, &key);
    if (s->maker == NULL)
        s->maker = make(p, &key);
    s->maker->flying += box_is_flying(s) ? 1 : 0;
    s->maker->landing += box_is_landing(s) ? 1 : 0;
}

void maker_count_out(struct pool *p, struct slot *s)
{
    struct maker *m = s->maker;

    s->maker = NULL;
    if (m == NULL)
        return;
    m->flying -= box_is_flying(s) ? 1 : 0;
    m->landing -= box_is_landing(s) ? 1 : 0;
    if (m->flying + m->landing > 0)
        return;
    map_remove(&p->makers.map, &m->by_key);
    list_push_front(&p->makers.free, &m->link);
}

bool maker_counts_starting(const struct profile *f)
{
    return !f->conf.is_elsewhere || f->is_open; /* the trial of a failing profile is over when its
                                                 * box is ready */
}

unsigned maker_room(const struct pool *p, unsigned profile, uint64_t principal)
{
    const struct profile *f = &p->profiles[profile];
    struct maker_key key = {profile, principal};
    const struct maker *m = find(p, &key);
    unsigned most = MAX_OF(f->conf.create_max, 2U) - 1;
    unsigned held = 0;

    if (m != NULL)
        held = m->flying + (maker_counts_starting(f) ? m->landing : 0);
    return held < most ? most - held : 0;
}

void makers_init(struct pool *p, struct maker *all)
{
    p->makers.all = all;
    list_init(&p->makers.free);
    map_init(&p->makers.map, MIN_OF(p->slot_count, (size_t) MAP_MAX));
}

void makers_fini(struct pool *p)
{
    map_fini(&p->makers.map);
}

const char *makers_check(const struct pool *p)
{
    unsigned boxes = 0;
    unsigned counted = 0;

    for (size_t i = 0; i < p->slot_count; i++) {
        const struct slot *s = &p->slots[i];
        bool is_made = is_counted(s);

        if (is_made != (s->maker != NULL))
            return "a box that is being made for a caller is not counted for it, or another one is";
        if (is_made &&
            (s->maker->principal != s->box.principal || s->maker->profile != s->box.profile))
            return "a box that is being made is counted for another caller or profile";
        boxes += is_made ? 1 : 0;
    }
    for (size_t i = 0; i < p->makers.count; i++) {
        const struct maker *m = &p->makers.all[i];

        if (m->by_key.is_linked)
            counted += m->flying + m->landing;
        if (m->by_key.is_linked && m->flying + m->landing == 0)
            return "nothing is being made for a caller that is counted";
    }
    return boxes == counted ? NULL
                            : "the boxes that are being made for callers differ from a recount";
}
