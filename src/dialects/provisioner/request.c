/* request.c - the body of a create. What is wrong with it is said as the original says it: 422 with
 * a list of places for wrong types and forms, 400 with a sentence for mounts that are refused. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "dialects/provisioner/internal.h"

static const char user_data[] = "/mnt/user-data"; /* where DeerFlow's agents work */

struct problems {
    struct json_out out;
    unsigned count;
};

/* body.field, or body.field[index].member */
struct place {
    const char *field; /* NULL: the body itself */
    const char *member;
    size_t index;
    bool has_index;
};

static void complain(struct problems *p, const struct place *at, const char *type, const char *text)
{
    if (p->count == 0) {
        json_out_init(&p->out);
        json_begin_obj(&p->out, NULL);
        json_begin_arr(&p->out, "detail");
    }
    p->count++;
    json_begin_obj(&p->out, NULL);
    json_put_str(&p->out, "type", type);
    json_begin_arr(&p->out, "loc");
    json_put_str(&p->out, NULL, "body");
    if (at->field != NULL)
        json_put_str(&p->out, NULL, at->field);
    if (at->has_index)
        json_put_u64(&p->out, NULL, at->index);
    if (at->member != NULL)
        json_put_str(&p->out, NULL, at->member);
    json_end(&p->out);
    json_put_str(&p->out, "msg", text);
    json_end(&p->out);
}

static void reply_problems(struct http_exchange *ex, struct problems *p)
{
    json_end(&p->out);
    json_end(&p->out);
    http_reply_json(ex, 422, &p->out);
}

/* --- fields --- */

/* NULL when it is missing or no text, which has been complained about. */
static const char *get_text(struct problems *p, const struct json *value, const struct place *at)
{
    if (value == NULL)
        complain(p, at, "missing", "Field required");
    else if (!json_is_str(value))
        complain(p, at, "string_type", "Input should be a valid string");
    return json_str(value);
}

static void check_pattern(struct problems *p, const char *field, const char *text, size_t max,
                          const char *extra, const char *pattern)
{
    struct place at = {.field = field};
    char why[120];

    if (str_is_name(text, max, extra))
        return;
    (void) snprintf(why, sizeof(why), "String should match pattern '%s'", pattern);
    complain(p, &at, "string_pattern_mismatch", why);
}

static bool get_bool(struct problems *p, const struct json *object, struct place at,
                     const char *name)
{
    const struct json *value = json_get(object, name);

    if (value != NULL && !json_is_bool(value))
        complain(p, &at, "bool_type", "Input should be a valid boolean");
    return value != NULL && json_is_bool(value) && json_bool(value);
}

static void get_identity(struct problems *p, const struct json *body,
                         struct provisioner_request *ret)
{
    static const char id_pattern[] = "^[A-Za-z0-9._-]{1,64}$";
    const struct json *thread = json_get(body, "thread_id");
    const struct json *user = json_get(body, "user_id");
    const char *id =
        get_text(p, json_get(body, "sandbox_id"), &(struct place){.field = "sandbox_id"});
    const char *text;

    if (id != NULL) {
        bool is_dots = strcmp(id, ".") == 0 || strcmp(id, "..") == 0; /* they change a path */

        check_pattern(p, "sandbox_id", is_dots ? "" : id, POOL_ID_MAX, "._-", id_pattern);
        str_copy_cut(ret->sandbox_id, sizeof(ret->sandbox_id), id);
        str_copy_cut(ret->thread, sizeof(ret->thread), id);
    }
    if (thread != NULL && !json_is_null(thread)) {
        text = get_text(p, thread, &(struct place){.field = "thread_id"});
        if (text != NULL) {
            check_pattern(p, "thread_id", text, 64, "_-", "^[A-Za-z0-9_-]{1,64}$");
            str_copy_cut(ret->thread, sizeof(ret->thread), text);
            ret->has_thread = true;
        }
    }
    str_copy_cut(ret->user, sizeof(ret->user), "default");
    if (user != NULL) {
        text = get_text(p, user, &(struct place){.field = "user_id"});
        if (text != NULL) {
            check_pattern(p, "user_id", text, POOL_OWNER_MAX, "_-", "^[A-Za-z0-9_\\-]+$");
            str_copy_cut(ret->user, sizeof(ret->user), text);
        }
    }
}

static void get_sessions(struct problems *p, const struct json *body,
                         struct provisioner_request *ret)
{
    const struct json *value = json_get(body, "max_shell_sessions");
    struct place at = {.field = "max_shell_sessions"};

    if (value == NULL || json_is_null(value))
        return;
    if (!json_is_num(value) || (json_num(value) > 0 && !json_u64(value, &ret->max_shell_sessions)))
        complain(p, &at, "int_type", "Input should be a valid integer");
    else if (json_num(value) <= 0)
        complain(p, &at, "greater_than", "Input should be greater than 0");
}

static void get_mount_fields(struct problems *p, const struct json *mounts,
                             struct provisioner_request *ret)
{
    struct place at = {.field = "extra_mounts"};
    char why[100];

    if (mounts == NULL || json_is_null(mounts))
        return;
    if (!json_is_arr(mounts)) {
        complain(p, &at, "list_type", "Input should be a valid list");
        return;
    }
    if (json_len(mounts) > PROVISIONER_MOUNTS_MAX) {
        (void) snprintf(why, sizeof(why),
                        "List should have at most %d items after validation, not %zu",
                        PROVISIONER_MOUNTS_MAX, json_len(mounts));
        complain(p, &at, "too_long", why);
        return;
    }
    for (size_t i = 0; i < json_len(mounts); i++) {
        const struct json *m = json_at(mounts, i);

        at = (struct place){.field = "extra_mounts", .index = i, .has_index = true};
        if (!json_is_obj(m)) {
            complain(p, &at, "model_attributes_type",
                     "Input should be a valid dictionary or object to extract fields from");
            continue;
        }
        at.member = "host_path";
        (void) get_text(p, json_get(m, "host_path"), &at);
        at.member = "container_path";
        (void) get_text(p, json_get(m, "container_path"), &at);
        at.member = "read_only";
        (void) get_bool(p, m, at, "read_only");
    }
    ret->mounts = json_len(mounts) > 0 ? mounts : NULL;
}

/* --- mounts --- */

static struct backend_mount mount_at(const struct json *mounts, size_t i)
{
    const struct json *m = json_at(mounts, i);
    const struct json *read_only = json_get(m, "read_only");

    return (struct backend_mount){.host_path = json_str(json_get(m, "host_path")),
                                  .box_path = json_str(json_get(m, "container_path")),
                                  .is_read_only = read_only != NULL && json_bool(read_only)};
}

/* True when all of them may be mounted; else 400 has been answered. */
static bool check_mounts(struct http_exchange *ex, const struct provisioner_request *request)
{
    const struct json *mounts = request->mounts;
    const struct config *c = engine_config(provisioner_of(ex)->engine);

    for (size_t i = 0; i < json_len(mounts); i++) {
        struct backend_mount m = mount_at(mounts, i);
        const char *why = NULL;
        const char *path = m.box_path;
        size_t own_len;

        if (!config_path_is_plain(m.box_path))
            why = "container_path must be an absolute path without '..'";
        else if (!config_box_path_is_free(m.box_path))
            why = "container_path is not allowed";
        for (size_t j = 0; j < i && why == NULL; j++)
            if (strcmp(mount_at(mounts, j).box_path, m.box_path) == 0)
                why = "duplicate container_path";
        if (why == NULL) {
            path = m.host_path;
            if (!config_path_is_plain(m.host_path))
                why = "host_path must be an absolute path without '..'";
            else if (!config_mount_is_allowed(c, m.host_path))
                why =
                    str_is_empty(c->mounts.allow)
                        ? "mounts.allow of sandpool's configuration is empty: list there what "
                          "boxes may have of its machine, like DeerFlow's home; host_path"
                        : "host_path is not below any of mounts.allow of sandpool's configuration: "
                          "list it there";
            else if (config_mount_is_closed(c, m.host_path) &&
                     !config_thread_owns(c, request->user, request->thread, m.host_path, &own_len))
                why = "host_path is, or has in it, data of other threads "
                      "(provisioner.thread_data)";
        }
        if (why != NULL) {
            provisioner_refuse(ex, 400, 0, "Invalid extra mount: %s: '%.200s'", why, path);
            return false;
        }
    }
    return true;
}

static bool is_asked_for(const struct json *mounts, const char *box_path)
{
    for (size_t i = 0; i < json_len(mounts); i++)
        if (strcmp(mount_at(mounts, i).box_path, box_path) == 0)
            return true;
    return false;
}

void provisioner_find_own(const struct config *c, const struct provisioner_request *request,
                          struct provisioner_wishes *ret)
{
    if (!config_thread_base(c, ret->closed))
        ret->closed[0] = '\0';
    for (size_t i = 0; i < json_len(request->mounts); i++) {
        const char *path = mount_at(request->mounts, i).host_path;

        if (!config_mount_is_closed(c, path) ||
            !config_thread_owns(c, request->user, request->thread, path, &ret->own_len[i]))
            ret->own_len[i] = 0;
    }
}

/* In this order: a later one may be in an earlier one. */
struct backend_extras *provisioner_extras(const struct provisioner_wishes *w)
{
    struct backend_mount all[PROVISIONER_MOUNTS_MAX + 16];
    struct backend_extras x = {.mounts = all};
    char base[CONFIG_PATH_MAX + 1];

    if (!str_is_empty(w->thread_path) && !is_asked_for(w->mounts, user_data) &&
        str_copy_n(base, sizeof(base), w->thread_path, w->base_len))
        all[x.mount_count++] = (struct backend_mount){.host_path = w->thread_path,
                                                      .box_path = user_data,
                                                      .base = base,
                                                      .parts = "workspace,uploads,outputs"};
    for (const char *const *dir = provisioner_dirs; w->want_dirs && *dir != NULL; dir++)
        all[x.mount_count++] = (struct backend_mount){.host_path = "", .box_path = *dir};
    for (size_t i = 0; i < json_len(w->mounts); i++) {
        assert(x.mount_count < ARRAY_LEN(all)); /* checked */
        all[x.mount_count] = mount_at(w->mounts, i);
        all[x.mount_count].closed = str_is_empty(w->closed) ? NULL : w->closed;
        all[x.mount_count++].own_len = w->own_len[i];
    }
    return x.mount_count > 0 ? backend_extras_copy(&x) : NULL;
}

/* --- all of it --- */

/* The document, whatever it holds; NULL with a problem. */
static struct json_doc *read_body(struct http_exchange *ex, struct problems *p)
{
    struct place at = {.field = NULL};
    struct json_doc *doc;
    struct err err;
    size_t len;
    const char *body = http_body(ex, &len);

    if (len == 0) {
        complain(p, &at, "missing", "Field required");
        return NULL;
    }
    doc = json_parse(body, len, len, &err);
    if (doc == NULL) {
        at.has_index = true;
        complain(p, &at, "json_invalid", "JSON decode error");
    } else if (!json_is_obj(json_root(doc))) {
        complain(p, &at, "model_attributes_type",
                 "Input should be a valid dictionary or object to extract fields from");
        doc = json_doc_free(doc);
    }
    return doc;
}

struct json_doc *provisioner_parse(struct http_exchange *ex, struct provisioner_request *ret)
{
    static const char *const flags[] = {"include_legacy_skills", "provision_lark_cli_runtime"};
    struct problems p = {.count = 0};
    struct json_doc *doc = read_body(ex, &p);
    const struct json *body = doc != NULL ? json_root(doc) : NULL;
    bool want_broker = false;

    *ret = (struct provisioner_request){.mounts = NULL};
    if (doc != NULL) {
        get_identity(&p, body, ret);
        get_mount_fields(&p, json_get(body, "extra_mounts"), ret);
        for (size_t i = 0; i < ARRAY_LEN(flags); i++)
            (void) get_bool(&p, body, (struct place){.field = flags[i]}, flags[i]);
        want_broker = get_bool(&p, body, (struct place){.field = "provision_lark_cli_broker"},
                               "provision_lark_cli_broker");
        get_sessions(&p, body, ret);
    }
    if (p.count > 0) {
        reply_problems(ex, &p);
    } else if (want_broker) {
        http_add_header(ex, "X-DeerFlow-Capability-Refresh", "lark-broker");
        provisioner_refuse(ex, 503, 0, "Lark CLI broker image is not configured");
    } else if (check_mounts(ex, ret)) {
        return doc;
    }
    return json_doc_free(doc);
}
