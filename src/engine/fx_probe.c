/* fx_probe.c - waiting until a box answers. A backend that does not watch its boxes is asked now and then
 * about a box that does not answer yet: what it reports is passed on to the callers who wait for the box, and a
 * box that has ended according to its backend is not waited for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "box/probe.h"
#include "engine/internal.h"
#include "engine/prepare.h"
#include "engine/sampler.h"

#define FIRST_LOOK_NS (2 * NS_PER_S)
#define LOOK_NS (5 * NS_PER_S)

enum { ABSENT_MAX = 2 }; /* once may be a mistake */

struct probe_op {
    struct probe probe;
    struct backend_check check;
    struct prepare prepare;
    struct engine *engine;
    struct pool_box box;
    struct rt_timer timer;
    uint64_t since_ns;                 /* its backend has been saying the same */
    char said[BACKEND_STATUS_MAX + 1]; /* "": nothing yet */
    char hint[BACKEND_STATUS_MAX + 1];
    unsigned absences;
    bool is_dead;
    bool
        is_over; /* the probe, and what is run in a new box, has ended, and what came of it was posted */
};

static void free_when_idle(struct probe_op *p)
{
    struct engine *e = p->engine;

    if (!p->is_over || !op_is_idle(&p->check.op))
        return;
    free(p);
    engine_op_ended(e);
}

/* "the provisioner says Pending for 58 s: look at ..." */
static void describe(const struct probe_op *p, char *dst, size_t cap)
{
    uint64_t for_ns = rt_now(p->engine->rt) - p->since_ns;
    char text[sizeof(p->said) + sizeof(p->hint) + 32];

    (void) snprintf(text, sizeof(text), "%s for %llu s%s%s", p->said,
                    (unsigned long long) (for_ns / NS_PER_S), str_is_empty(p->hint) ? "" : ": ",
                    p->hint);
    str_copy_cut(dst, cap, text);
}

/* A create that a restart cut short may have found a deleted box under the name, and the listing after it shows
 * that one: it answers, but not for long. */
static bool is_gone(const struct probe_op *p)
{
    struct backend *b = p->engine->backends[p->box.backend].backend;

    return b != NULL && b->ops->is_gone != NULL && b->ops->is_gone(b, p->box.ref, p->probe.life);
}

static void post(struct probe_op *p, int code, const char *reason)
{
    struct pool_event ev = {.kind = POOL_EV_PROBED, .box = p->box.id, .epoch = p->box.epoch};

    ev.u.failed.code = code;
    if (code == SP_OK && p->box.state == POOL_STARTING)
        sampler_ready(p->engine, p->box.id);
    str_copy_cut(ev.life, sizeof(ev.life), p->probe.life);
    str_copy_cut(ev.u.failed.reason, sizeof(ev.u.failed.reason), reason);
    engine_post(p->engine, &ev);
}

static void end(struct probe_op *p)
{
    p->is_over = true;
    if (!op_is_idle(&p->check.op))
        op_cancel(&p->check.op);
    free_when_idle(p);
}

static void on_prepared(struct prepare *prepare, const struct err *err)
{
    struct probe_op *p = container_of(prepare, struct probe_op, prepare);

    if (!p->engine->is_closing || err->code == SP_OK)
        post(p, err->code, err->msg);
    end(p);
}

static void fail(struct probe_op *p, const struct op *op)
{
    char reason[POOL_REASON_MAX + 1];

    if (str_is_empty(p->said))
        str_copy_cut(reason, sizeof(reason), op->err.msg);
    else
        describe(p, reason, sizeof(reason));
    post(p, p->is_dead ? SP_BACKEND_FAILED : op->result, reason);
}

static void on_probed(struct op *op)
{
    struct probe_op *p = container_of(op, struct probe_op, probe.op);
    struct engine *e = p->engine;

    rt_timer_cancel(e->rt, &p->timer);
    if (op->result != SP_OK) {
        if (!e->is_closing) /* else our own end stopped it: that says nothing of the box */
            fail(p, op);
        end(p);
        return;
    }
    e->waits[p->box.profile].text[0] = '\0';
    if (is_gone(p)) {
        post(p, SP_BACKEND_FAILED, "what answers is still the box of this name that was deleted");
        end(p);
    } else if (prepare_is_needed(e, &p->box)) {
        prepare_start(e, &p->prepare, &p->box, on_prepared);
    } else {
        post(p, SP_OK, "");
        end(p);
    }
}

static void on_look(struct rt_timer *timer);

static void plan(struct probe_op *p, uint64_t pause_ns)
{
    rt_timer_set(p->engine->rt, &p->timer, rt_after(rt_now(p->engine->rt), pause_ns), on_look);
}

static void take_status(struct probe_op *p)
{
    struct engine *e = p->engine;
    struct engine_wait *wait = &e->waits[p->box.profile];

    if (strcmp(p->said, p->check.status) != 0 && !str_is_empty(p->said))
        p->since_ns = rt_now(e->rt);
    str_copy_cut(p->said, sizeof(p->said), p->check.status);
    str_copy_cut(p->hint, sizeof(p->hint), p->check.hint);
    if (str_is_empty(p->said))
        return;
    wait->at_ns = rt_now(e->rt);
    describe(p, wait->text, sizeof(wait->text));
}

static void on_checked(struct op *op)
{
    struct probe_op *p = container_of(op, struct probe_op, check.op);
    bool is_absent = op->result == SP_OK && p->check.verdict == BACKEND_ABSENT;

    if (p->is_over) {
        free_when_idle(p);
        return;
    }
    if (op->result == SP_OK) {
        take_status(p);
        p->absences = is_absent ? p->absences + 1 : 0;
        p->is_dead = p->check.verdict == BACKEND_DEAD || p->absences >= ABSENT_MAX;
    }
    if (p->is_dead)
        op_cancel(&p->probe.op);
    else
        plan(p, is_absent ? FIRST_LOOK_NS : LOOK_NS);
}

static void on_look(struct rt_timer *timer)
{
    struct probe_op *p = container_of(timer, struct probe_op, timer);
    struct engine *e = p->engine;
    struct backend *backend = e->backends[p->box.backend].backend;

    if (e->is_closing)
        return;
    box_to_backend(e, &p->box, &p->check.box);
    p->check.status[0] = '\0';
    p->check.hint[0] = '\0';
    backend->ops->is_alive(backend, &p->check, rt_after(rt_now(e->rt), ENGINE_CHECK_TIMEOUT_NS),
                           on_checked);
}

void fx_probe(struct engine *e, const struct pool_fx *fx)
{
    struct probe_op *p = xcalloc(1, sizeof(*p));
    bool is_watched = e->backends[fx->snapshot.backend].ops->is_watched;

    p->engine = e;
    p->box = fx->snapshot;
    p->box.epoch = fx->epoch;
    p->since_ns = rt_now(e->rt);
    str_copy_cut(p->probe.url, sizeof(p->probe.url), fx->snapshot.url);
    str_copy_cut(p->probe.token, sizeof(p->probe.token), fx->snapshot.token);
    p->probe.want_life = !is_watched;
    p->probe.is_once = fx->snapshot.state == POOL_BLANK; /* whoever wants it has others to ask */
    engine_op_begun(e);
    if (!is_watched && !p->probe.is_once)
        plan(p, FIRST_LOOK_NS);
    probe_start(e->http, e->rt, &p->probe, &e->probes, fx->deadline_ns, on_probed);
}
