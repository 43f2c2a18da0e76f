/* special.c - acquires whose box is made for them: because the profile says so, or because they ask for
 * what its backend cannot give to a box that runs. What they ask for is kept by the box from its intent
 * to its create. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "engine/internal.h"

unsigned special_late_of(const struct backend_ops *ops, const struct config_profile *c)
{
    if (ops->update == NULL)
        return 0;
    return ops->late_of != NULL && c != NULL ? ops->late & ops->late_of(c) : ops->late;
}

static unsigned special_late(struct engine *e, unsigned profile)
{
    return special_late_of(profiles_backend(e, profile)->ops, profiles_config(e, profile));
}

unsigned engine_can_apply(struct engine *e, unsigned profile)
{
    return special_late(e, profile) | profiles_backend(e, profile)->ops->at_create;
}

unsigned engine_can_apply_late(struct engine *e, unsigned profile)
{
    return special_late(e, profile);
}

void special_mark(struct engine *e, struct engine_call *call, struct pool_acquire *a)
{
    const struct config_profile *c = profiles_config(e, a->profile);

    call->made_kinds = ~special_late(e, a->profile);
    if (call->extras != NULL)
        a->made_with = backend_extras_hash(call->extras, call->made_kinds);
    a->is_special = a->made_with != 0 || (c != NULL && c->personal);
}

static bool asks_for(const struct map_node *node, const void *key)
{
    const struct engine_call *call = container_of(node, struct engine_call, pending_node);
    const struct pool_box *box = key;

    return call->extras != NULL && strcmp(call->sandbox_id, box->sandbox_id) == 0 &&
           backend_extras_hash(call->extras, call->made_kinds) == box->made_with;
}

static bool is_of(const struct map_node *node, const void *key)
{
    return strcmp(container_of(node, struct engine_call, pending_node)->sandbox_id, key) == 0;
}

bool engine_is_pending(const struct engine *e, const char *sandbox_id)
{
    return map_find(&e->pending, hash_str(sandbox_id), is_of, sandbox_id) != NULL;
}

/* Of one that asked for just this box. What it is made with was settled when it asked: a new configuration may have
 * changed meanwhile what can be applied later. */
void special_intent(struct engine *e, const struct pool_box *box)
{
    const struct engine_call *call;
    struct map_node *n;
    struct engine_note *note;

    if (box->made_with == 0)
        return;
    n = map_find(&e->pending, hash_str(box->sandbox_id), asks_for, box);
    if (n == NULL)
        return;
    call = container_of(n, struct engine_call, pending_node);
    note = note_make(e, box->id);
    free(note->extras);
    note->extras = backend_extras_copy(call->extras);
    backend_extras_keep(note->extras, call->made_kinds);
}

struct backend_extras *special_take(struct engine *e, struct box_id box)
{
    struct engine_note *note = note_find(e, box);

    if (note != NULL && note->extras != NULL && note->extras->snapshot != NULL &&
        !str_parse_hex64(note->extras->snapshot, &note->restored_from))
        note->restored_from = 0;
    return note != NULL ? TAKE_PTR(note->extras) : NULL;
}

bool special_settle(struct engine *e, const struct pool_box *box, struct backend_extras *extras)
{
    unsigned late = special_late_of(e->backends[box->backend].ops, profiles_of_box(e, box));
    uint64_t rest = backend_extras_hash(extras, ~late);

    if (rest != 0 && rest != box->made_with)
        return false;
    backend_extras_keep(extras, late);
    return true;
}
