/* access.c - who is calling and what they may do. On the Unix socket the file's mode and group
 * decide who can connect, and the uid identifies the caller; on TCP a bearer token does both.
 * Operators (root, the daemon's own uid, and those named in the configuration) may act on every
 * box; others only on boxes they acquired. A box's token is shown only to its owner. */
#include <string.h>

#include "base/hide.h"
#include "dialects/native/internal.h"
#include "front/principal.h"

bool api_identify(struct http_exchange *ex, struct api_caller *ret)
{
    struct front_caller who;

    ret->base[0] = '\0';
    if (http_peer(ex)->is_tcp)
        api_set_base(ex, ret);
    if (!front_identify(ex, engine_config(api_of(ex)->engine), &who))
        return false;
    ret->principal = who.principal;
    ret->is_operator = who.is_operator;
    return true;
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
    if (caller->is_operator)
        http_prove(ex);
    else
        http_prove_as(ex, caller->principal);
}

int api_guard(struct http_exchange *ex, const struct http_route *route, struct err *err)
{
    struct api_caller caller;
    bool is_known = api_identify(ex, &caller);

    if (is_known)
        prove(ex, &caller);
    if (route->flags & HTTP_OPEN)
        return SP_OK;
    if (!is_known)
        return err_set(err, SP_UNAUTHORIZED,
                       "send 'Authorization: Bearer <token>' with a token "
                       "from tcp.tokens");
    if ((route->flags & HTTP_OPERATOR) && !caller.is_operator)
        return err_set(err, SP_FORBIDDEN, "only operators may do that (see operator_uids)");
    return SP_OK;
}
