/* channel.h - connections that come through a socket, each as a descriptor: whoever takes them from the
 * network is not in the box (see src/helper/relay.h). */
#ifndef AGENT_CORE_CHANNEL_H
#define AGENT_CORE_CHANNEL_H

#include "http/http.h"

struct channel;

/* Serves what comes through `fd`, which it takes over, also when it fails. `on_end` comes once, when
 * nothing will come any more. */
MUST_CHECK int channel_open(struct loop *l, int fd, struct http_server *server,
                            void (*on_end)(void *ctx), void *ctx, struct channel **ret,
                            struct err *err);
/* No callback comes after this. NULL is fine. */
void channel_close(struct channel *c);

/* The channel of a box without an inherited one is handed out at a Unix socket. */
MUST_CHECK int channel_fetch(const char *path, int *ret_fd, struct err *err);

#endif
