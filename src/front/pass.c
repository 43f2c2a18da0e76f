/* pass.c - from the target of a request to the box it may use. */
#include "front/pass.h"

#include "base/str.h"
#include "box/address.h"
#include "box/proxy_head.h"

const struct pool_box *front_admit(struct http_exchange *ex, const struct front_door *door,
                                   struct box_proxy_to *ret)
{
    static const struct pool_box nobody = {.token = "00000000000000000000000000000000"};
    char capability[BOX_CAPABILITY_LEN + 1];
    struct proxy_target t;
    const struct pool_box *box;
    bool is_found;
    bool is_known;

    if (!proxy_split(http_target(ex), &t))
        return NULL;
    box = door->find(door->ctx, t.id);
    is_found = box != NULL && !str_is_empty(box->url);
    if (!is_found)
        box = &nobody; /* takes as long */
    *ret = (struct box_proxy_to){.box = box->id.v,
                                 .caller = box->principal,
                                 .url = box->url,
                                 .token = box->token,
                                 .rest = t.rest_of_capability};
    if (is_found)
        engine_local(door->engine, box, ret->local, sizeof(ret->local));
    box_capability(t.id, box->token, capability);
    if (str_equal_secret(t.capability, capability) && is_found && !str_is_empty(box->token)) {
        if (door->prove != NULL)
            door->prove(ex, box);
        return box;
    }
    ret->rest = t.rest;
    is_known = door->is_known(door->ctx, ex, box);
    return is_found && is_known ? box : NULL;
}

void front_on_use(void *engine, uint64_t box, int delta)
{
    struct pool_event ev = {.kind = POOL_EV_ACTIVITY, .box = {box}, .u.activity.delta = delta};

    engine_post(engine, &ev);
}
