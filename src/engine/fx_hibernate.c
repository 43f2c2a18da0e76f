/* fx_hibernate.c - a parked box becomes a snapshot; hibernate.c has what those are for. A thread that comes back meanwhile
 * gets the box, and the snapshot is of no use. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/hibernate.h"
#include "engine/internal.h"
#include "engine/pauses.h"
#include "engine/snapshots.h"

struct hibernating {
    struct list_node link;
    struct engine_capture capture;
    struct engine_wake wake;
    uint64_t epoch;
    char sandbox_id[POOL_ID_MAX + 1];
    bool was_leased; /* since it began */
};

void fx_hibernate_leased(struct engine *e, const char *sandbox_id)
{
    struct list *l = &e->hibernate.running;

    for (struct list_node *n = list_first(l); n != NULL; n = list_next(l, n)) {
        struct hibernating *h = container_of(n, struct hibernating, link);

        h->was_leased = h->was_leased || strcmp(h->sandbox_id, sandbox_id) == 0;
    }
}

bool fx_hibernate_runs(struct engine *e, const char *sandbox_id)
{
    struct list *l = &e->hibernate.running;

    for (struct list_node *n = list_first(l); n != NULL; n = list_next(l, n)) {
        const struct hibernating *h = container_of(n, struct hibernating, link);

        if (!h->was_leased && strcmp(h->sandbox_id, sandbox_id) == 0)
            return true;
    }
    return false;
}

bool fx_hibernate_was_leased(struct engine *e, uint64_t snapshot)
{
    struct list *l = &e->hibernate.running;

    for (struct list_node *n = list_first(l); n != NULL; n = list_next(l, n)) {
        const struct hibernating *h = container_of(n, struct hibernating, link);

        if (h->was_leased && h->capture.request.snapshot.id == snapshot)
            return true;
    }
    return false;
}

static void answer(struct hibernating *h, int code, const char *reason)
{
    struct engine *e = h->capture.engine;
    struct pool_event ev = {.kind = POOL_EV_HIBERNATED, .box = h->capture.box, .epoch = h->epoch};
    bool is_cut_short = code != SP_OK && e->is_closing; /* the row says that the box is parked */

    ev.u.failed.code = code;
    str_copy_cut(ev.u.failed.reason, sizeof(ev.u.failed.reason), reason);
    FAULT_POINT("hibernate.captured");
    if (!is_cut_short)
        engine_post(e, &ev);
    FAULT_POINT("hibernate.doomed");
    if (code == SP_OK)
        hibernate_captured(e, &h->capture.request.snapshot, h->was_leased);
    list_remove(&e->hibernate.running, &h->link);
    free(h);
    engine_op_ended(e);
}

static void on_captured(struct engine_capture *c, int code, const char *reason)
{
    answer(container_of(c, struct hibernating, capture), code, reason);
}

static void on_awake(struct engine_wake *w, int code, const char *reason)
{
    struct hibernating *h = container_of(w, struct hibernating, wake);

    if (code != SP_OK)
        answer(h, code, reason);
    else
        engine_capture_start(w->engine, &h->capture, w->box);
}

/* A paused box goes on first: it is frozen again for the copy. */
void fx_hibernate(struct engine *e, const struct pool_fx *fx)
{
    struct hibernating *h = xcalloc(1, sizeof(*h));
    const struct engine_snapshot *from = hibernate_source(e, &fx->snapshot);
    const char *metadata = engine_metadata(e, fx->box);

    if (metadata == NULL && from != NULL) /* nobody has taken it since */
        metadata = from->info.metadata;
    h->epoch = fx->epoch;
    str_copy_cut(h->sandbox_id, sizeof(h->sandbox_id), fx->snapshot.sandbox_id);
    list_push_back(&e->hibernate.running, &h->link);
    h->capture.engine = e;
    h->capture.box = fx->box;
    h->capture.on_done = on_captured;
    h->capture.request.snapshot.is_hibernated = true;
    if (metadata != NULL)
        str_copy_cut(h->capture.request.snapshot.metadata,
                     sizeof(h->capture.request.snapshot.metadata), metadata);
    h->wake.on_done = on_awake;
    engine_op_begun(e);
    engine_wake_start(e, &h->wake, fx->box);
}
