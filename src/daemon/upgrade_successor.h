/* upgrade_successor.h - the successor's side of a take-over: asks the daemon that runs for all it has, before
 * this process has a loop. Every wait has an end. */
#ifndef DAEMON_UPGRADE_SUCCESSOR_H
#define DAEMON_UPGRADE_SUCCESSOR_H

#include "base/list.h"
#include "daemon/listeners.h"

enum { TAKEOVER_RESTS_MAX = 8 };

struct takeover {
    const char *state_dir;
    struct listeners *listeners; /* filled */
    struct list *cargo;          /* filled */
    /* Called when the listeners are there: opens what else is needed. A failure ends it, and the
     * other daemon goes on as if nothing had happened. */
    int (*prepare)(void *ctx, struct err *err);
    void *ctx;
    int fd; /* to the other daemon, until takeover_done(); -1: there was none */
    /* To daemons before us that may still have requests: the other one from takeover_done() on, and those before it. */
    int rests[TAKEOVER_RESTS_MAX];
    unsigned rest_count;
    int lock_fd; /* of the state directory; -1: still to be taken, because nobody handed it over */
};

/* SP_OK: all is ours, or nobody runs, or (*ret_was_there) it died under way: then the lock is still to
 * be taken. */
MUST_CHECK int takeover_ask(struct takeover *t, bool *ret_was_there, struct err *err);
/* We serve: the other daemon may end. */
void takeover_done(struct takeover *t);

/* For requests that daemons before us still pass on: the lease of a box has ended; a caller has lost rights. One that does
 * not listen is left, and then ends all its requests. */
void takeover_report_lease(struct takeover *t, uint64_t box, int code, const char *why);
void takeover_report_caller(struct takeover *t, uint64_t principal);
/* Closes our ends of these sockets. Where nobody else has one, that daemon ends all its requests. */
void takeover_leave(struct takeover *t);

#endif
