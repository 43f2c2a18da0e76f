/* probe.c - asks a box until it answers 200.
 *
 * The deadline is kept here and not by the op, because an op that times out knows only that: the
 * caller gets what the last probe met. Every request and every pause ends by the deadline. */
#include "box/probe.h"

#include <stdio.h>
#include <string.h>

#include "base/compiler.h"

#define PAUSE_FIRST_NS (2 * NS_PER_MS)
#define PAUSE_MAX_NS (250 * NS_PER_MS)

#define LIFE_TIMEOUT_NS (1 * NS_PER_S)

enum {
    ANSWER_MAX = 1024 * 1024, /* only the status matters; a box may describe itself at length */
    LIFE_ANSWER_MAX = 16 * 1024,
};

static void on_answer(struct op *op);

static void finish(struct probe *p, int result, const struct err *err)
{
    rt_timer_cancel(p->op.rt, &p->pause);
    httpc_request_fini(&p->request);
    op_finish(&p->op, result, err);
}

static void give_up(struct probe *p)
{
    struct err err;

    if (p->is_once)
        (void) err_set(&err, SP_TIMEOUT, "it does not answer: %s", p->last.msg);
    else
        (void) err_set(&err, SP_TIMEOUT, "not ready after %u probes: %s", p->attempts, p->last.msg);
    err.sys = p->last.sys;
    finish(p, SP_TIMEOUT, &err);
}

static void attempt(struct probe *p)
{
    uint64_t until_ns = rt_after(rt_now(p->op.rt), PROBE_REQUEST_TIMEOUT_NS);

    p->attempts++;
    httpc_start(p->http, &p->request, MIN_OF(until_ns, p->deadline_ns), on_answer);
}

static void on_pause_over(struct rt_timer *timer)
{
    struct probe *p = container_of(timer, struct probe, pause);

    if (rt_now(p->op.rt) >= p->deadline_ns)
        give_up(p);
    else
        attempt(p);
}

static void pause_then_retry(struct probe *p)
{
    uint64_t at_ns = rt_after(rt_now(p->op.rt), p->pause_ns);

    rt_timer_set(p->op.rt, &p->pause, MIN_OF(at_ns, p->deadline_ns), on_pause_over);
    p->pause_ns = MIN_OF(p->pause_ns * 2, PAUSE_MAX_NS);
}

/* Keeps the reason for the message. A request that the deadline cut short says nothing about the
 * box, so it does not replace what an earlier one found. */
static void note_failure(struct probe *p)
{
    const struct op *op = &p->request.op;

    if (op->result == SP_OK)
        (void) err_set(&p->last, SP_BACKEND_FAILED, "answered %d", p->request.status);
    else if (op->result != SP_TIMEOUT)
        p->last = op->err;
    else if (p->last.code == SP_OK || rt_now(op->rt) < p->deadline_ns)
        (void) err_set(&p->last, SP_TIMEOUT, "no answer in time");
}

static void on_stat(struct op *op)
{
    struct probe *p = container_of(op, struct probe, request.op);

    if (!life_of_stat(&p->request, p->life))
        p->life[0] = '\0'; /* then its life is not known: it is ready all the same */
    finish(p, SP_OK, NULL);
}

/* The server is not sandpool-agent. */
static void ask_for_start(struct probe *p)
{
    uint64_t until_ns = rt_after(rt_now(p->op.rt), LIFE_TIMEOUT_NS);

    httpc_request_fini(&p->request);
    (void) snprintf(p->target, sizeof(p->target), "%s" LIFE_PATH, p->url); /* has room for it */
    p->headers[0] = "Content-Type: application/json";
    p->request = (struct httpc_request){
        .method = "POST",
        .url = p->target,
        .headers = p->headers,
        .body = LIFE_BODY,
        .body_len = strlen(LIFE_BODY),
        .response_max = LIFE_ANSWER_MAX,
        .want_fresh = true,
    };
    httpc_start(p->http, &p->request, MIN_OF(until_ns, p->deadline_ns), on_stat);
}

static void on_answer(struct op *op)
{
    struct httpc_request *request = container_of(op, struct httpc_request, op);
    struct probe *p = container_of(request, struct probe, request);

    if (op->result == SP_OK && request->status == 200) {
        if (p->want_life && !life_of_headers(request, p->life) && !p->is_cancelled)
            ask_for_start(p);
        else
            finish(p, SP_OK, NULL); /* even when it was cancelled meanwhile: the box is ready */
        return;
    }
    note_failure(p);
    if (p->is_cancelled)
        finish(p, SP_CANCELLED, NULL);
    else if (p->is_once || rt_now(op->rt) >= p->deadline_ns)
        give_up(p);
    else
        pause_then_retry(p);
}

static void on_cancel(struct op *op)
{
    struct probe *p = container_of(op, struct probe, op);

    p->is_cancelled = true;
    /* An answer on its way to on_answer() is let through: it decides. */
    if (p->request.op.state == OP_IDLE)
        finish(p, SP_CANCELLED, NULL);
    else
        op_cancel(&p->request.op);
}

void probe_start(struct httpc *http, struct rt *rt, struct probe *p, struct list *owner,
                 uint64_t deadline_ns, void (*on_done)(struct op *))
{
    op_begin(&p->op, rt, owner, RT_NEVER, on_cancel, on_done);
    p->http = http;
    p->deadline_ns = deadline_ns;
    p->attempts = 0;
    p->life[0] = '\0';
    p->pause_ns = PAUSE_FIRST_NS;
    p->pause = (struct rt_timer){0};
    p->last = (struct err){0};
    p->is_cancelled = false;
    (void) snprintf(p->target, sizeof(p->target), "%s/v1/sandbox", p->url); /* has room for it */
    (void) snprintf(p->auth_header, sizeof(p->auth_header), "Authorization: Bearer %s", p->token);
    p->headers[0] =
        "Prefer: return=minimal"; /* what the box is like takes our agent longer to say */
    p->headers[1] = p->token[0] != '\0' ? p->auth_header : NULL;
    p->headers[2] = NULL;
    p->request = (struct httpc_request){
        .method = "GET",
        .url = p->target,
        .headers = p->headers,
        .response_max = ANSWER_MAX,
        .want_headers = p->want_life,
        .want_fresh = true, /* no idle connections to boxes, none to a server since restarted */
    };
    attempt(p);
}

void probe_hurry(struct probe *p)
{
    if (p->op.state != OP_RUNNING)
        return;
    p->pause_ns = PAUSE_FIRST_NS;
    if (!heap_has(&p->pause.node))
        return; /* a request is in flight: should it fail, the next one comes soon */
    rt_timer_cancel(p->op.rt, &p->pause);
    on_pause_over(&p->pause);
}
