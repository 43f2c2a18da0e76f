/* egress_rules.h - the rules of nftables between a box and the rest, and what names and addresses they have. */
#ifndef HELPER_EGRESS_RULES_H
#define HELPER_EGRESS_RULES_H

#include <stdint.h>

#include "base/buf.h"

/* The link between the box's network namespace and the one outside of it. */
#define EGRESS_LINK_OUTSIDE "box"
#define EGRESS_LINK_INSIDE "eth0"
/* Addresses that nobody routes (RFC 7335). The first one is the way out and the resolver; the second is the box. */
#define EGRESS_OUTSIDE 0xc0000001u /* 192.0.0.1 */
#define EGRESS_INSIDE 0xc0000002u  /* 192.0.0.2 */
#define EGRESS_BITS 30u
/* What slirp4netns serves outside: its link, and its resolver. */
#define EGRESS_UPLINK "tap0"
#define EGRESS_UPSTREAM 0x0a000203u /* 10.0.2.3 */

#define EGRESS_TABLE "egress"
#define EGRESS_NAMED "named" /* the set of what names have led to */

/* All of them, as a text for `nft -f`, which takes it in one piece. */
void egress_rules(const char *allow, struct buf *out);
/* The same for a list that takes the place of another one: what names have led to is forgotten. */
void egress_rules_change(const char *allow, struct buf *out);

#endif
