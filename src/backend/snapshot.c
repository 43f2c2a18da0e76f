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

static void put_hex(struct json_out *o, const char *key, uint64_t v)
{
    char hex[17];

    str_hex64(hex, v);
    json_put_str(o, key, hex);
}

void snapshot_put(struct json_out *o, const struct snapshot *s)
{
    json_put_u64(o, "version", 1);
    put_hex(o, "id", s->id);
    json_put_str(o, "name", s->name);
    json_put_str(o, "instance", s->instance);
    json_put_str(o, "profile", s->profile);
    put_hex(o, "parent", s->parent);
    json_put_str(o, "sandbox_id", s->sandbox_id);
    json_put_str(o, "user", s->user);
    json_put_str(o, "thread", s->thread);
    put_hex(o, "principal", s->principal);
    json_put_u64(o, "created_ms", s->created_ms);
    json_put_u64(o, "size", s->size);
    json_put_str(o, "digest", s->digest);
    json_put_str(o, "metadata", s->metadata);
    json_put_bool(o, "deleted", s->is_deleted);
    json_put_bool(o, "temporary", s->is_temporary);
}

static bool take(const struct json *obj, const char *key, char *dst, size_t cap)
{
    const char *text = json_str(json_get(obj, key));

    return text != NULL && str_copy(dst, cap, text);
}

static bool take_hex(const struct json *obj, const char *key, uint64_t *ret)
{
    const char *text = json_str(json_get(obj, key));

    return text != NULL && str_parse_hex64(text, ret);
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

    memset(ret, 0, sizeof(*ret));
    ret->is_temporary = temporary != NULL && json_bool(temporary);
    ret->is_deleted = deleted != NULL && json_bool(deleted);
    return json_is_obj(obj) && take_hex(obj, "id", &ret->id) &&
           take(obj, "name", ret->name, sizeof(ret->name)) &&
           take(obj, "instance", ret->instance, sizeof(ret->instance)) &&
           take(obj, "profile", ret->profile, sizeof(ret->profile)) &&
           take_hex(obj, "parent", &ret->parent) &&
           take(obj, "sandbox_id", ret->sandbox_id, sizeof(ret->sandbox_id)) &&
           take(obj, "user", ret->user, sizeof(ret->user)) &&
           take(obj, "thread", ret->thread, sizeof(ret->thread)) &&
           take_hex(obj, "principal", &ret->principal) &&
           take_u64(obj, "created_ms", &ret->created_ms) && take_u64(obj, "size", &ret->size) &&
           take(obj, "digest", ret->digest, sizeof(ret->digest)) &&
           take(obj, "metadata", ret->metadata, sizeof(ret->metadata)) && deleted != NULL;
}
