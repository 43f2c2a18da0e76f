/* json.h - the only door to the JSON library. Reading is strict: bounded size and depth, no
 * duplicate keys, no invalid UTF-8, numbers checked for range. Writing is a builder that ends in
 * a buffer. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* --- reading --- */

#define JSON_DEPTH_MAX 32

struct json_doc; /* owns every value below it */
struct json;     /* one value; lives as long as its document */

/* Parses one document of at most `max` bytes; NULL and SP_BAD_REQUEST / SP_BODY_TOO_LARGE /
 * SP_NO_MEMORY in err. */
MUST_CHECK struct json_doc *json_parse(const char *text, size_t len, size_t max, struct err *err);
/* As json_parse(), for texts of strangers that are long by their strings: one with more than about `max_values` values
 * is refused (SP_BODY_TOO_LARGE) before anything is allocated for them. */
MUST_CHECK struct json_doc *json_parse_few(const char *text, size_t len, size_t max,
                                           size_t max_values, struct err *err);
struct json_doc *json_doc_free(struct json_doc *doc); /* NULL is fine; returns NULL */
const struct json *json_root(const struct json_doc *doc);

bool json_is_obj(const struct json *v);
bool json_is_arr(const struct json *v);
bool json_is_str(const struct json *v);
bool json_is_null(const struct json *v);
bool json_is_bool(const struct json *v);
bool json_is_num(const struct json *v);

/* NULL when `v` is not an object or has no such key. */
const struct json *json_get(const struct json *v, const char *key);
/* NULL when `v` is not a string; the text has no NUL inside. */
const char *json_str(const struct json *v);
/* A text member, copied, or 16 hex digits. False when it is absent, of another kind or too long. */
MUST_CHECK bool json_take_str(const struct json *obj, const char *key, char *dst, size_t cap);
MUST_CHECK bool json_take_hex64(const struct json *obj, const char *key, uint64_t *ret);
bool json_bool(const struct json *v);
/* False when it is no whole number in [0, 2^63). */
MUST_CHECK bool json_u64(const struct json *v, uint64_t *ret);
double json_num(const struct json *v);
size_t json_len(const struct json *v);
const struct json *json_at(const struct json *v, size_t index);
/* The items of a long array: json_at() counts from its start. Zero it first; NULL behind the last. */
struct json_walk {
    const struct json *at;
    size_t passed;
};
const struct json *json_next(const struct json *v, struct json_walk *w);
/* Walks the members of an object: i from 0 while it returns true. O(i); for small objects. */
bool json_member(const struct json *v, size_t i, const char **ret_key, const struct json **ret_val);

/* Typed fields of an object. Absent or null: *ret is left alone and SP_OK is returned. A wrong
 * type, length or range: SP_INVALID_FIELD with the field's name in err. */
MUST_CHECK int json_field_str(const struct json *obj, const char *key, size_t max_len,
                              const char **ret, struct err *err);
MUST_CHECK int json_field_u64(const struct json *obj, const char *key, uint64_t min, uint64_t max,
                              uint64_t *ret, struct err *err);
MUST_CHECK int json_field_bool(const struct json *obj, const char *key, bool *ret, struct err *err);
/* An object, whatever is in it. */
MUST_CHECK int json_field_obj(const struct json *obj, const char *key, const struct json **ret,
                              struct err *err);
/* SP_INVALID_FIELD naming the first member that is not in `known` (ends with NULL). */
MUST_CHECK int json_only_fields(const struct json *obj, const char *const *known, struct err *err);

/* A value as compact text, appended to out. */
void json_print(const struct json *v, struct buf *out);

/* --- writing ---
 * struct json_out o; json_out_init(&o); json_begin_obj(&o, NULL); json_put_str(&o, "k", "v");
 * json_end(&o); json_out_finish(&o, &buf);
 * `key` is NULL for the root and inside arrays. Strings are copied. Nesting up to JSON_DEPTH_MAX. */
struct json_out {
    void *doc;
    void *stack[JSON_DEPTH_MAX];
    unsigned depth;
};

void json_out_init(struct json_out *o);
void json_begin_obj(struct json_out *o, const char *key);
void json_begin_arr(struct json_out *o, const char *key);
void json_end(struct json_out *o);
/* NULL v: null. Bytes that are no UTF-8 (a message cut in the middle) are replaced. */
void json_put_str(struct json_out *o, const char *key, const char *v);
/* As 16 hex digits: readers of JSON keep 53 bits of a number. json_take_hex64() reads it. */
void json_put_hex64(struct json_out *o, const char *key, uint64_t v);
void json_put_u64(struct json_out *o, const char *key, uint64_t v);
void json_put_i64(struct json_out *o, const char *key, int64_t v);
void json_put_num(struct json_out *o, const char *key, double v); /* no number: null */
void json_put_bool(struct json_out *o, const char *key, bool v);
void json_put_null(struct json_out *o, const char *key);
/* The words of a text with commas between, as a list; NULL: null. */
void json_put_words(struct json_out *o, const char *key, const char *list);
/* Text that is JSON already (from json_print or the store). */
void json_put_raw(struct json_out *o, const char *key, const char *text);
/* Appends the text to out and frees the builder. */
void json_out_finish(struct json_out *o, struct buf *out);

#endif
