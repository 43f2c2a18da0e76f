/* events.c - deaths as the engine reports them: one response without an end, a JSON object per line. When
 * it breaks it is requested again from where it ended, and the engine of the pool is asked to list: the
 * Docker engine remembers only some hundred events. */
#include <stdio.h>
#include <string.h>

#include "backends/docker/internal.h"
#include "base/str.h"

#define BACKOFF_MIN_NS (100 * NS_PER_MS)
#define BACKOFF_MAX_NS (5 * NS_PER_S)
#define QUIET_NS NS_PER_S
#define CAUSE_NS (15 * NS_PER_S) /* a death this soon after is its doing */
#define SECOND_LOOK_NS (10 * NS_PER_S)
#define LOOK_NS (3 * NS_PER_S)
#define HISTORY_NS (60 * NS_PER_S) /* the engine takes not nearly as long to see to an ended one */

enum { LINE_MAX_LEN = 256 * 1024 };

static void ask(struct docker *d);

static void resync(struct docker *d)
{
    if (d->events != NULL && d->events->on_resync != NULL)
        d->events->on_resync(d->events->ctx);
}

static void report_death(struct docker_box *b, const struct json *attributes)
{
    const char *code = json_str(json_get(attributes, "exitCode"));
    char reason[96];
    uint64_t now_ns = rt_now(&b->docker->loop->rt);

    if (b->oom_ns != 0 && now_ns < rt_after(b->oom_ns, CAUSE_NS))
        str_copy_cut(reason, sizeof(reason), "its container ran out of memory");
    else if (b->kill_ns != 0 && now_ns < rt_after(b->kill_ns, CAUSE_NS))
        (void) snprintf(reason, sizeof(reason),
                        "its container was sent signal %s and has ended with code %.16s", b->signal,
                        code != NULL ? code : "unknown");
    else
        (void) snprintf(reason, sizeof(reason), "its container has ended with code %.16s",
                        code != NULL ? code : "unknown");
    docker_box_died(b, reason);
}

/* Reported once in a while: a box may reach its limit again and again. */
static void on_oom(struct docker_box *b)
{
    struct backend_notice n = {.kind = BACKEND_BOX_OOM, .box_id = b->entry.id, .text = ""};
    uint64_t now_ns = rt_now(&b->docker->loop->rt);
    bool is_news = b->oom_ns == 0 || now_ns >= rt_after(b->oom_ns, CAUSE_NS);

    b->oom_ns = now_ns;
    if (is_news && b->entry.state == BOX_RUNNING)
        docker_notify(b->docker, &n);
}

static void on_kill(struct docker_box *b, const struct json *attributes)
{
    const char *number = json_str(json_get(attributes, "signal"));

    b->kill_ns = rt_now(&b->docker->loop->rt);
    str_copy_cut(b->signal, sizeof(b->signal), number != NULL ? number : "?");
}

/* A daemon that died had asked for it, and the engine was not done when we listed. */
static void on_stray(struct docker *d, uint64_t box_id)
{
    log_info("docker.stray", LF_HEX("box", box_id));
    resync(d);
}

static bool is_end(const char *action)
{
    return strcmp(action, "die") == 0 || strcmp(action, "destroy") == 0 ||
           strcmp(action, "remove") == 0;
}

static void on_end(struct docker *d, struct docker_box *b, const char *container,
                   const struct json *attributes, bool is_old)
{
    docker_ended_add(d, container);
    if (b == NULL)
        return;
    if (b->entry.state == BOX_MAKING && strcmp(b->container, container) != 0)
        return; /* one that the engine could not make: another one is asked for */
    if (is_old && (b->entry.state == BOX_RUNNING || str_is_empty(b->container)))
        resync(d); /* it was listed as running: it still ends, or was started again */
    else
        report_death(b, attributes);
}

/* By its labels, or as a container of another program that we know. */
static bool is_of_us(struct docker *d, const struct json *attributes, const char *container,
                     uint64_t *ret)
{
    const struct docker_box *b;

    if (strcmp(docker_label(attributes, LABEL("instance")), d->instance) == 0)
        return str_parse_hex64(docker_label(attributes, LABEL("box")), ret);
    *ret = docker_short_id(container);
    b = docker_box_find(d, *ret);
    return b != NULL && b->is_foreign;
}

static void take_event(struct docker *d, const struct json *event)
{
    const struct json *actor = json_get(event, "Actor");
    const struct json *attributes = json_get(actor, "Attributes");
    const char *action = json_str(json_get(event, "Action"));
    const char *id = json_str(json_get(actor, "ID"));
    uint64_t time_ns = 0;
    uint64_t box_id = 0;
    struct docker_box *b;
    bool is_old;

    if (json_get(event, "timeNano") != NULL && json_u64(json_get(event, "timeNano"), &time_ns))
        d->watch.since_ns = MAX_OF(d->watch.since_ns, time_ns);
    is_old = time_ns < d->watch.started_ns;
    if (action == NULL || id == NULL || !is_of_us(d, attributes, id, &box_id))
        return;
    b = docker_box_find(d, box_id);
    if (b != NULL && !str_is_empty(b->container) && strcmp(b->container, id) != 0)
        return;
    if (b == NULL && !is_old && strcmp(action, "create") == 0)
        on_stray(d, box_id);
    else if (is_end(action))
        on_end(d, b, id, attributes, is_old);
    else if (b == NULL || is_old)
        return; /* the list has shown it as it is */
    else if (strcmp(action, "oom") == 0)
        on_oom(b);
    else if (strcmp(action, "kill") == 0)
        on_kill(b, attributes);
    else if (strcmp(action, "pause") == 0 || strcmp(action, "unpause") == 0)
        docker_box_pause(b, action[0] == 'p');
}

static void on_connected(struct docker *d)
{
    struct docker_events *w = &d->watch;

    w->is_connected = true;
    w->backoff_ns = 0;
    if (!w->is_lost)
        return;
    w->is_lost = false;
    log_info("docker.events_resumed", LF_STR("engine", d->address));
    docker_prefetch_again(d);
    resync(d);
}

static void on_data(struct httpc_request *r)
{
    struct call *c = container_of(r, struct call, http);
    struct docker *d = container_of(c, struct docker, watch.call);
    struct buf *text = &c->http.response;

    if (c->http.status != 200 || d->closing.is_closing)
        return;
    if (!d->watch.is_connected)
        on_connected(d);
    while (!d->closing.is_closing && text->len > 0) {
        const char *end_of_line = memchr(text->data, '\n', text->len);
        size_t len = end_of_line != NULL ? (size_t) (end_of_line - text->data) : 0;
        struct json_doc *doc;

        if (end_of_line == NULL)
            return;
        doc = json_parse(text->data, len, LINE_MAX_LEN, NULL);
        if (doc != NULL)
            take_event(d, json_root(doc));
        (void) json_doc_free(doc);
        buf_consume(text, len + 1);
    }
}

/* Podman sends not even a header before the first event: what has not been refused by now counts as
 * connected. */
static void on_quiet(struct rt_timer *timer)
{
    struct docker *d = container_of(timer, struct docker, watch.pause);

    if (d->watch.is_on && !d->watch.is_connected && !list_is_linked(&d->watch.call.link))
        on_connected(d);
}

static void on_pause(struct rt_timer *timer)
{
    ask(container_of(timer, struct docker, watch.pause));
}

static void on_ended(struct op *op)
{
    struct docker *d = container_of(op, struct docker, watch.call.op);
    struct docker_events *w = &d->watch;
    struct err err;
    int rc = docker_call_result(&w->call, &err);
    bool is_news;

    w->is_on = false;
    w->is_connected = false;
    if (d->closing.is_closing)
        return;
    if (w->is_ended) {
        w->is_ended = false;
        ask(d);
        return;
    }
    is_news = !w->is_lost;
    if (is_news)
        log_warn("docker.events_lost", LF_STR("engine", d->address),
                 LF_STR("reason", rc == SP_OK ? "the engine closed the stream" : err.msg));
    w->is_lost = true;
    w->backoff_ns = w->backoff_ns == 0 ? BACKOFF_MIN_NS : MIN_OF(w->backoff_ns * 2, BACKOFF_MAX_NS);
    rt_timer_set(&d->loop->rt, &w->pause, rt_after(rt_now(&d->loop->rt), w->backoff_ns), on_pause);
    if (is_news)
        resync(d); /* if the engine is gone, the listing says so */
}

static void put_filters(struct docker *d, struct buf *out)
{
    char instance[BACKEND_LABEL_MAX + 32];
    /* Podman sends "die" when asked for "died", and "remove" for "destroy". */
    static const char *const actions[] = {"create", "die",  "died",  "oom",    "destroy",
                                          "remove", "kill", "pause", "unpause"};
    struct json_out j;

    (void) snprintf(instance, sizeof(instance), LABEL("instance") "=%s", d->instance);
    json_out_init(&j);
    json_begin_obj(&j, NULL);
    json_begin_arr(&j, "type");
    json_put_str(&j, NULL, "container");
    json_end(&j);
    json_begin_arr(&j, "event");
    for (size_t i = 0; i < ARRAY_LEN(actions); i++)
        json_put_str(&j, NULL, actions[i]);
    json_end(&j);
    if (!d->watch.is_wide) {
        json_begin_arr(&j, "label");
        json_put_str(&j, NULL, instance);
        json_end(&j);
    }
    json_end(&j);
    json_out_finish(&j, out);
}

static void ask(struct docker *d)
{
    struct docker_events *w = &d->watch;
    uint64_t since_ns = w->since_ns + 1;
    struct buf filters;

    buf_init(&filters, LINE_MAX_LEN);
    put_filters(d, &filters);
    docker_call_init(d, &w->call, "GET");
    buf_printf(&w->call.path,
               "/events?since=%llu.%09llu&filters=", (unsigned long long) (since_ns / NS_PER_S),
               (unsigned long long) (since_ns % NS_PER_S));
    call_put(&w->call, buf_str(&filters));
    buf_fini(&filters);
    w->call.http.on_data = on_data;
    w->call.http.response_max = LINE_MAX_LEN;
    w->is_on = true;
    docker_call_start(&w->call, RT_NEVER, on_ended);
    rt_timer_set(&d->loop->rt, &w->pause, rt_after(rt_now(&d->loop->rt), QUIET_NS), on_quiet);
}

/* No event reports a volume: neither one that a daemon had requested when it died, and that came after
 * our first listing, nor one that we could not make or remove. */
static void on_second_look(struct rt_timer *timer)
{
    struct docker *d = container_of(timer, struct docker, watch.second_look);

    d->watch.is_look_due = false;
    resync(d);
}

static void look_in(struct docker *d, uint64_t pause_ns)
{
    if (d->closing.is_closing || d->watch.is_look_due)
        return;
    d->watch.is_look_due = true;
    rt_timer_set(&d->loop->rt, &d->watch.second_look, rt_after(rt_now(&d->loop->rt), pause_ns),
                 on_second_look);
}

void docker_look_later(struct docker *d)
{
    look_in(d, LOOK_NS);
}

void docker_events_start(struct docker *d)
{
    look_in(d, SECOND_LOOK_NS);
    d->watch.started_ns = rt_wall_ms(&d->loop->rt) * NS_PER_MS;
    d->watch.since_ns = d->watch.started_ns - HISTORY_NS;
    ask(d);
}

void docker_events_renew(struct docker *d)
{
    struct docker_events *w = &d->watch;
    bool want_wide = !list_is_empty(&d->adoptions);

    for (struct list_node *n = list_first(&d->boxes.all); n != NULL;
         n = list_next(&d->boxes.all, n))
        want_wide = want_wide || container_of(n, struct docker_box, entry.link)->is_foreign;
    if (w->is_wide == want_wide)
        return;
    w->is_wide = want_wide;
    if (!w->is_on)
        return; /* it is asked soon */
    w->is_ended = true;
    op_cancel(&w->call.op);
}

void docker_events_stop(struct docker *d)
{
    rt_timer_cancel(&d->loop->rt, &d->watch.pause);
    rt_timer_cancel(&d->loop->rt, &d->watch.second_look);
    if (d->watch.is_on)
        op_cancel(&d->watch.call.op);
}
