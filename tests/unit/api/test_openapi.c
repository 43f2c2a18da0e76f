/* docs/openapi.json against the code, both ways: every route is documented and every documented
 * path is served; the error codes are those of the table; all references exist. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "dialects/native/api.h"
#include "sandpool/errors.h"
#include "sandpool/version.h"
#include "tests/lib/unit.h"

enum { FILE_MAX = 1024 * 1024 };

static struct json_doc *document;

static int load_document(void **state)
{
    const char *tree = getenv("SANDPOOL_SOURCE_DIR");
    char path[4096];
    char *text = malloc(FILE_MAX);
    struct err err = {0};
    FILE *f;
    size_t len;

    (void) state;
    assert_non_null(tree);
    assert_non_null(text);
    (void) snprintf(path, sizeof(path), "%s/docs/openapi.json", tree);
    f = fopen(path, "re");
    assert_non_null(f);
    len = fread(text, 1, FILE_MAX, f);
    assert_true(feof(f));
    assert_int_equal(fclose(f), 0);
    document = json_parse(text, len, FILE_MAX, &err);
    free(text);
    if (document == NULL)
        fail_msg("%s: %s", path, err.msg);
    return 0;
}

static int free_document(void **state)
{
    (void) state;
    document = json_doc_free(document);
    return 0;
}

static const struct json *at(const char *const *keys)
{
    const struct json *v = json_root(document);

    for (; *keys != NULL; keys++)
        v = json_get(v, *keys);
    assert_non_null(v);
    return v;
}

#define AT(...) at((const char *const[]){__VA_ARGS__, NULL})

/* "get" for HTTP_METHOD_GET. */
static void method_key(enum http_method method, char dst[16])
{
    str_copy_cut(dst, 16, http_method_name(method));
    for (char *p = dst; *p != '\0'; p++)
        *p = (char) tolower((unsigned char) *p);
}

static bool is_method_key(const char *key)
{
    static const char *const keys[] = {"get",     "put",  "post",  "delete",
                                       "options", "head", "patch", "trace"};

    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

/* The least that a token needs. */
static const char *scope_of(const struct http_route *r)
{
    if ((r->flags & HTTP_OPEN) != 0)
        return "none";
    if ((r->flags & HTTP_LOOK) != 0)
        return "read";
    return (r->flags & HTTP_OPERATOR) != 0 ? "operate" : "use";
}

static void check_route(const struct http_route *r)
{
    const struct json *path = json_get(AT("paths"), r->pattern);
    const struct json *op;
    const struct json *security;
    const char *summary;
    char key[16];

    method_key(r->method, key);
    op = json_get(path, key);
    if (op == NULL)
        fail_msg("%s %s is served and not documented", key, r->pattern);
    summary = json_str(json_get(op, "summary"));
    assert_non_null(summary);
    assert_string_equal(summary, r->summary);
    if (((r->flags & HTTP_OPERATOR) != 0) != (json_get(op, "x-operator") != NULL))
        fail_msg("%s %s: x-operator and the route's flag differ", key, r->pattern);
    security = json_get(op, "security");
    if (((r->flags & HTTP_OPEN) != 0) != (security != NULL && json_len(security) == 0))
        fail_msg("%s %s: security and the route's flag differ", key, r->pattern);
    if (strcmp(scope_of(r), json_str(json_get(op, "x-scope"))) != 0)
        fail_msg("%s %s: x-scope is not %s", key, r->pattern, scope_of(r));
    if (((r->flags & HTTP_BOUND) != 0) != (json_get(op, "x-bound") != NULL))
        fail_msg("%s %s: x-bound and the route's flag differ", key, r->pattern);
    assert_non_null(json_get(json_get(op, "responses"), "200"));
    assert_non_null(json_str(json_get(op, "operationId")));
}

static void served_is_documented(void **state)
{
    size_t count = 0;

    (void) state;
    for (const struct http_route *r = api_routes; r->pattern != NULL; r++) {
        check_route(r);
        count++;
    }
    assert_true(count > 10);
}

static bool is_served(const char *pattern, const char *method)
{
    for (const struct http_route *r = api_routes; r->pattern != NULL; r++) {
        char key[16];

        method_key(r->method, key);
        if (strcmp(r->pattern, pattern) == 0 && strcmp(key, method) == 0)
            return true;
    }
    return false;
}

static void documented_is_served(void **state)
{
    const struct json *paths = AT("paths");
    const struct json *path;
    const struct json *op;
    const char *pattern;
    const char *method;

    (void) state;
    for (size_t i = 0; json_member(paths, i, &pattern, &path); i++) {
        assert_true(json_len(path) > 0);
        for (size_t k = 0; json_member(path, k, &method, &op); k++) {
            if (!is_method_key(method))
                fail_msg("%s: '%s' is no method", pattern, method);
            if (!is_served(pattern, method))
                fail_msg("%s %s is documented and not served", method, pattern);
        }
    }
}

static bool has_str(const struct json *arr, const char *text)
{
    for (size_t i = 0; i < json_len(arr); i++)
        if (strcmp(json_str(json_at(arr, i)), text) == 0)
            return true;
    return false;
}

static void error_codes_are_the_table(void **state)
{
    const struct json *schema = AT("components", "schemas", "ErrorCode");
    const struct json *codes = json_get(schema, "enum");
    const struct json *statuses = json_get(schema, "x-http-status");
    const struct json *retryable = json_get(schema, "x-retryable");
    size_t count = 0;

    (void) state;
    for (int i = SP_ERROR_INDEX_NONE + 1; i < SP_ERROR_INDEX_COUNT; i++) {
        const struct sp_error_info *info = sp_error_info(-i);
        uint64_t status = 0;

        if (info->http_status == 0)
            continue;
        count++;
        if (!has_str(codes, info->name))
            fail_msg("code '%s' is not documented", info->name);
        assert_true(json_u64(json_get(statuses, info->name), &status));
        assert_int_equal(status, info->http_status);
        assert_int_equal(has_str(retryable, info->name), info->is_retryable);
    }
    /* Each code of the table is there, and their number is the same: so there are no others. */
    assert_int_equal(json_len(codes), count);
    assert_int_equal(json_len(statuses), count);
    for (size_t i = 0; i < json_len(retryable); i++)
        assert_true(
            sp_error_info(sp_error_from_name(json_str(json_at(retryable, i))))->is_retryable);
}

static void check_reference(const char *target)
{
    const struct json *v = json_root(document);
    char part[128];

    if (strncmp(target, "#/", 2) != 0)
        fail_msg("'%s' points outside of the document", target);
    for (const char *p = target + 2; v != NULL; p += strlen(part) + 1) {
        size_t len = strcspn(p, "/");

        assert_true(str_copy_n(part, sizeof(part), p, len));
        v = json_get(v, part);
        if (p[len] == '\0')
            break;
    }
    if (v == NULL)
        fail_msg("'%s' points nowhere", target);
}

static size_t check_references(const struct json *v)
{
    const struct json *child;
    const char *key;
    size_t count = 0;

    for (size_t i = 0; json_is_obj(v) && json_member(v, i, &key, &child); i++) {
        if (strcmp(key, "$ref") == 0) {
            check_reference(json_str(child));
            count++;
        } else {
            count += check_references(child);
        }
    }
    for (size_t i = 0; json_is_arr(v) && i < json_len(v); i++)
        count += check_references(json_at(v, i));
    return count;
}

static void references_point_somewhere(void **state)
{
    (void) state;
    assert_true(check_references(json_root(document)) > 20);
}

static void head_of_the_document(void **state)
{
    (void) state;
    assert_string_equal(json_str(AT("openapi")), "3.1.0");
    assert_string_equal(json_str(AT("info", "version")), SANDPOOL_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_of_the_document),       cmocka_unit_test(served_is_documented),
        cmocka_unit_test(documented_is_served),       cmocka_unit_test(error_codes_are_the_table),
        cmocka_unit_test(references_point_somewhere),
    };

    return cmocka_run_group_tests(tests, load_document, free_document);
}
