/* egress.h - the network of a box that reaches only what is on a list.
 *
 * Between the box and the process that serves its network (network.c) there is one more network namespace, with the
 * rules (egress_rules.h) and the resolver (resolver.h). The box has one end of a link into it. So its root, whatever
 * rights it gets in its own namespaces, sees neither rules nor resolver. */
#ifndef HELPER_EGRESS_H
#define HELPER_EGRESS_H

#include "helper/resolver.h"

struct egress {
    struct resolver resolver;
    int net;  /* the namespace between */
    int user; /* whose it is */
    int nft;  /* a process that sets the rules; 0: none */
    int said; /* what it writes */
};

#define EGRESS_NONE ((struct egress){.resolver = RESOLVER_NONE, .net = -1, .user = -1, .said = -1})

/* Without "egress" in the plan these do nothing. In this order: the resolver begins; its namespace is there, and the
 * rules are being set; they are, and the box, which runs, gets its link. */
MUST_CHECK int egress_begin(const struct plan *p, const struct box_dir *d, struct egress *e,
                            struct err *err);
MUST_CHECK int egress_set_up(const struct plan *p, struct egress *e, struct err *err);
MUST_CHECK int egress_attach(const struct plan *p, struct egress *e, int box_pid, struct err *err);
void egress_close(struct egress *e);

/* `sandpool-helper egress`: a running box has another list. */
MUST_CHECK int egress_change(const struct plan *p, struct buf *answer, struct err *err);

#endif
