/* principal.c - from a uid or a token to the principal of the pool. */
#include "front/principal.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/map.h"
#include "base/str.h"

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

uint64_t front_principal(const char *name)
{
    return hash_str(name) | 1ULL << 63;
}

const char *front_bearer(const struct http_exchange *ex)
{
    static const char scheme[] = "Bearer ";
    const char *header = http_header(ex, "Authorization");

    if (header == NULL || strncasecmp(header, scheme, strlen(scheme)) != 0)
        return NULL;
    return header + strlen(scheme);
}

void front_identify_uid(const struct config *c, uint32_t uid, struct front_caller *ret)
{
    char text[16];

    (void) snprintf(text, sizeof(text), "%u", uid);
    ret->principal = uid;
    ret->is_operator = uid == 0 || uid == geteuid() || list_has(c->operator_uids, text);
}

/* Every token is compared, so that the time taken does not show which one was near. */
static bool identify_token(const struct config *c, const char *token, struct front_caller *ret)
{
    const struct config_pair *found = NULL;

    if (token == NULL)
        return false;
    for (unsigned i = 0; i < c->tcp.tokens.count; i++)
        if (str_equal_secret(c->tcp.tokens.pairs[i].value, token))
            found = &c->tcp.tokens.pairs[i];
    if (found == NULL)
        return false;
    ret->principal = front_principal(found->key);
    ret->is_operator = list_has(c->tcp.operators, found->key);
    return true;
}

bool front_identify(const struct http_exchange *ex, const struct config *c,
                    struct front_caller *ret)
{
    const struct http_peer *peer = http_peer(ex);

    if (peer->is_tcp)
        return identify_token(c, front_bearer(ex), ret);
    front_identify_uid(c, peer->uid, ret);
    return true;
}
