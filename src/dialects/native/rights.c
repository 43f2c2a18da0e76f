/* rights.c - rights can be taken away: by a reload, or because a token was revoked or has expired. Calls that its caller has under
 * way and could not begin now are ended. Who loses something is found by comparing the two configurations, so that the
 * calls of all others are not looked at. */
#include <string.h>

#include "dialects/native/internal.h"

enum { LOSERS_MAX = 16 * 1024 * 1024 }; /* bytes: more than a configuration file can name */

static const char why[] =
    "the configuration was changed or a token has ended, which takes the right to this call away";

static bool may_call(void *ctx, struct http_exchange *ex, uint64_t box)
{
    (void) ctx;
    return api_may_call(ex, box);
}

static bool may_pass(void *ctx, struct http_exchange *ex, uint64_t box)
{
    (void) ctx;
    (void) box;
    return api_may_pass(ex);
}

void api_note_losers(struct api *api, const struct config *next)
{
    buf_fini(&api->losers);
    buf_init(&api->losers, LOSERS_MAX);
    front_put_losers(engine_config(api->engine), next, &api->losers);
}

void api_check_caller(struct api *api, uint64_t principal)
{
    if (api->calls != NULL) /* else nobody could call yet */
        box_proxy_cut_caller(api->calls, principal, may_call, NULL, SP_FORBIDDEN, why);
    if (api->proxy != NULL)
        box_proxy_cut_caller(api->proxy, principal, may_pass, NULL, SP_FORBIDDEN, why);
}

void api_check_calls(struct api *api, void (*on_loser)(void *ctx, uint64_t principal), void *ctx)
{
    uint64_t principal;

    for (size_t at = 0; at < api->losers.len; at += sizeof(principal)) {
        memcpy(&principal, api->losers.data + at, sizeof(principal));
        api_check_caller(api, principal);
        on_loser(ctx, principal);
    }
    buf_fini(&api->losers);
}
