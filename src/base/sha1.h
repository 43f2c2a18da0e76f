/* sha1.h - SHA-1, which the handshake of a WebSocket is made of. For nothing that must be secret or safe. */
#ifndef BASE_SHA1_H
#define BASE_SHA1_H

#include <stddef.h>

enum { SHA1_LEN = 20, SHA1_TEXT_MAX = 119 };

/* Of at most SHA1_TEXT_MAX bytes. */
void sha1(const void *data, size_t len, unsigned char ret_digest[SHA1_LEN]);

#endif
