/* watch.c - gets deaths from sandpool-sim by a long poll that is always repeated. When
 * a poll failed, deaths may have been missed: the engine is asked to list again as soon as
 * sandpool-sim answers. */
#include <stdio.h>

#include "backends/sim/host.h"
#include "base/log.h"
#include "base/str.h"

enum { WAIT_MS = 20000, ANSWER_MAX = 256 * 1024 };

/* The answer may take that much longer than what was asked for. */
#define SLACK_NS (10 * NS_PER_S)
#define BACKOFF_MIN_NS (100 * NS_PER_MS)
#define BACKOFF_MAX_NS (5 * NS_PER_S)

static void on_answer(struct op *op);

static void ask(struct sim_host *h)
{
    struct sim_watch *w = &h->watch;
    /* The first answer, and the first after a loss, shows where we are: it must come at once. */
    uint64_t wait_ms = w->is_lost || str_is_empty(w->epoch) ? 0 : WAIT_MS;
    uint64_t deadline_ns = rt_after(rt_now(h->rt), wait_ms * NS_PER_MS + SLACK_NS);

    (void) snprintf(w->url, sizeof(w->url), "http://localhost/watch?wait_ms=%llu&since=%llu%s%s",
                    (unsigned long long) wait_ms, (unsigned long long) w->since,
                    str_is_empty(w->epoch) ? "" : "&epoch=", w->epoch);
    w->request = (struct httpc_request){
        .method = "GET",
        .url = w->url,
        .unix_socket = h->socket,
        .response_max = ANSWER_MAX,
    };
    w->is_asking = true;
    httpc_start(h->http, &w->request, deadline_ns, on_answer);
}

static void on_pause(struct rt_timer *timer)
{
    ask(container_of(timer, struct sim_host, watch.pause));
}

static void report_deaths(struct sim_host *h, const struct json *deaths)
{
    for (size_t i = 0; i < json_len(deaths) && !h->is_closing; i++) {
        const struct json *death = json_at(deaths, i);
        const char *hex = json_str(json_get(death, "box_id"));
        const char *reason = json_str(json_get(death, "reason"));
        uint64_t box_id;

        if (hex == NULL || !str_parse_hex64(hex, &box_id))
            continue;
        if (h->events != NULL && h->events->on_died != NULL)
            h->events->on_died(h->events->ctx, box_id, reason != NULL ? reason : "");
    }
}

static int take_answer(struct sim_host *h, const struct json *answer, struct err *err)
{
    struct sim_watch *w = &h->watch;
    const char *epoch = NULL;
    bool want_resync = false;
    uint64_t since = 0;
    int rc = json_field_str(answer, "epoch", 16, &epoch, err);

    if (rc == SP_OK)
        rc = json_field_u64(answer, "since", 0, INT64_MAX, &since, err);
    if (rc == SP_OK)
        rc = json_field_bool(answer, "resync", &want_resync, err);
    if (rc != SP_OK)
        return rc;
    if (epoch == NULL)
        return err_set(err, SP_PROTOCOL, "the answer has no epoch");
    str_copy_cut(w->epoch, sizeof(w->epoch), epoch);
    w->since = since;
    report_deaths(h, json_get(answer, "deaths"));
    if ((want_resync || w->is_lost) && !h->is_closing && h->events != NULL &&
        h->events->on_resync != NULL)
        h->events->on_resync(h->events->ctx);
    w->is_lost = false;
    w->backoff_ns = 0;
    return SP_OK;
}

static int read_answer(struct sim_host *h, struct err *err)
{
    const struct httpc_request *r = &h->watch.request;
    struct json_doc *doc;
    int rc;

    if (r->op.result != SP_OK) {
        *err = r->op.err;
        return r->op.result;
    }
    if (r->status != 200)
        return err_set(err, SP_BACKEND_FAILED, "the answer is %d", r->status);
    doc = json_parse(buf_str(&r->response), r->response.len, ANSWER_MAX, err);
    if (doc == NULL)
        return err->code;
    rc = take_answer(h, json_root(doc), err);
    (void) json_doc_free(doc);
    return rc;
}

static void on_answer(struct op *op)
{
    struct sim_host *h = container_of(op, struct sim_host, watch.request.op);
    struct sim_watch *w = &h->watch;
    struct err err = {0};
    int rc = SP_CANCELLED;

    w->is_asking = false;
    if (!h->is_closing)
        rc = read_answer(h, &err);
    httpc_request_fini(&w->request);
    if (h->is_closing) { /* maybe because of what it just reported */
        sim_host_settle(h);
        return;
    }
    if (rc == SP_OK) {
        ask(h);
        return;
    }
    if (!w->is_lost)
        log_warn("sim.watch_lost", LF_STR("socket", h->socket), LF_STR("error", err.msg));
    w->is_lost = true;
    w->backoff_ns = w->backoff_ns == 0 ? BACKOFF_MIN_NS : MIN_OF(w->backoff_ns * 2, BACKOFF_MAX_NS);
    rt_timer_set(h->rt, &w->pause, rt_after(rt_now(h->rt), w->backoff_ns), on_pause);
}

void sim_watch_start(struct sim_host *h)
{
    ask(h);
}

void sim_watch_stop(struct sim_host *h)
{
    rt_timer_cancel(h->rt, &h->watch.pause);
    if (h->watch.is_asking)
        op_cancel(&h->watch.request.op);
}
