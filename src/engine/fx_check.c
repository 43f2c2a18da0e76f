/* fx_check.c - is a box alive? Backends that watch their boxes are asked, and know. Of the others the box
 * itself is asked first: what answers and has the life that is known is the box. Only when it does not
 * answer, does not say which life it has, or was missing from a listing, its backend is asked too.
 *
 *   box answers      backend says               verdict
 *   same life        (not asked)                alive
 *   other life       (not asked)                dead: it was started again, or replaced
 *   life not known   dead                       dead;  anything else: alive
 *   nothing          alive / dead / absent      silent / dead / absent */
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "box/probe.h"
#include "engine/internal.h"

struct check_op {
    struct backend_check check;
    struct probe probe;
    struct engine *engine;
    unsigned backend;
    uint64_t epoch;
    uint64_t deadline_ns;
    bool is_missing; /* a listing did not show it */
    bool was_asked;  /* the box itself */
    bool did_answer;
    void (*on_done)(void *ctx, enum pool_verdict verdict); /* asked from outside the pool */
    void *ctx;
};

static void finish(struct check_op *c, enum pool_verdict verdict)
{
    struct engine *e = c->engine;
    struct pool_event ev = {.kind = POOL_EV_CHECKED,
                            .box = {c->check.box.labels.box_id},
                            .epoch = c->epoch,
                            .u.verdict = verdict};

    str_copy_cut(ev.life, sizeof(ev.life), c->probe.life);
    if (c->on_done == NULL) {
        engine_post(e, &ev);
    } else {
        c->on_done(c->ctx, verdict);
        /* The pool did not ask: no epoch. */
        ev.kind = verdict == POOL_DEAD ? POOL_EV_DIED : POOL_EV_LOOKED;
        if (verdict != POOL_UNKNOWN)
            engine_post(e, &ev);
    }
    free(c);
    engine_op_ended(e);
}

static enum pool_verdict judge(const struct check_op *c)
{
    enum backend_verdict said = c->check.op.result == SP_OK ? c->check.verdict : BACKEND_UNKNOWN;

    switch (said) {
    case BACKEND_DEAD:
        return POOL_DEAD;
    case BACKEND_ALIVE:
        return c->was_asked && !c->did_answer ? POOL_SILENT : POOL_ALIVE;
    case BACKEND_ABSENT:
        return c->did_answer ? POOL_ALIVE : POOL_ABSENT;
    case BACKEND_UNKNOWN:
    case BACKEND_VERDICT_COUNT:
        break;
    }
    return c->did_answer ? POOL_ALIVE : POOL_UNKNOWN;
}

static void on_checked(struct op *op)
{
    struct check_op *c = container_of(op, struct check_op, check.op);

    finish(c, judge(c));
}

static void ask_backend(struct check_op *c)
{
    struct backend *backend = c->engine->backends[c->backend].backend;

    backend->ops->is_alive(backend, &c->check, c->deadline_ns, on_checked);
}

static void on_asked(struct op *op)
{
    struct check_op *c = container_of(op, struct check_op, probe.op);
    const char *known = c->check.box.life;

    c->did_answer = op->result == SP_OK;
    if (c->did_answer && life_is_other(known, c->probe.life)) {
        log_warn("box.started_again", LF_HEX("box", c->check.box.labels.box_id),
                 LF_STR("sandbox_id", c->check.box.labels.sandbox_id),
                 LF_STR("ref", c->check.box.ref),
                 LF_STR("reason", "the answer comes from another box than the leased one"));
        finish(c, POOL_DEAD);
    } else if (c->engine->is_closing) { /* its backend may be gone: the next start asks */
        finish(c, c->did_answer ? POOL_ALIVE : POOL_UNKNOWN);
    } else if (c->did_answer && !c->is_missing && !str_is_empty(known) &&
               !str_is_empty(c->probe.life)) {
        finish(c, POOL_ALIVE);
    } else {
        ask_backend(c);
    }
}

static void start(struct engine *e, const struct pool_box *box, struct check_op *c,
                  uint64_t deadline_ns)
{
    uint64_t now_ns = rt_now(e->rt);
    uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;

    c->engine = e;
    c->backend = box->backend;
    c->deadline_ns = deadline_ns;
    box_to_backend(e, box, &c->check.box);
    engine_op_begun(e);
    if (e->backends[box->backend].ops->is_watched || str_is_empty(box->url)) {
        ask_backend(c);
        return;
    }
    c->was_asked = true;
    c->probe.is_once = true;
    c->probe.want_life = true;
    str_copy_cut(c->probe.url, sizeof(c->probe.url), box->url);
    str_copy_cut(c->probe.token, sizeof(c->probe.token), box->token);
    /* Its backend needs some of the time. */
    probe_start(e->http, e->rt, &c->probe, &e->probes, rt_after(now_ns, left_ns / 2), on_asked);
}

void fx_check(struct engine *e, const struct pool_fx *fx)
{
    struct check_op *c = xcalloc(1, sizeof(*c));

    c->epoch = fx->epoch;
    c->is_missing = fx->u.check.is_missing;
    start(e, &fx->snapshot, c, fx->deadline_ns);
}

void engine_check_box(struct engine *e, struct box_id id,
                      void (*on_done)(void *ctx, enum pool_verdict verdict), void *ctx)
{
    const struct pool_box *box = pool_find_box(e->pool, id);
    struct check_op *c;

    assert(box != NULL);
    c = xcalloc(1, sizeof(*c));
    c->on_done = on_done;
    c->ctx = ctx;
    start(e, box, c, rt_after(rt_now(e->rt), ENGINE_CHECK_TIMEOUT_NS));
}
