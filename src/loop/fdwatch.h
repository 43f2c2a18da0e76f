/* fdwatch.h - one notification when a descriptor becomes readable, for example the pidfd of a process
 * that ended. */
#ifndef LOOP_FDWATCH_H
#define LOOP_FDWATCH_H

#include "loop/loop.h"

struct fdwatch;

/* Takes `fd` over: it is closed with the watch, also when this fails. */
MUST_CHECK int fdwatch_new(struct loop *l, int fd, void (*on_readable)(void *ctx), void *ctx,
                           struct fdwatch **ret, struct err *err);
/* Still the watch's own. */
int fdwatch_fd(const struct fdwatch *w);
/* No callback comes after this; the memory is freed by the loop. NULL is fine. */
void fdwatch_free(struct fdwatch *w);

#endif
