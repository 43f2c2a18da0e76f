/* egress.h - lists of what a box may reach: names ("example.com"), all names below one ("*.example.com") and IPv4
 * networks ("192.0.2.0/24", "192.0.2.7"), separated by commas. */
#ifndef BASE_EGRESS_H
#define BASE_EGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EGRESS_NAME_MAX = 253,
    EGRESS_ENTRIES_MAX = 128,
    EGRESS_TEXT_MAX = 4096,
    EGRESS_WHY_MAX = 160
};

enum egress_kind { EGRESS_NAME, EGRESS_BELOW, EGRESS_NET };

struct egress_net {
    uint32_t first; /* in the machine's own byte order */
    unsigned bits;  /* of the network, 0 to 32 */
};

struct egress_entry {
    enum egress_kind kind;
    char name[EGRESS_NAME_MAX + 1]; /* lower case; of EGRESS_BELOW without "*." */
    struct egress_net net;
};

/* Every entry is good, and there are not too many; else `why` is the rest of a sentence about the list. */
bool egress_check(const char *list, char why[EGRESS_WHY_MAX]);
/* The next entry of a list that is good; false at its end. */
bool egress_next(const char **list, struct egress_entry *ret);

/* By one of its names; `name` is in lower case. */
bool egress_has_name(const char *list, const char *name);
/* By one of its networks, which for an address of a refused network has to lie in one, too: 0.0.0.0/0 does not name
 * what is private. */
bool egress_has_address(const char *list, uint32_t address);
/* What `inner` allows is allowed by `outer`; else `why` names the first entry that is not. */
bool egress_is_within(const char *inner, const char *outer, char why[EGRESS_WHY_MAX]);

/* Networks that no name leads to: private ones, loopback, link-local ones and with them what clouds answer secrets at,
 * multicast, reserved. Ends with bits 0. */
extern const struct egress_net egress_refused[];
bool egress_is_refused(uint32_t address);
/* The whole network is inside a refused one. */
bool egress_is_refused_net(struct egress_net net);

#endif
