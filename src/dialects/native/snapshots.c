/* snapshots.c - snapshots of boxes: made from a leased one by its owner, listed, deleted. A caller that is no operator sees
 * its own only. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "dialects/native/internal.h"
#include "front/body.h"

enum { PAGE_MAX = 1000, HOLDERS_SHOWN = 3 };

/* `known`: as the engine has it; NULL: it is gone. */
static void put_snapshot(struct json_out *o, const char *key, const struct snapshot *s,
                         const struct engine_snapshot *known)
{
    char text[40];
    char hex[17];

    json_begin_obj(o, key);
    str_hex64(hex, s->id);
    json_put_str(o, "snapshot_id", hex);
    json_put_str(o, "name", s->name);
    json_put_str(o, "profile", s->profile);
    str_hex64(hex, s->parent);
    json_put_str(o, "parent", s->parent != 0 ? hex : NULL);
    json_put_str(o, "sandbox_id", s->sandbox_id);
    json_put_str(o, "user_id", s->user);
    json_put_str(o, "thread_id", s->thread);
    str_iso8601(text, s->created_ms);
    json_put_str(o, "created_at", text);
    json_put_u64(o, "size_bytes", s->size);
    if (s->layers > 0)
        json_put_u64(o, "layers", s->layers);
    else
        json_put_null(o, "layers");
    json_put_str(o, "digest", s->digest);
    json_put_bool(o, "memory", false);
    if (s->is_hibernated)
        json_put_bool(o, "hibernated", true);
    if (known != NULL) {
        str_iso8601(text, known->used_ms);
        json_put_str(o, "last_used_at", text);
        json_put_u64(o, "env_count", known->envs != NULL ? known->envs->env_count : 0);
    }
    if (!str_is_empty(s->metadata))
        json_put_raw(o, "metadata", s->metadata);
    json_end(o);
}

static bool may_see(const struct api_caller *caller, const struct engine_snapshot *s)
{
    return !s->is_leaving && !s->info.is_temporary &&
           (caller->is_operator || s->info.principal == caller->principal) &&
           api_covers(caller, s->info.user, s->info.profile, s->info.sandbox_id);
}

int api_find_snapshot(struct api *api, const struct api_caller *caller, const char *id,
                      const struct engine_snapshot **ret, struct err *err)
{
    uint64_t number;

    *ret = strlen(id) == BACKEND_ID_LEN && str_parse_hex64(id, &number)
               ? engine_snapshot_find(api->engine, number)
               : NULL;
    if (*ret != NULL && may_see(caller, *ret))
        return SP_OK;
    *ret = NULL;
    return err_set(err, SP_NOT_FOUND, "no such snapshot, or not yours: '%.40s'", id);
}

/* --- too many --- */

/* Who has them; a caller that is no operator learns that of itself only. */
void api_snapshot_refuse(struct http_exchange *ex, int code, const char *reason)
{
    const struct api *api = api_of(ex);
    struct engine_holding top[HOLDERS_SHOWN];
    struct api_caller caller;
    char name[CONFIG_NAME_MAX + 24];
    size_t count = 1;
    struct buf text;

    if (code != SP_TOO_MANY_SNAPSHOTS || !api_identify(ex, &caller)) {
        http_reply_error(ex, code, reason, 0);
        return;
    }
    if (caller.is_operator)
        count = engine_snapshot_holders(api->engine, top, ARRAY_LEN(top));
    else
        top[0] = engine_snapshot_holding(api->engine, caller.principal);
    buf_init(&text, 1024);
    buf_printf(&text, "%s:", reason);
    for (size_t i = 0; i < count; i++) {
        front_name_principal(api->engine, top[i].principal, name, sizeof(name));
        buf_printf(&text, "%s %s has %zu of %llu MB", i > 0 ? "," : "", name, top[i].count,
                   (unsigned long long) (top[i].bytes / (1024 * 1024)));
    }
    buf_puts(&text, "; delete some");
    http_reply_error(ex, code, buf_failed(&text) ? reason : buf_str(&text), 0);
    buf_fini(&text);
}

/* --- making one --- */

struct creation {
    struct engine_capture capture;
    struct http_exchange *ex; /* NULL: the caller has gone; the snapshot is made all the same */
};

void api_snapshot_reply(struct http_exchange *ex, const struct snapshot *s)
{
    struct json_out o;

    json_out_init(&o);
    put_snapshot(&o, NULL, s, engine_snapshot_find(api_of(ex)->engine, s->id));
    http_reply_json(ex, 200, &o);
}

static void on_made(struct engine_capture *capture, int code, const char *reason)
{
    struct creation *c = container_of(capture, struct creation, capture);

    if (c->ex != NULL && code != SP_OK)
        api_snapshot_refuse(c->ex, code, reason);
    else if (c->ex != NULL)
        api_snapshot_reply(c->ex, &capture->request.snapshot);
    free(c);
}

static void on_gone(void *ctx)
{
    struct creation *c = ctx;

    c->ex = NULL;
}

struct request_body {
    const char *name;
    const struct json *metadata;
};

static int decode(const struct json *body, struct snapshot *ret, struct err *err)
{
    static const struct front_field fields[] = {
        {"name", FRONT_NAME, .at = offsetof(struct request_body, name), .max = SNAPSHOT_NAME_MAX,
         .extra = "_.-", .may_be_empty = true},
        {"metadata", FRONT_OBJECT, .at = offsetof(struct request_body, metadata)},
        {.name = NULL}};
    struct request_body b = {.name = ""};
    struct buf text;
    bool is_short;
    int r = front_decode_strict(body, fields, &b, err);

    if (r != SP_OK)
        return r;
    str_copy_cut(ret->name, sizeof(ret->name), b.name);
    if (b.metadata == NULL)
        return SP_OK;
    buf_init(&text, SNAPSHOT_METADATA_MAX);
    json_print(b.metadata, &text);
    is_short = !buf_failed(&text) && str_copy(ret->metadata, sizeof(ret->metadata), buf_str(&text));
    buf_fini(&text);
    return is_short ? SP_OK
                    : err_set(err, SP_INVALID_FIELD, "'metadata' is longer than %d bytes",
                              SNAPSHOT_METADATA_MAX);
}

void api_snapshot_create(struct http_exchange *ex)
{
    struct api_caller caller;
    const struct pool_box *box;
    struct json_doc *doc;
    struct creation *c;
    struct err err;
    int r;

    (void) api_identify(ex, &caller); /* the guard has let it in */
    box = api_find_leased(ex, &caller);
    if (box != NULL && api_wake(ex, box, api_snapshot_create))
        return;
    doc = box != NULL ? api_parse_body(ex) : NULL;
    if (doc == NULL)
        return;
    c = xcalloc(1, sizeof(*c));
    r = decode(json_root(doc), &c->capture.request.snapshot, &err);
    (void) json_doc_free(doc);
    if (r != SP_OK) {
        http_reply_err(ex, &err);
        free(c);
        return;
    }
    c->ex = ex;
    c->capture.on_done = on_made;
    http_set_ctx(ex, c, on_gone);
    engine_capture_start(api_of(ex)->engine, &c->capture, box->id);
}

/* --- looking at them --- */

/* After the one that ?after= names. */
static const struct engine_snapshot *first(struct http_exchange *ex, struct engine *e,
                                           const struct engine_snapshots_of *of)
{
    const struct engine_snapshot *s;
    char after[24];
    uint64_t id;

    if (!http_query(ex, "after", after, sizeof(after)) || !str_parse_hex64(after, &id))
        return engine_snapshot_first(e, of);
    s = engine_snapshot_find(e, id);
    return s != NULL ? engine_snapshot_next(e, of, s) : NULL;
}

void api_snapshot_list(struct http_exchange *ex)
{
    struct engine *e = api_of(ex)->engine;
    struct engine_snapshots_of of;
    const struct engine_snapshot *s;
    struct api_caller caller;
    unsigned count = 0;
    struct json_out o;
    char hex[17] = "";
    char all[8];

    (void) api_identify(ex, &caller); /* the guard has let it in */
    of = (struct engine_snapshots_of){.is_own = !caller.is_operator, .principal = caller.principal};
    of.want_hibernated = http_query(ex, "all", all, sizeof(all)) && strcmp(all, "1") == 0;
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_begin_arr(&o, "snapshots");
    for (s = first(ex, e, &of); s != NULL && count < PAGE_MAX;
         s = engine_snapshot_next(e, &of, s)) {
        if (!may_see(&caller, s))
            continue;
        put_snapshot(&o, NULL, &s->info, s);
        str_hex64(hex, s->info.id);
        count++;
    }
    json_end(&o);
    json_put_str(&o, "next", s != NULL ? hex : NULL);
    json_end(&o);
    http_reply_json(ex, 200, &o);
}

struct engine_snapshot *api_snapshot_of_path(struct http_exchange *ex)
{
    const struct engine_snapshot *found;
    struct api_caller caller;
    struct err err;

    (void) api_identify(ex, &caller); /* the guard has let it in */
    if (api_find_snapshot(api_of(ex), &caller, http_path_param(ex, "snapshot"), &found, &err) ==
        SP_OK)
        return engine_snapshot_find(api_of(ex)->engine, found->info.id);
    http_reply_err(ex, &err);
    return NULL;
}

void api_snapshot_get(struct http_exchange *ex)
{
    const struct engine_snapshot *s = api_snapshot_of_path(ex);

    if (s != NULL)
        api_snapshot_reply(ex, &s->info);
}

/* --- deleting --- */

struct deletion {
    struct http_exchange *ex; /* NULL: the caller has gone */
    struct snapshot info;
};

static void on_deleted(void *ctx, int code, const char *reason)
{
    struct deletion *d = ctx;
    struct json_out o;

    if (d->ex != NULL && code != SP_OK) {
        http_reply_error(d->ex, code, reason, 0);
    } else if (d->ex != NULL) {
        json_out_init(&o);
        put_snapshot(&o, NULL, &d->info, NULL);
        http_reply_json(d->ex, 200, &o);
    }
    free(d);
}

static void on_deleter_gone(void *ctx)
{
    struct deletion *d = ctx;

    d->ex = NULL;
}

void api_snapshot_delete(struct http_exchange *ex)
{
    struct engine_snapshot *s = api_snapshot_of_path(ex);
    const char *used_by;
    struct deletion *d;
    struct err err;

    if (s == NULL)
        return;
    used_by = engine_snapshot_profile(api_of(ex)->engine, s->info.id);
    if (used_by != NULL) {
        (void) err_set(&err, SP_SPEC_CONFLICT,
                       "the boxes of profile '%.64s' are made from it: take it out of the "
                       "configuration first",
                       used_by);
        http_reply_err(ex, &err);
        return;
    }
    d = xcalloc(1, sizeof(*d));
    d->ex = ex;
    d->info = s->info;
    http_set_ctx(ex, d, on_deleter_gone);
    engine_snapshot_drop(api_of(ex)->engine, s, on_deleted, d);
}
