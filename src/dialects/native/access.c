/* access.c - who is calling and what they may do. On the Unix socket the file's mode and group
 * decide who can connect, and the uid identifies the caller; on TCP a bearer token does both.
 * Operators (root, the daemon's own uid, and those named in the configuration) may act on every
 * box; others only on boxes they acquired. A box's token is shown only to its owner. */
#include "dialects/native/internal.h"
#include "front/browser.h"
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
    bool is_relayed = (route->flags & HTTP_ANY) != 0;

    if (is_known)
        prove(ex, &caller);
    if (!http_peer(ex)->is_tcp && ((route->flags & HTTP_OPEN) == 0 || is_relayed) &&
        front_check_browser(ex, engine_config(api_of(ex)->engine), is_relayed, err) != SP_OK)
        return err->code;
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
