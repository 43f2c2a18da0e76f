/* pass.c - /s/{sandbox_id}/...: boxes for callers that cannot reach them directly. A caller on TCP
 * gets a URL below the daemon's own; requests to it are passed on with the box's token. The URL
 * contains a capability that is shown only to the owner; without it the caller needs its own
 * token. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "dialects/native/internal.h"
#include "front/deed.h"
#include "front/pass.h"

void api_set_base(struct http_exchange *ex, struct api_caller *caller)
{
    const struct config *c = engine_config(api_of(ex)->engine);
    char host[160];
    size_t len;

    str_copy_cut(caller->base, sizeof(caller->base), c->tcp.public_url);
    for (len = strlen(caller->base); len > 0 && caller->base[len - 1] == '/'; len--)
        caller->base[len - 1] = '\0';
    if (len > 0)
        return;
    box_host("", http_header(ex, "Host"), c->tcp.listen, host, sizeof(host));
    (void) snprintf(caller->base, sizeof(caller->base), "%s://%s",
                    http_peer(ex)->is_secure ? "https" : "http", host);
}

void api_box_url(const struct api_caller *caller, const struct pool_box *box,
                 char ret[2 * BOX_ADDRESS_MAX])
{
    char capability[BOX_CAPABILITY_LEN + 1];

    if (str_is_empty(caller->base) || str_is_empty(box->url)) {
        str_copy_cut(ret, 2 * BOX_ADDRESS_MAX, box->url);
        return;
    }
    box_capability(box->sandbox_id, box->token, capability);
    if (api_may_use(caller, box) && !str_is_empty(box->token))
        (void) snprintf(ret, 2 * BOX_ADDRESS_MAX, "%s/s/%s/%s", caller->base, box->sandbox_id,
                        capability);
    else
        (void) snprintf(ret, 2 * BOX_ADDRESS_MAX, "%s/s/%s", caller->base, box->sandbox_id);
}

static const struct pool_box *find(void *ctx, const char *sandbox_id)
{
    const struct api *api = ctx;
    const struct pool_box *box = pool_find_sandbox(engine_pool(api->engine), sandbox_id);

    return box != NULL && pool_is_shown(box) && box->state == POOL_LEASED ? box : NULL;
}

static bool is_owner(void *ctx, struct http_exchange *ex, const struct pool_box *box)
{
    struct api_caller caller;

    return api_identify(ex, &caller) && api_may_use(&caller, box) &&
           api_covers_box(ctx, &caller, box);
}

static void prove(struct http_exchange *ex, const struct pool_box *box)
{
    http_prove_as(ex, box->principal);
}

void api_pass(struct http_exchange *ex)
{
    struct api *api = api_of(ex);
    const struct config *c = engine_config(api->engine);
    struct front_door door = {
        .ctx = api, .engine = api->engine, .find = find, .is_known = is_owner, .prove = prove};
    struct box_proxy_limits limits = {.requests = api->max_requests,
                                      .requests_per_box = c->tcp.max_requests_per_box,
                                      .share_percent = (unsigned) c->http.share_percent,
                                      .idle_ns = c->tcp.request_idle_s * NS_PER_S};
    struct box_proxy_to to;
    const struct pool_box *box = front_admit(ex, &door, &to);

    if (box == NULL || api->proxy == NULL)
        http_reply_error(ex, SP_NOT_FOUND, "no such sandbox, or not yours", 0);
    else if (!api_wake(ex, box, api_pass)) {
        front_note_deed(api->engine, ex, box->id, "proxy");
        box_proxy_pass(api->proxy, ex, &limits, &to);
    }
}

bool api_may_pass(struct http_exchange *ex)
{
    struct front_door door = {
        .ctx = api_of(ex), .engine = api_of(ex)->engine, .find = find, .is_known = is_owner};
    struct box_proxy_to to;

    return front_admit(ex, &door, &to) != NULL;
}

/* --- life --- */

static void on_use(void *ctx, uint64_t box, int delta)
{
    const struct api *api = ctx;

    front_on_use(api->engine, box, delta);
}

static void refuse(struct http_exchange *ex, int status, uint64_t retry_after_ms, const char *text)
{
    static const struct {
        int status;
        int code;
    } codes[] = {{400, SP_BAD_REQUEST}, {405, SP_METHOD_NOT_ALLOWED},   {429, SP_QUEUE_FULL},
                 {501, SP_UNSUPPORTED}, {503, SP_TOO_MANY_CONNECTIONS}, {504, SP_TIMEOUT}};
    int code = SP_BACKEND_FAILED;

    for (size_t i = 0; i < ARRAY_LEN(codes); i++)
        if (codes[i].status == status)
            code = codes[i].code;
    http_reply_error(ex, code, text, retry_after_ms);
}

int api_open_proxy(struct api *api, struct loop *l, struct err *err)
{
    struct box_proxy_config config = {.loop = l,
                                      .connections = api->max_requests,
                                      .ctx = api,
                                      .on_use = on_use,
                                      .refuse = refuse,
                                      .refuse_loss = api_refuse_loss};

    return box_proxy_new(&config, &api->proxy, err);
}

struct box_proxy *api_take_proxy(struct api *api)
{
    return api->proxy != NULL ? TAKE_PTR(api->proxy) : TAKE_PTR(api->calls);
}

bool api_close_proxy(struct api *api, void (*on_closed)(void *ctx), void *ctx)
{
    struct box_proxy *proxy = api_take_proxy(api);

    if (proxy == NULL)
        return false;
    box_proxy_close(proxy, on_closed, ctx);
    return true;
}
