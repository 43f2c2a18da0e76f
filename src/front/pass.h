/* pass.h - requests to boxes below an address of the daemon's own, /s/{sandbox_id}/...: which box one means and whether
 * it may use it. The path has a capability, or the dialect knows the caller; it answers those who are refused. */
#ifndef FRONT_PASS_H
#define FRONT_PASS_H

#include "box/proxy.h"
#include "engine/engine.h"

struct front_door {
    void *ctx;
    struct engine *engine;
    /* The box of this id, as far as this dialect shows it; NULL: none. */
    const struct pool_box *(*find)(void *ctx, const char *sandbox_id);
    /* Whether the caller may use the box without the capability. It is asked also when there is no such box, with
     * one that nobody has, so that a refusal takes as long. */
    bool (*is_known)(void *ctx, struct http_exchange *ex, const struct pool_box *box);
    /* The caller has the box's capability. May be NULL. */
    void (*prove)(struct http_exchange *ex, const struct pool_box *box);
};

/* NULL for all who may not, alike. `ret` is filled for box_proxy_pass(), valid as long as the box and the request
 * are. */
const struct pool_box *front_admit(struct http_exchange *ex, const struct front_door *door,
                                   struct box_proxy_to *ret);

/* box_proxy_config.on_use, with the engine as its ctx: a box that is used is not idle. */
void front_on_use(void *engine, uint64_t box, int delta);

#endif
