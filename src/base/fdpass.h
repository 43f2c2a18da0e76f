/* fdpass.h - one descriptor through a Unix socket, with one byte. */
#ifndef BASE_FDPASS_H
#define BASE_FDPASS_H

#include <stdbool.h>

#include "base/compiler.h"

/* Does not wait, and raises no SIGPIPE; `fd` stays the caller's. False: errno. */
MUST_CHECK bool fdpass_send(int to, int fd);
/* The descriptor, closed on exec; -1: errno, EPIPE when there is nobody at the other end, EBADMSG when
 * something came but no descriptor with it. */
MUST_CHECK int fdpass_receive(int from);

#endif
