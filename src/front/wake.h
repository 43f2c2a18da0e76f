/* wake.h - a request to a box that is paused waits until the box runs, then it is handled as if it had just come. */
#ifndef FRONT_WAKE_H
#define FRONT_WAKE_H

#include "engine/engine.h"
#include "http/http.h"

/* False: the box runs. True: `handle` is called when it does, or `refuse` when it could not be thawed. */
MUST_CHECK bool front_wake(struct http_exchange *ex, struct engine *e, const struct pool_box *box,
                           void (*handle)(struct http_exchange *ex),
                           void (*refuse)(struct http_exchange *ex, int code, const char *reason));

#endif
