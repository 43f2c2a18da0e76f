/* provisioner.h - the daemon as the provisioner of DeerFlow: another program's HTTP API, field for
 * field, on a TCP listener of its own. Boxes come from the pool like all others; they belong to a
 * principal of their own, so that neither side sees what the other one holds. */
#ifndef PROVISIONER_PROVISIONER_H
#define PROVISIONER_PROVISIONER_H

#include "box/proxy.h"
#include "engine/engine.h"
#include "http/http.h"

#define PROVISIONER_KEY_MAX 256

struct provisioner;

/* What the configuration gives as the key, "" for none. Reads the file when there is one. */
MUST_CHECK int provisioner_read_key(const struct config *c, char ret[PROVISIONER_KEY_MAX + 1],
                                    struct err *err);

/* `max_requests` may pass to boxes at once. Its server is the caller's: to be given a listener, and to be closed
 * before the provisioner is. */
MUST_CHECK int provisioner_new(struct loop *l, struct engine *e, const struct http_limits *limits,
                               unsigned max_requests, struct provisioner **ret,
                               struct http_server **ret_server, struct err *err);
/* After a reload. */
void provisioner_set(struct provisioner *p, const struct http_limits *limits, unsigned max_requests,
                     const char *key);
/* The proxy to boxes is the caller's from now on, to be left; before provisioner_close(). */
struct box_proxy *provisioner_take_proxy(struct provisioner *p);
/* Ends what is still under way to boxes, then frees. */
void provisioner_close(struct provisioner *p, void (*on_closed)(void *ctx), void *ctx);

#endif
