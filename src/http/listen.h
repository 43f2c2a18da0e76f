/* listen.h - sockets to listen on, bound but without a handle yet. */
#ifndef HTTP_LISTEN_H
#define HTTP_LISTEN_H

#include <stdint.h>

#include "base/err.h"

/* Both return a listening descriptor, or a negative code. */
MUST_CHECK int listen_unix(const char *path, unsigned mode, uint32_t gid, struct err *err);
MUST_CHECK int listen_tcp(const char *address, struct err *err);
/* The port of a bound TCP socket; 0 for others. */
int listen_port(int fd);

#endif
