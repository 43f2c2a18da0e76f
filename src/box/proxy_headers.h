/* proxy_headers.h - the headers of a request as its box gets them, or the program behind a port of the box. */
#ifndef BOX_PROXY_HEADERS_H
#define BOX_PROXY_HEADERS_H

#include "base/buf.h"
#include "box/proxy.h"

/* Puts each of them with `put`, in whatever form. Without those of the connection, which the caller makes: Host,
 * Connection, what says how long the body is. */
void proxy_put_headers(const struct http_exchange *ex, const struct box_proxy_to *to,
                       void (*put)(struct buf *out, const char *name, const char *value),
                       struct buf *out);

#endif
