/* resolver_loop.h - what a resolver does all its life: questions in, questions out, answers in, answers out. */
#ifndef HELPER_RESOLVER_LOOP_H
#define HELPER_RESOLVER_LOOP_H

#include "base/egress.h"
#include "helper/dns.h"

enum { RESOLVER_CLIENTS_MAX = 8, RESOLVER_UNDER_WAY_MAX = 64 };

struct resolver_sockets {
    int udp;     /* questions of the box */
    int tcp;     /* likewise */
    int changes; /* other lists, from sandpool-helper */
    int netlink;
};

/* Until a socket breaks. `list` is replaced by those that come. */
void resolver_loop_run(const struct resolver_sockets *s, char list[EGRESS_TEXT_MAX + 1]);

#endif
