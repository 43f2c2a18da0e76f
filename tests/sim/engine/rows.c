/* rows.c - tables: boxes, leases, facts, audit trail; one write does to them what store/apply.c does to SQLite's. */
#include "rows.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "store/usage.h"
#include "walk.h"

struct walk_row *disk_row(uint64_t id)
{
    for (size_t i = 0; i < WALK_ROWS; i++)
        if (walk.disk.rows[i].is_used && walk.disk.rows[i].id == id)
            return &walk.disk.rows[i];
    return NULL;
}

const char *disk_meta(const char *key)
{
    for (size_t i = 0; i < WALK_METAS; i++)
        if (strcmp(walk.disk.metas[i].key, key) == 0)
            return walk.disk.metas[i].value;
    return "";
}

static struct walk_lease *find_lease(const char *sandbox_id)
{
    for (size_t i = 0; i < WALK_LEASES; i++)
        if (walk.disk.leases[i].is_used && strcmp(walk.disk.leases[i].sandbox_id, sandbox_id) == 0)
            return &walk.disk.leases[i];
    return NULL;
}

static void end_lease(const char *sandbox_id, uint64_t box, const char *end, uint64_t at_ms)
{
    struct walk_lease *l = find_lease(sandbox_id);

    if (l == NULL || l->box != box || l->ended_ms != 0)
        return;
    l->ended_ms = at_ms;
    str_copy_cut(l->end, sizeof(l->end), end);
}

static void put_lease(const struct store_box *b)
{
    struct walk_lease *l = find_lease(b->sandbox_id);

    for (size_t i = 0; l == NULL && i < WALK_LEASES; i++)
        if (!walk.disk.leases[i].is_used)
            l = &walk.disk.leases[i];
    if (l == NULL)
        walk_fail("the walk makes too many leases for its tables");
    if (l->is_used && b->generation < l->generation)
        walk_fail("an id was bound with an older generation");
    *l = (struct walk_lease){
        .is_used = true, .generation = b->generation, .box = b->id, .principal = b->principal};
    str_copy_cut(l->sandbox_id, sizeof(l->sandbox_id), b->sandbox_id);
}

static const char *text_of(const char *text)
{
    return text != NULL ? text : "";
}

static void fill(struct walk_row *r, const struct store_box *b)
{
    r->id = b->id;
    r->spec_hash = b->spec_hash;
    r->principal = b->principal;
    r->generation = b->generation;
    r->made_with = b->made_with;
    r->is_paused = b->is_paused;
    r->created_ms = b->created_ms;
    r->ready_ms = b->ready_ms;
    r->leased_ms = b->leased_ms;
    r->parked_ms = b->parked_ms;
    r->active_ms = b->active_ms;
    r->expires_ms = b->expires_ms;
    r->idle_limit_ms = b->idle_limit_ms;
    r->is_stale = b->is_stale;
    str_copy_cut(r->state, sizeof(r->state), b->state);
    str_copy_cut(r->profile, sizeof(r->profile), b->profile);
    str_copy_cut(r->backend, sizeof(r->backend), b->backend);
    str_copy_cut(r->sandbox_id, sizeof(r->sandbox_id), b->sandbox_id);
    str_copy_cut(r->user, sizeof(r->user), b->user);
    str_copy_cut(r->thread, sizeof(r->thread), b->thread);
    str_copy_cut(r->url, sizeof(r->url), b->url);
    str_copy_cut(r->token, sizeof(r->token), b->token);
    str_copy_cut(r->ref, sizeof(r->ref), b->ref);
    str_copy_cut(r->life, sizeof(r->life), b->life);
    str_copy_cut(r->meta, sizeof(r->meta), text_of(b->meta));
    str_copy_cut(r->end, sizeof(r->end), b->end);
}

void disk_note_unrecorded(uint64_t id)
{
    walk.unrecorded[walk.unrecorded_count % WALK_UNRECORDED] = id;
    walk.unrecorded_count++;
}

static bool is_unrecorded(uint64_t id)
{
    for (size_t i = 0; i < WALK_UNRECORDED; i++)
        if (walk.unrecorded[i] == id)
            return true;
    return false;
}

static void put_box(const struct store_box *b, uint64_t at_ms)
{
    struct walk_row *r = disk_row(b->id);

    if (r != NULL && strcmp(r->sandbox_id, b->sandbox_id) != 0)
        end_lease(r->sandbox_id, b->id, "", at_ms);
    for (size_t i = 0; r == NULL && i < WALK_ROWS; i++)
        if (!walk.disk.rows[i].is_used)
            r = &walk.disk.rows[i];
    if (r == NULL)
        walk_fail("more rows than there can be boxes");
    if (!r->is_used) {
        memset(r, 0, sizeof(*r));
        r->is_unrecorded = is_unrecorded(b->id);
    }
    r->is_used = true;
    fill(r, b);
}

static void forget(uint64_t id, uint64_t at_ms)
{
    struct walk_row *r = disk_row(id);

    if (r == NULL)
        return;
    end_lease(r->sandbox_id, id, r->end, at_ms);
    r->is_used = false;
}

void disk_set_meta(const char *key, const char *value)
{
    size_t i = 0;

    while (i < WALK_METAS && walk.disk.metas[i].key[0] != '\0' &&
           strcmp(walk.disk.metas[i].key, key) != 0)
        i++;
    if (i == WALK_METAS)
        walk_fail("too many facts for the tables");
    str_copy_cut(walk.disk.metas[i].key, sizeof(walk.disk.metas[i].key), key);
    str_copy_cut(walk.disk.metas[i].value, sizeof(walk.disk.metas[i].value), value);
}

static void add_event(const struct store_event *ev)
{
    if (ev->id <= walk.disk.last_event)
        walk_fail("a line of the audit trail has a number that was given out before");
    walk.disk.last_event = ev->id;
    walk.disk.event_ids[walk.disk.event_count % WALK_EVENTS] = ev->id;
    walk.disk.event_count++;
}

void rows_apply(const struct store_write *w)
{
    switch (w->kind) {
    case STORE_PUT_BOX:
        put_box(&w->u.box, w->at_ms);
        break;
    case STORE_PUT_LEASE:
        put_box(&w->u.box, w->at_ms);
        put_lease(&w->u.box);
        break;
    case STORE_DELETING:
        put_box(&w->u.box, w->at_ms);
        end_lease(w->u.box.sandbox_id, w->u.box.id,
                  w->u.box.leased_ms == 0 && strcmp(w->u.box.end, "released") == 0 ? ""
                                                                                   : w->u.box.end,
                  w->at_ms);
        break;
    case STORE_FORGET:
        forget(w->u.box.id, w->at_ms);
        break;
    case STORE_PUT_META:
        disk_set_meta(w->u.meta.key, w->u.meta.value);
        break;
    case STORE_ADD_EVENT:
        add_event(&w->u.event);
        break;
    case STORE_READ_EVENTS:
        w->u.history->is_end = true;
        break;
    case STORE_READ_USAGE:
        w->u.usage->is_end = true;
        break;
    case STORE_REPRICE:
    case STORE_BUDGET:
    case STORE_SAMPLE:
    case STORE_PUT_TOKEN:
    case STORE_DROP_TOKEN:
        break;
    case STORE_BACKUP:
        w->u.backup->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        break;
    case STORE_KIND_COUNT:
        walk_fail("a write of no kind");
    }
}

static bool is_of_box(enum store_kind kind)
{
    return kind == STORE_PUT_BOX || kind == STORE_PUT_LEASE || kind == STORE_DELETING ||
           kind == STORE_FORGET;
}

void rows_note(const struct store_write *w, bool is_ok)
{
    struct walk_row *row;
    struct walk_box *b;

    if (!is_of_box(w->kind))
        return;
    row = disk_row(w->u.box.id);
    b = boxes_find(w->u.box.id);
    if (row != NULL)
        row->has_failed = !is_ok;
    if (b != NULL)
        b->has_failed = !is_ok;
}

/* --- reading --- */

static bool give_box(const struct store_reader *reader, const struct walk_row *r)
{
    const struct store_box box = {.id = r->id,
                                  .state = r->state,
                                  .profile = r->profile,
                                  .backend = r->backend,
                                  .spec_hash = r->spec_hash,
                                  .sandbox_id = r->sandbox_id,
                                  .user = r->user,
                                  .thread = r->thread,
                                  .principal = r->principal,
                                  .generation = r->generation,
                                  .made_with = r->made_with,
                                  .is_paused = r->is_paused,
                                  .url = r->url,
                                  .token = r->token,
                                  .ref = r->ref,
                                  .life = r->life,
                                  .meta = r->meta,
                                  .created_ms = r->created_ms,
                                  .ready_ms = r->ready_ms,
                                  .leased_ms = r->leased_ms,
                                  .parked_ms = r->parked_ms,
                                  .active_ms = r->active_ms,
                                  .expires_ms = r->expires_ms,
                                  .idle_limit_ms = r->idle_limit_ms,
                                  .end = r->end,
                                  .is_stale = r->is_stale,
                                  .price = {.currency = ""}};

    return reader->on_box(reader->ctx, &box);
}

static bool give_past(const struct store_reader *reader, const struct walk_lease *l)
{
    const struct store_past past = {.sandbox_id = l->sandbox_id,
                                    .generation = l->generation,
                                    .principal = l->principal,
                                    .end = l->end,
                                    .ended_ms = l->ended_ms};

    return reader->on_past(reader->ctx, &past);
}

static void give_events(const struct store_reader *reader)
{
    uint64_t count = MIN_OF(walk.disk.event_count, (uint64_t) WALK_EVENTS);

    for (uint64_t i = walk.disk.event_count - count; i < walk.disk.event_count; i++) {
        const struct store_event ev = {
            .id = walk.disk.event_ids[i % WALK_EVENTS], .at_ms = 1, .kind = "walked", .body = "{}"};

        (void) reader->on_event(reader->ctx, &ev);
    }
}

/* Their order does not matter here, except that of ended leases of one id, of which there is one. */
int store_load(struct store *s UNUSED, const struct store_reader *reader, struct err *err)
{
    for (size_t i = 0; i < WALK_METAS && walk.disk.metas[i].key[0] != '\0'; i++)
        if (!reader->on_meta(reader->ctx, walk.disk.metas[i].key, walk.disk.metas[i].value))
            return err_set(err, SP_INTERNAL, "a fact was not accepted");
    for (size_t i = 0; i < WALK_ROWS; i++)
        if (walk.disk.rows[i].is_used && !give_box(reader, &walk.disk.rows[i]))
            return err_set(err, SP_INTERNAL, "a row was not accepted");
    for (size_t i = 0; i < WALK_LEASES; i++)
        if (walk.disk.leases[i].is_used && walk.disk.leases[i].ended_ms != 0 &&
            !give_past(reader, &walk.disk.leases[i]))
            return err_set(err, SP_INTERNAL, "an ended lease was not accepted");
    give_events(reader);
    return SP_OK;
}

void store_history_fini(struct store_history *h UNUSED)
{
}

bool store_history_fits(const struct store_history *h UNUSED, const struct store_event *ev UNUSED)
{
    return true;
}
