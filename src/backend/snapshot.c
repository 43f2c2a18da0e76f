/* snapshot.c - the record of a snapshot as JSON, and lists of them. Numbers that use all 64 bits are hex texts. */
#include "backend/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

struct snapshot *backend_snapshots_add(struct backend_snapshots *r)
{
    if (r->count == r->cap) {
        r->cap = r->cap == 0 ? 16 : 2 * r->cap;
        r->list = xrealloc(r->list, r->cap * sizeof(*r->list));
    }
    memset(&r->list[r->count], 0, sizeof(*r->list));
    return &r->list[r->count++];
}

void backend_snapshots_fini(struct backend_snapshots *r)
{
    free(r->list);
    r->list = NULL;
    r->count = r->cap = 0;
}

void snapshot_put(struct json_out *o, const struct snapshot *s)
{
    json_put_u64(o, "version", 1);
    json_put_hex64(o, "id", s->id);
    json_put_str(o, "name", s->name);
    json_put_str(o, "instance", s->instance);
    json_put_str(o, "profile", s->profile);
    json_put_hex64(o, "parent", s->parent);
    json_put_str(o, "sandbox_id", s->sandbox_id);
    json_put_str(o, "user", s->user);
    json_put_str(o, "thread", s->thread);
    json_put_hex64(o, "principal", s->principal);
    json_put_u64(o, "created_ms", s->created_ms);
    json_put_u64(o, "size", s->size);
    json_put_u64(o, "layers", s->layers);
    json_put_str(o, "digest", s->digest);
    json_put_str(o, "metadata", s->metadata);
    json_put_bool(o, "deleted", s->is_deleted);
    json_put_bool(o, "temporary", s->is_temporary);
    json_put_bool(o, "hibernated", s->is_hibernated);
    json_put_u64(o, "generation", s->generation);
    json_put_hex64(o, "box", s->box_id);
    json_put_u64(o, "until_ms", s->until_ms);
    json_put_u64(o, "made_ms", s->made_ms);
}

static bool take_u64(const struct json *obj, const char *key, uint64_t *ret)
{
    const struct json *v = json_get(obj, key);

    return v != NULL && json_u64(v, ret);
}

bool snapshot_take(const struct json *obj, struct snapshot *ret)
{
    const struct json *deleted = json_get(obj, "deleted");
    const struct json *temporary = json_get(obj, "temporary");
    const struct json *hibernated = json_get(obj, "hibernated");

    memset(ret, 0, sizeof(*ret));
    if (!take_u64(obj, "layers", &ret->layers)) /* of a release before there was this member */
        ret->layers = 0;
    ret->is_temporary = temporary != NULL && json_bool(temporary);
    ret->is_hibernated = hibernated != NULL && json_bool(hibernated);
    if (!take_u64(obj, "generation", &ret->generation))
        ret->generation = 0; /* of an older version */
    if (!take_u64(obj, "until_ms", &ret->until_ms))
        ret->until_ms = 0;
    if (!take_u64(obj, "made_ms", &ret->made_ms))
        ret->made_ms = 0;
    if (json_get(obj, "box") == NULL || !json_take_hex64(obj, "box", &ret->box_id))
        ret->box_id = 0;
    ret->is_deleted = deleted != NULL && json_bool(deleted);
    return json_is_obj(obj) && json_take_hex64(obj, "id", &ret->id) &&
           json_take_str(obj, "name", ret->name, sizeof(ret->name)) &&
           json_take_str(obj, "instance", ret->instance, sizeof(ret->instance)) &&
           json_take_str(obj, "profile", ret->profile, sizeof(ret->profile)) &&
           json_take_hex64(obj, "parent", &ret->parent) &&
           json_take_str(obj, "sandbox_id", ret->sandbox_id, sizeof(ret->sandbox_id)) &&
           json_take_str(obj, "user", ret->user, sizeof(ret->user)) &&
           json_take_str(obj, "thread", ret->thread, sizeof(ret->thread)) &&
           json_take_hex64(obj, "principal", &ret->principal) &&
           take_u64(obj, "created_ms", &ret->created_ms) && take_u64(obj, "size", &ret->size) &&
           json_take_str(obj, "digest", ret->digest, sizeof(ret->digest)) &&
           json_take_str(obj, "metadata", ret->metadata, sizeof(ret->metadata)) && deleted != NULL;
}
