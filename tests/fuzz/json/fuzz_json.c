/* Any bytes through the strict JSON reader. What is accepted must hold what the reader promises:
 * bounded depth, no key twice, no NUL in strings, and text that is read back the same. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/json.h"

enum { INPUT_MAX = 65536 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use_fields(const struct json *obj)
{
    static const char *const known[] = {"name", "count", "on", "spec", NULL};
    const char *name = "";
    const struct json *spec = NULL;
    uint64_t count = 5;
    bool is_on = false;
    struct err err = {0};

    if (json_field_str(obj, "name", 16, &name, &err) == SP_OK)
        assert(strlen(name) <= 16);
    else
        assert(err.code == SP_INVALID_FIELD);
    if (json_field_u64(obj, "count", 1, 100, &count, &err) != SP_OK)
        assert(err.code == SP_INVALID_FIELD);
    assert(count >= 1 && count <= 100);
    if (json_field_bool(obj, "on", &is_on, &err) != SP_OK)
        assert(err.code == SP_INVALID_FIELD);
    if (json_field_obj(obj, "spec", &spec, &err) == SP_OK)
        assert(spec == NULL || json_is_obj(spec));
    if (json_only_fields(obj, known, &err) == SP_OK)
        assert(json_len(obj) <= 4);
}

static void walk(const struct json *v, unsigned depth)
{
    const struct json *item;
    const char *key;
    uint64_t n;

    assert(depth <= JSON_DEPTH_MAX);
    if (json_u64(v, &n))
        assert(n <= INT64_MAX && json_is_num(v));
    (void) json_num(v);
    (void) json_bool(v);
    assert((json_str(v) != NULL) == json_is_str(v));
    if (json_is_arr(v))
        for (size_t i = 0; i < json_len(v) && i < 64; i++)
            walk(json_at(v, i), depth + 1);
    if (!json_is_obj(v))
        return;
    use_fields(v);
    for (size_t i = 0; i < 64 && json_member(v, i, &key, &item); i++) {
        assert(json_get(v, key) == item); /* the only one of its name */
        walk(item, depth + 1);
    }
}

static void print_again(const struct json *root)
{
    struct json_doc *doc;
    struct buf first;
    struct buf second;

    buf_init(&first, 16 * INPUT_MAX);
    buf_init(&second, 16 * INPUT_MAX);
    json_print(root, &first);
    assert(!buf_failed(&first));
    doc = json_parse(buf_str(&first), first.len, first.len, NULL);
    assert(doc != NULL);
    json_print(json_root(doc), &second);
    assert(strcmp(buf_str(&first), buf_str(&second)) == 0);
    (void) json_doc_free(doc);
    buf_fini(&first);
    buf_fini(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    struct json_doc *doc = json_parse((const char *) data, size, INPUT_MAX, &err);

    if (doc == NULL) {
        assert(err.code == SP_BAD_REQUEST || err.code == SP_BODY_TOO_LARGE);
        return 0;
    }
    walk(json_root(doc), 0);
    print_again(json_root(doc));
    (void) json_doc_free(doc);
    return 0;
}
