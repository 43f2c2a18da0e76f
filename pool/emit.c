/* emit.c - the queue of effects. Records are small; the data of the box is copied when an effect is
 * taken. That is correct because all effects of a step are taken before the next one, and a slot is
 * not reused within the step that freed it. */
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "pool/internal.h"

static struct fx_rec *push(struct pool *p, enum pool_fx_kind kind, struct slot *s)
{
    struct fx_rec *r;

    if (p->fx_next == p->fx_len) {
        p->fx_next = 0;
        p->fx_len = 0;
    }
    assert(p->fx_len < p->fx_cap);
    r = &p->fx[p->fx_len];
    p->fx_len++;
    memset(r, 0, sizeof(*r));
    r->kind = (unsigned char) kind;
    r->slot = s;
    if (s != NULL) {
        r->state = (unsigned char) s->box.state;
        r->has_owner = s->box.sandbox_id[0] != '\0';
    }
    return r;
}

void emit_backend(struct pool *p, enum pool_fx_kind kind, struct slot *s, uint64_t deadline_ns)
{
    struct fx_rec *r = push(p, kind, s);

    r->a = s->box.epoch;
    r->b = deadline_ns;
    if (kind == POOL_FX_CHECK)
        r->what = s->is_missing ? 1 : 0;
}

void emit_slotless_destroy(struct pool *p, const struct pool_event *created)
{
    struct fx_rec *r = push(p, POOL_FX_DESTROY, NULL);

    memset(&p->slotless, 0, sizeof(p->slotless));
    p->slotless.id = created->box;
    p->slotless.backend = created->u.created.backend;
    p->slotless.state = POOL_DESTROYING;
    p->slotless.end = POOL_END_ORPHAN;
    memcpy(p->slotless.url, created->u.created.url, sizeof(p->slotless.url));
    memcpy(p->slotless.ref, created->u.created.ref, sizeof(p->slotless.ref));
    r->b = time_after(p->now_ns, 60 * NS_PER_S);
}

void emit_discover(struct pool *p, struct waiter *w, uint64_t deadline_ns)
{
    struct fx_rec *r = push(p, POOL_FX_DISCOVER, NULL);

    r->waiter = w;
    r->backend = p->profiles[w->acquire.profile].conf.backend;
    r->a = w->epoch;
    r->b = deadline_ns;
}

/* A waiter that has ended is not used again within the step. */
void emit_again(struct pool *p, struct waiter *w)
{
    struct fx_rec *r = push(p, POOL_FX_AGAIN, NULL);

    r->waiter = w;
    r->a = w->req.v;
}

void emit_event(struct pool *p, enum pool_fact fact, struct slot *s, const char *reason)
{
    struct fx_rec *r = push(p, POOL_FX_EVENT, s);

    r->what = (unsigned char) fact;
    r->end = s != NULL ? (unsigned char) s->box.end : POOL_END_NONE;
    r->a = s != NULL ? s->box.epoch : 0;
    r->reason = reason;
}

uint64_t emit_store(struct pool *p, enum pool_write what, struct slot *s)
{
    struct fx_rec *r = push(p, POOL_FX_STORE, s);

    p->write++;
    r->what = (unsigned char) what;
    r->a = s != NULL ? s->box.epoch : 0;
    r->b = p->write;
    return p->write;
}

void emit_reply_ok(struct pool *p, struct req_id req, struct slot *s, enum pool_source source,
                   uint64_t queued_ns)
{
    struct fx_rec *r = push(p, POOL_FX_REPLY, s);

    r->code = SP_OK;
    r->what = (unsigned char) source;
    r->a = req.v;
    r->c = queued_ns;
}

void emit_refusal(struct pool *p, struct req_id req, const struct refusal *why, uint64_t queued_ns)
{
    struct fx_rec *r = push(p, POOL_FX_REPLY, NULL);

    assert(!err_is_inner(why->code));
    r->code = why->code;
    r->end = (unsigned char) why->lost;
    r->a = req.v;
    r->b = why->retry_after_ns;
    r->c = queued_ns;
    r->reason = why->reason;
}

static void fill_reply(const struct fx_rec *r, struct pool_fx *ret)
{
    ret->req.v = r->a;
    ret->u.reply.code = r->code;
    ret->u.reply.source = (enum pool_source) r->what;
    ret->u.reply.retry_after_ns = r->b;
    ret->u.reply.lost = (enum pool_end) r->end;
    ret->u.reply.queued_ns = r->c;
}

static void fill_discover(const struct fx_rec *r, struct pool_fx *ret)
{
    const struct pool_acquire *a = &r->waiter->acquire;

    ret->box.v = r->waiter->req.v;
    ret->epoch = r->a;
    ret->deadline_ns = r->b;
    ret->snapshot.id = ret->box;
    ret->snapshot.epoch = r->a;
    ret->snapshot.profile = a->profile;
    ret->snapshot.backend = r->backend;
    memcpy(ret->snapshot.sandbox_id, a->sandbox_id, sizeof(ret->snapshot.sandbox_id));
    memcpy(ret->snapshot.user, a->user, sizeof(ret->snapshot.user));
    memcpy(ret->snapshot.thread, a->thread, sizeof(ret->snapshot.thread));
}

/* A box may change again within the step, but the event describes this moment. */
static void fill_event(const struct fx_rec *r, struct pool_fx *ret)
{
    ret->epoch = r->a;
    ret->u.event.fact = (enum pool_fact) r->what;
    ret->u.event.end = (enum pool_end) r->end;
    ret->snapshot.state = (enum pool_state) r->state;
    if (!r->has_owner) {
        memset(ret->snapshot.sandbox_id, 0, sizeof(ret->snapshot.sandbox_id));
        memset(ret->snapshot.user, 0, sizeof(ret->snapshot.user));
        memset(ret->snapshot.thread, 0, sizeof(ret->snapshot.thread));
        ret->snapshot.generation = 0;
    }
}

bool pool_next_fx(struct pool *p, struct pool_fx *ret)
{
    const struct fx_rec *r;

    if (p->fx_next == p->fx_len)
        return false;
    r = &p->fx[p->fx_next];
    p->fx_next++;
    memset(ret, 0, sizeof(*ret));
    ret->kind = (enum pool_fx_kind) r->kind;
    if (r->slot != NULL)
        ret->snapshot = r->slot->box;
    ret->box = ret->snapshot.id;
    if (r->reason != NULL)
        str_copy_cut(ret->reason, sizeof(ret->reason), r->reason);
    switch (ret->kind) {
    case POOL_FX_STORE:
        ret->epoch = r->a;
        ret->u.store.what = (enum pool_write) r->what;
        ret->u.store.write = r->b;
        break;
    case POOL_FX_DESTROY:
        if (r->slot == NULL) {
            ret->snapshot = p->slotless;
            ret->box = p->slotless.id;
        }
        ret->epoch = r->a;
        ret->deadline_ns = r->b;
        break;
    case POOL_FX_CHECK:
        ret->u.check.is_missing = r->what != 0;
        ret->epoch = r->a;
        ret->deadline_ns = r->b;
        break;
    case POOL_FX_CREATE:
    case POOL_FX_PROBE:
    case POOL_FX_ASK_USE:
    case POOL_FX_BIND:
    case POOL_FX_HIBERNATE:
    case POOL_FX_FREEZE:
        ret->epoch = r->a;
        ret->deadline_ns = r->b;
        break;
    case POOL_FX_DISCOVER:
        fill_discover(r, ret);
        break;
    case POOL_FX_REPLY:
        fill_reply(r, ret);
        break;
    case POOL_FX_AGAIN:
        ret->req.v = r->a;
        ret->u.again = &r->waiter->acquire;
        break;
    case POOL_FX_EVENT:
        fill_event(r, ret);
        break;
    case POOL_FX_COUNT:
        assert(false);
    }
    return true;
}
