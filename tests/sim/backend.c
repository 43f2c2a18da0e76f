/* backend.c - the backends: they fail, hang, answer late or twice, and boxes die. The list of
 * running boxes here is always true, whatever the answers say. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "world.h"

struct world_box *backend_find(struct world *w, uint64_t id)
{
    for (size_t i = w->box_count; i > 0; i--)
        if (w->boxes[i - 1].seen.id.v == id)
            return &w->boxes[i - 1];
    return NULL;
}

static struct pool_event *answer(struct world *w, const struct pool_fx *fx,
                                 enum pool_event_kind kind, uint64_t delay_ns)
{
    struct pending *p = world_later(w, PENDING_EVENT, delay_ns);

    p->ev.kind = kind;
    p->ev.box = fx->box;
    p->ev.epoch = fx->epoch;
    return &p->ev;
}

static void answer_failure(struct world *w, const struct pool_fx *fx, enum pool_event_kind kind,
                           uint64_t delay_ns, int code)
{
    struct pool_event *ev = answer(w, fx, kind, delay_ns);

    ev->u.failed.code = code;
    str_copy_cut(ev->u.failed.reason, sizeof(ev->u.failed.reason), "made to fail");
}

void backend_put_life(const struct world_box *b, char ret[POOL_LIFE_MAX + 1])
{
    snprintf(ret, POOL_LIFE_MAX + 1, "life-%u", b->life);
}

static struct pool_event *last_answer(struct world *w)
{
    for (size_t i = 0; i < WORLD_PENDING; i++)
        if (w->pending[i].is_used && w->pending[i].seq == w->seq)
            return &w->pending[i].ev;
    world_fail(w, "no answer is on its way");
}

static struct world_box *add_box(struct world *w, unsigned profile)
{
    struct world_box *b = &w->boxes[w->box_count];

    if (w->box_count == WORLD_BOXES)
        world_fail(w, "the walk makes too many boxes for its tables");
    w->box_count++;
    memset(b, 0, sizeof(*b));
    b->backend = w->config.profiles[profile].backend;
    memcpy(b->seen.profile, w->config.profiles[profile].name, sizeof(b->seen.profile));
    b->seen.spec_hash = w->config.profiles[profile].spec_hash;
    return b;
}

static void answer_created(struct world *w, const struct pool_fx *fx, const struct world_box *b,
                           uint64_t delay_ns)
{
    struct pool_event *ev = answer(w, fx, POOL_EV_CREATED, delay_ns);

    memcpy(ev->u.created.url, b->seen.url, sizeof(ev->u.created.url));
    memcpy(ev->u.created.ref, b->seen.ref, sizeof(ev->u.created.ref));
    ev->u.created.is_ready = rand_below(&w->rand, 4) == 0;
}

static void label(struct world_box *b, const struct pool_box *from)
{
    memcpy(b->seen.sandbox_id, from->sandbox_id, sizeof(b->seen.sandbox_id));
    memcpy(b->seen.user, from->user, sizeof(b->seen.user));
    memcpy(b->seen.thread, from->thread, sizeof(b->seen.thread));
    b->seen.generation = from->generation;
    b->seen.principal = from->principal;
}

static bool is_same_owner(const struct pool_box *a, const struct pool_box *b)
{
    return strcmp(a->sandbox_id, b->sandbox_id) == 0 && strcmp(a->user, b->user) == 0 &&
           strcmp(a->thread, b->thread) == 0 && a->principal == b->principal &&
           a->generation == b->generation;
}

static void create(struct world *w, const struct pool_fx *fx)
{
    const struct world_row *row = rows_find(w, fx->box.v);
    uint64_t took_ns = world_ms(w, 1, 60);
    uint64_t limit_ns = fx->deadline_ns - w->now_ns;
    struct world_box *b;
    bool is_hanging;

    if (row == NULL || row->box.state != POOL_INTENT)
        world_fail(w, "a create without a committed intent");
    if (!is_same_owner(&row->box, &fx->snapshot) || row->box.made_with != fx->snapshot.made_with)
        world_fail(w, "the intent does not say whom the box is for");
    if (backend_find(w, fx->box.v) != NULL)
        world_fail(w, "one box is created twice");
    if (away_is_held(w, fx->snapshot.backend))
        world_fail(w, "a backend that does not answer is asked for one more box");
    is_hanging = away_is(w, fx->snapshot.backend);
    if (is_hanging) /* it may execute the request when it is back */
        took_ns += w->back_ns[fx->snapshot.backend] - w->now_ns;
    if (!is_hanging && (hibernate_is_missing(w, fx->snapshot.made_with) || world_chance(w, 12))) {
        answer_failure(w, fx, POOL_EV_CREATE_FAILED, took_ns,
                       fx->box.v % 3 == 0 || hibernate_is_missing(w, fx->snapshot.made_with)
                           ? SP_INVALID_FIELD
                           : SP_BACKEND_FAILED);
        return;
    }
    b = add_box(w, fx->snapshot.profile);
    b->seen.id = fx->box;
    label(b, &fx->snapshot);
    b->is_special = fx->snapshot.sandbox_id[0] != '\0';
    b->made_with = fx->snapshot.made_with;
    b->has_no_agent = fx->box.v % 5 == 0;
    memcpy(b->owner, fx->snapshot.sandbox_id, sizeof(b->owner));
    snprintf(b->seen.ref, sizeof(b->seen.ref), "ref-%zu", w->box_count);
    snprintf(b->seen.url, sizeof(b->seen.url), "http://127.0.0.1/%zu", w->box_count);
    memcpy(b->seen.token, fx->snapshot.token, sizeof(b->seen.token));
    if (!is_hanging && world_chance(w, 10)) { /* then the box may appear much later */
        is_hanging = true;
        took_ns = world_ms(w, 1, 400);
    }
    world_later(w, PENDING_APPEAR, took_ns)->box = w->box_count - 1;
    if (is_hanging) {
        answer_failure(w, fx, POOL_EV_CREATE_FAILED, limit_ns, SP_TIMEOUT);
        if (world_chance(w, 50))
            answer_created(w, fx, b, MAX_OF(took_ns, limit_ns) + world_ms(w, 0, 50));
    } else {
        answer_created(w, fx, b, took_ns);
        if (world_chance(w, 5))
            answer_created(w, fx, b, took_ns + world_ms(w, 0, 300));
    }
}

void backend_appear(struct world *w, size_t index)
{
    struct world_box *b = &w->boxes[index];
    const struct pool_box *known = pool_find_box(w->pool, b->seen.id);

    if (b->is_unwanted && rand_below(&w->rand, 2) == 0)
        return;
    b->is_running = true;
    b->is_exempt |= known == NULL || known->state != POOL_CREATING;
}

static void report_death(struct world *w, const struct world_box *b)
{
    struct pending *p = world_later(w, PENDING_EVENT, world_ms(w, 0, 5));

    p->ev.kind = POOL_EV_DIED;
    p->ev.box = b->seen.id;
}

/* Without its row only if the store could not be written and the owner or an operator requested the
 * end. */
static bool may_destroy(struct world *w, const struct pool_fx *fx)
{
    struct world_row *row = rows_find(w, fx->box.v);
    struct world_box *b = backend_find(w, fx->box.v);
    struct pool_stats stats;
    bool is_excused;

    pool_get_stats(w->pool, &stats);
    is_excused = !stats.is_store_up || (b != NULL && (b->is_unrecorded || b->has_failed)) ||
                 (row != NULL && (row->is_unrecorded || row->has_failed));
    if (b != NULL)
        b->is_unrecorded = is_excused;
    if (row != NULL)
        row->is_unrecorded = is_excused;
    else if (b == NULL) { /* not even its intent was written, so there is no box yet */
        rows_note_unrecorded(w, fx->box.v);
        return true;
    }
    return is_excused || (row != NULL && row->box.state == POOL_DOOMED);
}

static void destroy(struct world *w, const struct pool_fx *fx)
{
    struct world_box *b = backend_find(w, fx->box.v);
    bool is_done = !world_chance(w, 12);
    bool is_reported = !world_chance(w, 12);

    if (fx->epoch != 0 && !may_destroy(w, fx))
        world_fail(w, "a destroy without a committed `deleting`");
    if (away_is(w, fx->snapshot.backend)) {
        answer_failure(w, fx, POOL_EV_DESTROYED, fx->deadline_ns - w->now_ns, SP_TIMEOUT);
        return;
    }
    if (b != NULL && is_done) {
        b->is_running = false;
        b->is_unwanted = true;
    }
    answer_failure(w, fx, POOL_EV_DESTROYED, world_ms(w, 1, 20),
                   is_done && is_reported ? SP_OK : SP_BACKEND_FAILED);
    if (world_chance(w, 5))
        answer_failure(w, fx, POOL_EV_DESTROYED, world_ms(w, 1, 200), SP_BACKEND_FAILED);
}

static void probe(struct world *w, const struct pool_fx *fx)
{
    const struct world_box *b = backend_find(w, fx->box.v);
    bool is_ready = b != NULL && b->is_running && b->stopped_ns == 0 && !world_chance(w, 6);

    if (is_ready) {
        answer_failure(w, fx, POOL_EV_PROBED, world_ms(w, 0, 20), SP_OK);
        backend_put_life(b, last_answer(w)->life);
    } else
        answer_failure(w, fx, POOL_EV_PROBED, fx->deadline_ns - w->now_ns, SP_TIMEOUT);
}

static enum pool_verdict verdict_on(struct world *w, struct world_box *b, const char *known)
{
    char life[POOL_LIFE_MAX + 1];

    if ((b != NULL && away_is(w, b->backend)) || world_chance(w, 20))
        return POOL_UNKNOWN;
    if (b == NULL || !b->is_running)
        return rand_below(&w->rand, 3) == 0 ? POOL_DEAD : POOL_ABSENT;
    backend_put_life(b, life);
    if (b->stopped_ns == 0 && known[0] != '\0' && strcmp(life, known) != 0)
        return POOL_DEAD;
    if (b->stopped_ns == 0)
        return POOL_ALIVE;
    /* A backend that cannot look says that the box is not there; but not for ever. */
    return world_chance(w, 30) && b->absent < 2 ? POOL_ABSENT : POOL_SILENT;
}

static void check(struct world *w, const struct pool_fx *fx)
{
    struct world_box *b = backend_find(w, fx->box.v);
    struct pool_event *ev = answer(w, fx, POOL_EV_CHECKED, world_ms(w, 0, CHECK_DELAY_MS));

    ev->u.verdict = verdict_on(w, b, fx->snapshot.life);
    if (b == NULL)
        return;
    if (ev->u.verdict == POOL_ALIVE ||
        (ev->u.verdict == POOL_DEAD && b->is_running && b->stopped_ns == 0))
        backend_put_life(b, ev->life);
    if (ev->u.verdict != POOL_ALIVE)
        b->doubted_ns = w->now_ns;
    if (ev->u.verdict == POOL_ABSENT && b->is_running)
        b->absent++;
    else if (ev->u.verdict != POOL_UNKNOWN && b->absent > 0) {
        b->absent = 0;
        b->shown_ns = w->now_ns;
    }
}

static enum pool_use use_of(struct world *w, const struct world_box *b)
{
    if (b == NULL || !b->is_running || b->stopped_ns != 0 || world_chance(w, 15))
        return POOL_USE_UNKNOWN;
    if (b->has_no_agent)
        return POOL_USE_CANNOT;
    return b->is_at_work ? POOL_USE_BUSY : POOL_USE_NONE;
}

/* The state at the time of the question; the answer may be late. */
static void ask_use(struct world *w, const struct pool_fx *fx)
{
    struct world_box *b = backend_find(w, fx->box.v);
    enum pool_use use = use_of(w, b);
    struct pool_event *ev =
        answer(w, fx, POOL_EV_USED,
               use == POOL_USE_UNKNOWN ? fx->deadline_ns - w->now_ns : world_ms(w, 0, 20));

    w->uses[use]++;
    ev->u.used.use = use;
    ev->u.used.active_ns = b != NULL ? b->worked_ns : 0;
    if (b != NULL)
        b->silent_ns = use != POOL_USE_UNKNOWN ? 0 : b->silent_ns != 0 ? b->silent_ns : w->now_ns;
}

static void discover(struct world *w, const struct pool_fx *fx)
{
    struct pool_event *ev = answer(w, fx, POOL_EV_DISCOVERED, world_ms(w, 0, 10));

    ev->u.discovered.is_unknown = away_is(w, fx->snapshot.backend) || world_chance(w, 10);
    for (size_t i = 0; i < w->box_count && !ev->u.discovered.is_unknown; i++) {
        const struct world_box *b = &w->boxes[i];

        if (b->is_running && b->backend == w->config.profiles[fx->snapshot.profile].backend &&
            strcmp(b->seen.sandbox_id, fx->snapshot.sandbox_id) == 0) {
            ev->u.discovered.is_found = true;
            ev->u.discovered.seen = b->seen;
        }
    }
}

static void bind(struct world *w, const struct pool_fx *fx)
{
    struct world_box *b = backend_find(w, fx->box.v);

    if (b == NULL)
        return;
    b->is_unlabelled = away_is(w, b->backend) ||
                       world_chance(w, 10); /* nobody is notified of a label that could not be
                                             * set */
    if (!b->is_unlabelled)
        label(b, &fx->snapshot);
}

static void freeze(struct world *w, const struct pool_fx *fx)
{
    struct world_box *b = backend_find(w, fx->box.v);
    const struct world_row *row = rows_find(w, fx->box.v);

    if (b == NULL)
        return;
    if (fx->snapshot.is_paused && (row == NULL || !row->box.is_paused))
        world_fail(w, "a box was frozen before its row said so");
    b->seen.is_frozen = fx->snapshot.is_paused;
    w->freezes += b->seen.is_frozen ? 1 : 0;
}

void backend_thaw(struct world *w, uint64_t id)
{
    struct pool_event ev = {.kind = POOL_EV_RESUMED, .box = {id}};
    struct world_box *b = backend_find(w, id);

    if (b == NULL)
        return;
    b->seen.is_frozen = false;
    world_step(w, &ev);
}

void backend_perform(struct world *w, const struct pool_fx *fx)
{
    switch (fx->kind) {
    case POOL_FX_CREATE:
        create(w, fx);
        break;
    case POOL_FX_PROBE:
        probe(w, fx);
        break;
    case POOL_FX_CHECK:
        check(w, fx);
        break;
    case POOL_FX_ASK_USE:
        ask_use(w, fx);
        break;
    case POOL_FX_DISCOVER:
        discover(w, fx);
        break;
    case POOL_FX_DESTROY:
        destroy(w, fx);
        break;
    case POOL_FX_BIND:
        bind(w, fx);
        break;
    case POOL_FX_FREEZE:
        freeze(w, fx);
        break;
    case POOL_FX_STORE:
    case POOL_FX_HIBERNATE:
    case POOL_FX_REPLY:
    case POOL_FX_AGAIN:
    case POOL_FX_EVENT:
    case POOL_FX_COUNT:
        break;
    }
}

/* Percentage of the boxes that a listing leaves out although it looks clean. One of three in a row
 * is right: a box that is never shown and never answers may be given up. */
static unsigned wrong_listing(struct world *w, unsigned backend)
{
    if (!world_chance(w, 20) || w->wrong_listings[backend] >= 2) {
        w->wrong_listings[backend] = 0;
        return 0;
    }
    w->wrong_listings[backend]++;
    return rand_below(&w->rand, 2) == 0 ? 100 : 40;
}

void backend_list(struct world *w, unsigned backend)
{
    struct pending *p = world_later(w, PENDING_EVENT, world_ms(w, 0, 80));
    struct pool_seen *seen = calloc(w->box_count + 1, sizeof(*seen));
    unsigned hidden = wrong_listing(w, backend);
    size_t count = 0;

    if (seen == NULL)
        world_fail(w, "out of memory");
    for (size_t i = 0; i < w->box_count; i++)
        if (w->boxes[i].is_running && w->boxes[i].backend == backend) {
            bool is_hidden = rand_below(&w->rand, 100) < hidden;

            seen[count] = w->boxes[i].seen;
            seen[count].is_absent = is_hidden; /* only its name is known, or not even that */
            count += !is_hidden || rand_below(&w->rand, 2) == 0 ? 1 : 0;
        }
    p->ev.kind = POOL_EV_LISTED;
    p->ev.u.listed.backend = backend;
    p->ev.u.listed.is_clean = !away_is(w, backend) && !world_chance(w, 20);
    p->ev.u.listed.started_ns = w->now_ns;
    p->ev.u.listed.seen = seen;
    p->ev.u.listed.count = p->ev.u.listed.is_clean ? count : 0;
    p->seen = seen;
}

void backend_kill_one(struct world *w)
{
    size_t from = rand_below(&w->rand, w->box_count + 1);

    for (size_t i = 0; i < w->box_count; i++) {
        struct world_box *b = &w->boxes[(from + i) % w->box_count];

        if (!b->is_running)
            continue;
        b->is_running = false;
        if (rand_below(&w->rand, 2) == 0)
            report_death(w, b);
        return;
    }
}

/* A box left behind by another process, or by an earlier life with another store. */
void backend_add_orphan(struct world *w)
{
    unsigned profile = (unsigned) rand_below(&w->rand, w->config.profile_count);
    struct world_box *b = add_box(w, profile);
    const struct client *c = &w->clients[rand_below(&w->rand, WORLD_THREADS)];

    b->seen.id.v = rand_next(&w->rand);
    b->is_running = true;
    b->is_exempt = true;
    snprintf(b->seen.ref, sizeof(b->seen.ref), "orphan-%zu", w->box_count);
    if (rand_below(&w->rand, 4) == 0)
        str_copy_cut(b->seen.profile, sizeof(b->seen.profile), "nobody-knows-it");
    if (rand_below(&w->rand, 2) == 0)
        return;
    memcpy(b->seen.sandbox_id, c->sandbox_id, sizeof(b->seen.sandbox_id));
    memcpy(b->owner, c->sandbox_id, sizeof(b->owner));
    memcpy(b->seen.user, c->user, sizeof(b->seen.user));
    memcpy(b->seen.thread, c->thread, sizeof(b->seen.thread));
    b->seen.generation = c->generation + rand_below(&w->rand, 3);
    b->seen.principal = clients_principal(c);
    if (rand_below(&w->rand, 4) == 0) /* another program that uses the same names */
        b->seen.principal++;
    b->seen_by = b->seen.principal;
}
