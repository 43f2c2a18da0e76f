/* signals.c - one uv_signal per number. struct signals must live until the loop is closed, because
 * its handles do. */
#include "loop/signals.h"

#include <signal.h>

#include "base/compiler.h"

static void on_uv_signal(uv_signal_t *handle, int signum)
{
    struct signals *s = handle->data;

    s->on_signal(s->ctx, signum);
}

static int start_one(struct signals *s, struct loop *l, int signum)
{
    uv_signal_t *handle = &s->handles[s->count];
    int r = uv_signal_init(&l->uv, handle);

    if (r != 0)
        return r;
    s->count++; /* from here on it must be closed */
    handle->data = s;
    return uv_signal_start(handle, on_uv_signal, signum);
}

int signals_init(struct signals *s, struct loop *l, const int *signums,
                 void (*on_signal)(void *ctx, int signum), void *ctx, struct err *err)
{
    s->count = 0;
    s->on_signal = on_signal;
    s->ctx = ctx;
    (void) signal(SIGPIPE, SIG_IGN); /* cannot fail for a valid number */
    (void) signal(SIGCHLD, SIG_DFL); /* whoever started us may have ignored it: see child.c */
    for (const int *signum = signums; *signum != 0; signum++) {
        int r;

        assert(s->count < SIGNALS_MAX);
        r = start_one(s, l, *signum);
        if (r != 0) {
            signals_close(s);
            return err_sys(err, SP_IO, -r, "signal %d", *signum);
        }
    }
    return SP_OK;
}

void signals_close(struct signals *s)
{
    for (unsigned i = 0; i < s->count; i++)
        loop_close_handle((uv_handle_t *) &s->handles[i], NULL, NULL);
    s->count = 0;
}
