/* remains.c - durable boxes that have ended, with the machine or alone: their files become a snapshot, as if the box had
 * been hibernated. Its row says whose it is; the labels do where there is no row, or an older copy of it. */
#include "base/rand.h"
#include "base/str.h"
#include "engine/hibernate.h"
#include "engine/internal.h"
#include "engine/snapshot_side.h"

static bool is_promised(const struct pool_box *b)
{
    return b->state == POOL_LEASING || b->state == POOL_LEASED || b->state == POOL_PARKING ||
           b->state == POOL_PARKED;
}

/* When the box would have ended by itself. Nobody could use it since it died, so its idle time begins anew. */
static uint64_t end_of(struct engine *e, const struct pool_box *b)
{
    const struct pool_profile *p = pool_profile(e->pool, b->profile);
    uint64_t now_ns = rt_now(e->rt);
    uint64_t at_ns = POOL_NEVER;

    if (p->want_hibernate)
        return 0;
    if (b->state == POOL_PARKED || b->state == POOL_PARKING)
        at_ns = rt_after(b->state == POOL_PARKED ? b->parked_ns : now_ns, p->park_ns);
    else if (b->idle_ns != POOL_NEVER)
        at_ns = MIN_OF(b->expires_ns, rt_after(now_ns, b->idle_ns));
    else
        at_ns = b->expires_ns;
    return at_ns == POOL_NEVER ? 0 : (uint64_t) rt_wall_at(e->rt, at_ns);
}

void snapshots_describe(struct engine *e, const struct pool_box *box, struct snapshot *s)
{
    rand_secure(&s->id, sizeof(s->id));
    str_copy_cut(s->instance, sizeof(s->instance), e->instance);
    str_copy_cut(s->profile, sizeof(s->profile), profiles_name(e, box->profile));
    str_copy_cut(s->sandbox_id, sizeof(s->sandbox_id), box->sandbox_id);
    str_copy_cut(s->user, sizeof(s->user), box->user);
    str_copy_cut(s->thread, sizeof(s->thread), box->thread);
    s->principal = box->principal;
    s->generation = box->generation;
    s->box_id = box->id.v;
    hibernate_put_times(e, s);
}

static void take_row(struct engine *e, const struct pool_box *b, struct snapshot *ret)
{
    const char *metadata = engine_metadata(e, b->id);

    snapshots_describe(e, b, ret);
    ret->until_ms = end_of(e, b);
    if (metadata != NULL)
        str_copy_cut(ret->metadata, sizeof(ret->metadata), metadata);
}

static void take_labels(struct engine *e, const struct backend_labels *l, struct snapshot *ret)
{
    rand_secure(&ret->id, sizeof(ret->id));
    str_copy_cut(ret->instance, sizeof(ret->instance), e->instance);
    str_copy_cut(ret->profile, sizeof(ret->profile), l->profile);
    str_copy_cut(ret->sandbox_id, sizeof(ret->sandbox_id), l->sandbox_id);
    str_copy_cut(ret->user, sizeof(ret->user), l->user);
    str_copy_cut(ret->thread, sizeof(ret->thread), l->thread);
    ret->principal = l->principal;
    ret->generation = l->generation;
    ret->box_id = l->box_id;
    hibernate_put_times(e, ret);
}

bool remains_wanted(void *ctx, const struct backend_labels *labels, struct snapshot *ret)
{
    struct engine *e = ((struct engine_backend *) ctx)->engine;
    const struct pool_box *b = pool_find_box(e->pool, (struct box_id){labels->box_id});
    bool is_older = b == NULL || (b->is_stale && str_is_empty(b->sandbox_id));

    struct err err;

    if (share_check(e, b != NULL ? b->principal : labels->principal, &err) != SP_OK) {
        log_warn("hibernate.too_many", LF_HEX("box", labels->box_id), LF_STR("reason", err.msg));
        return false;
    }
    if (b != NULL && is_promised(b) && !str_is_empty(b->thread))
        take_row(e, b, ret);
    else if (is_older && !str_is_empty(labels->thread) && !str_is_empty(labels->sandbox_id))
        take_labels(e, labels, ret);
    else
        return false;
    ret->is_hibernated = true;
    return true;
}

void remains_kept(void *ctx, const struct snapshot *s)
{
    struct engine_backend *b = ctx;
    struct engine *e = b->engine;
    struct pool_event ev = {.kind = POOL_EV_KEPT, .box = {s->box_id}};
    struct engine_snapshot *known;
    struct snapshot_side none = {0};

    log_info("box.kept", LF_HEX("box", s->box_id), LF_STR("sandbox_id", s->sandbox_id),
             LF_HEX("snapshot", s->id));
    snapshots_add(e, s, (unsigned) (b - e->backends), &none, false);
    engine_post(e, &ev);
    known = engine_snapshot_find(e, s->id);
    if (known != NULL && pool_find_sandbox(e->pool, s->sandbox_id) == NULL &&
        hibernate_is_unwanted(e, s))
        hibernate_drop(e, known); /* it was destroyed meanwhile */
}
