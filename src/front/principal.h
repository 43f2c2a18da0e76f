/* principal.h - who a caller is to the pool: a uid on the Unix socket; for a token, and for a dialect as a whole, a
 * number made from its name, with the highest bit set so that it is never a uid. */
#ifndef FRONT_PRINCIPAL_H
#define FRONT_PRINCIPAL_H

#include "config/config.h"
#include "http/http.h"

struct front_caller {
    uint64_t principal;
    bool is_operator; /* root, the daemon's own uid, and those the configuration names */
};

/* Of the provisioner dialect as a whole: no token has this name. */
#define FRONT_PROVISIONER ":provisioner"
uint64_t front_principal(const char *name);
/* In words: "uid 1000", "token ci". */
void front_name_principal(const struct config *c, uint64_t principal, char *dst, size_t cap);
/* The token of "Authorization: Bearer <token>"; NULL: the request has none. */
const char *front_bearer(const struct http_exchange *ex);
void front_identify_uid(const struct config *c, uint32_t uid, struct front_caller *ret);
/* By its uid on the Unix socket, by a token of tcp.tokens otherwise. False when a TCP caller has no valid one. */
bool front_identify(const struct http_exchange *ex, const struct config *c,
                    struct front_caller *ret);

/* Appends the principals (uint64_t) that have fewer rights by `now` than by `was`: their token is gone or is another one,
 * or they are no operators any more. */
void front_put_losers(const struct config *was, const struct config *now, struct buf *out);

#endif
