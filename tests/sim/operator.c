/* operator.c - what happens to the daemon from outside: configuration, modes, crashes, a disk that
 * fails, listings, boxes that die, boxes of other programs. */
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "world.h"

static void make_profile(struct world *w, unsigned index)
{
    struct pool_profile *c = &w->config.profiles[index];

    memset(c, 0, sizeof(*c));
    snprintf(c->name, sizeof(c->name), "profile-%u", index);
    c->spec_hash = 1;
    c->backend = index % WORLD_BACKENDS;
    c->want_discover = index == 1;
    c->is_watched = index == 0;
    c->can_bind = true;
    c->warm_min = (unsigned) rand_below(&w->rand, 3);
    c->warm_max = c->warm_min + (unsigned) rand_below(&w->rand, 4);
    c->create_max = (unsigned) rand_between(&w->rand, 1, 3);
    c->create_timeout_ns = 150 * NS_PER_MS;
    c->ready_timeout_ns = 100 * NS_PER_MS;
    c->destroy_timeout_ns = 100 * NS_PER_MS;
    c->ttl_ns = rand_below(&w->rand, 3) == 0 ? 0 : WORLD_TTL_NS;
    c->idle_ns = rand_below(&w->rand, 3) == 0 ? 0 : 1 * NS_PER_S;
    c->park_ns = rand_below(&w->rand, 4) == 0 ? 0 : 1 * NS_PER_S;
    c->want_freeze = rand_below(&w->rand, 3) == 0;
    c->want_hibernate = c->park_ns > 0 && rand_below(&w->rand, 2) == 0;
    c->drift = (enum pool_drift) rand_below(&w->rand, POOL_DRIFT_COUNT);
    c->max_age_ns = rand_below(&w->rand, 2) == 0 ? 0 : 4 * NS_PER_S;
    c->shrink_ns = 300 * NS_PER_MS;
    c->check_after_ns = rand_below(&w->rand, 3) == 0 ? 0 : 150 * NS_PER_MS;
    c->is_elsewhere = rand_below(&w->rand, 2) == 0;
    c->blank_check_ns = rand_below(&w->rand, 3) == 0 ? 0 : WORLD_PULSE_NS;
    c->backoff_min_ns = 5 * NS_PER_MS;
    c->backoff_max_ns = 200 * NS_PER_MS;
    c->breaker_after = 3;
}

static void reconfigure(struct world *w)
{
    struct pool_config config = w->config;
    struct pool_event ev = {.kind = POOL_EV_RECONFIG};

    config.profile_count = 0;
    for (unsigned i = 0; i < WORLD_PROFILES; i++)
        if (!w->config.profiles[i].is_retired) {
            config.profiles[config.profile_count] = w->config.profiles[i];
            config.profile_count++;
        }
    ev.u.reconfig = &config;
    world_step(w, &ev);
}

void operator_config(struct world *w, bool is_final)
{
    if (w->config.profile_count == 0) {
        w->config.profile_count = WORLD_PROFILES;
        for (unsigned i = 0; i < WORLD_PROFILES; i++)
            make_profile(w, i);
        return;
    }
    if (is_final) {
        w->config.profiles[2].is_retired = false;
    } else {
        struct pool_profile *c = &w->config.profiles[rand_below(&w->rand, WORLD_PROFILES)];

        c->spec_hash = rand_between(&w->rand, 1, 3);
        c->warm_min = (unsigned) rand_below(&w->rand, 4);
        c->warm_max = c->warm_min + (unsigned) rand_below(&w->rand, 4);
        w->config.profiles[2].is_retired = rand_below(&w->rand, 4) == 0;
    }
    reconfigure(w);
}

static void change_mode(struct world *w)
{
    struct pool_event ev = {.kind = POOL_EV_MODE};
    uint64_t dice = rand_below(&w->rand, 4);

    ev.u.mode.mode = dice < 2 ? POOL_RUNNING : (dice == 2 ? POOL_PAUSED : POOL_DRAINING);
    ev.u.mode.want_parked_gone = rand_below(&w->rand, 2) == 0;
    ev.u.mode.is_profile = hash_u64(w->steps) % 2 == 0;
    ev.u.mode.profile = (unsigned) (hash_u64(w->steps + 1) % WORLD_PROFILES);
    world_step(w, &ev);
}

void operator_run(struct world *w)
{
    struct pool_event ev = {.kind = POOL_EV_MODE, .u.mode.mode = POOL_RUNNING};

    world_step(w, &ev);
    ev.u.mode.is_profile = true;
    for (ev.u.mode.profile = 0; ev.u.mode.profile < WORLD_PROFILES; ev.u.mode.profile++)
        world_step(w, &ev);
}

void operator_space(struct world *w, bool is_low)
{
    struct pool_event ev = {.kind = POOL_EV_SPACE, .u.space.is_low = is_low};

    snprintf(ev.u.space.reason, sizeof(ev.u.space.reason), "the disk is full");
    w->is_space_low = is_low;
    world_step(w, &ev);
}

void operator_act(struct world *w)
{
    uint64_t dice = rand_below(&w->rand, 1000);

    if (w->crash_step != 0 && w->steps >= w->crash_step)
        rows_crash(w); /* facts about the copy must not be lost */
    else if (dice < 30)
        backend_list(w, (unsigned) rand_below(&w->rand, WORLD_BACKENDS));
    else if (dice < 45)
        backend_kill_one(w);
    else if (dice < 51)
        rows_crash(w);
    else if (dice < 61)
        rows_set_up(w, !w->is_store_up);
    else if (dice < 66)
        change_mode(w);
    else if (dice < 71)
        operator_config(w, false);
    else if (dice < 74)
        backend_add_orphan(w);
    else if (dice < 77)
        world_advance(w, w->now_ns + world_ms(w, 500, 4000));
    else if (dice < 78) {
        w->now_ns += world_ms(w, 1000, 3600 * 1000); /* asleep: everything is late */
        w->awake_ns = w->now_ns;
    } else if (dice < 83)
        operator_space(w, rand_below(&w->rand, 3) == 0);
    else if (dice < 86)
        backend_stop_one(w);
    else if (dice < 88)
        backend_restart_one(w);
    else if (dice >= 88 && dice < 90)
        away_begin(w);
    else if (dice < 110 && !w->is_store_up)
        rows_set_up(w, true);
    else if (dice >= 130 && dice < 136)
        copies_keep(w);
    else if (dice >= 136 && dice < 166)
        backend_work(w);
    else if (dice < 130)
        /* most of the time the pool should run */
        operator_run(w);
}
