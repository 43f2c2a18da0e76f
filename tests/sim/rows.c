/* rows.c - the store: a queue of writes, one commit after the other, the answer shortly after the
 * commit. In a crash the end of the queue is lost, and only the rows remain. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "world.h"

struct world_row *rows_find(struct world *w, uint64_t id)
{
    for (size_t i = 0; i < WORLD_ROWS; i++)
        if (w->rows[i].is_used && w->rows[i].box.id.v == id)
            return &w->rows[i];
    return NULL;
}

static struct world_row *find_or_add(struct world *w, uint64_t id)
{
    struct world_row *row = rows_find(w, id);

    for (size_t i = 0; row == NULL && i < WORLD_ROWS; i++)
        if (!w->rows[i].is_used)
            row = &w->rows[i];
    if (row == NULL)
        world_fail(w, "more rows than there can be boxes");
    if (!row->is_used)
        memset(row, 0, sizeof(*row));
    row->is_used = true;
    return row;
}

static enum pool_state row_state(enum pool_state state)
{
    switch (state) {
    case POOL_INTENT:
    case POOL_CREATING:
        return POOL_INTENT;
    case POOL_LEASING:
    case POOL_LEASED:
        return POOL_LEASED;
    case POOL_PARKING:
    case POOL_PARKED:
        return POOL_PARKED;
    case POOL_STARTING:
    case POOL_BLANK:
        return state;
    case POOL_FREE:
    case POOL_DOOMED:
    case POOL_DESTROYING:
    case POOL_FORGETTING:
    case POOL_STATE_COUNT:
        break;
    }
    return POOL_DOOMED;
}

static void remember(struct world *w, const struct pool_box *b)
{
    struct world_past *p = &w->pasts[w->past_count];

    if (b->sandbox_id[0] == '\0')
        return;
    if (w->past_count == WORLD_PASTS)
        world_fail(w, "too many ended leases for the tables");
    w->past_count++;
    memcpy(p->sandbox_id, b->sandbox_id, sizeof(p->sandbox_id));
    p->generation = b->generation;
    p->principal = b->principal;
    p->end = b->end;
}

static void apply(struct world *w, const struct pending *p)
{
    struct world_row *row;

    if (p->what == POOL_WRITE_MODE) {
        memcpy(w->stored_modes, p->modes, sizeof(w->stored_modes));
        return;
    }
    row = find_or_add(w, p->row.id.v);
    if ((p->what == POOL_WRITE_DELETING || p->what == POOL_WRITE_FORGET) &&
        (row->box.state == POOL_LEASED || row->box.state == POOL_PARKED))
        remember(w, &p->row);
    row->box = p->row;
    row->box.state = row_state(p->row.state);
    row->box.is_stale = p->row.is_stale && p->row.is_unseen;
    row->is_unrecorded |= p->is_unrecorded;
    if (p->what == POOL_WRITE_FORGET)
        row->is_used = false;
}

static void note_outcome(struct world *w, const struct pending *p, bool is_ok)
{
    struct world_row *row = rows_find(w, p->ev.box.v);
    struct world_box *b = backend_find(w, p->ev.box.v);

    if (row != NULL)
        row->has_failed = !is_ok;
    if (b != NULL)
        b->has_failed = !is_ok;
}

void rows_note_unrecorded(struct world *w, uint64_t id)
{
    for (size_t i = 0; i < WORLD_PENDING; i++)
        if (w->pending[i].is_used && w->pending[i].kind == PENDING_COMMIT &&
            w->pending[i].ev.box.v == id)
            w->pending[i].is_unrecorded = true;
}

static struct pending *next_commit(struct world *w)
{
    struct pending *best = NULL;

    for (size_t i = 0; i < WORLD_PENDING; i++) {
        struct pending *p = &w->pending[i];

        if (p->is_used && p->kind == PENDING_COMMIT && (best == NULL || p->seq < best->seq))
            best = p;
    }
    return best;
}

/* As the store says it: it can be written, and no write waits for too long. */
static bool is_writable(struct world *w)
{
    const struct pending *p = next_commit(w);

    return w->is_store_up && (p == NULL || p->since_ns + WORLD_HANG_NS > w->now_ns);
}

static void report_later(struct world *w, uint64_t delay_ns)
{
    world_later(w, PENDING_EVENT, delay_ns)->ev.kind = POOL_EV_STORE_STATE;
}

bool rows_report(struct world *w, struct pool_event *ev)
{
    ev->u.is_store_up = is_writable(w);
    if (ev->u.is_store_up == w->is_reported_up)
        return false;
    w->is_reported_up = ev->u.is_store_up;
    return true;
}

void rows_submit(struct world *w, const struct pool_fx *fx)
{
    uint64_t start_ns = MAX_OF(w->store_free_ns, w->now_ns);
    struct pending *p;

    if (w->is_store_up && world_chance(w, 1) && rand_below(&w->rand, 4) == 0) {
        /* The disk hangs: nothing fails, it only takes long. The store notices it after a while. */
        start_ns += world_ms(w, 100, 3 * WORLD_HANG_NS / NS_PER_MS);
    }
    w->store_free_ns = start_ns + rand_between(&w->rand, 0, 2 * NS_PER_MS);
    p = world_later(w, PENDING_COMMIT, w->store_free_ns - w->now_ns);
    p->what = fx->u.store.what;
    p->row = fx->snapshot;
    p->since_ns = w->now_ns;
    p->ev.box = fx->box;
    p->ev.epoch = fx->epoch;
    p->ev.u.stored.write = fx->u.store.write;
    p->ev.u.stored.expires_ns = fx->snapshot.expires_ns;
    if (world_chance(w, 1)) { /* too many wait: refused at once, before the waiting ones */
        p->kind = PENDING_EVENT;
        p->ev.kind = POOL_EV_STORE_FAILED;
        p->at_ns = w->now_ns;
        note_outcome(w, p, false);
        return;
    }
    if (w->store_free_ns > w->now_ns + WORLD_HANG_NS)
        report_later(w, WORLD_HANG_NS);
    if (p->what == POOL_WRITE_MODE) {
        struct pool_stats stats;
        const char *text;

        pool_get_stats(w->pool, &stats);
        p->modes[0] = stats.mode;
        for (unsigned i = 0; i < WORLD_PROFILES; i++)
            p->modes[1 + i] = pool_profile_mode(w->pool, i, &text);
    }
}

/* Answers keep the order of the commits: each leaves at a time not before the last one. */
void rows_commit(struct world *w, struct pending *p)
{
    bool is_ok = w->is_store_up && !world_chance(w, 2);

    note_outcome(w, p, is_ok);
    if (is_ok)
        apply(w, p);
    p->ev.kind = is_ok ? POOL_EV_STORED : POOL_EV_STORE_FAILED;
    p->kind = PENDING_EVENT;
    p->at_ns = w->now_ns + 100 * NS_PER_US;
    w->seq++;
    p->seq = w->seq;
    if (!w->is_reported_up)
        report_later(w, 100 * NS_PER_US);
}

void rows_set_up(struct world *w, bool is_up)
{
    if (w->is_store_up == is_up)
        return;
    w->is_store_up = is_up;
    report_later(w, 100 * NS_PER_US);
}

/* Part of the queue may have reached the disk; nothing reaches the pool. */
static void lose_pending(struct world *w)
{
    bool is_writing = w->is_store_up;

    for (struct pending *p = next_commit(w); p != NULL; p = next_commit(w)) {
        is_writing = is_writing && rand_below(&w->rand, 3) != 0;
        if (is_writing)
            apply(w, p);
        p->is_used = false;
    }
    for (size_t i = 0; i < WORLD_PENDING; i++) {
        struct pending *p = &w->pending[i];

        if (p->is_used && p->kind == PENDING_EVENT) {
            free(p->seen);
            p->is_used = false;
        }
    }
}

/* A newer configuration may no longer have the profile of a row; its index is kept anyway. */
static void restore(struct world *w)
{
    for (size_t i = 0; i < w->past_count; i++)
        pool_restore_past(w->pool, w->pasts[i].sandbox_id, w->pasts[i].generation, w->pasts[i].end,
                          w->pasts[i].principal);
    for (size_t i = 0; i < WORLD_ROWS; i++)
        if (w->rows[i].is_used && !pool_restore_box(w->pool, w->now_ns, &w->rows[i].box))
            world_fail(w, "a row cannot be restored");
    pool_restore_mode(w->pool, w->stored_modes[0], "");
    for (unsigned i = 0; i < WORLD_PROFILES; i++)
        pool_restore_profile_mode(w->pool, i, w->stored_modes[1 + i], "");
}

void rows_crash(struct world *w)
{
    bool is_stale;

    lose_pending(w);
    is_stale = copies_put_back(w);
    if (w->is_verbose)
        printf("%6llu crash%s\n", (unsigned long long) w->steps,
               is_stale ? ", and an older copy of the database" : "");
    w->crash_step = is_stale && world_chance(w, 50) ? w->steps + rand_below(&w->rand, 30) : 0;
    w->pool = pool_free(w->pool);
    w->is_store_up = true;
    w->is_reported_up = true;
    w->store_free_ns = w->now_ns;
    w->lives++;
    w->config.seed = rand_next(&w->rand);
    w->config.restore_max = WORLD_ROWS;
    w->pool = pool_new(&w->config);
    restore(w);
    quotas_check(w, NULL);
    away_crashed(w);
    clients_crashed(w);
    hibernate_sweep(w);
    w->now_ns += world_ms(w, 1, 50);
    for (unsigned i = 0; i < WORLD_BACKENDS; i++)
        backend_list(w, i);
}
