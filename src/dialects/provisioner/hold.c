/* hold.c - a create whose caller was gone before it received the answer leaves its box parked,
 * because it is not known whether the caller has the id. A caller that asks for the box or uses it
 * has it: then the box is leased again, as by a create. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "dialects/provisioner/internal.h"
#include "front/deliver.h"

enum { HOLDS_MAX = 64 }; /* at the same time; the next use of a box tries again */

struct hold {
    struct front_delivery delivery; /* nobody waits for an answer */
    struct list_node link;
    struct provisioner *p;
};

static void on_reply(struct front_delivery *d, const struct pool_fx *fx)
{
    enum pool_source source = fx->u.reply.source;

    if (fx->u.reply.code == SP_OK && source != POOL_SRC_PARKED && source != POOL_SRC_KEPT)
        front_undo(d, false); /* another one, for nobody */
    else if (fx->u.reply.code != SP_OK)
        log_warn("provisioner.not_leased_again", LF_STR("sandbox_id", d->call.sandbox_id),
                 LF_STR("reason", fx->reason));
    front_forget(d);
}

static void on_end(struct front_delivery *d)
{
    struct hold *h = container_of(d, struct hold, delivery);

    list_remove(&h->p->holds, &h->link);
    free(h);
}

static bool is_under_way(const struct provisioner *p, const char *sandbox_id)
{
    for (struct list_node *n = list_first(&p->holds); n != NULL; n = list_next(&p->holds, n))
        if (strcmp(container_of(n, struct hold, link)->delivery.call.sandbox_id, sandbox_id) == 0)
            return true;
    return false;
}

void provisioner_hold(struct provisioner *p, const char *sandbox_id)
{
    static const struct front_delivery_ops ops = {.on_reply = on_reply, .on_end = on_end};
    const struct config *config = engine_config(p->engine);
    const struct pool_box *box = provisioner_find(p, sandbox_id);
    struct pool_event ev = {.kind = POOL_EV_ACQUIRE};
    struct pool_acquire *a = &ev.u.acquire;
    struct hold *h;

    if (box == NULL || box->state != POOL_PARKED || p->holds.len >= HOLDS_MAX ||
        is_under_way(p, sandbox_id))
        return;
    str_copy_cut(a->sandbox_id, sizeof(a->sandbox_id), box->sandbox_id);
    str_copy_cut(a->user, sizeof(a->user), box->user);
    str_copy_cut(a->thread, sizeof(a->thread), box->thread);
    a->principal = p->principal;
    a->profile = box->profile;
    provisioner_lease_times(config, &p->loop->rt, a);
    h = xcalloc(1, sizeof(*h));
    h->p = p;
    h->delivery.call.deadline_ns = a->deadline_ns;
    str_copy_cut(h->delivery.call.sandbox_id, sizeof(h->delivery.call.sandbox_id), a->sandbox_id);
    list_push_back(&p->holds, &h->link);
    front_begin(&h->delivery, p->engine, NULL, &ops);
    front_ask(&h->delivery, &ev);
}

void provisioner_end_holds(struct provisioner *p)
{
    while (!list_is_empty(&p->holds))
        front_forget(&container_of(list_first(&p->holds), struct hold, link)->delivery);
}
