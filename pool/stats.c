/* stats.c - read-only views. They allocate nothing and change nothing, so the API may call them
 * between any two steps. */
#include <string.h>

#include "pool/internal.h"

const struct pool_box *pool_find_box(const struct pool *p, struct box_id id)
{
    const struct slot *s = box_find(p, id);

    return s != NULL ? &s->box : NULL;
}

const struct pool_box *pool_find_sandbox(const struct pool *p, const char *sandbox_id)
{
    const struct slot *s = bind_find(p, sandbox_id);

    return s != NULL ? &s->box : NULL;
}

const struct pool_box *pool_slot(const struct pool *p, size_t index)
{
    if (index >= p->slot_count || p->slots[index].box.state == POOL_FREE)
        return NULL;
    return &p->slots[index].box;
}

size_t pool_slot_count(const struct pool *p)
{
    return p->slot_count;
}

void pool_get_stats(const struct pool *p, struct pool_stats *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->mode = p->mode;
    ret->mode_text = p->mode_text;
    ret->is_store_up = p->is_store_up;
    ret->max_boxes = p->max_boxes;
    ret->total = p->total;
    memcpy(ret->by_state, p->by_state, sizeof(ret->by_state));
    ret->waiting = p->waiting;
    ret->asking = p->asking + (unsigned) p->doubted.len;
    ret->max_waiters = p->max_waiters;
    ret->profile_count = p->profile_count;
    memcpy(ret->acquires, p->acquires, sizeof(ret->acquires));
    ret->refusals = p->refusals;
    ret->late_answers = p->late_answers;
    ret->creates = p->creates;
    ret->create_failures = p->create_failures;
    ret->destroys = p->destroys;
    ret->lost = p->lost;
}

const struct pool_profile *pool_profile(const struct pool *p, unsigned profile)
{
    assert(profile < p->profile_count);
    return &p->profiles[profile].conf;
}

enum pool_mode pool_profile_mode(const struct pool *p, unsigned profile, const char **ret_text)
{
    assert(profile < p->profile_count);
    *ret_text = p->profiles[profile].mode_text;
    return p->profiles[profile].mode;
}

/* Without a warm target and without waiters nothing is made: only an acquire can close the circuit. */
static bool is_trial_due(const struct pool *p, const struct profile *f, uint64_t now_ns)
{
    return f->is_open && f->retry_ns <= now_ns && f->waiting[LINE_BLANK] == 0 &&
           f->waiting[LINE_SPECIAL] == 0 && f->making == 0 && f->flying == 0 && f->landing == 0 &&
           admit_target(f, now_ns) == 0 && !away_holds(p, f);
}

void pool_get_profile(const struct pool *p, uint64_t now_ns, unsigned profile,
                      struct pool_profile_view *ret)
{
    const struct profile *f;

    memset(ret, 0, sizeof(*ret));
    assert(profile < p->profile_count);
    f = &p->profiles[profile];
    ret->profile = &f->conf;
    memcpy(ret->by_state, f->by_state, sizeof(ret->by_state));
    ret->target = admit_target(f, now_ns);
    for (int i = 0; i < LINE_COUNT; i++)
        ret->waiting += f->waiting[i];
    if (turn_oldest_ns(f) < now_ns)
        ret->oldest_wait_ns = now_ns - turn_oldest_ns(f);
    ret->arrivals_per_s = admit_rate(f, now_ns);
    ret->provision_ns = f->provision_ns;
    ret->failures = f->failures;
    ret->is_open = f->is_open;
    ret->is_trial_due = is_trial_due(p, f, now_ns);
    ret->retry_at_ns = f->retry_ns;
    ret->failed_at_ns = f->failed_ns;
    memcpy(ret->reason, p->is_space_low ? p->space_reason : f->reason, sizeof(ret->reason));
    ret->warm_hits = f->warm_hits;
    ret->cold_starts = f->cold_starts;
}

int pool_profile_index(const struct pool *p, const char *name)
{
    for (unsigned i = 0; i < p->profile_count; i++)
        if (strcmp(p->profiles[i].conf.name, name) == 0)
            return (int) i;
    return -1;
}

uint64_t pool_active_ns(const struct pool_box *box)
{
    return MAX_OF(box->active_ns, box->maybe_ns);
}

uint64_t pool_ends(const struct pool *p, const struct pool_box *box, const char **ret_by)
{
    uint64_t idle_ns = POOL_NEVER;

    *ret_by = "";
    if (box->state == POOL_PARKED) {
        *ret_by = "parked";
        return time_after(box->parked_ns, p->profiles[box->profile].conf.park_ns);
    }
    if (box->state != POOL_LEASED)
        return POOL_NEVER;
    if (box->idle_ns != POOL_NEVER && box->busy == 0 &&
        !box->is_paused) /* its agent is asked then, at the earliest */
        idle_ns = MAX_OF(time_after(pool_active_ns(box), box->idle_ns), p->now_ns);
    if (MIN_OF(idle_ns, box->expires_ns) != POOL_NEVER)
        *ret_by = idle_ns < box->expires_ns ? "idle" : "ttl";
    return MIN_OF(idle_ns, box->expires_ns);
}
