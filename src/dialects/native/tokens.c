/* tokens.c - /v1/tokens: tokens for callers on TCP, made, listed and revoked by operators. A token is shown once, in the
 * answer to the call that made it. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "dialects/native/internal.h"
#include "engine/hibernate.h"
#include "front/body.h"

#define TOKEN_TTL_MAX_S (10ULL * 365 * 24 * 3600)

/* "" as null. */
static void put_bound(struct json_out *o, const char *key, const char *value)
{
    json_put_str(o, key, str_is_empty(value) ? NULL : value);
}

/* A time of rows, by the wall clock. */
static void put_stored(struct json_out *o, const char *key, const struct rt *rt, uint64_t stored_ms)
{
    char text[32];

    if (stored_ms == 0) {
        json_put_null(o, key);
        return;
    }
    str_iso8601(text, (uint64_t) ((int64_t) stored_ms + rt->wall_offset_ms - rt->stored_offset_ms));
    json_put_str(o, key, text);
}

/* Into the object that is open. */
static void put_token(struct json_out *o, struct api *api, const struct engine_token *t)
{
    static const char *const names[] = {"read", "use", "operate"};
    const struct rt *rt = engine_rt(api->engine);
    char principal[CONFIG_NAME_MAX + 24];

    json_put_str(o, "token_id", t->id);
    json_put_str(o, "name", t->name);
    json_begin_arr(o, "scopes");
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if ((t->scopes & front_scope(names[i])) != 0)
            json_put_str(o, NULL, names[i]);
    json_end(o);
    put_bound(o, "user_id", t->bounds.user);
    put_bound(o, "profile", t->bounds.profile);
    put_bound(o, "sandbox_id", t->bounds.sandbox_id);
    front_name_principal(api->engine, t->principal, principal, sizeof(principal));
    json_put_str(o, "principal", principal);
    put_stored(o, "created_at", rt, t->created_ms);
    put_stored(o, "expires_at", rt, t->expires_ms);
    put_stored(o, "last_used_at", rt, t->used_ms);
    if (t->is_revoked)
        json_put_bool(o, "revoked", true);
}

void api_tokens(struct http_exchange *ex)
{
    struct api *api = api_of(ex);
    const struct engine_token *t = NULL;
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_begin_arr(&o, "tokens");
    while ((t = engine_token_next(api->engine, t)) != NULL) {
        json_begin_obj(&o, NULL);
        put_token(&o, api, t);
        json_end(&o);
    }
    json_end(&o);
    json_end(&o);
    http_reply_json(ex, 200, &o);
}

/* --- making one --- */

struct request_body {
    const char *name;
    const struct json *scopes;
    const char *user;
    const char *profile;
    const char *sandbox_id;
    uint64_t ttl_s; /* 0: it does not expire */
};

#define AT(member) .at = offsetof(struct request_body, member)

static int decode_scopes(const struct json *list, unsigned *ret, struct err *err)
{
    *ret = 0;
    for (size_t i = 0; i < json_len(list); i++) {
        const char *name = json_str(json_at(list, i));
        unsigned scope = name != NULL ? front_scope(name) : 0;

        if (scope == 0)
            return err_set(err, SP_INVALID_FIELD, "'scopes' may have read, use and operate");
        *ret |= scope;
    }
    return *ret != 0 ? SP_OK : err_set(err, SP_INVALID_FIELD, "'scopes' must name at least one");
}

/* A token for one sandbox acts as who has that sandbox: nobody else may use it. */
static int set_owner(struct api *api, const char *sandbox_id, struct engine_token *ret,
                     struct err *err)
{
    const struct pool_box *box = pool_find_sandbox(engine_pool(api->engine), sandbox_id);
    const struct engine_snapshot *s = engine_hibernated_find(api->engine, sandbox_id);

    if (box == NULL && s == NULL)
        return err_set(err, SP_NOT_FOUND, "there is no sandbox '%.64s'", sandbox_id);
    ret->principal = box != NULL ? box->principal : s->info.principal;
    return SP_OK;
}

static int set_bounds(struct api *api, const struct request_body *b, struct engine_token *ret,
                      struct err *err)
{
    struct engine_bounds *to = &ret->bounds;

    ret->has_bounds =
        !str_is_empty(b->user) || !str_is_empty(b->profile) || !str_is_empty(b->sandbox_id);
    if (ret->has_bounds && (ret->scopes & ENGINE_SCOPE_OPERATE) != 0)
        return err_set(err, SP_INVALID_FIELD,
                       "a token of scope operate cannot be bound to a user, profile or sandbox");
    if (!str_is_empty(b->profile) &&
        config_find_profile(engine_config(api->engine), b->profile) == NULL)
        return err_set(err, SP_INVALID_FIELD, "there is no profile '%.64s'", b->profile);
    str_copy_cut(to->user, sizeof(to->user), b->user);
    str_copy_cut(to->profile, sizeof(to->profile), b->profile);
    str_copy_cut(to->sandbox_id, sizeof(to->sandbox_id), b->sandbox_id);
    return str_is_empty(b->sandbox_id) ? SP_OK : set_owner(api, b->sandbox_id, ret, err);
}

static int decode(struct api *api, const struct json *body, struct engine_token *ret,
                  struct err *err)
{
    static const struct front_field fields[] = {
        {"name", FRONT_NAME, AT(name), .max = CONFIG_NAME_MAX, .extra = "_-", .is_required = true},
        {"scopes", FRONT_LIST, AT(scopes), .max = 3, .is_required = true},
        {"user_id", FRONT_NAME, AT(user), .max = POOL_OWNER_MAX, .extra = API_USER_EXTRA},
        {"profile", FRONT_TEXT, AT(profile), .max = POOL_NAME_MAX},
        {"sandbox_id", FRONT_NAME, AT(sandbox_id), .max = POOL_ID_MAX, .extra = "_-"},
        {"ttl_s", FRONT_NUMBER, AT(ttl_s), .min = 1, .max = TOKEN_TTL_MAX_S},
        {.name = NULL}};
    struct rt *rt = engine_rt(api->engine);
    struct request_body b = {.user = "", .profile = "", .sandbox_id = ""};
    int r = front_decode_strict(body, fields, &b, err);

    if (r == SP_OK)
        r = decode_scopes(b.scopes, &ret->scopes, err);
    if (r != SP_OK)
        return r;
    rt_refresh(rt);
    str_copy_cut(ret->name, sizeof(ret->name), b.name);
    ret->principal = front_principal(b.name);
    if (b.ttl_s > 0)
        ret->expires_ms = rt_stored_at(rt, rt_now(rt)) + b.ttl_s * 1000;
    return set_bounds(api, &b, ret, err);
}

static void on_made(void *ctx, const struct engine_token *t, const char *secret,
                    const struct err *err)
{
    struct api_later *l = ctx;
    struct json_out o;

    if (l->ex == NULL) {
        ; /* nobody has seen it: it stays in the list, to be revoked */
    } else if (err != NULL) {
        http_reply_err(l->ex, err);
    } else {
        json_out_init(&o);
        json_begin_obj(&o, NULL);
        put_token(&o, l->api, t);
        json_put_str(&o, "token", secret);
        json_end(&o);
        http_add_header(l->ex, "Cache-Control", "no-store");
        http_reply_json(l->ex, 200, &o);
    }
    free(l);
}

void api_token_create(struct http_exchange *ex)
{
    struct json_doc *doc = api_parse_body(ex);
    struct engine_token t = {.scopes = 0};
    struct err err;
    int r;

    if (doc == NULL)
        return;
    r = decode(api_of(ex), json_root(doc), &t, &err);
    (void) json_doc_free(doc);
    if (r != SP_OK)
        http_reply_err(ex, &err);
    else
        engine_token_create(api_of(ex)->engine, &t, on_made, api_answer_later(ex));
}

/* --- revoking --- */

static void on_revoked(void *ctx, unsigned count, const struct err *err)
{
    struct api_later *l = ctx;
    struct json_out o;

    if (l->ex == NULL) {
        ;
    } else if (err != NULL) {
        struct err why = *err;

        (void) err_wrap(&why, "refused from now on, but valid again after a restart: revoke again");
        http_reply_err(l->ex, &why);
    } else if (count == 0) {
        http_reply_error(l->ex, SP_NOT_FOUND, "there is no token of this id or name", 0);
    } else {
        json_out_init(&o);
        json_begin_obj(&o, NULL);
        json_put_u64(&o, "revoked", count);
        json_end(&o);
        http_reply_json(l->ex, 200, &o);
    }
    free(l);
}

void api_token_revoke(struct http_exchange *ex)
{
    engine_token_revoke(api_of(ex)->engine, http_path_param(ex, "token"), on_revoked,
                        api_answer_later(ex));
}
