/* pause.c - boxes that stand still. A row says that its box is paused from before the backend is asked to freeze it until
 * after it was thawed. So a box whose row does not say it runs, whatever was cut short, and what a restart finds is
 * made what its row says. */
#include "pool/internal.h"

void pause_stored(struct pool *p, struct slot *s, bool is_ok)
{
    s->pause_write = 0;
    if (!s->box.is_paused || box_is_dying(s))
        return; /* somebody needed it meanwhile, or it ends */
    if (is_ok) {
        s->is_pause_open = false;
        emit_backend(p, POOL_FX_FREEZE, s, 0);
        emit_event(p, POOL_FACT_PAUSED, s, NULL);
        return;
    }
    s->box.is_paused = false;
    expiry_update(p, s);
    box_mark_dirty(p, s, time_after(p->now_ns, POOL_REWRITE_NS));
}

static void write_row(struct pool *p, struct slot *s)
{
    if (s->box.state == POOL_LEASING || s->box.state == POOL_PARKING)
        s->is_row_behind = true; /* the row that is being written says that it is paused */
    else
        box_mark_dirty(p, s, 0); /* not at once: writes under way may bring a later deadline */
}

void pause_ended(struct pool *p, const struct pool_event *ev)
{
    struct slot *s = box_find(p, ev->box);

    if (s == NULL || box_is_dying(s) || !s->box.is_paused)
        return;
    s->box.is_paused = false;
    s->is_pause_open = false;
    s->pause_write = 0;
    if (s->box.state == POOL_LEASED) {
        idle_begin(s);
        lease_touch(p, s, p->now_ns);
    }
    emit_event(p, POOL_FACT_RESUMED, s, NULL);
    write_row(p, s);
    expiry_update(p, s);
}

void pause_seen(struct pool *p, struct slot *s, const struct pool_seen *seen)
{
    if (s->pause_write != 0 || box_is_dying(s))
        return;
    s->is_pause_open = false;
    if (s->box.is_paused != seen->is_frozen)
        emit_backend(p, POOL_FX_FREEZE, s, 0);
}
