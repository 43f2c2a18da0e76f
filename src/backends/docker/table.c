/* table.c - the boxes in memory: which exist and which container each is. What a box is like stays
 * with the engine. */
#include <stdlib.h>
#include <string.h>

#include "backends/docker/internal.h"
#include "base/mem.h"
#include "base/str.h"

struct docker_box *docker_box_find(struct docker *d, uint64_t id)
{
    struct box_entry *e = boxes_find(&d->boxes, id);

    return e != NULL ? container_of(e, struct docker_box, entry) : NULL;
}

struct docker_box *docker_box_add(struct docker *d, uint64_t id, enum box_state state)
{
    struct docker_box *b = xcalloc(1, sizeof(*b));

    b->docker = d;
    boxes_add(&d->boxes, &b->entry, id, state);
    return b;
}

void docker_box_drop(struct docker_box *b)
{
    docker_hoard_remove(b);
    boxes_drop(&b->entry);
    free(b);
}

void docker_box_pause(struct docker_box *b, bool is_paused)
{
    struct backend_notice n = {.kind = is_paused ? BACKEND_BOX_PAUSED : BACKEND_BOX_RESUMED,
                               .box_id = b->entry.id,
                               .text = ""};

    if (b->is_paused == is_paused)
        return;
    b->is_paused = is_paused;
    if (b->entry.state == BOX_RUNNING) /* one being made is probed before anybody gets it */
        docker_notify(b->docker, &n);
}

void docker_box_died(struct docker_box *b, const char *reason)
{
    const struct backend_events *events = b->docker->events;

    if (b->entry.state == BOX_MAKING) {
        b->has_died = true;
        if (b->on_death != NULL)
            b->on_death(b, b->ctx);
        return;
    }
    if (b->entry.state != BOX_RUNNING)
        return; /* our own doing, or reported before */
    boxes_set(&b->entry, BOX_DEAD);
    docker_hoard_remove(b);
    if (b->docker->closing.is_closing || events == NULL)
        return;
    if (b->is_over && events->on_alone != NULL)
        events->on_alone(events->ctx, b->entry.id, BACKEND_DEATH_KERNEL_MEMORY);
    else if (events->on_died != NULL)
        events->on_died(events->ctx, b->entry.id, reason);
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
