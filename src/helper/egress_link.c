/* egress_link.c - makes the link of a box, in a process of its own that enters the two namespaces one after the other. */
#include "helper/egress_link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "helper/egress_rules.h"
#include "helper/netlink.h"
#include "helper/proc.h"

#define MTU 65520U /* that of the other link outside */

static void put_pair(struct netlink *n, int inside)
{
    const struct ifinfomsg head = {0};
    size_t info;
    size_t data;
    size_t peer;

    netlink_begin(n, RTM_NEWLINK, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head));
    netlink_put_str(n, IFLA_IFNAME, EGRESS_LINK_OUTSIDE);
    netlink_put_u32(n, IFLA_MTU, MTU);
    info = netlink_nest(n, IFLA_LINKINFO);
    netlink_put_str(n, IFLA_INFO_KIND, "veth");
    data = netlink_nest(n, IFLA_INFO_DATA);
    peer = netlink_nest(n, VETH_INFO_PEER);
    netlink_put_raw(n, &head, sizeof(head));
    netlink_put_str(n, IFLA_IFNAME, EGRESS_LINK_INSIDE);
    netlink_put_u32(n, IFLA_MTU, MTU);
    netlink_put_u32(n, IFLA_NET_NS_FD, (uint32_t) inside);
    netlink_close(n, peer);
    netlink_close(n, data);
    netlink_close(n, info);
}

static void put_address(struct netlink *n, const char *link, uint32_t address)
{
    unsigned index = if_nametoindex(link);
    const struct ifinfomsg up = {
        .ifi_index = (int) index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    const struct ifaddrmsg head = {
        .ifa_family = AF_INET, .ifa_prefixlen = EGRESS_BITS, .ifa_index = index};

    netlink_begin(n, RTM_NEWLINK, 0, &up, sizeof(up));
    netlink_begin(n, RTM_NEWADDR, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head));
    netlink_put_u32(n, IFA_LOCAL, htonl(address));
    netlink_put_u32(n, IFA_ADDRESS, htonl(address));
}

static void put_way_out(struct netlink *n)
{
    const struct rtmsg head = {.rtm_family = AF_INET,
                               .rtm_table = RT_TABLE_MAIN,
                               .rtm_protocol = RTPROT_STATIC,
                               .rtm_scope = RT_SCOPE_UNIVERSE,
                               .rtm_type = RTN_UNICAST};

    netlink_begin(n, RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head));
    netlink_put_u32(n, RTA_GATEWAY, htonl(EGRESS_OUTSIDE));
}

/* The next messages are for this namespace. */
static int enter(int ns, int *fd)
{
    if (setns(ns, CLONE_NEWNET) != 0)
        return errno;
    *fd = netlink_open(NETLINK_ROUTE);
    return *fd < 0 ? errno : 0;
}

/* An error number. */
static int make(int outside, int inside)
{
    static struct netlink n;
    AUTO_CLOSE int out = -1;
    AUTO_CLOSE int in = -1;
    int error = enter(outside, &out);

    if (error == 0) {
        netlink_init(&n, out);
        put_pair(&n, inside);
        error = netlink_send(&n);
    }
    if (error == 0) {
        netlink_init(&n, out);
        put_address(&n, EGRESS_LINK_OUTSIDE, EGRESS_OUTSIDE);
        error = netlink_send(&n);
    }
    if (error == 0)
        error = enter(inside, &in);
    if (error == 0) {
        netlink_init(&n, in);
        put_address(&n, EGRESS_LINK_INSIDE, EGRESS_INSIDE);
        error = netlink_send(&n);
    }
    if (error == 0) {
        netlink_init(&n, in);
        put_way_out(&n);
        error = netlink_send(&n);
    }
    return error;
}

int egress_link_make(int outside, int inside, struct err *err)
{
    pid_t self = getpid();
    pid_t pid = fork();

    if (pid < 0)
        return err_sys(err, SP_IO, errno, "fork");
    if (pid == 0) {
        proc_die_with(self);
        _exit(make(outside, inside));
    }
    return proc_await(pid, "make the link of the box's network", err);
}
