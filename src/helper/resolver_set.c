/* resolver_set.c - puts addresses into a set of nftables. */
#include "helper/resolver_set.h"

#include <arpa/inet.h>
#include <endian.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include "helper/egress_rules.h"
#include "helper/netlink.h"

#define SUBSYSTEM(type) ((uint16_t) (NFNL_SUBSYS_NFTABLES << 8 | (type)))

static void put_batch(struct netlink *n, uint16_t type)
{
    const struct nfgenmsg head = {
        .nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES)};

    netlink_begin(n, type, 0, &head, sizeof(head));
}

static void put_elements(struct netlink *n, uint16_t type, uint16_t flags, const uint32_t *list,
                         size_t count, uint32_t seconds)
{
    const struct nfgenmsg head = {.nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0};
    uint64_t timeout_ms = htobe64((uint64_t) seconds * 1000);
    size_t all;

    netlink_begin(n, SUBSYSTEM(type), flags, &head, sizeof(head));
    netlink_put_str(n, NFTA_SET_ELEM_LIST_TABLE, EGRESS_TABLE);
    netlink_put_str(n, NFTA_SET_ELEM_LIST_SET, EGRESS_NAMED);
    all = netlink_nest(n, NFTA_SET_ELEM_LIST_ELEMENTS);
    for (size_t i = 0; i < count; i++) {
        size_t one = netlink_nest(n, NFTA_LIST_ELEM);
        size_t key = netlink_nest(n, NFTA_SET_ELEM_KEY);

        netlink_put_u32(n, NFTA_DATA_VALUE, htonl(list[i]));
        netlink_close(n, key);
        netlink_put(n, NFTA_SET_ELEM_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
        netlink_close(n, one);
    }
    netlink_close(n, all);
}

/* The time of an element that is there already does not change, and one that is not there cannot be removed: so it is
 * added, removed and added. Nobody sees what is between. */
bool resolver_set_add(int fd, const uint32_t *list, size_t count, uint32_t seconds)
{
    static struct netlink n; /* large */

    netlink_init(&n, fd);
    put_batch(&n, NFNL_MSG_BATCH_BEGIN);
    put_elements(&n, NFT_MSG_NEWSETELEM, NLM_F_CREATE, list, count, seconds);
    put_elements(&n, NFT_MSG_DELSETELEM, 0, list, count, seconds);
    put_elements(&n, NFT_MSG_NEWSETELEM, NLM_F_CREATE | NLM_F_ACK, list, count, seconds);
    put_batch(&n, NFNL_MSG_BATCH_END);
    return netlink_send(&n) == 0;
}
