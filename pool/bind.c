/* bind.c - which public id belongs to which box. An id is bound to at most one box, and is free
 * again when that box is doomed, so that its thread need not wait until the box is destroyed. */
#include <string.h>

#include "pool/internal.h"

static bool eq_sandbox(const struct map_node *node, const void *key)
{
    const struct slot *s = container_of(node, struct slot, by_sandbox);

    return strcmp(s->box.sandbox_id, key) == 0;
}

struct slot *bind_find(const struct pool *p, const char *sandbox_id)
{
    struct map_node *n = map_find(&p->sandboxes, hash_str(sandbox_id), eq_sandbox, sandbox_id);

    return n != NULL ? container_of(n, struct slot, by_sandbox) : NULL;
}

void bind_link(struct pool *p, struct slot *s)
{
    assert(s->box.sandbox_id[0] != '\0' && bind_find(p, s->box.sandbox_id) == NULL);
    map_insert(&p->sandboxes, &s->by_sandbox, hash_str(s->box.sandbox_id));
    if (s->by_id.is_linked) /* the boxes of an owner are listed in the order they came to it */
        index_go_last(p, s);
    index_owner_join(p, s);
    holders_settle(p, s);
}

void bind_owner(struct pool *p, struct slot *s, const struct pool_acquire *a)
{
    uint64_t generation = past_next_generation(p, a->sandbox_id);

    memcpy(s->box.sandbox_id, a->sandbox_id, sizeof(s->box.sandbox_id));
    memcpy(s->box.user, a->user, sizeof(s->box.user));
    memcpy(s->box.thread, a->thread, sizeof(s->box.thread));
    s->box.principal = a->principal;
    s->box.generation = MAX_OF(MAX_OF(generation, a->generation + 1), s->box.generation);
    bind_link(p, s);
}

void bind_cut(struct pool *p, struct slot *s)
{
    map_remove(&p->sandboxes, &s->by_sandbox);
}

void bind_give_up(struct pool *p, struct slot *s)
{
    if (s->by_sandbox.is_linked)
        past_remember(p, s->box.sandbox_id, s->box.generation, POOL_END_NONE, s->box.principal);
    bind_cut(p, s);
}

void bind_clear(struct pool *p, struct slot *s)
{
    bind_cut(p, s);
    index_owner_leave(p, s);
    memset(s->box.sandbox_id, 0, sizeof(s->box.sandbox_id));
    memset(s->box.user, 0, sizeof(s->box.user));
    memset(s->box.thread, 0, sizeof(s->box.thread));
    s->box.principal = 0;
    s->box.generation = 0;
    s->box.leased_ns = 0;
    s->box.active_ns = 0;
    s->box.maybe_ns = 0;
    s->box.expires_ns = POOL_NEVER;
    s->box.idle_ns = POOL_NEVER;
    s->box.busy = 0;
    holders_settle(p, s);
}

void bind_claim(struct pool *p, struct slot *s)
{
    struct waiter *w = waiter_find_thread(p, s->box.sandbox_id);

    if (w != NULL)
        waiter_enter(p, w, WAITER_REDO);
}
