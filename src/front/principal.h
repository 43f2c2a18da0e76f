/* principal.h - who a caller is to the pool: a uid on the Unix socket; for a token, and for a dialect as a whole, a
 * number made from its name, with the highest bit set so that it is never a uid. */
#ifndef FRONT_PRINCIPAL_H
#define FRONT_PRINCIPAL_H

#include "engine/tokens.h"
#include "http/http.h"

struct front_caller {
    uint64_t principal;
    unsigned scopes; /* ENGINE_SCOPE_* */
    bool
        is_operator; /* ENGINE_SCOPE_OPERATE: root, the daemon's own uid, those the configuration names, tokens with it */
    bool is_ambient; /* not by a token: a browser gives it to requests of other pages as well */
    bool has_bounds;
    struct engine_bounds bounds; /* if it has */
};

/* Of the provisioner dialect as a whole: no token has this name. */
#define FRONT_PROVISIONER ":provisioner"
uint64_t front_principal(const char *name);
/* In words: "uid 1000", "token ci". */
void front_name_principal(const struct engine *e, uint64_t principal, char *dst, size_t cap);
/* The names of scopes as in "read", "use", "operate"; 0: there is none of this name. */
unsigned front_scope(const char *name);
#define FRONT_SCOPES_MAX 32
/* "read, use" */
void front_name_scopes(unsigned scopes, char ret[FRONT_SCOPES_MAX]);
/* The token of "Authorization: Bearer <token>"; NULL: the request has none. */
const char *front_bearer(const struct http_exchange *ex);
void front_identify_uid(const struct config *c, uint32_t uid, struct front_caller *ret);
/* By a token of tcp.tokens, or one that was made. False when it is none that is valid now. */
bool front_identify_token(struct engine *e, const char *token, struct front_caller *ret);
/* By its uid on the Unix socket; on TCP by its token, or if it sends none by the name of its certificate. False when it has neither. */
bool front_identify(const struct http_exchange *ex, struct engine *e, struct front_caller *ret);

/* Appends the principals (uint64_t) that have fewer rights by `now` than by `was`: their token is gone or is another one,
 * or they are no operators any more. */
void front_put_losers(const struct config *was, const struct config *now, struct buf *out);

#endif
