/* address.h - where a caller finds its box: below the daemon's own address. */
#ifndef BOX_ADDRESS_H
#define BOX_ADDRESS_H

#include <stddef.h>

enum {
    BOX_ID_MAX = 64,
    BOX_URL_MAX = 192,
    BOX_TOKEN_MAX = 64,
    BOX_CAPABILITY_LEN = 32, /* hex digits */
    BOX_ADDRESS_MAX = 320,   /* of a box as a caller sees it */
};

/* Whoever has it can use the box. It is made from the box's token but does not reveal it. */
void box_capability(const char *sandbox_id, const char *token, char ret[BOX_CAPABILITY_LEN + 1]);
/* "host:port" of an address for callers: `advertise` completed by the port of `listen`, or else what the
 * caller's Host header says, or else `listen`. */
void box_host(const char *advertise, const char *host_header, const char *listen, char *dst,
              size_t cap);

#endif
