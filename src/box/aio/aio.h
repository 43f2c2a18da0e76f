/* aio.h - the daemon's own calls (exec, jobs, files, ports) to a box that has no agent of ours but serves the HTTP API of
 * AIO sandboxes: each becomes one or more calls of that API. docs/remote.md says which work and how they differ. */
#ifndef BOX_AIO_AIO_H
#define BOX_AIO_AIO_H

#include "box/proxy.h"

/* As box_proxy_pass(), for requests without a port: `to->rest` is "/exec", "/files/stat?path=a" and so on. */
void box_aio_pass(struct box_proxy *p, struct http_exchange *ex,
                  const struct box_proxy_limits *limits, const struct box_proxy_to *to);

/* As box_proxy_pass(), for requests with a port. */
void box_aio_pass_port(struct box_proxy *p, struct http_exchange *ex,
                       const struct box_proxy_limits *limits, const struct box_proxy_to *to);

#endif
