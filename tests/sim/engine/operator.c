/* operator.c - what happens to the daemon from outside: configurations, modes, requests, a disk
 * that fails or hangs or is full, restarts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "config/schema.h"
#include "walk.h"

/* --- configuration --- */

static const struct {
    const char *name;
    unsigned backend;
    bool is_personal;
} profiles[WALK_PROFILES] = {
    {"default", 0, false}, {"next", 1, false}, {"far", 2, false},
    {"own", 0, true},      {"new", 3, false},
};

const char *operator_profile(unsigned index)
{
    return profiles[index].name;
}

static void fill_profile(struct config_profile *p, unsigned index)
{
    uint64_t bits = hash_u64(walk.seed * 31 + index); /* the same after a restart */

    str_copy_cut(p->backend, sizeof(p->backend), backends_name(profiles[index].backend));
    (void) snprintf(p->image, sizeof(p->image), "walk:%u", walk.spec[index]);
    p->personal = profiles[index].is_personal;
    p->discover = profiles[index].backend == 1 || profiles[index].backend == 2;
    p->limits.memory = 1ULL << 30;
    p->warm.min = walk.warm_min[index];
    p->warm.max = walk.warm_max[index];
    p->warm.shrink_after_s = 3;
    p->warm.check_s = bits % 3 == 0 ? 0 : 4;
    p->create.concurrency = 1 + bits / 3 % 3;
    p->create.timeout_s = 2;
    p->create.backoff_min_ms = 10;
    p->create.backoff_max_ms = 500;
    p->create.breaker_failures = 3;
    p->ready_timeout_s = 2;
    p->destroy_timeout_s = 2;
    p->ttl_s = bits / 16 % 3 == 0 ? 0 : 20;
    p->idle_timeout_s = bits / 64 % 3 == 0 ? 0 : 10;
    p->park_timeout_s = bits / 256 % 4 == 0 ? 0 : 8;
    p->park = bits / 1024 % 3 == 0   ? CONFIG_PARK_FREEZE
              : bits / 1024 % 3 == 1 ? CONFIG_PARK_SNAPSHOT
                                     : CONFIG_PARK_RUN;
    p->on_drift = (enum config_drift)(bits / 8192 % CONFIG_DRIFT_COUNT);
    p->hibernate_max_s = 0; /* the walk sets the wall clock */
    p->max_age_s = bits / 1024 % 2 == 0 ? 0 : 30;
    p->check_after_s = bits / 4096 % 3;
}

struct config *operator_config(void)
{
    struct config *c = config_new();
    uint64_t bits = hash_u64(walk.seed);

    str_copy_cut(c->instance, sizeof(c->instance), "walk");
    str_copy_cut(c->state_dir, sizeof(c->state_dir), "/proc/self/no-such-directory");
    c->pool.max_boxes = walk.max_boxes;
    c->pool.max_waiters = 2 + bits % 15;
    c->pool.share_percent = 50 + bits / 16 % 51;
    c->pool.reconcile_interval_s = 20;
    c->store.queue_max = bits / 1024 % 3 == 0 ? 24 : 256;
    c->store.timeout_s = WALK_STORE_S;
    c->store.min_free = 1 << 20;
    if (bits / 65536 % 2 == 0) /* few hibernated boxes, and a share for each principal */
        c->snapshots.hibernated_max = 1 + bits / 131072 % 5;
    c->snapshots.hibernated_share_percent = 50 + bits / 16 % 51;
    walk.hibernated_max = c->snapshots.hibernated_max;
    walk.share_percent = c->snapshots.hibernated_share_percent;
    for (unsigned i = 0; i < WALK_PROFILES; i++)
        if (walk.has_profile[i])
            fill_profile(config_add_profile(c, profiles[i].name), i);
    money_config(c);
    return c;
}

static void change_config(void)
{
    unsigned i = (unsigned) rand_below(&walk.rand, WALK_PROFILES);

    walk.spec[i] = (unsigned) rand_below(&walk.rand, 3);
    walk.warm_min[i] = (unsigned) rand_below(&walk.rand, 3);
    walk.warm_max[i] = walk.warm_min[i] + (unsigned) rand_below(&walk.rand, 3);
    walk.has_profile[2] = !walk_one_in(4);
    walk.has_profile[4] = walk_one_in(3);
}

void operator_init(void)
{
    for (unsigned i = 0; i < WALK_PROFILES; i++) {
        walk.has_profile[i] = i < 4;
        walk.warm_min[i] = (unsigned) rand_below(&walk.rand, 3);
        walk.warm_max[i] = walk.warm_min[i] + (unsigned) rand_below(&walk.rand, 3);
    }
}

void operator_reload(bool is_final)
{
    bool had_new = walk.has_profile[4];
    bool had_far = walk.has_profile[2];
    struct err err;
    int r;

    change_config();
    if (is_final) {
        walk.has_profile[2] = true;
        walk.has_profile[4] = had_new;
    }
    r = engine_reload(walk.engine, operator_config(), &err);
    walk_say("reload: %s", r == SP_OK ? "ok" : err.msg);
    if (r == SP_OK)
        return;
    walk.has_profile[2] = had_far;
    walk.has_profile[4] = had_new;
    if (is_final)
        walk_fail("a good configuration was refused");
}

/* --- requests, each answered once --- */

struct question {
    struct list_node link;
    struct rt_timer due;
    struct engine_backup *backup;
    struct store_history history;
    struct engine_call call; /* an order */
    const char *mode;        /* is in the store when this is answered, */
    uint64_t mode_number;    /* unless there was a newer one */
};

static void on_overdue(struct rt_timer *timer UNUSED)
{
    if (!walk.is_frozen && walk.hang_ns <= walk_now())
        walk_fail("a question of the operator is not answered");
}

static struct question *ask(uint64_t within_ns)
{
    struct question *q = xcalloc(1, sizeof(*q));

    list_push_back(&walk.questions, &q->link);
    rt_timer_set(&walk.rt, &q->due, walk_now() + within_ns + 2 * WALK_GRACE_NS, on_overdue);
    return q;
}

static void answered(struct question *q)
{
    if (!list_is_linked(&q->link))
        walk_fail("a question was answered twice");
    rt_timer_cancel(&walk.rt, &q->due);
    list_remove(&walk.questions, &q->link);
    free(q);
}

static void on_reconciled(void *ctx, unsigned clean UNUSED, unsigned failed UNUSED,
                          size_t seen UNUSED)
{
    answered(ctx);
}

static void on_verdict(void *ctx, enum pool_verdict verdict UNUSED)
{
    answered(ctx);
}

static void on_answer(void *ctx, bool answers UNUSED)
{
    answered(ctx);
}

static void examine_machine(void *ctx UNUSED, struct backend_exam *r)
{
    backend_report(r, BACKEND_FINDING_OK, "machine", "of the simulation");
}

static void on_examined(void *ctx, const struct engine_exam *exams UNUSED, size_t count UNUSED)
{
    answered(ctx);
}

static void on_history(void *ctx, int result UNUSED)
{
    answered(ctx);
}

/* What is stored begins with it, or is it. */
static bool is_stored_mode(const char *mode)
{
    const char *stored = disk_meta("mode");
    char start[32];

    (void) snprintf(start, sizeof(start), "{\"mode\":\"%s\"", mode);
    return strcmp(stored, mode) == 0 || strncmp(stored, start, strlen(start)) == 0;
}

static void on_synced(void *ctx, int result)
{
    struct question *q = ctx;

    if (result == SP_OK && !walk.is_frozen && q->mode_number == walk.modes &&
        !is_stored_mode(q->mode))
        walk_fail("a mode was confirmed before it was committed");
    answered(q);
}

static void on_piece(void *ctx, const char *data UNUSED, size_t len UNUSED,
                     const struct err *err UNUSED)
{
    struct question *q = ctx;

    engine_backup_close(q->backup);
    answered(q);
}

static void on_backup(void *ctx, const struct err *err)
{
    struct question *q = ctx;

    if (err == NULL && walk_one_in(2)) {
        engine_backup_next(q->backup, on_piece);
        return;
    }
    engine_backup_close(q->backup);
    answered(q);
}

/* Requests to the store: they are answered even if the disk hangs, except where the copy itself is
 * waited for. */
static void ask_store(void)
{
    struct question *q = ask(RT_NEVER / 4);

    if (walk_one_in(2)) {
        q->backup = engine_backup_start(walk.engine, on_backup, q);
        if (walk_one_in(3)) { /* the result is not needed any more */
            engine_backup_close(q->backup);
            answered(q);
        }
    } else {
        engine_read_history(walk.engine, &q->history, on_history, q);
    }
}

static const struct pool_box *any_box(void)
{
    const struct pool *pool = engine_pool(walk.engine);
    size_t from = rand_below(&walk.rand, pool_slot_count(pool));

    for (size_t i = 0; i < pool_slot_count(pool); i++) {
        const struct pool_box *b = pool_slot(pool, (from + i) % pool_slot_count(pool));

        if (b != NULL && b->state != POOL_INTENT && b->state != POOL_CREATING)
            return b;
    }
    return NULL;
}

static void ask_box(void)
{
    const struct pool_box *b = any_box();

    if (b == NULL)
        return;
    if (walk_one_in(2) || b->url[0] == '\0')
        engine_check_box(walk.engine, b->id, on_verdict, ask(6 * NS_PER_S));
    else
        engine_ask_box(walk.engine, b->id, on_answer, ask(3 * NS_PER_S));
}

static void look(void)
{
    char text[ENGINE_TROUBLE_MAX];
    unsigned profile = (unsigned) pool_profile_index(engine_pool(walk.engine), "default");

    engine_wait_reason(walk.engine, profile, text, sizeof(text));
    (void) engine_profile_trouble(walk.engine, profile, text, sizeof(text));
    (void) engine_backend_trouble(walk.engine);
    (void) engine_disk(walk.engine);
}

/* --- commands --- */

static void set_profile_mode(unsigned profile, enum pool_mode mode)
{
    struct pool_event ev = {.kind = POOL_EV_MODE, .u.mode.mode = mode};

    ev.u.mode.is_profile = true;
    ev.u.mode.profile = profile;
    (void) snprintf(ev.u.mode.text, sizeof(ev.u.mode.text), "profile %u", profile);
    walk_say("mode of profile %u: %s", profile, pool_mode_name(mode));
    engine_post(walk.engine, &ev);
}

static void set_mode(enum pool_mode mode)
{
    struct pool_event ev = {.kind = POOL_EV_MODE, .u.mode.mode = mode};
    struct pool_stats stats;
    struct question *q;

    ev.u.mode.want_parked_gone = walk_one_in(2);
    walk_say("mode: %s", pool_mode_name(mode));
    engine_post(walk.engine, &ev);
    pool_get_stats(engine_pool(walk.engine), &stats);
    for (unsigned i = 0; i < stats.profile_count; i++) {
        if (mode == POOL_RUNNING || hash_u64(walk.modes + i) % 4 == 0)
            set_profile_mode(i, mode);
    }
    q = ask(WALK_STORE_S * NS_PER_S);
    q->mode = pool_mode_name(mode);
    walk.modes++;
    q->mode_number = walk.modes;
    engine_sync(walk.engine, on_synced, q);
}

void operator_run(void)
{
    set_mode(POOL_RUNNING);
}

static void on_reply(struct engine_call *call, const struct pool_fx *fx UNUSED)
{
    answered(container_of(call, struct question, call));
}

void operator_hang_up(void)
{
    struct list_node *next;

    for (struct list_node *n = list_first(&walk.questions); n != NULL; n = next) {
        struct question *q = container_of(n, struct question, link);

        next = list_next(&walk.questions, n);
        if (q->call.on_reply == NULL)
            continue;
        engine_call_abandon(walk.engine, &q->call);
        answered(q);
    }
}

/* By the box's own id, whoever owns it. */
static void destroy_one(void)
{
    const struct pool_box *b = any_box();
    struct pool_event ev = {.kind = POOL_EV_DESTROY};
    struct question *q;

    if (b == NULL || b->state >= POOL_DOOMED)
        return;
    for (size_t i = 0; i < WALK_CLIENTS; i++)
        if (walk.clients[i].box == b->id.v)
            walk.clients[i].is_acked = false;
    snapshots_waive(b->sandbox_id);
    q = ask(WALK_DESTROY_NS);
    q->call.on_reply = on_reply;
    ev.box = b->id;
    ev.u.on.is_operator = true;
    ev.u.on.is_quick = true;
    engine_call_start(walk.engine, &q->call, &ev);
}

static void disturb_disk(void)
{
    if (walk.is_disk_bad || walk_one_in(3)) {
        walk_say("the disk %s", walk.is_disk_bad ? "works again" : "is bad");
        disk_set_bad(!walk.is_disk_bad);
    } else {
        walk_say("the disk hangs");
        disk_hang(walk_ms(100, 3 * WALK_STORE_S * 1000));
    }
}

void operator_act(void)
{
    uint64_t dice = rand_below(&walk.rand, 1000);

    if (dice < 40)
        boxes_disturb();
    else if (dice < 52)
        disturb_disk();
    else if (dice < 80)
        disk_set_bad(false);
    else if (dice < 92)
        operator_reload(false);
    else if (dice < 98)
        set_mode((enum pool_mode) rand_below(&walk.rand, POOL_MODE_COUNT));
    else if (dice < 120)
        operator_run();
    else if (dice < 126)
        lives_crash();
    else if (dice < 131)
        lives_stop();
    else if (dice < 150)
        walk.is_space_low = !walk.is_space_low && walk_one_in(3);
    else if (dice < 160)
        engine_reconcile(walk.engine, on_reconciled, ask(7 * NS_PER_S));
    else if (dice < 180)
        ask_box();
    else if (dice < 188)
        ask_store();
    else if (dice < 194)
        engine_examine(walk.engine, examine_machine, on_examined, ask(31 * NS_PER_S));
    else if (dice < 210)
        look();
    else if (dice < 217)
        destroy_one();
    else if (dice < 232)
        backends_report_news();
    else if (dice < 239)
        walk_run(walk_now() + walk_ms(1000, 30000));
}
