/* quota.c - see quota.h. What a holder has is counted as it changes, so asking costs two look-ups. A box that is on its way to an acquire
 * is counted as a claim from the moment the acquire may go on: acquires that wait at the same time do not get together what one of
 * them could have. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "pool/internal.h"

#define MINUTE_NS (60 * NS_PER_S)
#define RETRY_NS (1 * NS_PER_S) /* nobody knows when a box is given back */

enum { SPARE = 1024, MAP_MAX = 4096 };

/* --- holders --- */

struct holder_key {
    enum pool_level level;
    uint64_t principal;
    const char *user;
};

static uint64_t hash_key(const struct holder_key *k)
{
    uint64_t hash = hash_u64(k->principal);

    return k->level == POOL_LEVEL_USER ? hash_u64(hash ^ hash_str(k->user)) : hash;
}

static bool eq_holder(const struct map_node *node, const void *key)
{
    const struct holder *h = container_of(node, struct holder, by_key);
    const struct holder_key *k = key;

    return h->level == k->level && h->principal == k->principal &&
           (k->level == POOL_LEVEL_CALLER || strcmp(h->user, k->user) == 0);
}

static struct holder *find(const struct pool *p, const struct holder_key *key)
{
    struct map_node *n = map_find(&p->quota.map, hash_key(key), eq_holder, key);

    return n != NULL ? container_of(n, struct holder, by_key) : NULL;
}

static bool has_nothing(const struct holder *h)
{
    return h->held + h->claims + h->waiting == 0;
}

/* One that has nothing is remembered for its new leases, as long as its place is not needed. */
static struct holder *take_place(struct quota *q)
{
    struct list_node *n = list_pop_front(&q->free);
    struct holder *h;

    if (n != NULL)
        return container_of(n, struct holder, link);
    if (q->count < q->max) {
        q->count++;
        return &q->all[q->count - 1];
    }
    n = list_pop_front(&q->idle);
    assert(n != NULL); /* there is room for more than can have something */
    h = container_of(n, struct holder, link);
    map_remove(&q->map, &h->by_key);
    return h;
}

static struct holder *need(struct pool *p, const struct holder_key *key)
{
    struct quota *q = &p->quota;
    struct holder *h = find(p, key);

    if (h != NULL) {
        if (has_nothing(h))
            list_remove(&q->idle, &h->link);
        return h;
    }
    h = take_place(q);
    memset(h, 0, sizeof(*h));
    h->level = key->level;
    h->principal = key->principal;
    if (key->level == POOL_LEVEL_USER)
        str_copy_cut(h->user, sizeof(h->user), key->user);
    map_insert(&q->map, &h->by_key, hash_key(key));
    return h;
}

/* After something of it has gone, or need() without anything added. */
static void drop_if_idle(struct pool *p, struct holder *h)
{
    struct quota *q = &p->quota;

    if (!has_nothing(h))
        return;
    if (h->paid_ns > p->now_ns) {
        list_push_back(&q->idle, &h->link);
        return;
    }
    map_remove(&q->map, &h->by_key);
    list_push_front(&q->free, &h->link);
}

size_t holders_room(const struct pool *p)
{
    return POOL_LEVEL_COUNT * (p->slot_count + p->waiter_max) + SPARE;
}

void holders_init(struct pool *p, struct holder *all)
{
    struct quota *q = &p->quota;

    q->is_on = all != NULL;
    q->all = all;
    q->max = all != NULL ? holders_room(p) : 0;
    list_init(&q->free);
    list_init(&q->idle);
    if (q->is_on)
        map_init(&q->map, MIN_OF(q->max, (size_t) MAP_MAX));
}

void holders_fini(struct pool *p)
{
    map_fini(&p->quota.map);
}

void holders_set(struct pool *p, const struct pool_config *config)
{
    memcpy(p->quota.limits, config->quotas, sizeof(p->quota.limits));
}

/* --- what they have --- */

/* One that is being released counts until that is committed; its row may also be written because it is paused while it is parked. */
static bool is_counted(const struct slot *s)
{
    enum pool_state state = s->box.state;

    if (state == POOL_PARKING)
        return s->holders[POOL_LEVEL_CALLER] != NULL;
    return s->box.sandbox_id[0] != '\0' &&
           (state == POOL_INTENT || state == POOL_CREATING || state == POOL_STARTING ||
            state == POOL_LEASING || state == POOL_LEASED);
}

static bool is_holder_of(const struct holder *h, const struct slot *s)
{
    return h->principal == s->box.principal &&
           (h->level == POOL_LEVEL_CALLER || strcmp(h->user, s->box.user) == 0);
}

void holders_settle(struct pool *p, struct slot *s)
{
    bool is_in = is_counted(s);

    if (!p->quota.is_on)
        return;
    for (int i = 0; i < POOL_LEVEL_COUNT; i++) {
        struct holder_key key = {(enum pool_level) i, s->box.principal, s->box.user};
        struct holder *was = s->holders[i];

        if (was != NULL && is_in && is_holder_of(was, s))
            continue;
        s->holders[i] = NULL;
        if (was != NULL) {
            was->held--;
            drop_if_idle(p, was);
        }
        if (is_in) {
            s->holders[i] = need(p, &key);
            s->holders[i]->held++;
        }
    }
}

static void count(unsigned *n, bool is_more)
{
    assert(is_more || *n > 0);
    *n = is_more ? *n + 1 : *n - 1;
}

static struct holder *holder_of(struct pool *p, const struct waiter *w, int level)
{
    struct holder_key key = {(enum pool_level) level, w->acquire.principal, w->acquire.user};

    return need(p, &key);
}

void holders_claim(struct pool *p, const struct waiter *w, bool is_more)
{
    for (int i = 0; p->quota.is_on && i < POOL_LEVEL_COUNT; i++) {
        struct holder *h = holder_of(p, w, i);

        count(&h->claims, is_more);
        drop_if_idle(p, h);
    }
}

void holders_wait(struct pool *p, const struct waiter *w, bool is_more)
{
    if (w->kind != POOL_EV_ACQUIRE)
        return;
    for (int i = 0; p->quota.is_on && i < POOL_LEVEL_COUNT; i++) {
        struct holder *h = holder_of(p, w, i);

        count(&h->waiting, is_more);
        drop_if_idle(p, h);
    }
}

/* --- whether there may be more --- */

static bool is_claim(const struct waiter *w)
{
    return w->phase == WAITER_QUEUED || w->phase == WAITER_DISCOVERING || w->phase == WAITER_PAUSED;
}

static bool is_waiting(const struct waiter *w)
{
    return is_claim(w) || w->phase == WAITER_JOINED || w->phase == WAITER_BOX;
}

struct quota_kind {
    int code;
    const char *what;
    const char *key;
};

static const struct quota_kind of_boxes = {SP_QUOTA_BOXES, "boxes", "boxes"};
static const struct quota_kind of_waiting = {SP_QUOTA_WAITING, "acquires that wait", "waiting"};
static const struct quota_kind of_creates = {SP_QUOTA_CREATES, "new sandboxes in this minute",
                                             "per_minute"};

/* "user 'ana' of this caller has 5 boxes, its quota (quotas.user_boxes)" */
static void refuse(struct pool *p, const struct waiter *w, int level, const struct quota_kind *kind,
                   unsigned limit, uint64_t retry_ns, struct refusal *ret)
{
    char user[80] = "this caller has";

    if (level == POOL_LEVEL_USER)
        (void) snprintf(user, sizeof(user), "user '%.40s' of this caller has", w->acquire.user);
    (void) snprintf(p->reason, sizeof(p->reason), "%s %u %s, its quota (quotas.%s_%s)", user, limit,
                    kind->what, level == POOL_LEVEL_USER ? "user" : "caller", kind->key);
    *ret = (struct refusal){.code = kind->code, .reason = p->reason, .retry_after_ns = retry_ns};
}

static const struct holder *look(const struct pool *p, const struct waiter *w, int level)
{
    static const struct holder nobody;
    struct holder_key key = {(enum pool_level) level, w->acquire.principal, w->acquire.user};
    const struct holder *h = find(p, &key);

    return h != NULL ? h : &nobody;
}

static bool is_free(const struct pool *p, const struct waiter *w)
{
    return !p->quota.is_on || w->acquire.is_operator;
}

bool holders_allow_box(struct pool *p, const struct waiter *w, struct refusal *ret)
{
    if (is_free(p, w))
        return true;
    for (int i = POOL_LEVEL_COUNT - 1; i >= 0; i--) {
        unsigned limit = p->quota.limits[i].boxes;
        const struct holder *h = look(p, w, i);

        if (limit == 0 || h->held + h->claims < limit)
            continue;
        refuse(p, w, i, &of_boxes, limit, RETRY_NS, ret);
        return false;
    }
    return true;
}

bool holders_allow_wait(struct pool *p, const struct waiter *w, struct refusal *ret)
{
    if (is_free(p, w) || is_waiting(w)) /* it has its place */
        return true;
    for (int i = POOL_LEVEL_COUNT - 1; i >= 0; i--) {
        unsigned limit = p->quota.limits[i].waiting;

        if (limit == 0 || look(p, w, i)->waiting < limit)
            continue;
        refuse(p, w, i, &of_waiting, limit, RETRY_NS, ret);
        return false;
    }
    return true;
}

/* Each new lease is worth an equal part of a minute; those of a minute may come at once. */
bool holders_allow_lease(struct pool *p, struct waiter *w, struct refusal *ret)
{
    if (is_free(p, w) || w->is_paid)
        return true;
    for (int i = POOL_LEVEL_COUNT - 1; i >= 0; i--) {
        unsigned limit = p->quota.limits[i].per_minute;
        uint64_t part_ns = limit > 0 ? MINUTE_NS / limit : 0;
        uint64_t paid_ns = MAX_OF(look(p, w, i)->paid_ns, p->now_ns);
        uint64_t ahead_ns = paid_ns + part_ns - p->now_ns;

        if (limit == 0 || ahead_ns <= MINUTE_NS)
            continue;
        refuse(p, w, i, &of_creates, limit, ahead_ns - MINUTE_NS, ret);
        return false;
    }
    w->is_paid = true;
    for (int i = 0; i < POOL_LEVEL_COUNT; i++) {
        unsigned limit = p->quota.limits[i].per_minute;
        struct holder *h;

        if (limit == 0)
            continue;
        h = holder_of(p, w, i);
        h->paid_ns = MAX_OF(h->paid_ns, p->now_ns) + MINUTE_NS / limit;
        drop_if_idle(p, h);
    }
    return true;
}

/* --- check --- */

static const char *check_holder(const struct pool *p, const struct holder *h)
{
    unsigned held = 0;
    unsigned claims = 0;
    unsigned waiting = 0;

    for (size_t i = 0; i < p->slot_count; i++)
        held += is_counted(&p->slots[i]) && is_holder_of(h, &p->slots[i]) ? 1 : 0;
    for (size_t i = 0; i < p->waiter_count; i++) {
        const struct waiter *w = &p->waiters[i];
        bool is_own = w->kind == POOL_EV_ACQUIRE && w->acquire.principal == h->principal &&
                      (h->level == POOL_LEVEL_CALLER || strcmp(h->user, w->acquire.user) == 0);

        claims += is_own && is_claim(w) ? 1 : 0;
        waiting += is_own && is_waiting(w) ? 1 : 0;
    }
    if (held != h->held)
        return "the boxes of a holder of quotas differ from a recount";
    if (claims != h->claims || waiting != h->waiting)
        return "the acquires of a holder of quotas differ from a recount";
    return NULL;
}

const char *holders_check(const struct pool *p)
{
    const struct quota *q = &p->quota;
    const char *why = NULL;
    size_t linked = 0;

    if (!q->is_on)
        return NULL;
    for (size_t i = 0; i < p->slot_count && why == NULL; i++)
        for (int k = 0; k < POOL_LEVEL_COUNT && why == NULL; k++) {
            const struct slot *s = &p->slots[i];

            if (is_counted(s) != (s->holders[k] != NULL) ||
                (s->holders[k] != NULL && !is_holder_of(s->holders[k], s)))
                why = "a box is not counted for its owner's quota, or another one is";
        }
    for (size_t i = 0; i < q->count && why == NULL; i++) {
        linked += q->all[i].by_key.is_linked ? 1 : 0;
        if (q->all[i].by_key.is_linked)
            why = check_holder(p, &q->all[i]);
    }
    if (why == NULL && linked + q->free.len != q->count)
        why = "a holder of quotas is lost";
    return why;
}
