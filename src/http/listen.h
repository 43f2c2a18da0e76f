/* listen.h - sockets to listen on, bound but without a handle yet. */
#ifndef HTTP_LISTEN_H
#define HTTP_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Both return a listening descriptor, or a negative code. */
MUST_CHECK int listen_unix(const char *path, unsigned mode, uint32_t gid, struct err *err);
MUST_CHECK int listen_tcp(const char *address, struct err *err);
/* Sets the mode and, unless gid is (uint32_t) -1, the group of a socket's file. */
MUST_CHECK int listen_open_up(const char *path, unsigned mode, uint32_t gid, struct err *err);
/* Whether `fd` listens at that path, whose file is there, or at that address (port 0: any port). */
bool listen_is_unix(int fd, const char *path);
bool listen_is_tcp(int fd, const char *address);
/* The port of a bound TCP socket; 0 for others. */
int listen_port(int fd);

#endif
