/* validate_access.c - who may call, and where: the sockets, tokens and operators. */
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/str.h"
#include "config/validate.h"

static bool is_uid(const struct config *c UNUSED, const char *word)
{
    uint64_t uid;

    return str_parse_u64(word, 0, UINT32_MAX - 1, &uid);
}

static bool is_token_name(const struct config *c, const char *word)
{
    for (unsigned i = 0; i < c->tcp.tokens.count; i++) {
        if (strcmp(c->tcp.tokens.pairs[i].key, word) == 0)
            return true;
    }
    return false;
}

static void check_tokens(const struct check *k)
{
    const struct config_map *tokens = &k->c->tcp.tokens;
    char path[CONFIG_NAME_MAX * 2];

    for (unsigned i = 0; i < tokens->count; i++) {
        const struct config_pair *t = &tokens->pairs[i];

        (void) snprintf(path, sizeof(path), "tcp.tokens.%.64s", t->key);
        if (!str_is_name(t->key, CONFIG_NAME_MAX, "_-"))
            check_complain(k, NULL, path,
                           "cannot be a caller's name: use letters, digits, _ and -");
        if (!form_is_printable(t->value))
            check_complain(k, NULL, path, "may only have printable characters without spaces");
        for (unsigned j = 0; j < i; j++) {
            if (strcmp(tokens->pairs[j].value, t->value) == 0)
                check_complain(k, NULL, path, "is the same token as another caller's");
        }
    }
}

void check_access(const struct check *k)
{
    const struct config *c = k->c;
    char bad[40];
    char text[CONFIG_WHY_MAX];

    if (strlen(c->socket.path) >= sizeof(((struct sockaddr_un *) NULL)->sun_path))
        check_complain(k, NULL, "socket.path", "is longer than the 107 bytes a socket may have");
    if (!str_is_empty(c->tcp.listen)) {
        if (!form_is_address(c->tcp.listen))
            check_complain(k, NULL, "tcp.listen",
                           "must be an address and a port like 127.0.0.1:8001 or [::1]:8001");
    }
    check_tokens(k);
    if (!str_is_empty(c->tcp.public_url) && !config_is_url(c->tcp.public_url))
        check_complain(k, NULL, "tcp.public_url", "must be like https://pool.example.com");
    if (str_is_empty(c->tls.client_ca) && /* else it may be that of a certificate */
        !check_each_word(c->tcp.operators, is_token_name, c, bad, sizeof(bad))) {
        (void) snprintf(text, sizeof(text), "names '%s', which is not among tcp.tokens", bad);
        check_complain(k, NULL, "tcp.operators", text);
    }
    if (str_is_empty(c->tls.cert) != str_is_empty(c->tls.key))
        check_complain(k, NULL, str_is_empty(c->tls.key) ? "tls.cert" : "tls.key",
                       "needs the other one: a certificate and its key go together");
    if (c->tls.client_required && str_is_empty(c->tls.client_ca))
        check_complain(k, NULL, "tls.client_required", "needs tls.client_ca");
    if (!check_each_word(c->operator_uids, is_uid, c, bad, sizeof(bad))) {
        (void) snprintf(text, sizeof(text), "must be numeric user ids, not '%s'", bad);
        check_complain(k, NULL, "operator_uids", text);
    }
    if (!str_is_empty(c->instance) && !str_is_name(c->instance, CONFIG_NAME_MAX, "._-"))
        check_complain(k, NULL, "instance", "may have letters, digits and . _ -");
    if (!str_is_empty(c->socket.group) && !str_is_name(c->socket.group, CONFIG_NAME_MAX, "._-"))
        check_complain(k, NULL, "socket.group", "may have letters, digits and . _ -");
}
