/* codec.c - between JSON and the types of the pool. */
#include <stdio.h>
#include <string.h>

#include "base/hide.h"
#include "base/sha256.h"
#include "base/str.h"
#include "dialects/native/internal.h"
#include "engine/holders.h"
#include "front/principal.h"

struct json_doc *api_parse_body(struct http_exchange *ex)
{
    struct json_doc *doc;
    struct err err;
    size_t len;
    const char *body = http_body(ex, &len);

    if (len == 0)
        doc = json_parse("{}", 2, 2, &err);
    else
        doc = json_parse(body, len, len, &err);
    if (doc == NULL) {
        http_reply_err(ex, &err);
        return NULL;
    }
    if (!json_is_obj(json_root(doc))) {
        http_reply_error(ex, SP_BAD_REQUEST, "the body must be a JSON object", 0);
        return json_doc_free(doc);
    }
    return doc;
}

bool api_parse_principal(const char *text, uint64_t *ret)
{
    return strlen(text) == 16 ? str_parse_hex64(text, ret)
                              : str_parse_u64(text, 0, UINT32_MAX, ret);
}

void api_put_time(struct json_out *o, const char *key, struct api *api, uint64_t at_ns)
{
    char text[32];

    if (at_ns == 0 || at_ns == POOL_NEVER) {
        json_put_null(o, key);
        return;
    }
    str_iso8601(text, rt_wall_at(engine_rt(api->engine), at_ns));
    json_put_str(o, key, text);
}

static const char *or_null(const char *s)
{
    return str_is_empty(s) ? NULL : s;
}

static double seconds_since(const struct rt *rt, uint64_t at_ns)
{
    uint64_t now_ns = rt_now(rt);

    return at_ns == 0 || at_ns > now_ns ? 0 : (double) ((now_ns - at_ns) / NS_PER_MS) / 1000;
}

const char *api_state_name(enum pool_state state)
{
    switch (state) {
    case POOL_INTENT:
    case POOL_CREATING:
    case POOL_STARTING:
        return "starting";
    case POOL_BLANK:
        return "blank";
    case POOL_LEASING:
    case POOL_LEASED:
    case POOL_PARKING: /* not parked before it is committed */
        return "leased";
    case POOL_PARKED:
        return "parked";
    case POOL_DOOMED:
    case POOL_DESTROYING:
    case POOL_FORGETTING:
        return "deleting";
    case POOL_FREE:
    case POOL_STATE_COUNT:
        break;
    }
    return "gone";
}

/* When time alone ends it, and by which of its limits. */
static void put_end(struct json_out *o, struct api *api, const struct pool_box *box)
{
    uint64_t now_ns = rt_now(engine_rt(api->engine));
    const char *by;
    uint64_t at_ns = pool_ends(engine_pool(api->engine), box, &by);

    api_put_time(o, "ends_at", api, at_ns);
    json_put_str(o, "ends_by", or_null(by));
    if (at_ns != POOL_NEVER)
        json_put_num(o, "ends_in_s",
                     at_ns > now_ns ? (double) ((at_ns - now_ns) / NS_PER_MS) / 1000 : 0);
}

/* "ana (uid 1000)", "token ci". */
static void name_principal(struct api *api, uint64_t principal, char *dst, size_t cap)
{
    const char *user = principal >> 63 == 0 ? engine_uid_name(api->engine, principal) : "";

    if (str_is_empty(user))
        front_name_principal(api->engine, principal, dst, cap);
    else
        (void) snprintf(dst, cap, "%s (uid %llu)", user, (unsigned long long) principal);
}

static void put_deed(struct json_out *o, struct api *api, struct box_id box)
{
    const struct engine_deed *deed = engine_deed(api->engine, box);

    if (deed == NULL)
        return;
    json_begin_obj(o, "last");
    json_put_str(o, "verb", deed->verb);
    json_put_str(o, "from", deed->from);
    api_put_time(o, "at", api, deed->at_ns);
    json_put_num(o, "ago_s", seconds_since(engine_rt(api->engine), deed->at_ns));
    json_end(o);
}

/* Who holds it, since when, and what was done with it last. */
static void put_holder(struct json_out *o, struct api *api, const struct pool_box *box)
{
    char name[96];
    char hex[17];

    str_hex64(hex, box->principal);
    name_principal(api, box->principal, name, sizeof(name));
    json_put_str(o, "principal", hex);
    json_put_str(o, "principal_name", name);
    if (box->state == POOL_LEASED) {
        api_put_time(o, "leased_at", api, box->leased_ns);
        json_put_num(o, "leased_s", seconds_since(engine_rt(api->engine), box->leased_ns));
    }
    if (engine_is_leaking(api->engine, box->id))
        json_put_bool(o, "leaking", true);
    put_deed(o, api, box->id);
}

void api_put_box(struct json_out *o, struct api *api, const struct api_caller *caller,
                 const struct pool_box *box)
{
    const struct rt *rt = engine_rt(api->engine);
    const char *metadata = engine_metadata(api->engine, box->id);
    const struct pool_profile *profile = pool_profile(engine_pool(api->engine), box->profile);
    char url[2 * BOX_ADDRESS_MAX];
    char hex[17];

    str_hex64(hex, box->id.v);
    json_put_str(o, "sandbox_id", or_null(box->sandbox_id));
    json_put_u64(o, "generation", box->generation);
    json_put_str(o, "box_id", hex);
    json_put_str(o, "state", api_state_name(box->state));
    json_put_str(o, "profile", profile->name);
    json_put_str(o, "user_id", or_null(box->user));
    json_put_str(o, "thread_id", or_null(box->thread));
    api_box_url(caller, box, url);
    json_put_str(o, "sandbox_url", pool_is_shown(box) ? or_null(url) : NULL);
    if (pool_is_shown(box) && api_may_use(caller, box))
        json_put_str(o, "token", or_null(box->token));
    api_put_time(o, "created_at", api, box->created_ns);
    api_put_time(o, "expires_at", api, box->expires_ns);
    put_end(o, api, box);
    json_put_num(o, "age_s", seconds_since(rt, box->created_ns));
    if (box->state == POOL_LEASED)
        json_put_num(o, "idle_s", box->busy > 0 ? 0 : seconds_since(rt, pool_active_ns(box)));
    if (box->state == POOL_PARKED)
        json_put_num(o, "parked_s", seconds_since(rt, box->parked_ns));
    if (!str_is_empty(box->sandbox_id))
        put_holder(o, api, box);
    if (box->is_paused)
        json_put_bool(o, "paused", true);
    if (box->is_unseen)
        json_put_bool(o, "unseen", true);
    if (box->end != POOL_END_NONE)
        json_put_str(o, "why", pool_end_name(box->end));
    if (metadata != NULL)
        json_put_raw(o, "metadata", metadata);
}

enum { MESSAGE_MAX = POOL_REASON_MAX + 160 };

static const char *more_of(enum pool_end end)
{
    if (end == POOL_END_KERNEL_MEMORY)
        return " (it held more file locks or open directories than a box may)";
    return end == POOL_END_NOT_KEPT
               ? " (too many sandboxes are hibernated, in all or of this caller, so its files were "
                 "not kept: snapshots.hibernated_max)"
               : "";
}

static void explain(const struct pool_fx *fx, char message[MESSAGE_MAX])
{
    int code = fx->u.reply.code;
    const char *text = sp_error_info(code)->text;
    bool was_served = fx->u.reply.source != POOL_SRC_NONE;

    if (code == SP_SANDBOX_LOST)
        (void) snprintf(message, MESSAGE_MAX,
                        "the sandbox is gone: %s%s; acquire again to get a new one",
                        pool_end_name(fx->u.reply.lost), more_of(fx->u.reply.lost));
    else if (was_served && !str_is_empty(fx->reason))
        /* There was a box; the message of the backend says what could not be applied to it. */
        str_copy_cut(message, MESSAGE_MAX, fx->reason);
    else if (code == SP_FORBIDDEN) /* the pool refuses for one reason only */
        str_copy_cut(message, MESSAGE_MAX,
                     "the sandbox of this thread belongs to another caller (another uid or token): "
                     "choose another thread_id or user_id");
    else if (strncmp(fx->reason, text, strlen(text)) == 0) /* the box's own message says more */
        str_copy_cut(message, MESSAGE_MAX, fx->reason);
    else if (!str_is_empty(fx->reason))
        (void) snprintf(message, MESSAGE_MAX, "%s: %s", text, fx->reason);
    else
        str_copy_cut(message, MESSAGE_MAX, text);
}

void api_reply_failure(struct http_exchange *ex, const struct pool_fx *fx)
{
    char message[MESSAGE_MAX];

    explain(fx, message);
    http_reply_error(ex, fx->u.reply.code, message, fx->u.reply.retry_after_ns / NS_PER_MS);
}

void api_put_failure(struct json_out *o, const struct pool_fx *fx, bool is_operator)
{
    uint64_t retry_after_ms = fx->u.reply.retry_after_ns / NS_PER_MS;
    char message[MESSAGE_MAX];

    explain(fx, message);
    json_begin_obj(o, "error");
    json_put_str(o, "code", sp_error_info(fx->u.reply.code)->name);
    api_put_reason(o, "message", message, is_operator || !hide_is_due(fx->u.reply.code));
    if (retry_after_ms > 0)
        json_put_u64(o, "retry_after_ms", retry_after_ms);
    json_end(o);
}

/* "user/thread", always with both: so a path can have it with its slash as it is, and no other part of the path is ever
 * taken for the thread. */
static bool thread_id(const char *text, char *ret_sandbox_id)
{
    const char *slash = strchr(text, '/');
    char user[POOL_OWNER_MAX + 1];

    if (slash == NULL || !str_copy_n(user, sizeof(user), text, (size_t) (slash - text)) ||
        !str_is_name(user, POOL_OWNER_MAX, API_USER_EXTRA) ||
        !str_is_name(slash + 1, POOL_OWNER_MAX, API_THREAD_EXTRA))
        return false;
    api_sandbox_id(user, slash + 1, ret_sandbox_id);
    return true;
}

bool api_parse_id(const char *id, char *ret_sandbox_id, struct box_id *ret_box)
{
    static const char box[] = "box:";
    static const char thread[] = API_THREAD_PREFIX;

    ret_sandbox_id[0] = '\0';
    ret_box->v = 0;
    if (strncmp(id, box, strlen(box)) == 0)
        return str_parse_hex64(id + strlen(box), &ret_box->v);
    if (strncmp(id, thread, strlen(thread)) == 0)
        return thread_id(id + strlen(thread), ret_sandbox_id);
    return str_is_name(id, POOL_ID_MAX, "_-") && str_copy(ret_sandbox_id, POOL_ID_MAX + 1, id);
}

bool api_path_id(struct http_exchange *ex, char *ret_sandbox_id, struct box_id *ret_box)
{
    bool is_good = api_parse_id(http_path_param(ex, "id"), ret_sandbox_id, ret_box);

    if (!is_good)
        http_reply_error(
            ex, SP_NOT_FOUND,
            "not an id: 1 to 64 letters, digits, '-' and '_', or box:<16 hex digits>, or "
            "thread:<user>/<thread>",
            0);
    return is_good;
}

void api_sandbox_id(const char *user, const char *thread, char ret[POOL_ID_MAX + 1])
{
    struct sha256 s;
    unsigned char digest[32];

    sha256_init(&s);
    sha256_add(&s, user, strlen(user));
    sha256_add(&s, ":", 1);
    sha256_add(&s, thread, strlen(thread));
    sha256_end(&s, digest);
    str_hex(ret, digest, 8);
}
