/* provisioner.c - life of the listener, its routes, who may call, and the form of errors. */
#include "dialects/provisioner/provisioner.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hide.h"
#include "base/mem.h"
#include "base/str.h"
#include "dialects/provisioner/internal.h"
#include "front/pass.h"
#include "front/principal.h"

enum { KEY_MIN = 16, DETAIL_MAX = 512 };

static const char *const json_type = "application/json";

/* --- errors --- */

static void put_detail(struct buf *out, const char *text)
{
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "detail", text);
    json_end(&o);
    json_out_finish(&o, out);
}

/* Callers of this dialect are no operators. */
static void put_message(struct http_exchange *ex UNUSED, int code, const char *message,
                        struct buf *out)
{
    if (hide_is_due(code))
        hide_paths(out, message, strlen(message));
    else
        buf_puts(out, message);
}

/* Errors of the server itself. */
static const char *put_error(struct buf *out, int code, const char *message)
{
    if (code == SP_UNAUTHORIZED) {
        buf_puts(out, "Unauthorized");
        return "text/plain; charset=utf-8";
    }
    if (code == SP_NO_ROUTE)
        message = "Not Found";
    else if (code == SP_METHOD_NOT_ALLOWED)
        message = "Method Not Allowed";
    put_detail(out, message);
    return json_type;
}

void provisioner_refuse(struct http_exchange *ex, int status, uint64_t retry_after_ms,
                        const char *fmt, ...)
{
    char text[DETAIL_MAX];
    char seconds[24];
    struct buf shown;
    struct buf out;
    va_list args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (retry_after_ms > 0) {
        (void) snprintf(seconds, sizeof(seconds), "%llu",
                        (unsigned long long) ((retry_after_ms + 999) / 1000));
        http_add_header(ex, "Retry-After", seconds);
    }
    buf_init(&out, 8 * DETAIL_MAX);
    buf_init(&shown, 2 * DETAIL_MAX);
    if (status >= 500)
        hide_paths(&shown, text, strlen(text));
    if (status >= 500 &&
        strcmp(buf_str(&shown), text) != 0) /* whoever runs the daemon needs the paths */
        log_warn("provisioner.failed", LF_STR("reason", text));
    put_detail(&out, status >= 500 ? buf_str(&shown) : text);
    buf_fini(&shown);
    http_reply(ex, status, json_type, buf_str(&out), out.len);
    buf_fini(&out);
}

/* --- who may call --- */

bool provisioner_has_key(struct http_exchange *ex)
{
    const struct provisioner *p = provisioner_of(ex);
    const char *given = http_header(ex, "X-API-Key");

    return given != NULL && !str_is_empty(p->key) && str_equal_secret(given, p->key);
}

static int guard(struct http_exchange *ex, const struct http_route *route, struct err *err)
{
    if (provisioner_has_key(ex))
        http_prove(ex); /* many connections without a key cannot push out DeerFlow's */
    else if ((route->flags & HTTP_OPEN) == 0)
        return err_set(err, SP_UNAUTHORIZED, "Unauthorized");
    return SP_OK;
}

int provisioner_read_key(const struct config *c, char ret[PROVISIONER_KEY_MAX + 1], struct err *err)
{
    ret[0] = '\0';
    if (c->provisioner.enabled && !str_is_empty(c->provisioner.api_key_file))
        return config_read_secret("provisioner.api_key_file", c->provisioner.api_key_file, KEY_MIN,
                                  ret, PROVISIONER_KEY_MAX + 1, err);
    if (c->provisioner.enabled)
        str_copy_cut(ret, PROVISIONER_KEY_MAX + 1, c->provisioner.api_key);
    return SP_OK;
}

/* --- routes --- */

static void handle_health(struct http_exchange *ex)
{
    static const char body[] = "{\"status\":\"ok\"}";

    http_reply(ex, 200, json_type, body, sizeof(body) - 1);
}

/* Those images are for a tool of DeerFlow that runs in pods only; boxes do not have it. */
static void handle_capabilities(struct http_exchange *ex)
{
    static const char body[] = "{\"lark_cli_init_image\":false,\"lark_cli_broker_image\":false}";

    http_reply(ex, 200, json_type, body, sizeof(body) - 1);
}

static const struct http_route routes[] = {
    {HTTP_METHOD_GET, "/health", handle_health, HTTP_OPEN, 0, "the provisioner answers"},
    {HTTP_METHOD_GET, "/api/capabilities", handle_capabilities, 0, 0, "what pods can have"},
    {HTTP_METHOD_POST, "/api/sandboxes", provisioner_create, 0, 0, "make a sandbox"},
    {HTTP_METHOD_GET, "/api/sandboxes", provisioner_list, 0, 0, "all sandboxes"},
    {HTTP_METHOD_GET, "/api/sandboxes/{id}", provisioner_get, 0, 0, "one sandbox"},
    {HTTP_METHOD_DELETE, "/api/sandboxes/{id}", provisioner_delete, 0, 0, "destroy a sandbox"},
    {HTTP_METHOD_GET, "/api/sandboxes/{id}/presence", provisioner_presence, 0, 0,
     "whether it exists, and which one"},
    {HTTP_METHOD_GET, "/s/*", provisioner_pass, HTTP_STREAM | HTTP_ANY | HTTP_OPEN, 0,
     "to a sandbox and back"},
    {.pattern = NULL},
};

/* --- life --- */

static void on_use(void *ctx, uint64_t box, int delta)
{
    const struct provisioner *p = ctx;

    front_on_use(p->engine, box, delta);
}

static void refuse_text(struct http_exchange *ex, int status, uint64_t retry_after_ms,
                        const char *text)
{
    provisioner_refuse(ex, status, retry_after_ms, "%s", text);
}

static void refuse_loss(struct http_exchange *ex, int code, const char *reason)
{
    const struct sp_error_info *info = sp_error_info(code);

    provisioner_refuse(ex, info->http_status, 0, "%s: %s", info->text, reason);
}

static void on_box_end(void *ctx, struct box_id box, int code, const char *why)
{
    const struct provisioner *p = ctx;

    if (p->proxy != NULL) /* it may be taken before the engine is closed */
        box_proxy_cut(p->proxy, box.v, code, why);
}

static bool may_go_on(void *ctx, struct http_exchange *ex, uint64_t box)
{
    (void) ctx;
    (void) box;
    return provisioner_may_pass(ex);
}

int provisioner_new(struct loop *l, struct engine *e, const struct http_limits *limits,
                    unsigned max_requests, struct provisioner **ret,
                    struct http_server **ret_server, struct err *err)
{
    const struct config *c = engine_config(e);
    struct box_proxy_config to_boxes = {.loop = l,
                                        .connections = max_requests,
                                        .on_use = on_use,
                                        .refuse = refuse_text,
                                        .refuse_loss = refuse_loss};
    struct http_server_config sc = {.routes = routes,
                                    .guard = guard,
                                    .wants_proof = true,
                                    .keeps_requests = true,
                                    .put_message = put_message,
                                    .put_error = put_error};
    struct provisioner *p = xcalloc(1, sizeof(*p));
    int r;

    to_boxes.ctx = p;
    list_init(&p->holds);
    list_init(&p->callers);
    p->loop = l;
    p->engine = e;
    p->max_requests = max_requests;
    /* The names of tokens have no colon, so that none of them has the same hash. */
    p->principal = front_principal(FRONT_PROVISIONER);
    r = provisioner_read_key(c, p->key, err);
    if (r == SP_OK)
        r = box_proxy_new(&to_boxes, &p->proxy, err);
    if (r != SP_OK) {
        free(p);
        return r;
    }
    if (str_is_empty(p->key))
        log_warn("provisioner.no_api_key", LF_STR("effect", "every call is refused"));
    map_init(&p->creates, 256);
    p->watcher = (struct engine_watcher){.ctx = p, .on_end = on_box_end};
    engine_watch_ends(e, &p->watcher);
    sc.ctx = p;
    sc.limits = *limits;
    p->server = http_server_new(l, &sc);
    *ret = p;
    *ret_server = p->server;
    return SP_OK;
}

uint64_t provisioner_principal(const struct provisioner *p)
{
    return p->principal;
}

bool provisioner_set(struct provisioner *p, const struct http_limits *limits, unsigned max_requests,
                     const char *key)
{
    bool is_new_key = strcmp(p->key, key) != 0;

    http_server_set_limits(p->server, limits);
    p->max_requests = max_requests;
    if (is_new_key) {
        str_copy_cut(p->key, sizeof(p->key), key);
        box_proxy_cut_caller(p->proxy, p->principal, may_go_on, NULL, SP_UNAUTHORIZED,
                             "the key was changed");
    }
    provisioner_check_creates(p);
    return is_new_key;
}

static void on_proxy_closed(void *ctx)
{
    struct provisioner *p = ctx;
    void (*on_closed)(void *) = p->on_closed;
    void *closed_ctx = p->closed_ctx;

    map_fini(&p->creates);
    free(p);
    on_closed(closed_ctx);
}

struct box_proxy *provisioner_take_proxy(struct provisioner *p)
{
    return TAKE_PTR(p->proxy);
}

void provisioner_close(struct provisioner *p, void (*on_closed)(void *ctx), void *ctx)
{
    provisioner_end_holds(p);
    engine_unwatch_ends(p->engine, &p->watcher);
    p->on_closed = on_closed;
    p->closed_ctx = ctx;
    if (p->proxy == NULL) {
        on_proxy_closed(p);
        return;
    }
    box_proxy_close(p->proxy, on_proxy_closed, p); /* what still runs ends first */
}
