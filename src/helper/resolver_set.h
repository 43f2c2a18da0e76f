/* resolver_set.h - the addresses that names have led to, as a set of nftables. */
#ifndef HELPER_RESOLVER_SET_H
#define HELPER_RESOLVER_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Through a netlink socket of NETLINK_NETFILTER, in one transaction: each is in the set from now on, for so long. False:
 * none of them was put there. */
bool resolver_set_add(int fd, const uint32_t *list, size_t count, uint32_t seconds);

#endif
