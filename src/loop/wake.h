/* wake.h - another thread wakes the loop. Wake-ups coalesce: `on_wake` must take everything there
 * is to take and never count calls. */
#ifndef LOOP_WAKE_H
#define LOOP_WAKE_H

#include "loop/loop.h"

struct wake {
    uv_poll_t poll;
    int fd; /* eventfd */
    void (*on_wake)(void *ctx);
    void *ctx;
};

MUST_CHECK int wake_init(struct wake *w, struct loop *l, void (*on_wake)(void *ctx), void *ctx,
                         struct err *err);
/* From any thread, until wake_close(). */
void wake_send(struct wake *w);
/* Only after the thread that sends has been joined. */
void wake_close(struct wake *w, void (*on_closed)(void *ctx), void *ctx);

#endif
