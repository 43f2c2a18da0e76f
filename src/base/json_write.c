/* json_write.c - builder for JSON texts. The library's mutable document is behind it. */
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/json.h"
#include "base/str.h"

static yyjson_mut_doc *doc_of(struct json_out *o)
{
    return o->doc;
}

static yyjson_mut_val *top(struct json_out *o)
{
    return o->depth > 0 ? o->stack[o->depth - 1] : NULL;
}

void json_out_init(struct json_out *o)
{
    memset(o, 0, sizeof(*o));
    o->doc = yyjson_mut_doc_new(NULL);
    if (o->doc == NULL)
        abort(); /* a few hundred bytes; see mem.h for the policy */
}

static void add(struct json_out *o, const char *key, yyjson_mut_val *v)
{
    yyjson_mut_val *parent = top(o);

    if (parent == NULL)
        yyjson_mut_doc_set_root(doc_of(o), v);
    else if (key != NULL)
        (void) yyjson_mut_obj_add(parent, yyjson_mut_strcpy(doc_of(o), key), v);
    else
        (void) yyjson_mut_arr_append(parent, v);
}

static void push(struct json_out *o, const char *key, yyjson_mut_val *v)
{
    assert(o->depth < JSON_DEPTH_MAX);
    add(o, key, v);
    o->stack[o->depth] = v;
    o->depth++;
}

void json_begin_obj(struct json_out *o, const char *key)
{
    push(o, key, yyjson_mut_obj(doc_of(o)));
}

void json_begin_arr(struct json_out *o, const char *key)
{
    push(o, key, yyjson_mut_arr(doc_of(o)));
}

void json_end(struct json_out *o)
{
    assert(o->depth > 0);
    o->depth--;
}

static bool is_utf8(const char *s)
{
    while (*s != '\0') {
        size_t len = str_utf8_len(s);

        if (len == 0)
            return false;
        s += len;
    }
    return true;
}

static void put_repaired(struct json_out *o, const char *key, const char *v)
{
    struct buf text;

    buf_init(&text, 3 * strlen(v));
    while (*v != '\0') {
        size_t len = str_utf8_len(v);

        if (len > 0)
            buf_append(&text, v, len);
        else
            buf_puts(&text, "\xef\xbf\xbd"); /* U+FFFD */
        v += len > 0 ? len : 1;
    }
    add(o, key, yyjson_mut_strcpy(doc_of(o), buf_str(&text)));
    buf_fini(&text);
}

void json_put_str(struct json_out *o, const char *key, const char *v)
{
    if (v == NULL)
        json_put_null(o, key);
    else if (is_utf8(v))
        add(o, key, yyjson_mut_strcpy(doc_of(o), v));
    else
        put_repaired(o, key, v);
}

void json_put_u64(struct json_out *o, const char *key, uint64_t v)
{
    add(o, key, yyjson_mut_uint(doc_of(o), v));
}

void json_put_i64(struct json_out *o, const char *key, int64_t v)
{
    add(o, key, yyjson_mut_sint(doc_of(o), v));
}

void json_put_num(struct json_out *o, const char *key, double v)
{
    add(o, key, yyjson_mut_real(doc_of(o), v));
}

void json_put_bool(struct json_out *o, const char *key, bool v)
{
    add(o, key, yyjson_mut_bool(doc_of(o), v));
}

void json_put_null(struct json_out *o, const char *key)
{
    add(o, key, yyjson_mut_null(doc_of(o)));
}

void json_put_hex64(struct json_out *o, const char *key, uint64_t v)
{
    char hex[17];

    str_hex64(hex, v);
    json_put_str(o, key, hex);
}

void json_put_words(struct json_out *o, const char *key, const char *list)
{
    if (list == NULL) {
        json_put_null(o, key);
        return;
    }
    json_begin_arr(o, key);
    while (*list != '\0') {
        size_t len = strcspn(list, ",");

        add(o, NULL, yyjson_mut_strncpy(doc_of(o), list, len));
        list += list[len] == ',' ? len + 1 : len;
    }
    json_end(o);
}

void json_put_raw(struct json_out *o, const char *key, const char *text)
{
    add(o, key, yyjson_mut_rawcpy(doc_of(o), text));
}

void json_out_finish(struct json_out *o, struct buf *out)
{
    size_t len = 0;
    char *text;

    assert(o->depth == 0);
    text = yyjson_mut_write(doc_of(o), YYJSON_WRITE_INF_AND_NAN_AS_NULL, &len);
    if (text == NULL)
        out->is_failed = true;
    else
        buf_append(out, text, len);
    free(text);
    yyjson_mut_doc_free(doc_of(o));
    o->doc = NULL;
}
