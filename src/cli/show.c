/* show.c - members of the daemon's answers as text. What is missing is empty, never an error: a
 * newer or older daemon may say more or less. */
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

const char *show_str(const struct json *obj, const char *key)
{
    const char *s = json_str(json_get(obj, key));

    return s != NULL ? s : "";
}

uint64_t show_u64(const struct json *obj, const char *key)
{
    uint64_t v;

    return json_u64(json_get(obj, key), &v) ? v : 0;
}

const char *show_age(const struct json *obj, const char *key, char *dst)
{
    const struct json *v = json_get(obj, key);

    dst[0] = '\0';
    if (json_is_num(v))
        duration_print(json_num(v), dst);
    return dst;
}

const char *show_end(const struct json *box, char *dst)
{
    const char *by = show_str(box, "ends_by");
    char in[24];

    if (json_get(box, "ends_by") == NULL) /* of an older daemon */
        str_copy_cut(dst, SHOW_END_MAX, show_str(box, "expires_at"));
    else if (str_is_empty(by))
        dst[0] = '\0';
    else
        (void) snprintf(dst, SHOW_END_MAX, "%s (%.30s)", show_age(box, "ends_in_s", in), by);
    return dst;
}

const char *show_id(const struct json *box, char *dst)
{
    const char *id = show_str(box, "sandbox_id");

    if (!str_is_empty(id))
        str_copy_cut(dst, 96, id);
    else
        (void) snprintf(dst, 96, "box:%.80s", show_str(box, "box_id"));
    return dst;
}

void show_members(const struct json *obj, FILE *out)
{
    const char *key;
    const struct json *v;

    for (size_t i = 0; json_member(obj, i, &key, &v); i++) {
        struct buf text;

        if (json_is_null(v))
            continue;
        if (strcmp(key, "stats") == 0 && json_is_obj(v)) {
            show_members(v, out); /* a line for each number */
            continue;
        }
        buf_init(&text, 64 * 1024);
        if (json_is_str(v))
            buf_puts(&text, json_str(v));
        else
            json_print(v, &text);
        out_pair(out, key, strcmp(key, "token") == 0 ? "(--json shows it)" : buf_str(&text));
        buf_fini(&text);
    }
}
