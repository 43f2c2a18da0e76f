/* space.c - no box is made while the disk for boxes is nearly full. Existing boxes can be used and
 * destroyed: only what needs more space has to wait. */
#include "base/str.h"
#include "pool/internal.h"

void space_step(struct pool *p, const struct pool_event *ev)
{
    bool was_low = p->is_space_low;

    p->is_space_low = ev->u.space.is_low;
    str_copy_cut(p->space_reason, sizeof(p->space_reason), ev->u.space.reason);
    if (was_low != p->is_space_low)
        emit_event(p, p->is_space_low ? POOL_FACT_DISK_LOW : POOL_FACT_DISK_OK, NULL,
                   p->space_reason);
    for (unsigned i = 0; i < p->profile_count && p->is_space_low; i++)
        for (unsigned line = 0; line < LINE_COUNT; line++) /* refused now, not at their deadlines */
            turn_refuse_all(p, &p->profiles[i], line, NULL);
}
