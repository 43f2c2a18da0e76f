/* channel.h - connections that arrive through a socket, each as a descriptor: the process that
 * accepts them from the network is outside of the box (see src/helper/relay.h). */
#ifndef AGENT_CORE_CHANNEL_H
#define AGENT_CORE_CHANNEL_H

#include "http/http.h"

struct channel;

/* Serves the connections that arrive through `fd`. Owns `fd` from now on, also on failure. `on_end`
 * is called once, when no more connections can arrive. */
MUST_CHECK int channel_open(struct loop *l, int fd, struct http_server *server,
                            void (*on_end)(void *ctx), void *ctx, struct channel **ret,
                            struct err *err);
/* No callback is called after this. NULL is fine. */
void channel_close(struct channel *c);

/* For a box that inherits no channel: gets one from the Unix socket at `path`. */
MUST_CHECK int channel_fetch(const char *path, int *ret_fd, struct err *err);

#endif
