/* request.c - the body of a create. Errors have the same form as in the original: 422 with a list
 * of places for wrong types and formats, 400 with a sentence for mounts that are refused. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "dialects/provisioner/internal.h"
#include "front/body.h"

static const char user_data[] = "/mnt/user-data"; /* directory that DeerFlow's agents use */

/* body.field, or body.field[index].member */
struct place {
    const char *field; /* NULL: the body itself */
    const char *member;
    size_t index;
    bool has_index;
};

struct problems {
    struct json_out out;
    unsigned count;
    struct place inside; /* what is being decoded: the body, or an item of a list */
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

static void say_pattern(struct problems *p, const struct place *at, const char *field)
{
    static const struct {
        const char *field;
        const char *pattern;
    } patterns[] = {{"sandbox_id", "^[A-Za-z0-9._][A-Za-z0-9._-]{0,63}$"},
                    {"thread_id", "^[A-Za-z0-9_-]{1,64}$"},
                    {"user_id", "^[A-Za-z0-9_\\-]+$"}};
    char why[120] = "";

    for (size_t i = 0; i < ARRAY_LEN(patterns); i++)
        if (strcmp(patterns[i].field, field) == 0)
            (void) snprintf(why, sizeof(why), "String should match pattern '%s'",
                            patterns[i].pattern);
    complain(p, at, "string_pattern_mismatch", why);
}

static void say_type(struct problems *p, const struct place *at, enum front_type type)
{
    switch (type) {
    case FRONT_NUMBER:
        complain(p, at, "int_type", "Input should be a valid integer");
        return;
    case FRONT_FLAG:
        complain(p, at, "bool_type", "Input should be a valid boolean");
        return;
    case FRONT_LIST:
        complain(p, at, "list_type", "Input should be a valid list");
        return;
    case FRONT_TEXT:
    case FRONT_NAME:
    case FRONT_OBJECT:
    case FRONT_ANY:
        break;
    }
    complain(p, at, "string_type", "Input should be a valid string");
}

/* All of them are reported. */
static bool on_problem(void *ctx, const struct front_field *f, enum front_problem problem,
                       const struct json *value)
{
    struct problems *p = ctx;
    struct place at = p->inside;
    char why[100];

    if (at.has_index)
        at.member = f->name;
    else
        at.field = f->name;
    if (problem == FRONT_MISSING) {
        complain(p, &at, "missing", "Field required");
    } else if (problem == FRONT_WRONG_TYPE) {
        say_type(p, &at, f->type);
    } else if (f->type == FRONT_NAME) {
        say_pattern(p, &at, f->name);
    } else if (f->type == FRONT_NUMBER) {
        complain(p, &at, "greater_than", "Input should be greater than 0");
    } else {
        (void) snprintf(why, sizeof(why),
                        "List should have at most %d items after validation, not %zu", (int) f->max,
                        json_len(value));
        complain(p, &at, "too_long", why);
    }
    return true;
}

/* The body, as it came. */
struct fields {
    const char *id;
    const char *thread;
    const char *user;
    const struct json *mounts;
    uint64_t sessions;
    bool want_broker;
    bool ignored;
};

#define AT(member) .at = offsetof(struct fields, member)

static void get_identity(struct problems *p, const struct json *body, struct fields *ret)
{
    static const struct front_field id[] = {{"sandbox_id", FRONT_NAME, AT(id), .max = POOL_ID_MAX,
                                             .extra = "._-", .is_required = true,
                                             .is_operand = true, .refuses_null = true},
                                            {.name = NULL}};
    static const struct front_field owner[] = {
        {"thread_id", FRONT_NAME, AT(thread), .max = 64, .extra = "_-"},
        {"user_id", FRONT_NAME, AT(user), .max = POOL_OWNER_MAX, .extra = "_-",
         .refuses_null = true},
        {.name = NULL}};

    if (front_decode(body, id, ret, on_problem, p) &&
        (strcmp(ret->id, ".") == 0 || strcmp(ret->id, "..") == 0)) /* they change a path */
        say_pattern(p, &(struct place){.field = "sandbox_id"}, "sandbox_id");
    (void) !front_decode(body, owner, ret, on_problem, p);
}

static void get_mounts(struct problems *p, const struct json *body, struct fields *ret)
{
    static const struct front_field list[] = {
        {"extra_mounts", FRONT_LIST, AT(mounts), .max = PROVISIONER_MOUNTS_MAX}, {.name = NULL}};
    static const struct front_field item[] = {
        {"host_path", FRONT_TEXT, .at = offsetof(struct backend_mount, host_path), .max = SIZE_MAX,
         .is_required = true, .refuses_null = true},
        {"container_path", FRONT_TEXT, .at = offsetof(struct backend_mount, box_path),
         .max = SIZE_MAX, .is_required = true, .refuses_null = true},
        {"read_only", FRONT_FLAG, .at = offsetof(struct backend_mount, is_read_only),
         .refuses_null = true},
        {.name = NULL}};

    (void) !front_decode(body, list, ret, on_problem, p);
    for (size_t i = 0; i < json_len(ret->mounts); i++) {
        const struct json *m = json_at(ret->mounts, i);
        struct backend_mount unused; /* mount_at() reads it when all are valid */

        p->inside = (struct place){.field = "extra_mounts", .index = i, .has_index = true};
        if (json_is_obj(m))
            (void) !front_decode(m, item, &unused, on_problem, p);
        else
            complain(p, &p->inside, "model_attributes_type",
                     "Input should be a valid dictionary or object to extract fields from");
    }
    p->inside = (struct place){.field = NULL};
    if (json_len(ret->mounts) == 0)
        ret->mounts = NULL;
}

static void get_rest(struct problems *p, const struct json *body, struct fields *ret)
{
    static const struct front_field rest[] = {
        {"include_legacy_skills", FRONT_FLAG, AT(ignored), .refuses_null = true},
        {"provision_lark_cli_runtime", FRONT_FLAG, AT(ignored), .refuses_null = true},
        {"provision_lark_cli_broker", FRONT_FLAG, AT(want_broker), .refuses_null = true},
        {"max_shell_sessions", FRONT_NUMBER, AT(sessions), .min = 1, .max = UINT64_MAX},
        {.name = NULL}};

    (void) !front_decode(body, rest, ret, on_problem, p);
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
                        ? "mounts.allow of sandpool's configuration is empty: list the "
                          "directories that boxes may mount, like DeerFlow's home; host_path"
                        : "host_path is not below any of mounts.allow of sandpool's configuration: "
                          "list it there";
            else if (config_mount_is_closed(c, m.host_path) &&
                     !config_thread_owns(c, request->user, request->thread, m.host_path, &own_len))
                why = "host_path is, or contains, data of other threads "
                      "(provisioner.thread_data, or mounts of a profile)";
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
                          struct provisioner_options *ret)
{
    (void) config_closed_text(c, ret->closed); /* "": there are none */
    for (size_t i = 0; i < json_len(request->mounts); i++) {
        const char *path = mount_at(request->mounts, i).host_path;

        if (!config_mount_is_closed(c, path) ||
            !config_thread_owns(c, request->user, request->thread, path, &ret->own_len[i]))
            ret->own_len[i] = 0;
    }
}

/* In this order: a later one may be in an earlier one. */
struct backend_extras *provisioner_extras(const struct provisioner_options *o)
{
    struct backend_mount all[PROVISIONER_MOUNTS_MAX + 16];
    struct backend_extras x = {.mounts = all};
    char base[CONFIG_PATH_MAX + 1];

    if (!str_is_empty(o->thread_path) && !is_asked_for(o->mounts, user_data) &&
        str_copy_n(base, sizeof(base), o->thread_path, o->base_len))
        all[x.mount_count++] = (struct backend_mount){.host_path = o->thread_path,
                                                      .box_path = user_data,
                                                      .base = base,
                                                      .parts = "workspace,uploads,outputs"};
    for (const char *const *dir = provisioner_dirs; o->want_dirs && *dir != NULL; dir++)
        all[x.mount_count++] = (struct backend_mount){.host_path = "", .box_path = *dir};
    for (size_t i = 0; i < json_len(o->mounts); i++) {
        assert(x.mount_count < ARRAY_LEN(all)); /* checked */
        all[x.mount_count] = mount_at(o->mounts, i);
        all[x.mount_count].closed = str_is_empty(o->closed) ? NULL : o->closed;
        all[x.mount_count++].own_len = o->own_len[i];
    }
    return x.mount_count > 0 ? backend_extras_copy(&x) : NULL;
}

/* --- all of it --- */

/* The document, whatever it contains; NULL with a problem. */
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

static void set_request(const struct fields *f, struct provisioner_request *ret)
{
    *ret = (struct provisioner_request){.mounts = f->mounts, .max_shell_sessions = f->sessions};
    ret->has_thread = f->thread != NULL;
    str_copy_cut(ret->sandbox_id, sizeof(ret->sandbox_id), f->id);
    str_copy_cut(ret->thread, sizeof(ret->thread), ret->has_thread ? f->thread : f->id);
    str_copy_cut(ret->user, sizeof(ret->user), f->user);
}

struct json_doc *provisioner_parse(struct http_exchange *ex, struct provisioner_request *ret)
{
    struct problems p = {.count = 0};
    struct json_doc *doc = read_body(ex, &p);
    struct fields f = {.user = "default"};

    if (doc != NULL) {
        get_identity(&p, json_root(doc), &f);
        get_mounts(&p, json_root(doc), &f);
        get_rest(&p, json_root(doc), &f);
    }
    if (p.count > 0) {
        reply_problems(ex, &p);
        return json_doc_free(doc);
    }
    set_request(&f, ret);
    if (f.want_broker) {
        http_add_header(ex, "X-DeerFlow-Capability-Refresh", "lark-broker");
        provisioner_refuse(ex, 503, 0, "Lark CLI broker image is not configured");
    } else if (check_mounts(ex, ret)) {
        return doc;
    }
    return json_doc_free(doc);
}
