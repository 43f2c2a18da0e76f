/* holders.c - see holders.h. Of each profile the oldest lease is at the top of a heap, so nobody looks at all of them. */
#include "engine/holders.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/internal.h"

enum { REPORTS_MAX = 64 }; /* in one turn */

struct holder {
    struct map_node node;
    struct list_node link;
    struct heap_node old; /* by leased_ns, until it is reported */
    struct box_id box;
    unsigned profile;
    uint64_t leased_ns; /* 0: it is not leased */
    bool is_leaking;
    struct engine_deed deed;
};

static void on_timer(struct rt_timer *timer);

static bool is_box(const struct map_node *node, const void *key)
{
    const struct box_id *id = key;

    return container_of(node, struct holder, node)->box.v == id->v;
}

static struct holder *find(const struct engine *e, struct box_id box)
{
    struct map_node *n = map_find(&e->leases.map, hash_u64(box.v), is_box, &box);

    return n != NULL ? container_of(n, struct holder, node) : NULL;
}

static struct holder *make(struct engine *e, struct box_id box)
{
    struct holder *h = find(e, box);

    if (h != NULL)
        return h;
    h = xcalloc(1, sizeof(*h));
    h->box = box;
    map_insert(&e->leases.map, &h->node, hash_u64(box.v));
    list_push_back(&e->leases.list, &h->link);
    return h;
}

void leases_init(struct engine *e, const struct config *c)
{
    map_init(&e->leases.map, c->pool.max_boxes);
    list_init(&e->leases.list);
    for (unsigned i = 0; i < POOL_PROFILES_MAX; i++)
        heap_init(&e->leases.profiles[i].oldest, 0);
}

void leases_close(struct engine *e)
{
    rt_timer_cancel(e->rt, &e->leases.timer);
}

static void drop(struct engine *e, struct holder *h)
{
    heap_remove(&e->leases.profiles[h->profile].oldest, &h->old);
    map_remove(&e->leases.map, &h->node);
    list_remove(&e->leases.list, &h->link);
    free(h);
}

void leases_fini(struct engine *e)
{
    while (!list_is_empty(&e->leases.list))
        drop(e, container_of(list_first(&e->leases.list), struct holder, link));
    for (unsigned i = 0; i < POOL_PROFILES_MAX; i++)
        heap_fini(&e->leases.profiles[i].oldest);
    map_fini(&e->leases.map);
}

/* --- leases that last too long --- */

/* When the oldest lease of a profile is to be reported. */
static uint64_t due_ns(struct engine *e, unsigned profile)
{
    const struct config_profile *c = profiles_config(e, profile);
    const struct heap_node *top = heap_top(&e->leases.profiles[profile].oldest);

    if (c == NULL || c->leak_after_s == 0 || top == NULL)
        return RT_NEVER;
    return rt_after(top->key, c->leak_after_s * NS_PER_S);
}

void leases_rank(struct engine *e)
{
    uint64_t first_ns = RT_NEVER;
    struct pool_stats stats;

    pool_get_stats(e->pool, &stats);
    for (unsigned i = 0; i < stats.profile_count; i++)
        first_ns = MIN_OF(first_ns, due_ns(e, i));
    if (!e->is_closing)
        rt_timer_set(e->rt, &e->leases.timer, first_ns, on_timer);
}

static void report(struct engine *e, struct holder *h)
{
    struct engine_leaks *leaks = &e->leases.profiles[h->profile].leaks;
    const struct pool_box *box = pool_find_box(e->pool, h->box);

    h->is_leaking = true;
    leaks->now++;
    leaks->total++;
    if (box != NULL)
        event_leak(e, box, &h->deed, true);
}

static void on_timer(struct rt_timer *timer)
{
    struct engine *e = container_of(timer, struct engine, leases.timer);
    unsigned left = REPORTS_MAX;
    struct pool_stats stats;

    pool_get_stats(e->pool, &stats);
    for (unsigned i = 0; i < stats.profile_count; i++)
        while (left > 0 && due_ns(e, i) <= rt_now(e->rt)) {
            struct heap *oldest = &e->leases.profiles[i].oldest;
            struct holder *h = container_of(heap_top(oldest), struct holder, old);

            heap_remove(oldest, &h->old);
            report(e, h);
            left--;
        }
    leases_rank(e);
}

void holder_begin(struct engine *e, const struct pool_box *box)
{
    struct holder *h = make(e, box->id);
    struct heap *oldest = &e->leases.profiles[box->profile].oldest;

    if (h->leased_ns == box->leased_ns && h->profile == box->profile)
        return; /* the lease that it had */
    holder_end(e, box->id);
    h->leased_ns = box->leased_ns;
    h->profile = box->profile;
    heap_insert(oldest, &h->old, box->leased_ns);
    if (heap_top(oldest) == &h->old)
        leases_rank(e);
    if (box->principal >> 63 == 0)
        (void) engine_uid_name(e, box->principal); /* so that it is known when somebody asks */
}

void holder_end(struct engine *e, struct box_id box)
{
    struct holder *h = find(e, box);
    const struct pool_box *left = pool_find_box(e->pool, box);

    if (h == NULL || h->leased_ns == 0)
        return;
    heap_remove(&e->leases.profiles[h->profile].oldest, &h->old);
    if (h->is_leaking) {
        e->leases.profiles[h->profile].leaks.now--;
        if (left != NULL && !e->is_closing)
            event_leak(e, left, &h->deed, false);
    }
    h->is_leaking = false;
    h->leased_ns = 0;
}

void holder_drop(struct engine *e, struct box_id box)
{
    struct holder *h = find(e, box);

    if (h == NULL)
        return;
    holder_end(e, box);
    drop(e, h);
}

void holder_event(struct engine *e, const struct pool_fx *fx)
{
    switch (fx->u.event.fact) {
    case POOL_FACT_LEASED:
        holder_begin(e, &fx->snapshot);
        break;
    case POOL_FACT_ADOPTED:
        if (fx->snapshot.state == POOL_LEASED)
            holder_begin(e, &fx->snapshot);
        break;
    case POOL_FACT_PARKED:
    case POOL_FACT_DOOMED:
    case POOL_FACT_LOST:
    case POOL_FACT_GONE:
        holder_end(e, fx->snapshot.id);
        break;
    case POOL_FACT_CREATED:
    case POOL_FACT_READY:
    case POOL_FACT_RENEWED:
    case POOL_FACT_PAUSED:
    case POOL_FACT_RESUMED:
    case POOL_FACT_CREATE_FAILED:
    case POOL_FACT_BREAKER_OPEN:
    case POOL_FACT_BREAKER_CLOSED:
    case POOL_FACT_MODE:
    case POOL_FACT_MISSING:
    case POOL_FACT_DISK_LOW:
    case POOL_FACT_DISK_OK:
    case POOL_FACT_EXHAUSTED:
    case POOL_FACT_AVAILABLE:
    case POOL_FACT_IDLE_UNKNOWN:
    case POOL_FACT_HIBERNATE_FAILED:
    case POOL_FACT_COUNT:
        break;
    }
}

/* --- what others ask --- */

void engine_note_deed(struct engine *e, struct box_id box, const char *verb, const char *from)
{
    struct holder *h;

    if (pool_find_box(e->pool, box) == NULL)
        return; /* it has gone meanwhile: nobody would drop what is noted */
    h = make(e, box);
    h->deed.at_ns = rt_now(e->rt);
    str_copy_cut(h->deed.verb, sizeof(h->deed.verb), verb);
    str_copy_cut(h->deed.from, sizeof(h->deed.from), from);
}

const struct engine_deed *engine_deed(const struct engine *e, struct box_id box)
{
    const struct holder *h = find(e, box);

    return h != NULL && h->deed.at_ns != 0 ? &h->deed : NULL;
}

bool engine_is_leaking(const struct engine *e, struct box_id box)
{
    const struct holder *h = find(e, box);

    return h != NULL && h->is_leaking;
}

void engine_get_leaks(const struct engine *e, unsigned profile, struct engine_leaks *ret)
{
    *ret = e->leases.profiles[profile].leaks;
}
