/* files_request.c - reads requests to /v1/agent/files: the query in the agent, a body in the helper. */
#include <stdlib.h>
#include <string.h>

#include "agent/file/job.h"
#include "agent/own/files_form.h"
#include "base/mem.h"
#include "base/str.h"

static bool refuse(struct files_request *r, const char *message)
{
    http_reply_error(r->ex, SP_INVALID_FIELD, message, 0);
    free(r);
    return false;
}

static bool set_user(struct files_request *r, const char *name)
{
    if (strcmp(name, "root") == 0)
        r->as = r->root;
    else if (strcmp(name, r->user->name) == 0)
        r->as = r->user;
    else
        return false;
    return true;
}

/* Absolute, without slashes at its end. */
static bool set_path(const struct files_request *r, const char *given, char *dst)
{
    size_t len;

    if (!file_path_resolve(r->base, r->as->home, given, dst, FILE_PATH_MAX))
        return false;
    len = strlen(dst);
    while (len > 1 && dst[len - 1] == '/')
        dst[--len] = '\0';
    return true;
}

static void copy_header(const struct http_exchange *ex, const char *name, char *dst)
{
    const char *value = http_header(ex, name);

    if (value == NULL || !str_copy(dst, FILES_HEADER_MAX, value))
        dst[0] = '\0'; /* a long list: the whole file is a correct answer, too */
}

struct files_request *files_request_new_body(struct http_exchange *ex)
{
    struct agent *a = http_server_ctx(ex);
    struct files_request *r = xcalloc(1, sizeof(*r));
    const char *accept = http_header(ex, "accept");
    char name[IDENTITY_NAME_MAX];

    r->ex = ex;
    r->user = &a->user;
    r->root = &a->root;
    r->as = r->user;
    r->base = agent_directory(a, &a->user);
    r->is_head = http_method(ex) == HTTP_METHOD_HEAD;
    r->is_ndjson = accept != NULL && strstr(accept, "application/x-ndjson") != NULL;
    r->limit = FILES_LIST_DEFAULT;
    copy_header(ex, "range", r->range);
    copy_header(ex, "if-range", r->only_if);
    copy_header(ex, "if-none-match", r->unless);
    if (http_query(ex, "user", name, sizeof(name)) && !set_user(r, name)) {
        (void) refuse(r, "'user' must be root, or the user of the box");
        return NULL;
    }
    return r;
}

struct files_request *files_request_new(struct http_exchange *ex)
{
    struct files_request *r = files_request_new_body(ex);
    char given[FILE_PATH_MAX];

    if (r == NULL)
        return NULL;
    if (!http_query(ex, "path", given, sizeof(given)) || given[0] == '\0') {
        (void) refuse(r, "'path' is required");
        return NULL;
    }
    if (strcmp(given, HTTP_QUERY_BAD) == 0 || !set_path(r, given, r->path)) {
        (void) refuse(r, "'path' is too long or badly encoded");
        return NULL;
    }
    return r;
}

void files_shorten_path(struct files_request *r)
{
    const char *from = r->path;
    char *to = r->path;

    assert(*from == '/');
    while (*from != '\0') {
        size_t len;

        from += strspn(from, "/");
        len = strcspn(from, "/");
        if (len > 0 && !(len == 1 && *from == '.')) {
            *to++ = '/';
            memmove(to, from, len);
            to += len;
        }
        from += len;
    }
    if (to == r->path)
        *to++ = '/';
    *to = '\0';
}

bool files_query_bool(struct files_request *r, const char *name, bool *ret)
{
    char text[8];

    if (!http_query(r->ex, name, text, sizeof(text)))
        return true;
    *ret = strcmp(text, "1") == 0 || strcmp(text, "true") == 0;
    if (*ret || strcmp(text, "0") == 0 || strcmp(text, "false") == 0)
        return true;
    return refuse(r, "a switch of the query is 1, 0, true or false");
}

bool files_query_u64(struct files_request *r, const char *name, uint64_t max, uint64_t *ret)
{
    char text[24];

    if (!http_query(r->ex, name, text, sizeof(text)) || str_parse_u64(text, 1, max, ret))
        return true;
    return refuse(r, strcmp(name, "limit") == 0 ? "'limit' must be a number from 1 to 100000"
                                                : "'depth' must be a number from 1 to 128");
}

/* Octal, with or without a zero before it. */
static bool parse_mode(const char *text, mode_t *ret)
{
    mode_t mode = 0;
    size_t len = strlen(text);

    if (len == 0 || len > 5 || strspn(text, "01234567") != len)
        return false;
    for (; *text != '\0'; text++)
        mode = mode * 8 + (mode_t) (*text - '0');
    *ret = mode;
    return mode <= 07777;
}

bool files_query_mode(struct files_request *r)
{
    char text[8];

    r->has_mode = http_query(r->ex, "mode", text, sizeof(text));
    if (!r->has_mode || parse_mode(text, &r->mode))
        return true;
    return refuse(r, "'mode' must be octal, like 0644");
}

bool files_query_owner(struct files_request *r)
{
    char text[24];
    uint64_t uid = 0;
    uint64_t gid = 0;
    char *colon;

    r->has_owner = http_query(r->ex, "owner", text, sizeof(text));
    if (!r->has_owner)
        return true;
    colon = strchr(text, ':');
    if (colon != NULL)
        *colon = '\0';
    if (colon == NULL || !str_parse_u64(text, 0, UINT32_MAX - 1, &uid) ||
        !str_parse_u64(colon + 1, 0, UINT32_MAX - 1, &gid))
        return refuse(r, "'owner' must be numbers, like 1000:1000");
    r->uid = (uid_t) uid;
    r->gid = (gid_t) gid;
    return true;
}

/* --- in the helper --- */

const struct identity *files_choose(void *request)
{
    const struct files_request *r = request;

    return r->as;
}

int files_field_path(struct files_request *r, const struct json *body, const char *field, char *dst)
{
    const char *path = NULL;
    int rc = json_field_str(body, field, FILE_PATH_MAX - 1, &path, &r->err);

    if (rc == SP_OK && (path == NULL || path[0] == '\0'))
        rc = err_set(&r->err, SP_INVALID_FIELD, "'%s' is required", field);
    if (rc == SP_OK && !set_path(r, path, dst))
        rc = err_set(&r->err, SP_INVALID_FIELD, "'%s' is too long", field);
    return rc;
}

int files_field_mode(struct files_request *r, const struct json *body)
{
    const char *text = NULL;
    int rc = json_field_str(body, "mode", 5, &text, &r->err);

    r->has_mode = rc == SP_OK && text != NULL;
    if (r->has_mode && !parse_mode(text, &r->mode))
        rc = err_set(&r->err, SP_INVALID_FIELD, "'mode' must be octal, like \"0755\"");
    return rc;
}

struct json_doc *files_read_body(struct files_request *r, const char *path_field)
{
    const char *name = NULL;
    size_t len = 0;
    const char *text = http_body(r->ex, &len);
    struct json_doc *doc = json_parse(text, len, len, &r->err);
    int rc;

    if (doc == NULL)
        return NULL;
    if (!json_is_obj(json_root(doc)))
        rc = err_set(&r->err, SP_BAD_REQUEST, "the body must be a JSON object");
    else
        rc = json_field_str(json_root(doc), "user", IDENTITY_NAME_MAX, &name, &r->err);
    if (rc == SP_OK && name != NULL && !set_user(r, name))
        rc = err_set(&r->err, SP_INVALID_FIELD, "'user' must be root, or the user of the box");
    if (rc == SP_OK)
        rc = files_field_path(r, json_root(doc), path_field, r->path);
    return rc == SP_OK ? doc : json_doc_free(doc);
}
