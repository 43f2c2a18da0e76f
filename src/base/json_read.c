/* json_read.c - strict reading of JSON. struct json is yyjson_val under another name, so that no
 * other file sees the library. */
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

static const yyjson_val *val(const struct json *v)
{
    return (const yyjson_val *) (const void *) v;
}

static yyjson_val *mut(const struct json *v)
{
    return (yyjson_val *) (uintptr_t) (const void *) v; /* the library's readers take no const */
}

static const struct json *json_of(const yyjson_val *v)
{
    return (const struct json *) (const void *) v;
}

struct shape {
    unsigned depth;
    size_t values; /* keys count, too */
};

/* Depth and number of values are bounded on the raw text, before the parser allocates for it. Counting ends behind the
 * greatest depth. */
static struct shape shape_of(const char *text, size_t len)
{
    struct shape found = {.values = 1};
    unsigned depth = 0;
    bool in_string = false;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            depth++;
            found.values++;
            found.depth = MAX_OF(found.depth, depth);
            if (depth > JSON_DEPTH_MAX)
                return found;
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        } else if (c == ',' || c == ':') {
            found.values++;
        }
    }
    return found;
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

static int check_keys(yyjson_val *obj, struct err *err)
{
    size_t count = yyjson_obj_size(obj);
    AUTO_FREE const char **keys = NULL;
    size_t idx;
    size_t max;
    yyjson_val *key;
    yyjson_val *value;

    if (count < 2)
        return SP_OK;
    keys = try_realloc(NULL, count * sizeof(char *));
    if (keys == NULL)
        return err_set(err, SP_NO_MEMORY, "no memory to check an object of %zu members", count);
    yyjson_obj_foreach(obj, idx, max, key, value) keys[idx] = yyjson_get_str(key);
    qsort(keys, count, sizeof(char *), compare_keys);
    for (size_t i = 1; i < count; i++)
        if (strcmp(keys[i - 1], keys[i]) == 0)
            return err_set(err, SP_BAD_REQUEST, "duplicate key '%.60s'", keys[i]);
    return SP_OK;
}

/* Strings with a NUL inside would be cut by every C reader: refused here, once. */
static int check_value(yyjson_val *v, struct err *err)
{
    size_t idx;
    size_t max;
    yyjson_val *key;
    yyjson_val *item;
    int r = SP_OK;

    if (yyjson_is_str(v) && strlen(yyjson_get_str(v)) != yyjson_get_len(v))
        return err_set(err, SP_BAD_REQUEST, "a string holds a NUL character");
    if (yyjson_is_arr(v)) {
        yyjson_arr_foreach(v, idx, max, item)
        {
            r = check_value(item, err);
            if (r != SP_OK)
                return r;
        }
    } else if (yyjson_is_obj(v)) {
        r = check_keys(v, err);
        if (r != SP_OK)
            return r;
        yyjson_obj_foreach(v, idx, max, key, item)
        {
            r = check_value(key, err);
            if (r == SP_OK)
                r = check_value(item, err);
            if (r != SP_OK)
                return r;
        }
    }
    return SP_OK;
}

struct json_doc *json_parse(const char *text, size_t len, size_t max, struct err *err)
{
    return json_parse_few(text, len, max, SIZE_MAX, err);
}

struct json_doc *json_parse_few(const char *text, size_t len, size_t max, size_t max_values,
                                struct err *err)
{
    yyjson_read_err read_err;
    struct shape shape;
    yyjson_doc *doc;

    if (len > max) {
        (void) err_set(err, SP_BODY_TOO_LARGE, "JSON of %zu bytes, at most %zu are read", len, max);
        return NULL;
    }
    shape = shape_of(text, len);
    if (shape.depth > JSON_DEPTH_MAX) {
        (void) err_set(err, SP_BAD_REQUEST, "JSON nested deeper than %d levels", JSON_DEPTH_MAX);
        return NULL;
    }
    if (shape.values > max_values) {
        (void) err_set(err, SP_BODY_TOO_LARGE, "JSON of %zu values, at most %zu are read",
                       shape.values, max_values);
        return NULL;
    }
    doc = yyjson_read_opts((char *) (uintptr_t) text, len, 0, NULL, &read_err);
    if (doc == NULL && read_err.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION) {
        (void) err_set(err, SP_NO_MEMORY, "no memory for JSON of %zu bytes", len);
        return NULL;
    }
    if (doc == NULL) {
        (void) err_set(err, SP_BAD_REQUEST, "invalid JSON at byte %zu: %s", read_err.pos,
                       read_err.msg);
        return NULL;
    }
    if (check_value(yyjson_doc_get_root(doc), err) != SP_OK) {
        yyjson_doc_free(doc);
        return NULL;
    }
    return (struct json_doc *) (void *) doc;
}

struct json_doc *json_doc_free(struct json_doc *doc)
{
    yyjson_doc_free((yyjson_doc *) (void *) doc);
    return NULL;
}

const struct json *json_root(const struct json_doc *doc)
{
    return json_of(yyjson_doc_get_root((yyjson_doc *) (uintptr_t) (const void *) doc));
}

bool json_is_obj(const struct json *v)
{
    return yyjson_is_obj(mut(v));
}

bool json_is_arr(const struct json *v)
{
    return yyjson_is_arr(mut(v));
}

bool json_is_str(const struct json *v)
{
    return yyjson_is_str(mut(v));
}

bool json_is_null(const struct json *v)
{
    return yyjson_is_null(mut(v));
}

bool json_is_bool(const struct json *v)
{
    return yyjson_is_bool(mut(v));
}

bool json_is_num(const struct json *v)
{
    return yyjson_is_num(mut(v));
}

const struct json *json_get(const struct json *v, const char *key)
{
    return json_of(yyjson_obj_get(mut(v), key));
}

const char *json_str(const struct json *v)
{
    return yyjson_get_str(mut(v));
}

bool json_bool(const struct json *v)
{
    return yyjson_get_bool(mut(v));
}

bool json_u64(const struct json *v, uint64_t *ret)
{
    if (!yyjson_is_uint(mut(v)) || yyjson_get_uint(mut(v)) > INT64_MAX)
        return false;
    *ret = yyjson_get_uint(mut(v));
    return true;
}

double json_num(const struct json *v)
{
    return yyjson_get_num(mut(v));
}

size_t json_len(const struct json *v)
{
    return json_is_arr(v) ? yyjson_arr_size(mut(v)) : yyjson_obj_size(mut(v));
}

const struct json *json_at(const struct json *v, size_t index)
{
    return json_of(yyjson_arr_get(mut(v), index));
}

const struct json *json_next(const struct json *v, struct json_walk *w)
{
    if (w->passed == json_len(v) || !json_is_arr(v))
        return NULL;
    w->at = w->passed == 0 ? json_at(v, 0) : json_of(unsafe_yyjson_get_next(mut(w->at)));
    w->passed++;
    return w->at;
}

bool json_member(const struct json *v, size_t i, const char **ret_key, const struct json **ret_val)
{
    size_t idx;
    size_t max;
    yyjson_val *key;
    yyjson_val *value;

    if (!json_is_obj(v)) /* the macro looks for the first member all the same */
        return false;
    yyjson_obj_foreach(mut(v), idx, max, key, value)
    {
        if (idx == i) {
            *ret_key = yyjson_get_str(key);
            *ret_val = json_of(value);
            return true;
        }
    }
    return false;
}

void json_print(const struct json *v, struct buf *out)
{
    size_t len;
    char *text = yyjson_val_write(val(v), 0, &len);

    if (text != NULL)
        buf_append(out, text, len);
    else
        out->is_failed = true;
    free(text);
}

bool json_take_str(const struct json *obj, const char *key, char *dst, size_t cap)
{
    const char *text = json_str(json_get(obj, key));

    return text != NULL && str_copy(dst, cap, text);
}

bool json_take_hex64(const struct json *obj, const char *key, uint64_t *ret)
{
    const char *text = json_str(json_get(obj, key));

    return text != NULL && str_parse_hex64(text, ret);
}
