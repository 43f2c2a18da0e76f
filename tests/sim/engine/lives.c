/* lives.c - the daemon starts, stops, is replaced by another one, or is killed; the state of disk
 * and backends stays. After an engine was closed, nothing of it is left. */
#include <stdio.h>
#include <string.h>

#include "loop/httpc.h"
#include "walk.h"

/* Listings, their cancel, boxes that are asked for, snapshots that are listed again; and what lies beside snapshots is read
 * from a disk that may hang. */
#define READY_NS ((15 + 10) * NS_PER_S)
#define DAY_MS ((int64_t) 86400 * 1000)
#define CLOSE_NS (60 * NS_PER_S) /* the daemon would end itself */
/* With a disk that works: everything under way is cancelled, and little is written. */
#define QUICK_CLOSE_NS (WALK_CANCEL_NS + 700 * NS_PER_MS)

static void on_ready(void *ctx UNUSED)
{
    if (walk.is_serving)
        walk_fail("the engine is ready twice");
    walk.is_serving = true;
    walk_say("--- ready");
}

static void on_closed(void *ctx UNUSED)
{
    if (walk.is_closed)
        walk_fail("the engine is closed twice");
    walk.is_closed = true;
    walk.engine = NULL;
}

static void check_left(void)
{
    if (walk.loop.rt.timers.len > 0 || !list_is_empty(&walk.loop.rt.tasks))
        walk_fail("the engine has closed, and a timer or a task of it is left");
    if (!backends_are_closed())
        walk_fail("the engine has closed, and a backend not");
    if (walk.store != NULL)
        walk_fail("the engine has closed, and the store not");
    if (!list_is_empty(&walk.requests) || !list_is_empty(&walk.questions))
        walk_fail("the engine has closed, and a request was not answered");
    machine_check_closed();
}

/* Somebody sets the wall clock of the machine: no deadline moves, however often the daemon starts. */
static void set_wall_clock(void)
{
    const char *noted = disk_meta("clock");

    /* After another start of the machine only what was noted of the clock is known. */
    if (rand_below(&walk.clock, 3) > 0 || noted[0] == '\0' || noted[0] == ' ' ||
        strncmp(noted, WALK_OTHER_START, strlen(WALK_OTHER_START)) == 0)
        return;
    walk.loop.rt.wall_offset_ms =
        walk.rt.wall_offset_ms + (int64_t) rand_below(&walk.clock, 4 * DAY_MS) - 2 * DAY_MS;
    walk_say("--- the wall clock is set");
}

/* One that could not be made: what it had opened is closed before the next try. */
static void close_failed(void)
{
    struct engine *e = walk.engine;

    walk.engine = NULL; /* it has no pool to look into */
    engine_close(e, on_closed, NULL);
    if (!walk_run_to(&walk.is_closed, walk_now() + QUICK_CLOSE_NS))
        walk_fail("an engine that failed to start does not close");
    walk.is_closed = false;
    check_left();
}

void lives_start(void)
{
    uint64_t limit_ns = walk_now() + READY_NS + WALK_GRACE_NS;
    struct err err;

    set_wall_clock();
    if (rand_below(&walk.clock, 10) == 0) {
        walk.start_hang_ns = walk_now() + 40 * NS_PER_S;
        walk_say("--- the threads of the start hang");
    }
    walk.is_closed = false;
    walk.is_closing = false;
    walk.is_frozen = false;
    walk.has_stepped = false;
    walk.lives++;
    for (unsigned tries = 0; walk.engine == NULL; tries++) {
        struct config *config = operator_config();

        if (engine_new(&walk.loop, NULL, config, &walk.engine, &err) == SP_OK)
            break;
        walk_say("--- not started: %s", err.msg);
        (void) config_free(config);
        if (tries > 20)
            walk_fail(err.msg);
        close_failed();
    }
    walk_say("--- started, life %u", walk.lives);
    boxes_forget_life();
    machine_turns();
    engine_recover(walk.engine, on_ready, NULL);
    if (!walk_run_to(&walk.is_serving, limit_ns))
        walk_fail("the engine does not become ready");
    machine_turns();
}

/* From here on nothing that the engine does has an effect. */
static void freeze(void)
{
    disk_freeze();
    backends_freeze();
    walk.is_frozen = true;
    walk.is_serving = false;
    walk.hang_ns = walk_now();
    machine_freeze();
    callers_hang_up();
    operator_hang_up();
    callers_crashed();
}

static void close_engine(void)
{
    set_wall_clock();
    walk.start_hang_ns = 0;
    machine_go_on();
    walk.is_closing = true;
    engine_close(walk.engine, on_closed, NULL);
    if (!walk_run_to(&walk.is_closed, walk_now() + QUICK_CLOSE_NS) && walk.hang_ns <= walk_now() &&
        walk.hang_ns + QUICK_CLOSE_NS + NS_PER_S < walk_now())
        walk_fail("the engine takes long to close: something was not cancelled");
    if (walk_run_to(&walk.is_closed, walk_now() + CLOSE_NS))
        return;
    if (walk.engine != NULL && !engine_is_store_hung(walk.engine))
        walk_fail("the engine does not close");
    walk_say("--- killed while it closes");
    freeze();
    if (!walk_run_to(&walk.is_closed, walk_now() + CLOSE_NS))
        walk_fail("the engine does not close when nothing holds it");
}

static void after_close(void)
{
    check_left();
    effects_reset();
}

static void on_destroyed(void *ctx, size_t left)
{
    walk_say("--- %zu boxes are left", left);
    *(bool *) ctx = true;
}

static void destroy_all(void)
{
    bool is_over = false;

    callers_forget();
    for (size_t i = 0; i < WALK_CLIENTS; i++)
        snapshots_waive(
            walk.clients[i].sandbox_id); /* boxes that are being made from one go, too */
    walk.modes++;                        /* it is paused in the meantime */
    engine_destroy_all(walk.engine, walk_now() + 15 * NS_PER_S, on_destroyed, &is_over);
    if (!walk_run_to(&is_over,
                     walk_now() + 15 * NS_PER_S + WALK_STORE_S * NS_PER_S + WALK_GRACE_NS))
        walk_fail("the end of all boxes is not reported");
}

static void stop(void)
{
    uint64_t until_ns = walk_now() + walk_ms(0, 4000);

    walk_say("--- stops");
    walk.is_serving = false;
    callers_leave();
    while (walk_now() < until_ns && !callers_are_gone())
        walk_run(walk_now() + 50 * NS_PER_MS);
    callers_hang_up();
    operator_hang_up();
    if (walk_chance(8))
        destroy_all();
    close_engine();
    callers_crashed();
    after_close();
}

void lives_stop(void)
{
    stop();
    if (walk_one_in(4))
        walk_run(walk_now() + walk_ms(0, 8000));
    lives_start();
}

void lives_crash(void)
{
    walk_say("--- killed");
    walk.crashes++;
    freeze();
    close_engine();
    after_close();
    if (walk_chance(15))
        boxes_reboot();
    walk_run(walk_now() + walk_ms(1, walk_one_in(3) ? 5000 : 50));
    lives_start();
}

void lives_end(void)
{
    stop();
    walk_run(walk_now() + NS_PER_S); /* notifications that nobody receives */
}
