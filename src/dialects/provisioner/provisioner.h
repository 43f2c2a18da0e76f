/* provisioner.h - the daemon as the provisioner of DeerFlow: implements that program's HTTP API on
 * its own TCP listener. Boxes come from the pool like all others; they belong to a separate
 * principal, so that callers of one API do not see boxes of the other. */
#ifndef PROVISIONER_PROVISIONER_H
#define PROVISIONER_PROVISIONER_H

#include "box/proxy.h"
#include "engine/engine.h"
#include "http/http.h"

#define PROVISIONER_KEY_MAX 256

struct provisioner;

/* The configured key, "" for none. Reads the file if there is one. */
MUST_CHECK int provisioner_read_key(const struct config *c, char ret[PROVISIONER_KEY_MAX + 1],
                                    struct err *err);

/* At most `max_requests` requests pass to boxes at once. Its server belongs to the caller, which gives it a
 * listener, and closes it before the provisioner. */
MUST_CHECK int provisioner_new(struct loop *l, struct engine *e, const struct http_limits *limits,
                               unsigned max_requests, struct provisioner **ret,
                               struct http_server **ret_server, struct err *err);
/* Whose calls they are that come with the key. */
uint64_t provisioner_principal(const struct provisioner *p);
/* After a reload. True: the key is another one, and calls that came with the old one have been ended. */
bool provisioner_set(struct provisioner *p, const struct http_limits *limits, unsigned max_requests,
                     const char *key);
/* The proxy to boxes belongs to the caller from now on, which has to end it; call it before
 * provisioner_close(). */
struct box_proxy *provisioner_take_proxy(struct provisioner *p);
/* Ends requests to boxes that are still under way, then frees. */
void provisioner_close(struct provisioner *p, void (*on_closed)(void *ctx), void *ctx);

#endif
