/* principal.c - from a uid or a token to the principal of the pool. */
#include "front/principal.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/map.h"
#include "base/str.h"
#include "box/proxy_head.h"

enum { TOKEN_MAX = 512 };

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

/* Of tcp.tokens; NULL: of none. */
static const char *configured_name(const struct config *c, uint64_t principal)
{
    for (unsigned i = 0; i < c->tcp.tokens.count; i++)
        if (front_principal(c->tcp.tokens.pairs[i].key) == principal)
            return c->tcp.tokens.pairs[i].key;
    return NULL;
}

void front_name_principal(const struct engine *e, uint64_t principal, char *dst, size_t cap)
{
    const char *name;

    if (principal >> 63 == 0) {
        (void) snprintf(dst, cap, "uid %llu", (unsigned long long) principal);
        return;
    }
    name = engine_token_name(e, principal);
    if (name == NULL)
        name = configured_name(engine_config(e), principal);
    if (name != NULL)
        (void) snprintf(dst, cap, "token %.64s", name);
    else
        str_copy_cut(dst, cap,
                     principal == front_principal(FRONT_PROVISIONER) ? "the provisioner"
                                                                     : "a token that is gone");
}

static const struct {
    const char *name;
    unsigned bit;
} scopes_known[] = {
    {"read", ENGINE_SCOPE_READ}, {"use", ENGINE_SCOPE_USE}, {"operate", ENGINE_SCOPE_OPERATE}};

unsigned front_scope(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(scopes_known); i++)
        if (strcmp(scopes_known[i].name, name) == 0)
            return scopes_known[i].bit;
    return 0;
}

void front_name_scopes(unsigned scopes, char ret[FRONT_SCOPES_MAX])
{
    size_t len = 0;

    ret[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(scopes_known); i++)
        if ((scopes & scopes_known[i].bit) != 0)
            len += (size_t) snprintf(ret + len, FRONT_SCOPES_MAX - len, "%s%s", len > 0 ? ", " : "",
                                     scopes_known[i].name);
}

const char *front_bearer(const struct http_exchange *ex)
{
    static const char scheme[] = "Bearer ";
    const char *header = http_header(ex, "Authorization");

    if (header == NULL || strncasecmp(header, scheme, strlen(scheme)) != 0)
        return NULL;
    return header + strlen(scheme);
}

/* Of a WebSocket of a browser, which can have no header of its own: a subprotocol, in base64. Boxes never get it. */
static bool take_protocol_token(const struct http_exchange *ex, struct buf *ret)
{
    const char *upgrade = http_upgrade_wanted(ex);
    const char *list = http_header(ex, "Sec-WebSocket-Protocol");
    const char *at;

    if (upgrade == NULL || strcasecmp(upgrade, "websocket") != 0 || list == NULL)
        return false;
    at = strstr(list, PROXY_TOKEN_PROTOCOL);
    if (at == NULL || (at > list && at[-1] != ' ' && at[-1] != ','))
        return false;
    at += strlen(PROXY_TOKEN_PROTOCOL);
    return base64_decode(at, strcspn(at, ", \t"), ret) && ret->len > 0 &&
           memchr(ret->data, '\0', ret->len) == NULL;
}

static void set_rights(struct front_caller *ret, uint64_t principal, bool is_operator)
{
    ret->principal = principal;
    ret->is_operator = is_operator;
    ret->scopes = is_operator ? ENGINE_SCOPE_USE | ENGINE_SCOPE_OPERATE : ENGINE_SCOPE_USE;
    ret->has_bounds = false;
}

void front_identify_uid(const struct config *c, uint32_t uid, struct front_caller *ret)
{
    char text[16];

    (void) snprintf(text, sizeof(text), "%u", uid);
    set_rights(ret, uid, uid == 0 || uid == geteuid() || list_has(c->operator_uids, text));
}

static void take_token(const struct engine_token *t, struct front_caller *ret)
{
    ret->principal = t->principal;
    ret->scopes = t->scopes;
    ret->is_operator = (t->scopes & ENGINE_SCOPE_OPERATE) != 0;
    ret->has_bounds = t->has_bounds;
    if (t->has_bounds)
        ret->bounds = t->bounds;
}

/* Every token of the configuration is compared, so that the time taken does not show which one was near. */
bool front_identify_token(struct engine *e, const char *token, struct front_caller *ret)
{
    const struct config *c = engine_config(e);
    const struct config_pair *found = NULL;
    const struct engine_token *made;

    for (unsigned i = 0; i < c->tcp.tokens.count; i++)
        if (str_equal_secret(c->tcp.tokens.pairs[i].value, token))
            found = &c->tcp.tokens.pairs[i];
    if (found != NULL) {
        set_rights(ret, front_principal(found->key), list_has(c->tcp.operators, found->key));
        return true;
    }
    made = engine_token_find(e, token);
    if (made != NULL)
        take_token(made, ret);
    return made != NULL;
}

static bool identify_protocol(const struct http_exchange *ex, struct engine *e,
                              struct front_caller *ret)
{
    struct buf text;
    bool is_known;

    buf_init(&text, TOKEN_MAX);
    is_known = buf_reserve(&text, TOKEN_MAX) && take_protocol_token(ex, &text) &&
               front_identify_token(e, buf_str(&text), ret);
    if (text.data != NULL)
        explicit_bzero(text.data, text.cap);
    buf_fini(&text);
    return is_known;
}

static bool identify_certificate(const char *name, struct engine *e, struct front_caller *ret)
{
    if (str_is_empty(name))
        return false;
    set_rights(ret, front_principal(name), list_has(engine_config(e)->tcp.operators, name));
    ret->is_ambient = true;
    engine_note_name(e, ret->principal, name);
    return true;
}

bool front_identify(const struct http_exchange *ex, struct engine *e, struct front_caller *ret)
{
    const struct http_peer *peer = http_peer(ex);
    const char *token;

    ret->is_ambient = !peer->is_tcp;
    if (!peer->is_tcp) {
        front_identify_uid(engine_config(e), peer->uid, ret);
        return true;
    }
    token = front_bearer(ex);
    if (token != NULL)
        return front_identify_token(e, token, ret);
    return identify_protocol(ex, e, ret) || identify_certificate(peer->name, e, ret);
}

/* --- a new configuration --- */

static void put(struct buf *out, uint64_t principal)
{
    buf_append(out, (const char *) &principal, sizeof(principal));
}

/* Where the name stands; at `hint` in a file to which nothing was added. */
static const struct config_pair *find_token(const struct config *c, const char *name, unsigned hint)
{
    const struct config_map *tokens = &c->tcp.tokens;

    if (hint < tokens->count && strcmp(tokens->pairs[hint].key, name) == 0)
        return &tokens->pairs[hint];
    for (unsigned i = 0; i < tokens->count; i++)
        if (strcmp(tokens->pairs[i].key, name) == 0)
            return &tokens->pairs[i];
    return NULL;
}

static void put_lost_tokens(const struct config *was, const struct config *now, struct buf *out)
{
    unsigned hint = 0;

    for (unsigned i = 0; i < was->tcp.tokens.count; i++) {
        const struct config_pair *old = &was->tcp.tokens.pairs[i];
        const struct config_pair *found = find_token(now, old->key, hint);

        if (found != NULL)
            hint = (unsigned) (found - now->tcp.tokens.pairs) + 1;
        if (found == NULL || !str_equal_secret(found->value, old->value) ||
            (list_has(was->tcp.operators, old->key) && !list_has(now->tcp.operators, old->key)))
            put(out, front_principal(old->key));
    }
}

/* The next word of a comma separated list; false at its end. A word that does not fit is "". */
static bool next_word(const char **list, char *dst, size_t cap)
{
    size_t len;

    *list += strspn(*list, ", ");
    len = strcspn(*list, ", ");
    if (!str_copy_n(dst, cap, *list, len))
        dst[0] = '\0';
    *list += len;
    return len > 0;
}

/* Operators by the name of their certificate: those that have no token in the configuration. */
static void put_lost_names(const struct config *was, const struct config *now, struct buf *out)
{
    const char *list = was->tcp.operators;
    char name[CONFIG_NAME_MAX + 1];

    while (next_word(&list, name, sizeof(name)))
        if (find_token(was, name, 0) == NULL && !list_has(now->tcp.operators, name))
            put(out, front_principal(name));
}

static void put_lost_uids(const struct config *was, const struct config *now, struct buf *out)
{
    const char *list = was->operator_uids;
    char text[16];

    while (next_word(&list, text, sizeof(text))) {
        struct front_caller caller;
        uint64_t uid;

        if (!str_parse_u64(text, 0, UINT32_MAX, &uid))
            continue;
        front_identify_uid(now, (uint32_t) uid, &caller);
        if (!caller.is_operator)
            put(out, caller.principal);
    }
}

void front_put_losers(const struct config *was, const struct config *now, struct buf *out)
{
    put_lost_tokens(was, now, out);
    put_lost_names(was, now, out);
    put_lost_uids(was, now, out);
}
