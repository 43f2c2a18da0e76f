/* create.c - POST: the caller's id gets a box, the one it has or another. As with the native API a
 * box whose answer cannot be delivered waits for the caller, who asks again by the same id.
 *
 *   wait --lease--> (our agent) make directories --> (boxes: open) open --> answer
 *     ^ lost meanwhile |
 *     +----------------+              the lease stays when the answer was delivered (front/deliver.h) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "dialects/provisioner/internal.h"
#include "front/deliver.h"

enum { TRIES_MAX = 5 };

struct create {
    struct front_delivery delivery;
    struct map_node node;  /* provisioner.creates, until it is answered */
    struct list_node link; /* provisioner.callers */
    struct provisioner *p;
    struct json_doc *doc; /* what `request` points into */
    struct provisioner_request request;
    struct provisioner_access access;
    struct pool_acquire acquire;
    struct pool_box box; /* after the lease */
    unsigned tries;
    bool had_box;    /* the id, before this call */
    bool is_deleted; /* the id, by another call */
    bool is_revoked; /* the key, by a reload */
    char metadata[64];
    struct provisioner_options options;
};

static void create_free(struct create *c)
{
    map_remove(&c->p->creates, &c->node);
    list_remove(&c->p->callers, &c->link);
    free(c->delivery.call.extras); /* NULL once the engine owns it */
    (void) json_doc_free(c->doc);
    free(c);
}

/* --- the answer --- */

static void settle(struct create *c)
{
    map_remove(&c->p->creates, &c->node);
    front_answer(&c->delivery);
}

static void reply_running(struct create *c)
{
    struct json_out o;

    settle(c);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    provisioner_put_sandbox(&o, c->delivery.ex, c->box.sandbox_id, &c->box, "Running");
    json_end(&o);
    http_reply_json(c->delivery.ex, 200, &o);
}

static void reply_deleted(struct create *c)
{
    front_disown(&c->delivery); /* the delete of the box cleans up */
    settle(c);
    provisioner_refuse(c->delivery.ex, 409, 0,
                       "Sandbox '%s' was deleted while it was being created",
                       c->request.sandbox_id);
}

static void reply_revoked(struct create *c, bool is_spoiled)
{
    front_undo(&c->delivery, is_spoiled);
    settle(c);
    http_reply_error(c->delivery.ex, SP_UNAUTHORIZED, "Unauthorized", 0);
}

static void reply_failure(struct create *c, const struct pool_fx *fx)
{
    int code = fx->u.reply.code;
    const char *text = sp_error_info(code)->text;
    bool says_more = strncmp(fx->reason, text, strlen(text)) == 0; /* the same, and what follows */
    bool has_reason = !str_is_empty(fx->reason) && !says_more;
    int status = sp_error_info(code)->http_status;
    uint64_t retry_ms = fx->u.reply.retry_after_ns / NS_PER_MS;
    bool was_served = fx->u.reply.source != POOL_SRC_NONE;
    const char *thread_data = strstr(fx->reason, "thread_data: "); /* of helper/source.c */

    settle(c);
    if (was_served && thread_data != NULL) {
        provisioner_refuse(c->delivery.ex, 500, 0, "Pod creation failed: provisioner.%s",
                           thread_data);
    } else if (was_served && code == SP_SPEC_CONFLICT) {
        provisioner_refuse(c->delivery.ex, 409, 0, "Sandbox '%s' has other mounts",
                           c->request.sandbox_id);
    } else if (was_served && status >= 400 && status < 500) {
        /* There was a box, but not for these mounts. */
        provisioner_refuse(c->delivery.ex, 400, 0, "Invalid extra mount: %s",
                           has_reason ? fx->reason : text);
    } else if (code == SP_OWNER_CONFLICT || code == SP_FORBIDDEN || code == SP_SPEC_CONFLICT) {
        provisioner_refuse(c->delivery.ex, 409, 0,
                           "Sandbox '%s' belongs to another caller, user or thread",
                           c->request.sandbox_id);
    } else if (code == SP_BUDGET_EXCEEDED) {
        provisioner_refuse(c->delivery.ex, status, 0, "Pod creation failed: %s: %s", text,
                           fx->reason);
    } else if (sp_error_info(code)->is_retryable && code != SP_BACKEND_FAILED) {
        provisioner_refuse(c->delivery.ex, 503, MAX_OF(retry_ms, 1000U),
                           "Pod creation failed: %s%s%s", says_more ? fx->reason : text,
                           has_reason ? ": " : "", has_reason ? fx->reason : "");
    } else {
        provisioner_refuse(c->delivery.ex, 500, 0, "Pod creation failed: %s%s%s", text,
                           has_reason ? ": " : "", has_reason ? fx->reason : "");
    }
}

/* --- the box --- */

static void start(struct create *c);

static void on_opened(struct provisioner_access *a, const struct err *err)
{
    struct create *c = container_of(a, struct create, access);

    if (!front_is_wanted(&c->delivery, err->code != SP_OK))
        return;
    if (c->is_deleted) {
        reply_deleted(c);
    } else if (c->is_revoked) {
        reply_revoked(c, err->code != SP_OK);
    } else if (err->code == SP_OK) {
        reply_running(c);
    } else {
        front_undo(&c->delivery, true);
        settle(c);
        provisioner_refuse(c->delivery.ex, 500, 0,
                           "Pod creation failed: the box could not be opened: %s", err->msg);
    }
}

static void open_or_reply(struct create *c)
{
    if (engine_config(c->p->engine)->provisioner.boxes == CONFIG_BOXES_OPEN) {
        c->access = (struct provisioner_access){.on_done = NULL};
        provisioner_open_box(c->p, &c->access, &c->box, on_opened);
    } else {
        reply_running(c);
    }
}

/* A box without them can still be used. */
static void on_prepared(struct provisioner_access *a, const struct err *err)
{
    struct create *c = container_of(a, struct create, access);

    if (!front_is_wanted(&c->delivery, false))
        return;
    if (c->is_deleted) {
        reply_deleted(c);
        return;
    }
    if (c->is_revoked) {
        reply_revoked(c, false);
        return;
    }
    if (err->code != SP_OK)
        log_warn("provisioner.no_directories", LF_STR("sandbox_id", c->request.sandbox_id),
                 LF_STR("reason", err->msg));
    open_or_reply(c);
}

static bool is_backend(const struct engine *e, const char *name)
{
    const struct config *config = engine_config(e);
    const struct config_profile *p = config_find_profile(config, config->provisioner.profile);

    return p != NULL && strcmp(p->backend, name) == 0;
}

/* Whether our own agent has to make the directories. In a container it may not be root: if they can
 * be made from outside, they already were (want_dirs). */
static bool must_prepare(const struct create *c)
{
    const struct config *config = engine_config(c->p->engine);
    const struct config_profile *p = config_find_profile(config, config->provisioner.profile);

    return p != NULL && p->agent == CONFIG_AGENT_INJECT && !str_is_empty(c->box.token) &&
           !c->options.want_dirs &&
           (is_backend(c->p->engine, "oci") || is_backend(c->p->engine, "docker"));
}

static void on_reply(struct front_delivery *d, const struct pool_fx *fx)
{
    struct create *c = container_of(d, struct create, delivery);
    int code = fx->u.reply.code;

    if (code == SP_SANDBOX_LOST && c->tries < TRIES_MAX) {
        start(c); /* it died between lease and answer: try another */
    } else if (code != SP_OK) {
        reply_failure(c, fx);
    } else {
        c->box = fx->snapshot;
        if (must_prepare(c)) {
            provisioner_make_dirs(c->p, &c->access, &c->box, on_prepared);
        } else {
            open_or_reply(c);
        }
    }
}

/* Asks the pool, and again after a loss. */
static void start(struct create *c)
{
    const struct config *config = engine_config(c->p->engine);
    struct pool_event ev = {.kind = POOL_EV_ACQUIRE, .u.acquire = c->acquire};
    int profile = pool_profile_index(engine_pool(c->p->engine), config->provisioner.profile);

    if (profile >= 0) /* a reload may have put another profile at this index */
        ev.u.acquire.profile = (unsigned) profile;
    c->tries++;
    c->delivery.call.deadline_ns = c->acquire.deadline_ns;
    if (c->delivery.call.extras == NULL)
        c->delivery.call.extras = provisioner_extras(&c->options);
    front_ask(&c->delivery, &ev);
}

/* on_prepared() or on_opened() is called in any case. */
static void on_cancel(struct front_delivery *d)
{
    op_cancel(&container_of(d, struct create, delivery)->access.call.op);
}

static void on_end(struct front_delivery *d)
{
    create_free(container_of(d, struct create, delivery));
}

/* --- other creates of the same id --- */

static struct create *create_of(const struct map_node *node)
{
    return container_of((uintptr_t) node, struct create, node);
}

static bool is_create_of(const struct map_node *node, const void *key)
{
    const struct create *c = create_of(node);

    return !c->is_deleted && strcmp(c->request.sandbox_id, key) == 0;
}

/* For an id that had no box before. */
static bool is_first_create_of(const struct map_node *node, const void *key)
{
    return !create_of(node)->had_box && is_create_of(node, key);
}

bool provisioner_is_pending(const struct provisioner *p, const char *sandbox_id)
{
    return map_find(&p->creates, hash_str(sandbox_id), is_first_create_of, sandbox_id) != NULL;
}

void provisioner_end_creates(struct provisioner *p, const char *sandbox_id)
{
    for (;;) {
        struct map_node *n = map_find(&p->creates, hash_str(sandbox_id), is_create_of, sandbox_id);
        struct create *c;

        if (n == NULL)
            return;
        c = create_of(n);
        c->is_deleted = true;
        if (front_withdraw(&c->delivery)) /* else on_prepared() or on_opened() answers */
            reply_deleted(c);
    }
}

void provisioner_check_creates(struct provisioner *p)
{
    /* None leaves the list here: their ends come later, from the run queue. */
    for (struct list_node *n = list_first(&p->callers); n != NULL; n = list_next(&p->callers, n)) {
        struct create *c = container_of(n, struct create, link);

        if (!c->node.is_linked || c->is_deleted || c->delivery.ex == NULL ||
            provisioner_has_key(c->delivery.ex))
            continue;
        c->is_revoked = true;
        if (front_withdraw(&c->delivery)) /* else on_prepared() or on_opened() answers */
            reply_revoked(c, false);
    }
}

/* --- start --- */

static uint64_t seconds_or_never(uint64_t s)
{
    return s == 0 ? POOL_NEVER : s * NS_PER_S;
}

void provisioner_lease_times(const struct config *config, struct rt *rt, struct pool_acquire *ret)
{
    rt_refresh(rt);
    ret->deadline_ns = rt_after(rt_now(rt), config->provisioner.wait_ms * NS_PER_MS);
    ret->ttl_ns = seconds_or_never(config->provisioner.ttl_s);
    ret->idle_ns = seconds_or_never(config->provisioner.idle_timeout_s);
}

static void fill_acquire(struct create *c)
{
    const struct config *config = engine_config(c->p->engine);
    struct pool_acquire *a = &c->acquire;

    str_copy_cut(a->sandbox_id, sizeof(a->sandbox_id), c->request.sandbox_id);
    str_copy_cut(a->user, sizeof(a->user), c->request.user);
    str_copy_cut(a->thread, sizeof(a->thread), c->request.thread);
    a->principal = c->p->principal;
    provisioner_lease_times(config, &c->p->loop->rt, a);
    str_copy_cut(c->delivery.call.sandbox_id, sizeof(c->delivery.call.sandbox_id), a->sandbox_id);
    if (c->request.max_shell_sessions > 0) {
        (void) snprintf(c->metadata, sizeof(c->metadata), "{\"max_shell_sessions\":%llu}",
                        (unsigned long long) c->request.max_shell_sessions);
        c->delivery.call.metadata = c->metadata;
    }
}

/* What the box gets, including the thread's data if it is on this machine. False: an error was
 * answered. */
static bool find_options(struct http_exchange *ex, const struct provisioner_request *request,
                         unsigned profile, struct provisioner_options *ret)
{
    struct engine *e = provisioner_of(ex)->engine;
    const struct config *config = engine_config(e);
    const char *template = config->provisioner.thread_data;

    *ret = (struct provisioner_options){.mounts = request->mounts};
    provisioner_find_own(config, request, ret);
    ret->want_dirs =
        is_backend(e, "docker") && (engine_can_apply_late(e, profile) & BACKEND_LATE_MOUNTS) != 0;
    if (str_is_empty(template) || !request->has_thread)
        return true;
    if ((engine_can_apply_late(e, profile) & BACKEND_LATE_MOUNTS) == 0) {
        provisioner_refuse(
            ex, 500, 0,
            "Pod creation failed: provisioner.thread_data is for boxes that take mounts "
            "while they run, and those of profile '%s' do not",
            config->provisioner.profile);
        return false;
    }
    if (config_thread_path(template, request->user, request->thread, ret->thread_path,
                           &ret->base_len))
        return true;
    provisioner_refuse(ex, 500, 0,
                       "Pod creation failed: provisioner.thread_data: the path for this user and "
                       "thread is longer than %d bytes",
                       CONFIG_PATH_MAX);
    return false;
}

/* False: an error was answered. */
static bool check_profile(struct http_exchange *ex, const struct provisioner_request *request,
                          int profile)
{
    struct engine *e = provisioner_of(ex)->engine;
    const char *name = engine_config(e)->provisioner.profile;

    if (profile < 0) {
        provisioner_refuse(ex, 500, 0, "Pod creation failed: there is no profile '%s'", name);
        return false;
    }
    if (request->mounts == NULL ||
        (engine_can_apply(e, (unsigned) profile) & BACKEND_LATE_MOUNTS) != 0)
        return true;
    provisioner_refuse(ex, 400, 0, "Invalid extra mount: boxes of profile '%s' have none", name);
    return false;
}

void provisioner_create(struct http_exchange *ex)
{
    static const struct front_delivery_ops ops = {
        .on_reply = on_reply, .on_cancel = on_cancel, .on_end = on_end};
    struct provisioner *p = provisioner_of(ex);
    const struct config *config = engine_config(p->engine);
    int profile = pool_profile_index(engine_pool(p->engine), config->provisioner.profile);
    struct provisioner_request request;
    struct json_doc *doc = provisioner_parse(ex, &request);
    struct provisioner_options options;
    const struct pool_box *box;
    struct create *c;

    if (doc == NULL)
        return;
    if (!check_profile(ex, &request, profile) ||
        !find_options(ex, &request, (unsigned) profile, &options)) {
        (void) json_doc_free(doc);
        return;
    }
    c = xcalloc(1, sizeof(*c));
    c->p = p;
    c->doc = doc;
    c->request = request;
    c->options = options;
    box = provisioner_find(p, request.sandbox_id);
    c->had_box =
        box != NULL && pool_is_shown(box) && !provisioner_is_pending(p, request.sandbox_id);
    fill_acquire(c);
    map_insert(&p->creates, &c->node, hash_str(request.sandbox_id));
    list_push_back(&p->callers, &c->link);
    front_begin(&c->delivery, p->engine, ex, &ops);
    start(c);
}
