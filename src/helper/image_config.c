/* image_config.c - see image_config.h. */
#include "helper/image_config.h"

enum { ONE_MAX = 256 * 1024 };

static bool is_words(const struct json *v)
{
    if (!json_is_arr(v))
        return false;
    for (size_t i = 0; i < json_len(v); i++)
        if (!json_is_str(json_at(v, i)))
            return false;
    return true;
}

static void put_member(struct json_out *j, const char *key, const struct json *v)
{
    struct buf text;

    buf_init(&text, ONE_MAX);
    json_print(v, &text);
    if (!buf_failed(&text))
        json_put_raw(j, key, buf_str(&text));
    buf_fini(&text);
}

void image_config_print(const struct json *config, const char *labels, struct buf *out)
{
    static const char *const lists[] = {"Env", "Cmd", "Entrypoint"};
    static const char *const texts[] = {"User", "WorkingDir", "StopSignal"};
    struct json_out j;

    json_out_init(&j);
    json_begin_obj(&j, NULL);
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        const struct json *v = json_get(config, lists[i]);

        if (v != NULL && is_words(v))
            put_member(&j, lists[i], v);
    }
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        const struct json *v = json_get(config, texts[i]);

        if (v != NULL && json_is_str(v))
            put_member(&j, texts[i], v);
    }
    if (labels != NULL)
        json_put_raw(&j, "Labels", labels);
    json_end(&j);
    json_out_finish(&j, out);
}
