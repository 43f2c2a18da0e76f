/* turns.c - the two lines of a profile: first come first served within a user, and the users take
 * turns, so that one user with a thousand requests cannot hold up another with one. */
#include <string.h>

#include "pool/internal.h"

struct user_key {
    unsigned profile;
    enum line line;
    const char *user;
};

static uint64_t hash_user(const struct user_key *k)
{
    return hash_str(k->user) ^ hash_u64((k->profile + 1) * (uint64_t) LINE_COUNT + k->line);
}

static bool eq_user(const struct map_node *node, const void *key)
{
    const struct turn *t = container_of(node, struct turn, by_user);
    const struct user_key *k = key;

    return t->profile == k->profile && t->line == k->line &&
           strcmp(waiter_of(list_first(&t->waiters))->acquire.user, k->user) == 0;
}

struct turn *turn_find(const struct pool *p, unsigned profile, enum line line, const char *user)
{
    struct user_key key = {profile, line, user};
    struct map_node *n = map_find(&p->users, hash_user(&key), eq_user, &key);

    return n != NULL ? container_of(n, struct turn, by_user) : NULL;
}

void turn_push(struct pool *p, struct waiter *w)
{
    struct profile *f = &p->profiles[w->acquire.profile];
    struct user_key key = {w->acquire.profile, line_of(w), w->acquire.user};
    struct turn *t = turn_find(p, key.profile, key.line, key.user);

    if (t == NULL) {
        struct list_node *n = list_pop_front(&p->free_turns);

        assert(n != NULL); /* as many as there are waiters */
        t = container_of(n, struct turn, link);
        t->profile = key.profile;
        t->line = key.line;
        list_init(&t->waiters);
        list_push_back(&f->round[t->line], &t->link);
        list_push_back(&t->waiters, &w->link);
        map_insert(&p->users, &t->by_user, hash_user(&key));
    } else {
        list_push_back(&t->waiters, &w->link);
    }
    w->turn = t;
    f->waiting[t->line]++;
}

void turn_remove(struct pool *p, struct waiter *w)
{
    struct turn *t = w->turn;
    struct profile *f = &p->profiles[t->profile];

    list_remove(&t->waiters, &w->link);
    w->turn = NULL;
    f->waiting[t->line]--;
    if (list_is_empty(&t->waiters)) {
        map_remove(&p->users, &t->by_user);
        list_remove(&f->round[t->line], &t->link);
        list_push_back(&p->free_turns, &t->link);
    }
}

void turn_replace(struct pool *p, struct waiter *old, struct waiter *heir)
{
    struct turn *t = old->turn;

    (void) p;
    list_insert_between(&t->waiters, &heir->link, &old->link, old->link.next);
    list_remove(&t->waiters, &old->link);
    heir->turn = t;
    old->turn = NULL;
}

struct waiter *turn_head(const struct profile *f, enum line line)
{
    struct list_node *n = list_first(&f->round[line]);

    return n != NULL ? waiter_of(list_first(&container_of(n, struct turn, link)->waiters)) : NULL;
}

void turn_rotate(struct profile *f, enum line line)
{
    struct list_node *n = list_pop_front(&f->round[line]);

    if (n != NULL)
        list_push_back(&f->round[line], n);
}

/* `r` NULL: each for its own reason. */
void turn_refuse_all(struct pool *p, struct profile *f, const struct refusal *r)
{
    for (unsigned i = 0; i < LINE_COUNT; i++)
        for (struct waiter *w = turn_head(f, i); w != NULL; w = turn_head(f, i)) {
            struct refusal own = acquire_refusal(p, w);

            waiter_refuse(p, w, r != NULL ? r : &own);
        }
}
