/* fx_store.c - effects that end in the store: rows of boxes and leases, and the pool's mode. Each
 * write carries its own copy of what it writes until it is committed. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/internal.h"
#include "engine/sampler.h"

struct box_write {
    struct store_write write;
    struct list_node link; /* in free_writes while unused */
    struct engine *engine;
    enum pool_write what;
    uint64_t number;
    uint64_t epoch;
    struct pool_box box;
    char profile[POOL_NAME_MAX + 1];
    char currency[CONFIG_CURRENCY_MAX + 1];
    struct store_used used;
    char *metadata;
};

static const char *row_state(enum pool_state state)
{
    switch (state) {
    case POOL_INTENT:
    case POOL_CREATING:
        return "intent";
    case POOL_STARTING:
        return "starting";
    case POOL_BLANK:
        return "blank";
    case POOL_LEASING:
    case POOL_LEASED:
        return "leased";
    case POOL_PARKING:
    case POOL_PARKED:
        return "parked";
    case POOL_DOOMED:
    case POOL_DESTROYING:
    case POOL_FORGETTING:
    case POOL_FREE:
    case POOL_STATE_COUNT:
        break;
    }
    return "deleting";
}

static uint64_t stored_or_zero(const struct engine *e, uint64_t at_ns)
{
    return at_ns == 0 || at_ns == POOL_NEVER ? 0 : rt_stored_at(e->rt, at_ns);
}

static void fill_row(struct box_write *w)
{
    struct engine *e = w->engine;
    const struct pool_box *b = &w->box;

    str_copy_cut(w->profile, sizeof(w->profile), profiles_name(e, b->profile));
    w->write.u.box = (struct store_box){
        .id = b->id.v,
        .state = row_state(b->state),
        .profile = w->profile,
        .backend = e->backends[b->backend].key,
        .spec_hash = b->spec_hash,
        .sandbox_id = b->sandbox_id,
        .user = b->user,
        .thread = b->thread,
        .principal = b->principal,
        .generation = b->generation,
        .made_with = b->made_with,
        .url = b->url,
        .token = b->token,
        .ref = b->ref,
        .life = b->life,
        .meta = w->metadata,
        .created_ms = stored_or_zero(e, b->created_ns),
        .ready_ms = stored_or_zero(e, b->ready_ns),
        .leased_ms = stored_or_zero(e, b->leased_ns),
        .parked_ms = stored_or_zero(e, b->parked_ns),
        .active_ms = stored_or_zero(e, b->active_ns),
        .expires_ms = stored_or_zero(e, b->expires_ns),
        .idle_limit_ms = b->idle_ns == POOL_NEVER ? 0 : b->idle_ns / NS_PER_MS,
        .end = b->end == POOL_END_NONE ? "" : pool_end_name(b->end),
        .is_paused = b->is_paused,
        .is_stale = b->is_stale && b->is_unseen, /* else a listing has proved its owner */
        .true_ms = usage_true_ms(e, b),
        .price = usage_price(e, b->profile, w->currency),
        .used = w->what == POOL_WRITE_DELETING ? &w->used : NULL,
    };
    w->used.is_known = false;
}

static struct box_write *write_take(struct engine *e)
{
    struct list_node *n = list_pop_front(&e->free_writes);

    if (n != NULL)
        return container_of(n, struct box_write, link);
    return xcalloc(1, sizeof(struct box_write));
}

static void write_give(struct engine *e, struct box_write *w)
{
    free(TAKE_PTR(w->metadata));
    if (e->free_writes.len < 256)
        list_push_back(&e->free_writes, &w->link);
    else
        free(w);
}

void fx_store_fini(struct engine *e)
{
    struct list_node *n;

    while ((n = list_pop_front(&e->free_writes)) != NULL)
        free(container_of(n, struct box_write, link));
}

static void on_box_written(struct op *op)
{
    struct box_write *w = container_of(op, struct box_write, write.op);
    struct engine *e = w->engine;
    struct box_id box = w->box.id;
    struct pool_event ev = {.kind = op->result == SP_OK ? POOL_EV_STORED : POOL_EV_STORE_FAILED,
                            .box = box,
                            .epoch = w->epoch,
                            .u.stored = {.write = w->number, .expires_ns = w->box.expires_ns}};

    if (op->result != SP_OK)
        log_warn("store.write_failed", LF_HEX("box", box.v), LF_STR("reason", op->err.msg));
    else if (w->what == POOL_WRITE_DELETING)
        report_note_used(e, box, &w->used);
    write_give(e, w);
    engine_post(e, &ev);
    if (pool_find_box(e->pool, box) == NULL) /* forgotten, or its intent could not be written */
        note_drop(e, box);
    engine_op_ended(e);
}

static bool has_sandbox_id(const struct map_node *node, const void *key)
{
    const struct engine_call *call = container_of(node, struct engine_call, pending_node);

    return call->metadata != NULL && strcmp(call->sandbox_id, key) == 0;
}

/* The metadata of a lease is that of the acquire that asked for it last. */
static void bind_metadata(struct engine *e, const struct pool_box *box)
{
    struct map_node *n =
        map_find(&e->pending, hash_str(box->sandbox_id), has_sandbox_id, box->sandbox_id);

    if (n != NULL)
        note_set_metadata(e, box, container_of(n, struct engine_call, pending_node)->metadata);
}

/* Its name is used again, and a backend of a later life must recognize it. */
static bool may_return(const struct engine *e, const struct pool_box *box)
{
    const struct backend_ops *ops = e->backends[box->backend].ops;

    return ops->may_return != NULL && ops->may_return(box->ref);
}

void fx_store(struct engine *e, const struct pool_fx *fx)
{
    if (!sampler_hold_end(e, fx))
        fx_store_now(e, fx);
}

void fx_store_now(struct engine *e, const struct pool_fx *fx)
{
    static const enum store_kind kinds[POOL_WRITE_COUNT] = {
        [POOL_WRITE_BOX] = STORE_PUT_BOX,       [POOL_WRITE_LEASE] = STORE_PUT_LEASE,
        [POOL_WRITE_DELETING] = STORE_DELETING, [POOL_WRITE_FORGET] = STORE_FORGET,
        [POOL_WRITE_MODE] = STORE_PUT_META,
    };
    struct box_write *w;

    clock_note(e);
    w = write_take(e);
    w->engine = e;
    w->what = fx->u.store.what;
    w->number = fx->u.store.write;
    w->epoch = fx->epoch;
    w->box = fx->snapshot;
    w->write.kind = kinds[w->what];
    if (w->what == POOL_WRITE_MODE) {
        struct pool_stats stats;

        pool_get_stats(e->pool, &stats);
        w->write.want_power = false;
        w->write.want_stamp = false;
        w->write.want_gone = false;
        w->write.u.meta.key = META_MODE;
        w->metadata = modes_text(e, stats.mode, stats.mode_text);
        w->write.u.meta.value = w->metadata;
    } else {
        const struct engine_note *note;

        note_drop_stale(e, &w->box);
        if (w->box.state == POOL_INTENT && w->box.sandbox_id[0] != '\0')
            special_intent(e, &w->box);
        if (w->what == POOL_WRITE_LEASE)
            bind_metadata(e, &w->box);
        note = note_find(e, w->box.id);
        if (note != NULL && note->metadata != NULL)
            w->metadata = xstrdup(note->metadata);
        w->write.want_power = profiles_want_power(e, &w->box);
        w->write.want_stamp =
            w->what == POOL_WRITE_LEASE && !e->backends[w->box.backend].ops->can_bind;
        w->write.want_gone = w->what == POOL_WRITE_FORGET && may_return(e, &w->box);
        fill_row(w);
        usage_arm(e);
        sampler_arm(e);
    }
    engine_op_begun(e);
    store_submit(e->store, &w->write, on_box_written);
}
