/* access.c - who is calling and what they may do. On the Unix socket the file's mode and group
 * decide who can connect, and the uid identifies the caller; on TCP a bearer token does both.
 * Operators (root, the daemon's own uid, those named in the configuration, tokens of scope `operate`) may act on every
 * box; others only on boxes they acquired. A box's token is shown only to its owner.
 *
 * Each route has its scope in the table of routes: HTTP_OPERATOR is `operate`, any other `use`; those with HTTP_LOOK can be called
 * with `read` as well, and show such a caller what operators see. A token that is bound to a user, a profile or a box may call
 * only routes with HTTP_BOUND: whose box is meant is checked here by the id in the path, and by the routes without one themselves. */
#include <string.h>

#include "base/hide.h"
#include "base/str.h"
#include "dialects/native/internal.h"
#include "engine/hibernate.h"
#include "front/browser.h"

bool api_identify(struct http_exchange *ex, struct api_caller *ret)
{
    const struct http_route *route = http_route_of(ex);
    struct front_caller *who = &ret->who;

    ret->base[0] = '\0';
    if (http_peer(ex)->is_tcp)
        api_set_base(ex, ret);
    if (!front_identify(ex, api_of(ex)->engine, who))
        return false;
    ret->principal = who->principal;
    ret->is_operator = who->is_operator || ((who->scopes & ENGINE_SCOPE_READ) != 0 &&
                                            route != NULL && (route->flags & HTTP_LOOK) != 0);
    return true;
}

static bool is_within(const char *bound, const char *name)
{
    return str_is_empty(bound) || strcmp(bound, name) == 0;
}

bool api_covers(const struct api_caller *caller, const char *user, const char *profile,
                const char *sandbox_id)
{
    const struct engine_bounds *b = &caller->who.bounds;

    return !caller->who.has_bounds || (is_within(b->user, user) && is_within(b->profile, profile) &&
                                       is_within(b->sandbox_id, sandbox_id));
}

bool api_covers_box(const struct api *api, const struct api_caller *caller,
                    const struct pool_box *box)
{
    return !caller->who.has_bounds ||
           api_covers(caller, box->user, pool_profile(engine_pool(api->engine), box->profile)->name,
                      box->sandbox_id);
}

bool api_may_use(const struct api_caller *caller, const struct pool_box *box)
{
    return caller->principal == box->principal &&
           (caller->who.scopes & (ENGINE_SCOPE_USE | ENGINE_SCOPE_OPERATE)) != 0;
}

bool api_is_operator(void *ctx, const struct http_peer *peer)
{
    const struct api *api = ctx;
    struct front_caller who;

    front_identify_uid(engine_config(api->engine), peer->uid, &who);
    return who.is_operator;
}

void api_put_message(struct http_exchange *ex, int code, const char *message, struct buf *out)
{
    struct api_caller caller;

    if (hide_is_due(code) && !(api_identify(ex, &caller) && caller.is_operator))
        hide_paths(out, message, strlen(message));
    else
        buf_puts(out, message);
}

void api_put_reason(struct json_out *o, const char *key, const char *text, bool is_operator)
{
    struct buf shown;

    if (text == NULL || is_operator) {
        json_put_str(o, key, text);
        return;
    }
    buf_init(&shown, 2 * ENGINE_TROUBLE_MAX);
    hide_paths(&shown, text, strlen(text));
    json_put_str(o, key, buf_str(&shown));
    buf_fini(&shown);
}

/* On TCP: from here on the connection counts for this caller, and no longer as unauthenticated. */
static void prove(struct http_exchange *ex, const struct api_caller *caller)
{
    if (!http_peer(ex)->is_tcp)
        return;
    if (caller->who.is_operator)
        http_prove(ex);
    else
        http_prove_as(ex, caller->principal);
}

static int check_scope(const struct api_caller *caller, const struct http_route *route,
                       struct err *err)
{
    bool needs_operator = (route->flags & HTTP_OPERATOR) != 0;
    unsigned good = ENGINE_SCOPE_OPERATE | (needs_operator ? 0 : ENGINE_SCOPE_USE) |
                    ((route->flags & HTTP_LOOK) != 0 ? ENGINE_SCOPE_READ : 0);
    char has[FRONT_SCOPES_MAX];

    if ((caller->who.scopes & good) != 0)
        return SP_OK;
    if (caller->who.scopes == ENGINE_SCOPE_USE)
        return err_set(err, SP_FORBIDDEN,
                       "only operators may do that (see operator_uids, and tokens of scope "
                       "operate)");
    front_name_scopes(caller->who.scopes, has);
    return err_set(err, SP_FORBIDDEN, "this token has the scope %s: the call needs %s", has,
                   needs_operator ? "operate" : "use");
}

/* What has this id, if anything has: a box, or a hibernated sandbox. */
static bool covers_id(struct api *api, const struct api_caller *caller, const char *id)
{
    const struct pool *pool = engine_pool(api->engine);
    char sandbox_id[POOL_ID_MAX + 1];
    const struct engine_snapshot *s;
    const struct pool_box *box;
    struct box_id number;

    if (!api_parse_id(id, sandbox_id, &number))
        return true; /* it is refused for that */
    box = number.v != 0 ? pool_find_box(pool, number) : api_find_shown(pool, sandbox_id);
    if (box != NULL)
        return api_covers_box(api, caller, box);
    s = engine_hibernated_find(api->engine, sandbox_id);
    if (s != NULL)
        return api_covers(caller, s->info.user, s->info.profile, sandbox_id);
    return is_within(caller->who.bounds.sandbox_id, sandbox_id);
}

static int check_bounds(struct http_exchange *ex, const struct api_caller *caller,
                        const struct http_route *route, struct err *err)
{
    const char *id = http_path_param(ex, "id");

    if (!caller->who.has_bounds)
        return SP_OK;
    if ((route->flags & HTTP_BOUND) == 0)
        return err_set(err, SP_FORBIDDEN,
                       "this token is bound to a user, a profile or a sandbox: the call goes "
                       "beyond that");
    if (id != NULL && !covers_id(api_of(ex), caller, id))
        return err_set(err, SP_NOT_FOUND, "no such sandbox, or not yours");
    return SP_OK;
}

int api_guard(struct http_exchange *ex, const struct http_route *route, struct err *err)
{
    struct api_caller caller;
    bool is_known = api_identify(ex, &caller);
    bool is_relayed = (route->flags & HTTP_ANY) != 0;
    int r;

    if (is_known)
        prove(ex, &caller);
    if (is_known && caller.who.is_ambient && ((route->flags & HTTP_OPEN) == 0 || is_relayed) &&
        front_check_browser(ex, engine_config(api_of(ex)->engine), is_relayed, err) != SP_OK)
        return err->code;
    if (route->flags & HTTP_OPEN)
        return SP_OK;
    if (!is_known)
        return err_set(err, SP_UNAUTHORIZED,
                       "send 'Authorization: Bearer <token>' with a token of 'sandpool token "
                       "create', or from tcp.tokens");
    r = check_scope(&caller, route, err);
    return r == SP_OK ? check_bounds(ex, &caller, route, err) : r;
}
