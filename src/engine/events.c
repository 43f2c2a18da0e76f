/* events.c - facts become the audit trail: a line in the journal for those who follow, and a row in
 * the store. Rows are written together every few milliseconds: nobody waits for them, and a commit
 * of their own would make the next lease wait. */
#include <stdio.h>
#include <stdlib.h>

#include "backend/snapshot.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/internal.h"
#include "engine/tokens.h"

struct event_write {
    struct store_write write;
    struct list_node link; /* in late_events until it is submitted */
    struct engine *engine;
    char kind[JOURNAL_KIND_MAX + 1];
    char box_id[17];
    char sandbox_id[POOL_ID_MAX + 1];
    char *body;
};

/* What an event is about: it is found by this, and shown to this principal. */
struct event_about {
    const char *box_id;
    const char *sandbox_id;
    uint64_t principal;
};

static void add_event(struct engine *e, const char *kind, char *body,
                      const struct event_about *about);

static void on_events_timer(struct rt_timer *timer)
{
    events_flush(container_of(timer, struct engine, events_timer));
}

static void begin_body(struct json_out *o, struct engine *e, const struct pool_box *b)
{
    char hex[17];

    json_out_init(o);
    json_begin_obj(o, NULL);
    if (b->id.v == 0)
        return;
    str_hex64(hex, b->id.v);
    json_put_str(o, "box_id", hex);
    json_put_str(o, "profile", profiles_name(e, b->profile));
    if (str_is_empty(b->sandbox_id))
        return;
    json_put_str(o, "sandbox_id", b->sandbox_id);
    json_put_u64(o, "generation", b->generation);
    json_put_str(o, "user_id", b->user);
    if (!str_is_empty(b->thread))
        json_put_str(o, "thread_id", b->thread);
}

static char *end_body(struct json_out *o)
{
    struct buf text;

    json_end(o);
    buf_init(&text, 4096);
    json_out_finish(o, &text);
    if (buf_failed(&text)) { /* every part is bounded, so this is out of memory */
        buf_fini(&text);
        return xstrdup("{}");
    }
    return buf_take(&text, NULL);
}

static void log_fact(const struct engine *e, const struct pool_fx *fx)
{
    const struct pool_box *b = &fx->snapshot;
    struct log_field fields[] = {LF_HEX("box", b->id.v),
                                 LF_STR("sandbox_id", b->sandbox_id),
                                 LF_STR("profile", pool_profile(e->pool, b->profile)->name),
                                 LF_STR("why", pool_end_name(fx->u.event.end)),
                                 LF_STR("reason", fx->reason),
                                 LF_END};
    enum pool_fact fact = fx->u.event.fact;
    char name[48];
    bool is_trouble = fact == POOL_FACT_LOST || fact == POOL_FACT_EXHAUSTED ||
                      fact == POOL_FACT_IDLE_UNKNOWN || fact == POOL_FACT_CREATE_FAILED ||
                      fact == POOL_FACT_BREAKER_OPEN;

    if (e->is_closing)
        is_trouble = false; /* our own stop has cut it short */
    (void) snprintf(name, sizeof(name), "pool.%s", pool_fact_name(fact));
    if (fact == POOL_FACT_AVAILABLE)
        log_write(LOG_INFO, name, fields);
    else
        log_write(is_trouble ? LOG_WARN : LOG_DEBUG, name, fields);
}

/* A line of the audit trail that is not stored. That some are missing is a line of its own, when there is
 * room for it. */
static void drop_event(struct engine *e)
{
    if (e->events_unreported == 0)
        log_warn("events.dropped", LF_STR("reason", "the store cannot be written"));
    e->events_unreported++;
    e->events_dropped++;
}

static void on_event_written(struct op *op)
{
    struct event_write *w = container_of(op, struct event_write, write.op);
    struct engine *e = w->engine;

    if (op->result != SP_OK)
        drop_event(e);
    free(w->body);
    free(w);
    engine_op_ended(e);
}

static void arm(struct engine *e)
{
    rt_timer_set(e->rt, &e->events_timer, rt_after(rt_now(e->rt), ENGINE_EVENTS_EVERY_NS),
                 on_events_timer);
}

static void report_dropped(struct engine *e)
{
    uint64_t count = e->events_unreported;
    struct json_out o;

    if (count == 0 || !store_is_up(e->store) || e->is_closing)
        return;
    e->events_unreported = 0;
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_u64(&o, "count", count);
    json_put_str(&o, "reason", "the store could not take so many events at once");
    add_event(e, "events_dropped", end_body(&o), &(struct event_about){"", "", STORE_NOBODY});
}

uint64_t engine_events_dropped(const struct engine *e)
{
    return e->events_dropped;
}

void events_flush(struct engine *e)
{
    unsigned room = (unsigned) e->config->config->store.queue_max / 2;

    rt_timer_cancel(e->rt, &e->events_timer);
    /* The other half is for rows of boxes. */
    while (!list_is_empty(&e->late_events) && (e->is_closing || store_pending(e->store) < room)) {
        struct list_node *n = list_pop_front(&e->late_events);

        store_submit(e->store, &container_of(n, struct event_write, link)->write, on_event_written);
    }
    if (list_is_empty(&e->late_events))
        report_dropped(e);
    else
        arm(e);
}

/* Takes the body over. */
static void add_event(struct engine *e, const char *kind, char *body,
                      const struct event_about *about)
{
    const struct journal_event *ev =
        journal_add(&e->journal, rt_wall_ms(e->rt), kind, body, about->principal);
    struct event_write *w;

    if (e->late_events.len >= e->config->config->store.queue_max) {
        drop_event(e);
        return;
    }
    w = xcalloc(1, sizeof(*w));
    w->engine = e;
    w->body = xstrdup(ev->body);
    str_copy_cut(w->kind, sizeof(w->kind), ev->kind);
    w->write.kind = STORE_ADD_EVENT;
    str_copy_cut(w->box_id, sizeof(w->box_id), about->box_id);
    str_copy_cut(w->sandbox_id, sizeof(w->sandbox_id), about->sandbox_id);
    w->write.u.event = (struct store_event){.id = ev->id,
                                            .at_ms = ev->at_ms,
                                            .kind = w->kind,
                                            .body = w->body,
                                            .box_id = w->box_id,
                                            .sandbox_id = w->sandbox_id,
                                            .principal = about->principal};
    engine_op_begun(e);
    if (list_is_empty(&e->late_events))
        arm(e);
    list_push_back(&e->late_events, &w->link);
}

/* One about a box, or about none. A blank one is nobody's. */
static void add_box_event(struct engine *e, const char *kind, const struct pool_box *b,
                          struct json_out *o)
{
    bool is_owned = b->id.v != 0 && !str_is_empty(b->sandbox_id);
    char hex[17] = "";

    if (b->id.v != 0)
        str_hex64(hex, b->id.v);
    add_event(e, kind, end_body(o),
              &(struct event_about){hex, is_owned ? b->sandbox_id : "",
                                    is_owned ? b->principal : STORE_NOBODY});
}

void engine_watch_ends(struct engine *e, struct engine_watcher *w)
{
    list_push_back(&e->watchers, &w->link);
}

void engine_unwatch_ends(struct engine *e, struct engine_watcher *w)
{
    list_remove(&e->watchers, &w->link);
}

static void report_end(struct engine *e, const struct pool_fx *fx)
{
    enum pool_fact fact = fx->u.event.fact;
    enum pool_end end = fx->u.event.end != POOL_END_NONE ? fx->u.event.end : fx->snapshot.end;

    bool is_over = fact == POOL_FACT_DOOMED || fact == POOL_FACT_LOST || fact == POOL_FACT_GONE;

    if (!is_over && fact != POOL_FACT_PARKED)
        return;
    for (struct list_node *n = list_first(&e->watchers); n != NULL;
         n = list_next(&e->watchers, n)) {
        struct engine_watcher *w = container_of(n, struct engine_watcher, link);

        if (is_over)
            w->on_end(w->ctx, fx->snapshot.id, SP_SANDBOX_LOST, pool_end_name(end));
        else
            w->on_end(w->ctx, fx->snapshot.id, SP_NOT_LEASED, pool_end_name(POOL_END_RELEASED));
    }
}

void fx_event(struct engine *e, const struct pool_fx *fx)
{
    struct json_out o;

    log_fact(e, fx);
    report_end(e, fx);
    holder_event(e, fx);
    begin_body(&o, e, &fx->snapshot);
    if (fx->u.event.end != POOL_END_NONE)
        json_put_str(&o, "why", pool_end_name(fx->u.event.end));
    if (!str_is_empty(fx->reason))
        json_put_str(&o, "reason", fx->reason);
    if (fx->u.event.fact == POOL_FACT_GONE)
        engine_put_report(e, fx->snapshot.id, &o);
    add_box_event(e, pool_fact_name(fx->u.event.fact), &fx->snapshot, &o);
}

/* An acquire that got no box. Under a flood a few of each second are noted, and how many were not. */
void event_refused(struct engine *e, const struct engine_call *call, const struct pool_fx *fx)
{
    uint64_t second = rt_wall_ms(e->rt) / 1000;
    struct json_out o;

    if (e->is_closing)
        return;
    if (second != e->refused_second)
        e->refused_count = 0;
    e->refused_second = second;
    if (e->refused_count >= ENGINE_REFUSED_PER_S) {
        e->refused_unnoted++;
        return;
    }
    e->refused_count++;
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "sandbox_id", call->sandbox_id);
    json_put_str(&o, "profile", profiles_name(e, call->profile));
    json_put_str(&o, "code", sp_error_info(fx->u.reply.code)->name);
    if (!str_is_empty(fx->reason))
        json_put_str(&o, "reason", fx->reason);
    if (e->refused_unnoted > 0)
        json_put_u64(&o, "not_noted", e->refused_unnoted);
    e->refused_unnoted = 0;
    add_event(e, "refused", end_body(&o),
              &(struct event_about){"", call->sandbox_id, call->principal});
}

/* The files of a hibernated sandbox that has no box. */
void event_not_kept(struct engine *e, const struct snapshot *s, const char *reason)
{
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "sandbox_id", s->sandbox_id);
    json_put_str(&o, "profile", s->profile);
    json_put_u64(&o, "generation", s->generation);
    json_put_str(&o, "user_id", s->user);
    json_put_str(&o, "thread_id", s->thread);
    json_put_str(&o, "why", pool_end_name(POOL_END_NOT_KEPT));
    json_put_str(&o, "reason", reason);
    add_event(e, "files_deleted", end_body(&o),
              &(struct event_about){"", s->sandbox_id, s->principal});
}

void event_leak(struct engine *e, const struct pool_box *box, const struct engine_deed *deed,
                bool is_leaking)
{
    uint64_t held_s = (rt_now(e->rt) - MIN_OF(box->leased_ns, rt_now(e->rt))) / NS_PER_S;
    struct log_field fields[] = {LF_HEX("box", box->id.v),
                                 LF_STR("sandbox_id", box->sandbox_id),
                                 LF_STR("profile", profiles_name(e, box->profile)),
                                 LF_STR("user", box->user),
                                 LF_STR("thread", box->thread),
                                 LF_HEX("principal", box->principal),
                                 LF_U64("held_s", held_s),
                                 LF_STR("last", deed->verb),
                                 LF_STR("from", deed->from),
                                 LF_END};
    struct json_out o;
    char hex[17];

    log_write(is_leaking ? LOG_WARN : LOG_INFO, is_leaking ? "lease.leak" : "lease.leak_over",
              fields);
    begin_body(&o, e, box);
    str_hex64(hex, box->principal);
    json_put_str(&o, "principal", hex);
    json_put_u64(&o, "held_s", held_s);
    if (deed->at_ns != 0) {
        json_put_str(&o, "last", deed->verb);
        json_put_str(&o, "from", deed->from);
    }
    add_box_event(e, is_leaking ? "leak" : "leak_over", box, &o);
}

void event_ready(struct engine *e, const char *profile, enum engine_cause cause, const char *why)
{
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "profile", profile);
    if (cause != ENGINE_CAUSE_NONE) {
        json_put_str(&o, "cause", engine_cause_name(cause));
        json_put_str(&o, "reason", why);
    }
    add_event(e, cause != ENGINE_CAUSE_NONE ? "profile_not_ready" : "profile_ready", end_body(&o),
              &(struct event_about){"", "", STORE_NOBODY});
}

void event_budget(struct engine *e, const struct store_budget_call *c)
{
    char text[CONFIG_MICROS_MAX];
    struct json_out o;

    if (c->deed == STORE_BUDGET_LIST || e->is_closing)
        return;
    config_print_micros(c->amount, text);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "user_id", c->user);
    if (c->deed == STORE_BUDGET_CREDIT)
        json_put_str(&o, "credit", text);
    else
        json_put_str(&o, "amount", c->deed == STORE_BUDGET_SET ? text : NULL);
    json_put_str(&o, "currency", e->config->config->budgets.currency);
    add_event(e, "budget", end_body(&o), &(struct event_about){"", "", STORE_NOBODY});
}

void event_token(struct engine *e, const char *kind, const struct engine_token *t)
{
    struct json_out o;

    log_info(kind, LF_STR("token_id", t->id), LF_STR("name", t->name));
    if (e->is_closing)
        return;
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "token_id", t->id);
    json_put_str(&o, "name", t->name);
    add_event(e, kind, end_body(&o), &(struct event_about){"", "", STORE_NOBODY});
}

/* How many, never what: a variable may be a secret. */
void event_updated(struct engine *e, const struct pool_box *box,
                   const struct backend_extras *extras)
{
    struct json_out o;

    log_debug("box.updated", LF_HEX("box", box->id.v), LF_STR("sandbox_id", box->sandbox_id),
              LF_U64("envs", extras->env_count), LF_U64("mounts", extras->mount_count));
    begin_body(&o, e, box);
    json_put_u64(&o, "envs", extras->env_count);
    json_put_u64(&o, "mounts", extras->mount_count);
    json_put_u64(&o, "limits",
                 (extras->memory > 0 ? 1U : 0U) + (extras->cpus > 0 ? 1U : 0U) +
                     (extras->pids > 0 ? 1U : 0U));
    add_box_event(e, "updated", box, &o);
}

static const char *const notice_names[] = {"image.pulling",    "image.pulled", "image.failed",
                                           "box.paused",       "box.resumed",  "box.oom",
                                           "box.kernel_memory"};

static_assert(ARRAY_LEN(notice_names) == BACKEND_NOTICE_COUNT, "a name for each notice");

void event_notice(struct engine *e, const char *backend, const struct pool_box *box,
                  const struct backend_notice *n)
{
    const struct pool_box none = {.id = {0}};
    struct log_field fields[] = {LF_STR("backend", backend),
                                 LF_STR("image", n->image != NULL ? n->image : ""),
                                 LF_HEX("box", n->box_id), LF_STR("reason", n->text), LF_END};
    struct json_out o;

    log_write(n->kind == BACKEND_IMAGE_FAILED || n->kind == BACKEND_BOX_KERNEL_MEMORY ? LOG_WARN
                                                                                      : LOG_INFO,
              notice_names[n->kind], fields);
    begin_body(&o, e, box != NULL ? box : &none);
    json_put_str(&o, "backend", backend);
    if (n->image != NULL)
        json_put_str(&o, "image", n->image);
    if (!str_is_empty(n->text))
        json_put_str(&o, n->kind == BACKEND_IMAGE_FAILED ? "reason" : "status", n->text);
    if (n->total_bytes > 0) {
        json_put_u64(&o, "done_bytes", n->done_bytes);
        json_put_u64(&o, "total_bytes", n->total_bytes);
    }
    add_box_event(e, notice_names[n->kind], box != NULL ? box : &none, &o);
}
