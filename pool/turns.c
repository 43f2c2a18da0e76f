/* turns.c - who is served next in the two lines of a profile. Principals take turns, the users of a
 * principal take turns among themselves, and a user's requests are served in order of arrival: a
 * caller cannot get more turns by inventing names. A principal that is served goes to the end of
 * every line it waits in, so it is not served again before all others that wait now. */
#include <string.h>

#include "pool/internal.h"

/* --- principals that wait, and their shares of the queue --- */

static bool eq_party(const struct map_node *node, const void *key)
{
    return container_of(node, struct party, by_principal)->principal == *(const uint64_t *) key;
}

static struct party *party_find(const struct pool *p, uint64_t principal)
{
    struct map_node *n = map_find(&p->parties, hash_u64(principal), eq_party, &principal);

    return n != NULL ? container_of(n, struct party, by_principal) : NULL;
}

void party_enter(struct pool *p, struct waiter *w)
{
    struct party *a = party_find(p, w->acquire.principal);

    if (a == NULL) {
        struct list_node *n = list_pop_front(&p->free_parties);

        assert(n != NULL); /* as many as there are waiters */
        a = container_of(n, struct party, link);
        a->principal = w->acquire.principal;
        a->waiting = 0;
        p->turn++;
        a->made = p->turn;
        list_init(&a->groups);
        map_insert(&p->parties, &a->by_principal, hash_u64(a->principal));
    }
    a->waiting++;
    p->waiting++;
    holders_wait(p, w, true);
}

void party_leave(struct pool *p, const struct waiter *w)
{
    struct party *a = party_find(p, w->acquire.principal);

    holders_wait(p, w, false);
    p->waiting--;
    a->waiting--;
    if (a->waiting > 0)
        return;
    assert(list_is_empty(&a->groups));
    map_remove(&p->parties, &a->by_principal);
    list_push_front(&p->free_parties, &a->link);
}

/* It may use only a part of its own and the free places together. Alone it gets nearly all of them,
 * several get equal parts, and a new one always finds some. */
bool party_may_wait(const struct pool *p, uint64_t principal)
{
    const struct party *a = party_find(p, principal);
    uint64_t own = a != NULL ? a->waiting : 0;
    uint64_t reach = own + p->max_waiters - p->waiting;

    return own * 100 < reach * p->share_percent;
}

/* --- lines --- */

struct group_key {
    unsigned profile;
    enum line line;
    uint64_t principal;
};

static uint64_t hash_group(const struct group_key *k)
{
    return hash_u64(k->principal) ^ hash_u64((k->profile + 1) * (uint64_t) LINE_COUNT + k->line);
}

static bool eq_group(const struct map_node *node, const void *key)
{
    const struct group *g = container_of(node, struct group, by_line);
    const struct group_key *k = key;

    return g->profile == k->profile && g->line == k->line && g->party->principal == k->principal;
}

static struct group *group_find(const struct pool *p, const struct group_key *key)
{
    struct map_node *n = map_find(&p->groups, hash_group(key), eq_group, key);

    return n != NULL ? container_of(n, struct group, by_line) : NULL;
}

static struct list *round_of(struct pool *p, const struct group *g)
{
    return &p->profiles[g->profile].round[g->line];
}

static void go_last(struct pool *p, struct group *g)
{
    p->turn++;
    g->since = p->turn;
    list_push_back(round_of(p, g), &g->link);
}

static struct group *group_make(struct pool *p, const struct group_key *key)
{
    struct list_node *n = list_pop_front(&p->free_groups);
    struct group *g;

    assert(n != NULL); /* as many as there are waiters */
    g = container_of(n, struct group, link);
    g->profile = key->profile;
    g->line = key->line;
    g->party = party_find(p, key->principal);
    assert(g->party != NULL); /* whoever is queued waits */
    list_init(&g->turns);
    list_push_back(&g->party->groups, &g->party_link);
    map_insert(&p->groups, &g->by_line, hash_group(key));
    go_last(p, g);
    return g;
}

static void group_drop(struct pool *p, struct group *g)
{
    map_remove(&p->groups, &g->by_line);
    list_remove(&g->party->groups, &g->party_link);
    list_remove(round_of(p, g), &g->link);
    list_push_front(&p->free_groups, &g->link);
}

struct user_key {
    const struct group *group;
    const char *user;
};

static uint64_t hash_user(const struct user_key *k)
{
    return hash_str(k->user) ^ hash_u64((uint64_t) (uintptr_t) k->group);
}

static bool eq_user(const struct map_node *node, const void *key)
{
    const struct turn *t = container_of(node, struct turn, by_user);
    const struct user_key *k = key;

    assert(!list_is_empty(&t->waiters)); /* the last one to leave drops it */
    return t->group == k->group &&
           strcmp(waiter_of(list_first(&t->waiters))->acquire.user, k->user) == 0;
}

struct turn *turn_find(const struct pool *p, const struct group *g, const char *user)
{
    struct user_key key = {g, user};
    struct map_node *n = map_find(&p->users, hash_user(&key), eq_user, &key);

    return n != NULL ? container_of(n, struct turn, by_user) : NULL;
}

static void turn_make(struct pool *p, struct group *g, struct waiter *w)
{
    struct user_key key = {g, w->acquire.user};
    struct list_node *n = list_pop_front(&p->free_turns);
    struct turn *t;

    assert(n != NULL); /* as many as there are waiters */
    t = container_of(n, struct turn, link);
    t->group = g;
    list_init(&t->waiters);
    list_push_back(&g->turns, &t->link);
    list_push_back(&t->waiters, &w->link);
    map_insert(&p->users, &t->by_user, hash_user(&key));
    w->turn = t;
}

/* Nearly in the order of arrival: a waiter that returns later, and is not the oldest, is behind. */
static void queue_push(struct profile *f, struct waiter *w)
{
    const struct list_node *first = list_first(&f->queue);

    if (first != NULL && w->since_ns < container_of(first, struct waiter, age_link)->since_ns)
        list_push_front(&f->queue, &w->age_link);
    else
        list_push_back(&f->queue, &w->age_link);
}

uint64_t turn_oldest_ns(const struct profile *f)
{
    const struct list_node *first = list_first(&f->queue);

    return first != NULL ? container_of(first, struct waiter, age_link)->since_ns : POOL_NEVER;
}

void turn_push(struct pool *p, struct waiter *w)
{
    struct group_key key = {w->acquire.profile, line_of(w), w->acquire.principal};
    struct group *g = group_find(p, &key);

    if (g == NULL)
        g = group_make(p, &key);
    w->turn = turn_find(p, g, w->acquire.user);
    if (w->turn != NULL)
        list_push_back(&w->turn->waiters, &w->link);
    else
        turn_make(p, g, w);
    p->profiles[key.profile].waiting[key.line]++;
    queue_push(&p->profiles[key.profile], w);
}

void turn_remove(struct pool *p, struct waiter *w)
{
    struct turn *t = w->turn;
    struct group *g = t->group;

    list_remove(&t->waiters, &w->link);
    list_remove(&p->profiles[g->profile].queue, &w->age_link);
    w->turn = NULL;
    p->profiles[g->profile].waiting[g->line]--;
    if (!list_is_empty(&t->waiters))
        return;
    map_remove(&p->users, &t->by_user);
    list_remove(&g->turns, &t->link);
    list_push_front(&p->free_turns, &t->link);
    if (list_is_empty(&g->turns))
        group_drop(p, g);
}

void turn_replace(struct pool *p, struct waiter *old, struct waiter *heir)
{
    struct turn *t = old->turn;
    struct profile *f = &p->profiles[t->group->profile];

    list_insert_between(&t->waiters, &heir->link, &old->link, old->link.next);
    list_remove(&t->waiters, &old->link);
    list_remove(&f->queue, &old->age_link);
    queue_push(f, heir);
    heir->turn = t;
    old->turn = NULL;
}

static struct group *first_group(const struct profile *f, enum line line)
{
    struct list_node *n = list_first(&f->round[line]);

    return n != NULL ? container_of(n, struct group, link) : NULL;
}

static struct waiter *head_of(const struct group *g)
{
    const struct turn *t = container_of(list_first(&g->turns), struct turn, link);

    return waiter_of(list_first(&t->waiters));
}

struct waiter *turn_head(const struct profile *f, enum line line)
{
    const struct group *g = first_group(f, line);

    return g != NULL ? head_of(g) : NULL;
}

static bool can_be_made(const struct pool *p, const struct waiter *w)
{
    return w->acquire.made_with == 0 || maker_room(p, w->acquire.profile, w->acquire.principal) > 0;
}

/* One principal alone can be at its limit while a place is free: all but one are its boxes then. So this looks at two
 * groups at most. */
struct waiter *turn_next(const struct pool *p, const struct profile *f, enum line line)
{
    for (struct list_node *n = list_first(&f->round[line]); n != NULL;
         n = list_next(&f->round[line], n)) {
        struct waiter *w = head_of(container_of(n, struct group, link));

        if (can_be_made(p, w))
            return w;
    }
    return NULL;
}

/* Of several principals in a line one at least is below its limit, and takes the place that the other must leave free. */
unsigned turn_makeable(const struct pool *p, const struct profile *f, enum line line)
{
    const struct waiter *w = turn_head(f, line);

    if (w == NULL || w->acquire.made_with == 0 || f->round[line].len > 1)
        return f->waiting[line];
    return MIN_OF(f->waiting[line], maker_room(p, w->acquire.profile, w->acquire.principal));
}

/* Boxes are made for principals in turn, across all lines, so that one cannot take all the room by
 * waiting in another profile. */
bool turn_is_before(const struct waiter *w, const struct waiter *other)
{
    const struct group *a = w->turn->group;
    const struct group *b = other != NULL ? other->turn->group : NULL;

    if (b == NULL)
        return true;
    return a->party != b->party ? a->party->made < b->party->made : a->since < b->since;
}

void turn_made(struct pool *p, const struct waiter *w)
{
    p->turn++;
    w->turn->group->party->made = p->turn;
}

/* The lines of a principal are as many as there are profiles, at most twice. */
void turn_rotate(struct pool *p, const struct waiter *w)
{
    struct group *served = w->turn->group;
    const struct list *groups = &served->party->groups;

    for (struct list_node *n = list_first(groups); n != NULL; n = list_next(groups, n)) {
        struct group *g = container_of(n, struct group, party_link);

        if (g == served)
            continue;
        list_remove(round_of(p, g), &g->link);
        go_last(p, g);
    }
    list_remove(round_of(p, served), &served->link);
    go_last(p, served);
    list_push_back(&served->turns, list_pop_front(&served->turns));
}

/* `r` NULL: each for its own reason. */
void turn_refuse_all(struct pool *p, struct profile *f, enum line line, const struct refusal *r)
{
    for (struct waiter *w = turn_head(f, line); w != NULL; w = turn_head(f, line)) {
        struct refusal own = acquire_refusal(p, w);

        waiter_refuse(p, w, r != NULL ? r : &own);
    }
}
