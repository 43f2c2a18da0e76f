/* egress_rules.c - the rules of nftables between a box and the rest. */
#include "helper/egress_rules.h"

#include <stdbool.h>
#include <string.h>

#include "base/egress.h"

/* Addresses are written out here, so that the rules can be read as they are; egress_rules.h has them as numbers.
 *
 * - DNS goes to the resolver only, whatever is allowed. It is not tracked: each question would take an entry of the
 *   machine's memory that is charged to nobody.
 * - For the same reason there are 1,024 connections at a time, the number of sockets that slirp4netns may have.
 * - "ct count" keeps a note of each packet that it looks at, also of those that it refuses, and older kernels forget about
 *   nine in a tick of the clock. So only the first packet of what is allowed comes to it, and no more of them than it can
 *   forget. Others come there when nothing has been answered yet.
 * - slirp4netns has one socket for all that comes from one port, whoever it is for. So the box has other ports than the
 *   resolver, which has those from 61000: else it could take the resolver's answers, or have others sent there. A port in
 *   the range stays as it is, also when connections are forgotten.
 * - "inner" is what the list names of the refused networks; "outer" are its other networks.
 * - What is refused is answered at once. */
static const char rules[] =
    "	chain refuse {\n"
    "		meta l4proto tcp reject with tcp reset\n"
    "		reject with icmpx admin-prohibited\n"
    "	}\n"
    "	chain permit {\n"
    "		ct status confirmed accept\n"
    "		limit rate over 400/second burst 2000 packets goto refuse\n"
    "		ct count over 1024 goto refuse\n"
    "		accept\n"
    "	}\n"
    "	chain untracked { type filter hook prerouting priority raw; policy accept;\n"
    "		iifname \"box\" ip daddr 192.0.0.1 meta l4proto { tcp, udp } th dport 53 notrack\n"
    "		iifname \"tap0\" ip saddr 10.0.2.3 udp sport 53 notrack\n"
    "	}\n"
    "	chain untracked_out { type filter hook output priority raw; policy accept;\n"
    "		oifname \"box\" ip saddr 192.0.0.1 meta l4proto { tcp, udp } th sport 53 notrack\n"
    "		oifname \"tap0\" ip daddr 10.0.2.3 udp dport 53 notrack\n"
    "	}\n"
    "	chain input { type filter hook input priority filter; policy drop;\n"
    "		iifname \"box\" ip saddr 192.0.0.2 ip daddr 192.0.0.1 meta l4proto { tcp, udp } th dport 53 accept\n"
    "		iifname \"tap0\" ip saddr 10.0.2.3 udp sport 53 accept\n"
    "		iifname \"box\" goto refuse\n"
    "	}\n"
    "	chain output { type filter hook output priority filter; policy drop;\n"
    "		oifname \"box\" ip saddr 192.0.0.1 meta l4proto { tcp, udp } th sport 53 accept\n"
    "		oifname \"tap0\" ip daddr 10.0.2.3 udp dport 53 accept\n"
    "		oifname \"box\" icmp type destination-unreachable accept\n"
    "		oifname \"box\" ct state related accept\n"
    "	}\n"
    "	chain forward { type filter hook forward priority filter; policy drop;\n"
    "		iifname \"tap0\" oifname \"box\" ct state established,related accept\n"
    "		iifname != \"box\" drop\n"
    "		oifname != \"tap0\" goto refuse\n"
    "		ip saddr != 192.0.0.2 drop\n"
    "		ct state invalid drop\n"
    "		ct state established,related accept\n"
    "		meta l4proto { tcp, udp } th dport 53 goto refuse\n"
    "		meta l4proto != { tcp, udp, icmp } goto refuse\n"
    "		ip daddr @inner goto permit\n"
    "		ip daddr @refused goto refuse\n"
    "		ip daddr @outer goto permit\n"
    "		ip daddr @named goto permit\n"
    "		goto refuse\n"
    "	}\n"
    "	chain out { type nat hook postrouting priority srcnat; policy accept;\n"
    "		oifname \"tap0\" meta l4proto { tcp, udp } masquerade to :1024-60999\n"
    "		oifname \"tap0\" masquerade\n"
    "	}\n";

static void put_net(struct egress_net net, unsigned *count, struct buf *out)
{
    buf_printf(out, "%s%u.%u.%u.%u/%u", (*count)++ == 0 ? "" : ", ", net.first >> 24,
               net.first >> 16 & 0xff, net.first >> 8 & 0xff, net.first & 0xff, net.bits);
}

static unsigned put_nets(const char *allow, bool is_inner, struct buf *out)
{
    struct egress_entry e;
    unsigned count = 0;

    while (egress_next(&allow, &e))
        if (e.kind == EGRESS_NET && egress_is_refused_net(e.net) == is_inner)
            put_net(e.net, &count, out);
    return count;
}

static void put_set(const char *name, const char *allow, bool is_inner, struct buf *out)
{
    struct buf nets;

    buf_init(&nets, out->max);
    buf_printf(out, "	set %s { type ipv4_addr; flags interval; auto-merge;", name);
    if (put_nets(allow, is_inner, &nets) > 0)
        buf_printf(out, " elements = { %s }", buf_str(&nets));
    buf_puts(out, " }\n");
    buf_fini(&nets);
}

void egress_rules(const char *allow, struct buf *out)
{
    unsigned count = 0;

    buf_puts(out, "table inet " EGRESS_TABLE " {\n");
    put_set("inner", allow, true, out);
    put_set("outer", allow, false, out);
    buf_puts(out, "	set refused { type ipv4_addr; flags interval; elements = { ");
    for (const struct egress_net *r = egress_refused; r->bits != 0; r++)
        put_net(*r, &count, out);
    buf_puts(out, " } }\n	set " EGRESS_NAMED " { type ipv4_addr; flags timeout; size 4096; }\n");
    buf_puts(out, rules);
    buf_puts(out, "}\n");
}

/* In one piece, so there is no moment without rules. Connections are forgotten afterwards, so what was counted is, too. */
void egress_rules_change(const char *allow, struct buf *out)
{
    buf_puts(out, "delete table inet " EGRESS_TABLE "\n");
    egress_rules(allow, out);
}
