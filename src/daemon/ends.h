/* ends.h - what ends, for the requests that take-overs left behind: in this process, when one failed, and in the daemon
 * before us. */
#ifndef DAEMON_ENDS_H
#define DAEMON_ENDS_H

#include <stdint.h>

struct daemon;
struct upgrade;

/* From now on leases that end are passed on; the engine is new. */
void ends_watch(struct daemon *d);
/* A caller has lost rights; `ctx` is the daemon. */
void ends_caller(void *ctx, uint64_t principal);
/* We have handed over and have a rest: the successor, `peer` till now, reports what ends. */
void ends_follow(struct upgrade *h);
/* Nothing of the rest is left. */
void ends_unfollow(struct upgrade *h);

#endif
