/* fuzz_pool.c - turns bytes into events, valid and invalid ones: answers without a request, wrong
 * epochs, listings of unknown boxes. Whatever arrives, the invariants hold and no request stays
 * without an end. Effects are kept in a table, so that the bytes can also answer them properly. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "pool/pool.h"
#include "sandpool/errors.h"

#define ASKED_MAX 64
#define STEPS_MAX 400

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *data;
    size_t left;
};

struct fuzz {
    struct pool *pool;
    struct pool_config config;
    uint64_t now_ns;
    uint64_t req;
    struct pool_fx asked[ASKED_MAX]; /* the newest effects that want an answer */
    size_t asked_count;
};

static unsigned take(struct input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->data++;
}

static void set_up(struct fuzz *f, struct input *in)
{
    memset(f, 0, sizeof(*f));
    f->now_ns = NS_PER_S;
    f->config.max_boxes = 1 + take(in) % 6;
    f->config.max_waiters = 1 + take(in) % 6;
    f->config.profile_count = 2;
    f->config.restore_max = 8;
    for (unsigned i = 0; i < 2; i++) {
        struct pool_profile *c = &f->config.profiles[i];

        snprintf(c->name, sizeof(c->name), "p%u", i);
        c->want_discover = i == 1;
        c->is_watched = take(in) % 2 == 0;
        c->warm_min = take(in) % 3;
        c->warm_max = c->warm_min + take(in) % 3;
        c->create_max = 1 + take(in) % 3;
        c->create_timeout_ns = NS_PER_S;
        c->ready_timeout_ns = NS_PER_S;
        c->destroy_timeout_ns = NS_PER_S;
        c->ttl_ns = take(in) * 10 * NS_PER_MS;
        c->idle_ns = take(in) * 10 * NS_PER_MS;
        c->park_ns = take(in) * 10 * NS_PER_MS;
        c->max_age_ns = take(in) * 100 * NS_PER_MS;
        c->backoff_min_ns = NS_PER_MS;
        c->backoff_max_ns = 100 * NS_PER_MS;
        c->breaker_after = 1 + take(in) % 4;
    }
    f->pool = pool_new(&f->config);
}

static void restore(struct fuzz *f, struct input *in)
{
    for (unsigned count = take(in) % 6; count > 0; count--) {
        struct pool_box row = {.id = {take(in)}, .state = take(in) % POOL_STATE_COUNT};

        row.profile = take(in) % 3;
        row.expires_ns = POOL_NEVER;
        row.idle_ns = POOL_NEVER;
        row.generation = take(in) % 8;
        snprintf(row.sandbox_id, sizeof(row.sandbox_id), "s%u", take(in) % 5);
        snprintf(row.thread, sizeof(row.thread), "t");
        (void) !pool_restore_box(f->pool, f->now_ns,
                                 &row); /* some rows do not fit, and that is fine */
    }
}

static void fill_answer(struct fuzz *f, struct input *in, struct pool_event *ev)
{
    const struct pool_fx *fx;

    if (f->asked_count == 0)
        return;
    fx = &f->asked[take(in) % f->asked_count];
    ev->box = fx->box;
    ev->epoch = fx->epoch + (take(in) < 20 ? 1 : 0);
    if (ev->kind == POOL_EV_STORED || ev->kind == POOL_EV_STORE_FAILED) {
        ev->u.stored.write = fx->u.store.write;
        ev->u.stored.expires_ns = fx->snapshot.expires_ns;
    }
}

static void fill_seen(struct input *in, struct pool_seen *seen)
{
    memset(seen, 0, sizeof(*seen));
    seen->id.v = take(in);
    snprintf(seen->profile, sizeof(seen->profile), "p%u", take(in) % 3);
    seen->generation = take(in) % 8;
    if (take(in) % 2 == 0)
        snprintf(seen->sandbox_id, sizeof(seen->sandbox_id), "s%u", take(in) % 5);
    snprintf(seen->thread, sizeof(seen->thread), "t");
    snprintf(seen->ref, sizeof(seen->ref), "r%u", take(in) % 8);
}

static void fill_request(struct fuzz *f, struct input *in, struct pool_event *ev)
{
    f->req++;
    ev->req.v = f->req;
    if (ev->kind == POOL_EV_ACQUIRE) {
        struct pool_acquire *a = &ev->u.acquire;

        snprintf(a->user, sizeof(a->user), "u");
        snprintf(a->thread, sizeof(a->thread), "t");
        snprintf(a->sandbox_id, sizeof(a->sandbox_id), "s%u", take(in) % 5);
        a->principal = take(in) % 2;
        a->made_with = take(in);
        a->is_special = a->made_with % 8 > 4;
        a->profile = (unsigned) a->made_with % 3;
        a->deadline_ns = f->now_ns + take(in) * NS_PER_MS;
    } else {
        snprintf(ev->u.on.sandbox_id, sizeof(ev->u.on.sandbox_id), "s%u", take(in) % 5);
        ev->u.on.generation = take(in) % 4;
        ev->u.on.want_destroy = take(in) % 2 == 0;
        ev->u.on.is_quick = take(in) % 2 == 0;
    }
}

static void fill_listing(struct fuzz *f, struct input *in, struct pool_event *ev,
                         struct pool_seen *seen)
{
    ev->u.listed.is_clean = take(in) % 4 != 0;
    ev->u.listed.started_ns = f->now_ns;
    ev->u.listed.seen = seen;
    ev->u.listed.count = take(in) % 3;
    fill_seen(in, &seen[0]);
    fill_seen(in, &seen[1]);
}

static void fill_state(struct input *in, struct pool_event *ev)
{
    if (ev->kind == POOL_EV_STORE_STATE)
        ev->u.is_store_up = take(in) % 2 == 0;
    if (ev->kind == POOL_EV_SPACE)
        ev->u.space.is_low = take(in) % 2 == 0;
    if (ev->kind != POOL_EV_MODE)
        return;
    ev->u.mode.mode = take(in) % POOL_MODE_COUNT;
    ev->u.mode.want_parked_gone = take(in) % 2 == 0;
}

static void fill_verdict(struct fuzz *f, struct input *in, struct pool_event *ev)
{
    fill_answer(f, in, ev);
    if (ev->kind != POOL_EV_USED) {
        ev->u.verdict = take(in) % POOL_VERDICT_COUNT;
        return;
    }
    ev->u.used.use = take(in) % POOL_USE_COUNT;
    ev->u.used.active_ns = f->now_ns - take(in) * NS_PER_MS;
}

static void fill_config(struct fuzz *f, struct input *in, struct pool_event *ev)
{
    f->config.profiles[take(in) % 2].spec_hash = take(in) % 3;
    f->config.profile_count = 1 + take(in) % 2;
    ev->u.reconfig = &f->config;
}

static void fill_left(struct fuzz *f, struct input *in, struct pool_event *ev)
{
    fill_answer(f, in, ev);
    ev->req.v = f->req - take(in) % 8;
    if (ev->kind == POOL_EV_UNDELIVERED)
        ev->u.undelivered.is_spoiled = ev->req.v % 2 == 1;
}

static void fill_activity(struct fuzz *f, struct input *in, struct pool_event *ev)
{
    fill_answer(f, in, ev);
    ev->u.activity.delta = (int) (take(in) % 3) - 1;
}

static void fill(struct fuzz *f, struct input *in, struct pool_event *ev, struct pool_seen *seen)
{
    switch (ev->kind) {
    case POOL_EV_ACQUIRE:
    case POOL_EV_RELEASE:
    case POOL_EV_RENEW:
    case POOL_EV_DESTROY:
    case POOL_EV_PAUSE:
        fill_request(f, in, ev);
        break;
    case POOL_EV_ABANDON:
    case POOL_EV_UNDELIVERED:
        fill_left(f, in, ev);
        break;
    case POOL_EV_ACTIVITY:
        fill_activity(f, in, ev);
        break;
    case POOL_EV_CREATED:
    case POOL_EV_CREATE_FAILED:
    case POOL_EV_RESUMED:
    case POOL_EV_DIED:
    case POOL_EV_NETLESS:
    case POOL_EV_UNGUARDED:
    case POOL_EV_KERNEL_MEMORY:
    case POOL_EV_KEPT:
    case POOL_EV_STORED:
    case POOL_EV_STORE_FAILED:
        fill_answer(f, in, ev);
        break;
    case POOL_EV_PROBED:
    case POOL_EV_DESTROYED:
    case POOL_EV_HIBERNATED:
        fill_answer(f, in, ev);
        ev->u.failed.code = take(in) % 4 == 0 ? SP_TIMEOUT : SP_OK;
        break;
    case POOL_EV_CHECKED:
    case POOL_EV_LOOKED:
    case POOL_EV_USED:
        fill_verdict(f, in, ev);
        break;
    case POOL_EV_DISCOVERED:
        fill_answer(f, in, ev);
        ev->u.discovered.is_found = take(in) % 2 == 0;
        fill_seen(in, &ev->u.discovered.seen);
        break;
    case POOL_EV_LISTED:
        fill_listing(f, in, ev, seen);
        break;
    case POOL_EV_STORE_STATE:
    case POOL_EV_SPACE:
    case POOL_EV_MODE:
        fill_state(in, ev);
        break;
    case POOL_EV_WAKE:
        f->now_ns += take(in) * NS_PER_MS * 20;
        break;
    case POOL_EV_RECONFIG:
        fill_config(f, in, ev);
        break;
    case POOL_EV_COUNT:
        break;
    }
}

static void drain(struct fuzz *f)
{
    static struct pool_fx fx;

    while (pool_next_fx(f->pool, &fx)) {
        if (fx.kind == POOL_FX_REPLY || fx.kind == POOL_FX_EVENT || fx.kind == POOL_FX_BIND)
            continue;
        if (f->asked_count == ASKED_MAX) {
            memmove(&f->asked[0], &f->asked[1], (ASKED_MAX - 1) * sizeof(fx));
            f->asked_count--;
        }
        f->asked[f->asked_count] = fx;
        f->asked_count++;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz f;
    struct input in = {data, size};

    set_up(&f, &in);
    restore(&f, &in);
    for (unsigned i = 0; i < STEPS_MAX && in.left > 0; i++) {
        struct pool_seen seen[2];
        struct pool_event ev = {.kind = take(&in) % POOL_EV_COUNT};
        const char *why;

        f.now_ns += NS_PER_MS;
        fill(&f, &in, &ev, seen);
        pool_step(f.pool, f.now_ns, &ev);
        drain(&f);
        why = pool_check(f.pool);
        if (why != NULL) {
            fprintf(stderr, "step %u: %s\n", i, why);
            abort();
        }
    }
    f.pool = pool_free(f.pool);
    return 0;
}
