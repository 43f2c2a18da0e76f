/* proxy_head.h - what of a request and of its answer passes the proxy. Pure. */
#ifndef BOX_PROXY_HEAD_H
#define BOX_PROXY_HEAD_H

#include <stdbool.h>

#include "base/buf.h"
#include "box/address.h"

/* "/s/{id}", maybe "/{capability}", then what the box gets. Pointers into the target. */
struct proxy_target {
    char id[BOX_ID_MAX + 1];
    char capability[BOX_CAPABILITY_LEN + 1]; /* "": there is nothing that may be one */
    const char *rest;                        /* behind the id */
    const char *rest_of_capability;          /* behind the capability, when there is one */
};

/* Nothing is decoded: what would need it is not one of our addresses. */
bool proxy_split(const char *target, struct proxy_target *ret);
/* Where a request goes: the box's address and the rest as it came. False when it does not fit or has
 * something in it that has no place in a request line. */
bool proxy_url(const char *box_url, const char *rest, struct buf *out);
/* Whether a header of a request, of an answer, is for the other end. Those that Connection names are
 * not, which the caller finds with proxy_names(). */
bool proxy_passes_request(const char *name);
/* To a program behind a port of a box, which is no agent; `may_say_who`: Authorization was not meant for us. */
bool proxy_passes_to_port(const char *name, bool may_say_who);
bool proxy_passes_answer(const char *name);
/* Subprotocols of a WebSocket that are for the other end: not the one in which a browser sends its token. */
#define PROXY_TOKEN_PROTOCOL "sandpool.bearer."
void proxy_put_protocols(struct buf *out, const char *list);
/* Whether a comma separated list (the value of Connection) has the name in it. */
bool proxy_names(const char *list, const char *name);
/* The next "Name: value\n" of `*lines`, split in place; false behind the last. */
bool proxy_next_line(char **lines, char **ret_name, char **ret_value);

#endif
