/* table.c - the boxes in memory: which exist and which container each is. What a box is like stays
 * with the engine. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "docker/internal.h"

static bool has_id(const struct map_node *node, const void *key)
{
    return container_of(node, const struct docker_box, node)->id == *(const uint64_t *) key;
}

struct docker_box *docker_box_find(struct docker *d, uint64_t id)
{
    struct map_node *n = map_find(&d->boxes, hash_u64(id), has_id, &id);

    return n != NULL ? container_of(n, struct docker_box, node) : NULL;
}

struct docker_box *docker_box_add(struct docker *d, uint64_t id, enum docker_state state)
{
    struct docker_box *b = xcalloc(1, sizeof(*b));

    assert(docker_box_find(d, id) == NULL);
    b->docker = d;
    b->id = id;
    docker_box_set(b, state);
    list_init(&b->joiners);
    list_init(&b->removers);
    map_insert(&d->boxes, &b->node, hash_u64(id));
    list_push_back(&d->box_list, &b->link);
    return b;
}

void docker_box_set(struct docker_box *b, enum docker_state state)
{
    b->state = state;
    b->since_ns = rt_now(&b->docker->loop->rt);
}

void docker_box_drop(struct docker_box *b)
{
    struct docker *d = b->docker;

    assert(list_is_empty(&b->joiners) && list_is_empty(&b->removers));
    map_remove(&d->boxes, &b->node);
    list_remove(&d->box_list, &b->link);
    free(b);
}

void docker_box_pause(struct docker_box *b, bool is_paused)
{
    struct backend_notice n = {
        .kind = is_paused ? BACKEND_BOX_PAUSED : BACKEND_BOX_RESUMED, .box_id = b->id, .text = ""};

    if (b->is_paused == is_paused)
        return;
    b->is_paused = is_paused;
    if (b->state == DOCKER_RUNNING) /* one being made is probed before anybody gets it */
        docker_tell(b->docker, &n);
}

void docker_box_died(struct docker_box *b, const char *reason)
{
    const struct backend_events *events = b->docker->events;

    if (b->state == DOCKER_MAKING) {
        b->has_died = true;
        if (b->on_death != NULL)
            b->on_death(b, b->ctx);
        return;
    }
    if (b->state != DOCKER_RUNNING)
        return; /* our own doing, or told before */
    docker_box_set(b, DOCKER_DEAD);
    if (!b->docker->is_closing && events != NULL && events->on_died != NULL)
        events->on_died(events->ctx, b->id, reason);
}

/* --- containers that have ended --- */

uint64_t docker_short_id(const char *container)
{
    char digits[17];
    uint64_t v = 0;

    str_copy_cut(digits, sizeof(digits), container);
    return str_parse_hex64(digits, &v) ? v : 0;
}

static uint64_t *find_ended(const struct docker *d, uint64_t id)
{
    for (size_t i = 0; id != 0 && i < MIN_OF(d->ended.count, (uint64_t) DOCKER_ENDED_MAX); i++)
        if (d->ended.ids[i] == id)
            return (uint64_t *) &d->ended.ids[i];
    return NULL;
}

void docker_ended_add(struct docker *d, const char *container)
{
    d->ended.ids[d->ended.count++ % DOCKER_ENDED_MAX] = docker_short_id(container);
}

void docker_ended_remove(struct docker *d, const char *container)
{
    uint64_t id = docker_short_id(container);

    for (uint64_t *at = find_ended(d, id); at != NULL; at = find_ended(d, id))
        *at = 0;
}

bool docker_ended_has(const struct docker *d, const char *container)
{
    return find_ended(d, docker_short_id(container)) != NULL;
}
