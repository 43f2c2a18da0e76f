/* fates.c - what happens to a box by itself: its agent stops or goes on, it is used at its own address, it starts again. */
#include "world.h"

void backend_stop_one(struct world *w)
{
    size_t from = rand_below(&w->rand, w->box_count + 1);
    bool is_go = rand_below(&w->rand, 3) == 0;

    for (size_t i = 0; i < w->box_count; i++) {
        struct world_box *b = &w->boxes[(from + i) % w->box_count];

        if (is_go || w->is_calm) {
            b->stopped_ns = 0;
        } else if (b->is_running && b->stopped_ns == 0) {
            b->stopped_ns = w->now_ns;
            return;
        }
    }
}

void backend_work(struct world *w)
{
    size_t from = rand_below(&w->rand, w->box_count + 1);

    for (size_t i = 0; i < w->box_count; i++) {
        struct world_box *b = &w->boxes[(from + i) % w->box_count];

        if (!b->is_running || b->owner[0] == '\0')
            continue;
        b->is_at_work = !b->is_at_work && !w->is_calm;
        b->worked_ns = w->now_ns;
        if (!w->is_calm)
            return;
    }
}

/* In its place: the backend does not notice it. */
void backend_restart_one(struct world *w)
{
    size_t from = rand_below(&w->rand, w->box_count + 1);

    for (size_t i = 0; i < w->box_count; i++) {
        struct world_box *b = &w->boxes[(from + i) % w->box_count];

        if (!b->is_running)
            continue;
        b->life++;
        b->restarted_ns = w->now_ns;
        return;
    }
}
