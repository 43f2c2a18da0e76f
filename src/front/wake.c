/* wake.c - requests that wait until a paused box runs. */
#include "front/wake.h"

#include <stdlib.h>

#include "base/mem.h"
#include "engine/pauses.h"

struct waking {
    struct engine_wake wake;
    struct http_exchange *ex;
    void (*handle)(struct http_exchange *ex);
    void (*refuse)(struct http_exchange *ex, int code, const char *reason);
};

static void on_gone(void *ctx)
{
    struct waking *w = ctx;

    engine_wake_cancel(&w->wake);
    free(w);
}

static void on_done(struct engine_wake *wake, int code, const char *reason)
{
    struct waking *w = container_of(wake, struct waking, wake);
    struct http_exchange *ex = w->ex;

    http_set_ctx(ex, NULL, NULL);
    http_body_resume(ex);
    if (code == SP_OK)
        w->handle(ex);
    else
        w->refuse(ex, code, reason);
    free(w);
}

bool front_wake(struct http_exchange *ex, struct engine *e, const struct pool_box *box,
                void (*handle)(struct http_exchange *ex),
                void (*refuse)(struct http_exchange *ex, int code, const char *reason))
{
    struct waking *w;

    if (!box->is_paused)
        return false;
    w = xcalloc(1, sizeof(*w));
    w->ex = ex;
    w->handle = handle;
    w->refuse = refuse;
    w->wake.on_done = on_done;
    http_set_ctx(ex, w, on_gone);
    http_body_pause(ex);
    engine_wake_start(e, &w->wake, box->id);
    return true;
}
