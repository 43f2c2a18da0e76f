/* access.c - who is calling and what they may do. On the Unix socket the file's mode and group
 * let a caller in and its uid names it; on TCP a bearer token does both. Operators (root, the
 * daemon's own uid, and those the configuration names) may act on every box; others only on
 * boxes they acquired. Nobody but its owner is shown a box's token. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/str.h"
#include "dialects/native/internal.h"

/* Whether `word` stands in a comma separated list. */
static bool list_has(const char *list, const char *word)
{
    size_t len = strlen(word);

    while (*list != '\0') {
        size_t n;

        list += strspn(list, ", ");
        n = strcspn(list, ", ");
        if (n == len && n > 0 && memcmp(list, word, n) == 0)
            return true;
        list += n;
    }
    return false;
}

static bool identify_uid(const struct config *c, uint32_t uid, struct api_caller *ret)
{
    char text[16];

    (void) snprintf(text, sizeof(text), "%u", uid);
    ret->principal = uid;
    ret->base[0] = '\0';
    ret->is_operator = uid == 0 || uid == geteuid() || list_has(c->operator_uids, text);
    return true;
}

/* Every token is compared, so that the time taken does not tell which one was near. */
static bool identify_token(const struct config *c, const char *header, struct api_caller *ret)
{
    static const char scheme[] = "Bearer ";
    const struct config_pair *found = NULL;

    if (header == NULL || strncasecmp(header, scheme, strlen(scheme)) != 0)
        return false;
    for (unsigned i = 0; i < c->tcp.tokens.count; i++)
        if (str_equal_secret(c->tcp.tokens.pairs[i].value, header + strlen(scheme)))
            found = &c->tcp.tokens.pairs[i];
    if (found == NULL)
        return false;
    ret->principal = hash_str(found->key) | 1ULL << 63;
    ret->is_operator = list_has(c->tcp.operators, found->key);
    return true;
}

bool api_identify(struct http_exchange *ex, struct api_caller *ret)
{
    const struct config *c = engine_config(api_of(ex)->engine);
    const struct http_peer *peer = http_peer(ex);

    if (peer->is_tcp) {
        api_set_base(ex, ret);
        return identify_token(c, http_header(ex, "Authorization"), ret);
    }
    return identify_uid(c, peer->uid, ret);
}

bool api_is_operator(void *ctx, const struct http_peer *peer)
{
    const struct api *api = ctx;
    struct api_caller caller;

    return identify_uid(engine_config(api->engine), peer->uid, &caller) && caller.is_operator;
}

/* On TCP: its connections are its own from here on, and no longer a stranger's. */
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
