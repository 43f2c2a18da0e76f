/* calls.c - commands, jobs, files and ports of a box through the daemon: /v1/sandboxes/{id}/exec and so on. A call goes
 * to the box's agent as it is, at /v1/agent/exec and so on, with the box's token in place of what its caller sent. To a box
 * that has no agent of ours it goes in the words of the AIO API. Its owner and operators may call, while the box is
 * leased. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/aio/aio.h"
#include "box/life.h"
#include "dialects/native/internal.h"
#include "front/deed.h"
#include "front/pass.h"

enum {
    RESERVE_PART = 16, /* of calls.max, for operators */
    BOX_RESERVE = 8,   /* calls to one box, for operators: above calls.max_per_box */
};

/* --- which box --- */

void api_reply_lost(struct http_exchange *ex, enum pool_end end)
{
    struct pool_fx fx = {.kind = POOL_FX_REPLY};

    fx.u.reply.code = SP_SANDBOX_LOST;
    fx.u.reply.lost = end;
    api_reply_failure(ex, &fx);
}

/* There is none of this name: there was, or there never was one of this caller's. */
static void reply_absent(struct http_exchange *ex, const struct pool *pool,
                         const struct api_caller *caller, const char *sandbox_id)
{
    uint64_t generation;
    uint64_t principal;
    enum pool_end end = pool_find_past(pool, sandbox_id, &generation, &principal);

    if (end != POOL_END_NONE && (caller->is_operator || principal == caller->principal))
        api_reply_lost(ex, end);
    else
        http_reply_error(ex, SP_NOT_FOUND, "no such sandbox, or not yours", 0);
}

const struct pool_box *api_find_leased(struct http_exchange *ex, const struct api_caller *caller)
{
    const struct pool *pool = engine_pool(api_of(ex)->engine);
    const struct pool_box *box;
    struct box_id id;
    char sandbox_id[POOL_ID_MAX + 1];
    char text[160];

    if (!api_path_id(ex, sandbox_id, &id))
        return NULL;
    box = id.v != 0 ? pool_find_box(pool, id) : pool_find_sandbox(pool, sandbox_id);
    if (box == NULL || (!caller->is_operator && box->principal != caller->principal)) {
        reply_absent(ex, pool, caller, sandbox_id);
        return NULL;
    }
    if (box->end != POOL_END_NONE) {
        api_reply_lost(ex, box->end);
        return NULL;
    }
    if (box->state != POOL_LEASED || str_is_empty(box->url)) {
        (void) snprintf(text, sizeof(text), "the sandbox is %s, not leased: acquire it first",
                        api_state_name(box->state));
        http_reply_error(ex, SP_NOT_LEASED, text, 0);
        return NULL;
    }
    return box;
}

bool api_may_call(struct http_exchange *ex, uint64_t box)
{
    const struct pool_box *b = pool_find_box(engine_pool(api_of(ex)->engine), (struct box_id){box});
    struct api_caller caller;

    return api_identify(ex, &caller) &&
           (caller.is_operator || (b != NULL && b->principal == caller.principal));
}

/* Which start of a box has answered says whose server it is. Where that is not known, boxes of a provisioner are taken for
 * those of others: our agent knows that API, too. */
static bool is_aio(const struct api *api, const struct pool_box *box)
{
    const struct config_profile *profile = engine_profile(api->engine, box->profile);

    if (!str_is_empty(box->life))
        return life_is_foreign(box->life);
    return profile != NULL &&
           (profile->agent == CONFIG_AGENT_IMAGE || strcmp(profile->backend, "remote") == 0);
}

/* --- how many --- */

static void reply_too_many(struct http_exchange *ex, const char *what, uint64_t count,
                           const char *key)
{
    char text[160];

    (void) snprintf(text, sizeof(text), "%s %llu calls to sandboxes under way, its limit (%s)",
                    what, (unsigned long long) count, key);
    http_reply_error(ex, SP_TOO_MANY_CALLS, text, 1000);
}

/* What only operators may use: so they get in whatever others do. */
static unsigned reserve_of(unsigned max_calls)
{
    unsigned part = max_calls / RESERVE_PART;

    return part == 0 && max_calls > 1 ? 1 : part;
}

/* True: it has been refused. */
static bool is_too_much(struct http_exchange *ex, const struct box_proxy_to *to, bool is_operator)
{
    const struct api *api = api_of(ex);
    const struct config *c = engine_config(api->engine);
    uint64_t max = is_operator ? api->max_calls : api->max_calls - reserve_of(api->max_calls);
    uint64_t max_box = c->calls.max_per_box + (is_operator ? BOX_RESERVE : 0);
    struct box_proxy_counts n;
    uint64_t room;

    box_proxy_count(api->calls, to->box, to->caller, &n);
    room = max > n.all ? max - n.all : 0;
    if (room == 0)
        reply_too_many(ex, "the daemon has", n.all, "calls.max");
    else if (n.box >= max_box)
        reply_too_many(ex, "this sandbox has", n.box, "calls.max_per_box");
    else if (n.caller > 0 && n.caller * 100 >= (n.caller + room) * c->calls.share_percent)
        reply_too_many(ex, "this caller has", n.caller, "calls.share_percent");
    else
        return false;
    return true;
}

/* --- passing on --- */

typedef void pass_fn(struct box_proxy *p, struct http_exchange *ex,
                     const struct box_proxy_limits *limits, const struct box_proxy_to *to);

static void pass(struct http_exchange *ex, const struct box_proxy_to *to,
                 const struct api_caller *caller, pass_fn *how)
{
    const struct api *api = api_of(ex);
    struct box_proxy_limits limits = {.requests = UINT64_MAX, /* they are counted here */
                                      .requests_per_box = UINT64_MAX,
                                      .idle_ns = engine_config(api->engine)->calls.idle_timeout_s *
                                                 NS_PER_S};

    if (!is_too_much(ex, to, caller->is_operator))
        how(api->calls, ex, &limits, to);
}

static void to_box(const struct api *api, const struct pool_box *box,
                   const struct api_caller *caller, struct box_proxy_to *ret)
{
    *ret = (struct box_proxy_to){
        .box = box->id.v, .caller = caller->principal, .url = box->url, .token = box->token};
    engine_local(api->engine, box, ret->local, sizeof(ret->local));
}

void api_call(struct http_exchange *ex)
{
    static const char agent[] = "/v1/agent";
    const char *rest = http_path_behind(ex, "id"); /* "/exec?a=b" */
    struct api_caller caller;
    const struct pool_box *box;
    struct box_proxy_to to;
    AUTO_FREE char *target = NULL;
    size_t size;

    (void) api_identify(ex, &caller); /* the guard has let it in */
    box = api_find_leased(ex, &caller);
    if (box == NULL || api_wake(ex, box, api_call))
        return;
    to_box(api_of(ex), box, &caller, &to);
    front_note_deed(api_of(ex)->engine, ex, box->id, rest + 1);
    if (is_aio(api_of(ex), box)) {
        to.rest = rest;
        pass(ex, &to, &caller, box_aio_pass);
        return;
    }
    size = sizeof(agent) + strlen(rest);
    target = xcalloc(1, size);
    (void) snprintf(target, size, "%s%s", agent, rest);
    to.rest = target;
    pass(ex, &to, &caller, box_proxy_pass);
}

/* --- ports --- */

/* "http://host:port" and no path: behind a proxy of somebody else's there is no way to a port. */
static bool has_ports(const char *url)
{
    static const char scheme[] = "http://";
    size_t len = strlen(scheme);

    return strncmp(url, scheme, len) == 0 && url[len + strcspn(url + len, "/")] == '\0';
}

/* "/part/more" gives "/more", "/part?query" gives "?query". */
static const char *behind_part(const char *path)
{
    return path + 1 + strcspn(path + 1, "/?");
}

void api_call_port(struct http_exchange *ex)
{
    const char *target = http_target(ex);
    const char *rest = http_path_behind(ex, "id"); /* "/ports/8000/path?query" */
    struct api_caller caller;
    const struct pool_box *box;
    struct box_proxy_to to;
    bool is_other;
    AUTO_FREE char *prefix = NULL;
    uint64_t port;

    (void) api_identify(ex, &caller); /* the guard has let it in */
    box = api_find_leased(ex, &caller);
    if (box == NULL)
        return;
    if (!str_parse_u64(http_path_param(ex, "port"), 1, UINT16_MAX, &port)) {
        http_reply_error(ex, SP_INVALID_FIELD, "a port is a number from 1 to 65535", 0);
        return;
    }
    is_other = is_aio(api_of(ex), box);
    if (!is_other && !has_ports(box->url)) {
        http_reply_error(ex, SP_UNSUPPORTED,
                         "ports of this sandbox cannot be reached: its address is that of a proxy",
                         0);
        return;
    }
    if (api_wake(ex, box, api_call_port))
        return;
    to_box(api_of(ex), box, &caller, &to);
    front_note_deed(api_of(ex)->engine, ex, box->id, "port");
    to.port = (uint16_t) port;
    to.rest = behind_part(behind_part(rest));
    to.want_tcp = *to.rest == '\0'; /* the port itself, not a path of a server there */
    prefix = xstrdup(target);
    prefix[to.rest - target] = '\0';
    to.prefix = prefix;
    pass(ex, &to, &caller, is_other ? box_aio_pass_port : box_proxy_pass);
}

/* --- what goes wrong on the way --- */

static void refuse(struct http_exchange *ex, int status, uint64_t retry_after_ms, const char *text)
{
    static const struct {
        int status;
        int code;
    } codes[] = {{400, SP_BAD_REQUEST}, {405, SP_METHOD_NOT_ALLOWED}, {429, SP_TOO_MANY_CALLS},
                 {501, SP_UNSUPPORTED}, {503, SP_DRAINING},           {504, SP_TIMEOUT}};
    int code = SP_BACKEND_FAILED;

    for (size_t i = 0; i < ARRAY_LEN(codes); i++)
        if (codes[i].status == status)
            code = codes[i].code;
    http_reply_error(ex, code, text, retry_after_ms);
}

static void refuse_port(struct http_exchange *ex, uint16_t port, int status)
{
    char text[160];

    (void) snprintf(text, sizeof(text), "nothing listens on port %u of the sandbox",
                    (unsigned) port);
    if (status == 502)
        http_reply_error(ex, SP_PORT_CLOSED, text, 0);
    else if (status == 429 || status == 503)
        http_reply_error(ex, SP_TOO_MANY_CALLS, "the sandbox has too many port connections", 1000);
    else
        http_reply_error(ex, SP_UNSUPPORTED, "the agent of this sandbox cannot reach ports", 0);
}

void api_refuse_loss(struct http_exchange *ex, int code, const char *reason)
{
    char text[320];

    if (code == SP_SANDBOX_LOST)
        (void) snprintf(text, sizeof(text),
                        "the sandbox is gone: %s; acquire again to get a new one", reason);
    else if (code == SP_TRANSPORT_LOST)
        (void) snprintf(text, sizeof(text),
                        "the connection to the sandbox broke: %s; what was started in it may "
                        "still run",
                        reason);
    else
        (void) snprintf(text, sizeof(text), "%s: %s", sp_error_info(code)->text, reason);
    http_reply_error(ex, code, text, 0);
}

/* --- life --- */

static void on_use(void *ctx, uint64_t box, int delta)
{
    const struct api *api = ctx;

    front_on_use(api->engine, box, delta);
}

static void on_box_end(void *ctx, struct box_id box, int code, const char *why)
{
    const struct api *api = ctx;

    if (api->calls != NULL) /* they are closed before the engine */
        box_proxy_cut(api->calls, box.v, code, why);
    if (api->proxy != NULL)
        box_proxy_cut(api->proxy, box.v, code, why);
}

int api_open_calls(struct api *api, struct loop *l, struct err *err)
{
    struct box_proxy_config config = {.loop = l,
                                      .connections = api->max_calls,
                                      .ctx = api,
                                      .on_use = on_use,
                                      .refuse = refuse,
                                      .refuse_port = refuse_port,
                                      .ask_loss = api_ask_loss,
                                      .drop_loss = api_drop_loss,
                                      .refuse_loss = api_refuse_loss};

    api->watcher = (struct engine_watcher){.ctx = api, .on_end = on_box_end};
    engine_watch_ends(api->engine, &api->watcher);
    return box_proxy_new(&config, &api->calls, err);
}
