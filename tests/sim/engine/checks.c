/* checks.c - what must be true after every turn of the loop, whatever has happened. A caller that
 * has seen token and address of a box once may use them for ever, so nobody else may get that
 * box. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "walk.h"

void checks_saw(const struct pool_box *b)
{
    struct walk_box *real = boxes_find(b->id.v);

    if (real == NULL)
        walk_fail("a box was shown that never existed");
    if (real->seen_by != 0 && real->seen_by != b->principal)
        walk_fail("a token was seen by two principals");
    if (real->owner[0] != '\0' && strcmp(real->owner, b->sandbox_id) != 0)
        walk_fail("a used box was shown to another thread");
    if (strcmp(real->token, b->token) != 0)
        walk_fail("a box was shown with a token that is not its own");
    real->seen_by = b->principal;
    str_copy_cut(real->owner, sizeof(real->owner), b->sandbox_id);
}

/* Somebody may still get it, or the pool will be notified that nobody did. */
static bool is_on_its_way(const struct pool_box *b)
{
    for (struct list_node *n = list_first(&walk.requests); n != NULL;
         n = list_next(&walk.requests, n)) {
        const struct walk_request *r = container_of(n, const struct walk_request, link);
        bool is_same = strcmp(r->sandbox_id, b->sandbox_id) == 0;

        if (is_same && (!r->is_answered || (r->is_lost && r->box == b->id.v)))
            return true;
    }
    return backends_is_updating(boxes_find(b->id.v)); /* its caller has disconnected in the
                                                       * meantime */
}

/* None of its replies was delivered: it would stay until its deadline, if it has one. */
static void check_lease(const struct pool_box *b)
{
    const struct walk_box *real = boxes_find(b->id.v);

    if (b->state == POOL_LEASED && real->lease_epoch == b->epoch && real->held_epoch != b->epoch &&
        !is_on_its_way(b) && !walk.is_closing)
        walk_fail("a box is leased and nobody knows it");
}

static void check_metadata(const struct pool_box *b)
{
    const char *text = engine_metadata(walk.engine, b->id);
    char own[POOL_ID_MAX + 8];

    (void) snprintf(own, sizeof(own), "\"%s\"", b->sandbox_id);
    if (text != NULL && strstr(text, own) == NULL)
        walk_fail("a box has the metadata of somebody else");
}

/* All callers list their boxes. */
static void check_shown(void)
{
    const struct pool *pool = engine_pool(walk.engine);

    for (size_t i = 0; i < pool_slot_count(pool); i++) {
        const struct pool_box *b = pool_slot(pool, i);
        const struct walk_box *real;

        if (b == NULL)
            continue;
        if (pool_is_shown(b)) {
            checks_saw(b);
            check_lease(b);
            check_metadata(b);
        }
        if (b->state != POOL_BLANK || b->is_unseen)
            continue; /* an old row may say so, until the first listing */
        real = boxes_find(b->id.v);
        if (real != NULL && (real->seen_by != 0 || real->owner[0] != '\0'))
            walk_fail("a used box is blank");
    }
}

static void check_boxes(void)
{
    const struct pool *pool = engine_pool(walk.engine);
    size_t running = 0;

    for (size_t i = 0; i < walk.box_count; i++) {
        const struct walk_box *b = &walk.boxes[i];
        struct box_id id = {b->labels.box_id};

        if (!b->is_running)
            continue;
        running += b->is_exempt ? 0 : 1;
        if (b->is_reported && pool_find_box(pool, id) == NULL && !walk.is_closing)
            walk_fail("a box runs that was reported to the pool, which has forgotten it");
    }
    if (running > walk.max_boxes)
        walk_fail("more boxes run than max_boxes");
}

/* A request is answered by its deadline, also when the disk hangs. */
static void check_deadlines(void)
{
    for (struct list_node *n = list_first(&walk.requests); n != NULL;
         n = list_next(&walk.requests, n)) {
        const struct walk_request *r = container_of(n, const struct walk_request, link);

        if (!r->is_answered && r->due_ns < walk_now())
            walk_fail("a request was not answered by its deadline");
    }
}

static void check_clients(void)
{
    for (size_t i = 0; i < WALK_CLIENTS; i++) {
        const struct walk_client *c = &walk.clients[i];
        const struct walk_row *row;
        const struct pool_box *b;

        if (!c->is_acked || c->in_doubt > 0)
            continue;
        row = disk_row(c->box);
        b = pool_find_sandbox(engine_pool(walk.engine), c->sandbox_id);
        if (row == NULL || strcmp(row->state, "leased") != 0 || row->generation != c->generation ||
            strcmp(row->sandbox_id, c->sandbox_id) != 0)
            walk_fail("an acknowledged lease is not in the store");
        if (b == NULL || b->id.v != c->box || b->generation != c->generation ||
            b->state != POOL_LEASED)
            walk_fail("an acknowledged lease is not in the pool");
        if (rt_after(b->expires_ns, NS_PER_MS) < c->promised_ns ||
            (row->expires_ms != 0 && row->expires_ms + 1 < rt_stored_at(&walk.rt, c->promised_ns)))
            walk_fail("an acknowledged renewal was forgotten");
        if (b->expires_ns != POOL_NEVER && b->expires_ns > walk_now() + WALK_TTL_NS)
            walk_fail("a lease lasts longer than anybody asked for");
    }
}

void checks_run(void)
{
    const char *why;

    walk.is_dirty = false;
    if (walk.engine == NULL || walk.is_frozen || !walk.has_stepped)
        return;
    why = pool_check(engine_pool(walk.engine));
    if (why != NULL)
        walk_fail(why);
    check_shown();
    check_boxes();
    check_deadlines();
    check_clients();
    effects_check();
}
