/* signals.h - signals as callbacks on the loop. SIGPIPE is ignored from signals_init() on. */
#ifndef LOOP_SIGNALS_H
#define LOOP_SIGNALS_H

#include "loop/loop.h"

enum { SIGNALS_MAX = 8 };

struct signals {
    uv_signal_t handles[SIGNALS_MAX];
    unsigned count;
    void (*on_signal)(void *ctx, int signum);
    void *ctx;
};

/* `signums` ends with 0. */
MUST_CHECK int signals_init(struct signals *s, struct loop *l, const int *signums,
                            void (*on_signal)(void *ctx, int signum), void *ctx, struct err *err);
void signals_close(struct signals *s);

#endif
