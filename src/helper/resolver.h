/* resolver.h - answers a box's questions for names, of those that it may reach, and lets it reach what they lead to.
 *
 * The process is outside of the box, in a network namespace of its own that is between the box and the rest: the rules
 * of egress_rules.h are there, the box is one end of a link into it, slirp4netns or pasta serves its other side. That namespace
 * belongs to a user namespace of its own, in which the process may change networks: it puts addresses into a set of the
 * rules before it answers with them. It has no other right, no file, and a short filter of system calls, because what
 * it reads comes from the box and from servers of the internet.
 *
 * When it ends the link is gone, or nothing new can be reached; the daemon ends the box then. */
#ifndef HELPER_RESOLVER_H
#define HELPER_RESOLVER_H

#include <stdbool.h>
#include <stdint.h>

#include "helper/box_dir.h"
#include "helper/plan_read.h"

#define RESOLVER_SOCKET "resolver"       /* in the box's directory: where a new list is sent */
#define RESOLVER_PID_FILE "resolver.pid" /* likewise: its number and start time */
#define RESOLVER_LIST "egress"           /* likewise: what the box may reach */

struct resolver {
    int pid;
    int report; /* "." comes when it serves */
};

#define RESOLVER_NONE ((struct resolver){.report = -1})

/* Starts the process, which outlives us: `sandpool-helper resolver <box dir> <id> <count>`. */
MUST_CHECK int resolver_begin(const struct plan *p, const struct box_dir *d, struct resolver *r,
                              struct err *err);
/* Until its namespace is there and it serves. */
MUST_CHECK int resolver_await(struct resolver *r, struct err *err);
/* A running one has this list from now on; questions under way fail. */
MUST_CHECK int resolver_change(const struct box_dir *d, const char *allow, struct err *err);

/* Is that process. Returns when it cannot begin. */
void resolver_run(const char *id, const char *count);

#endif
