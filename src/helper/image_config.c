/* image_config.c - see image_config.h. */
#include "helper/image_config.h"

#include <string.h>

#include "base/str.h"

enum { ONE_MAX = 256 * 1024, DIR_LEN_MAX = 255, USER_LEN_MAX = 64 };

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

/* A path that is what it looks like, and not in what a runtime has in /proc. */
static bool is_dir(const char *path)
{
    size_t len = strspn(path, "/");
    const char *top = path + len;

    len = strcspn(top, "/");
    if ((len == 4 && memcmp(top, "proc", len) == 0) || (len == 3 && memcmp(top, "sys", len) == 0) ||
        (len == 3 && memcmp(top, "dev", len) == 0))
        return false;

    if (path[0] != '/' || strlen(path) > DIR_LEN_MAX)
        return false;
    for (; *path == '/'; path += len) {
        path++;
        len = strcspn(path, "/");
        if ((len == 1 && path[0] == '.') || (len == 2 && path[0] == '.' && path[1] == '.'))
            return false;
    }
    return true;
}

static bool is_text(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char) *text < ' ' || *text == 0x7f)
            return false;
    return true;
}

/* A name, or a number that every engine takes; the same of a group. */
static bool is_user(const char *text)
{
    uint64_t n;

    for (const char *part = text; part != NULL; part = strchr(part, ':')) {
        char one[USER_LEN_MAX + 1];

        part += part != text ? 1 : 0;
        if (!str_copy_n(one, sizeof(one), part, strcspn(part, ":")) || one[0] == '-' ||
            (one[0] != '\0' && strspn(one, "0123456789") == strlen(one) &&
             !str_parse_u64(one, 0, INT32_MAX, &n)))
            return false;
    }
    return is_text(text);
}

static bool are_variables(const struct json *list)
{
    for (size_t i = 0; i < json_len(list); i++) {
        const char *text = json_str(json_at(list, i));

        if (text == NULL || text[0] == '=' || strchr(text, '=') == NULL)
            return false;
    }
    return true;
}

int image_config_check(const struct json *config, struct err *err)
{
    const char *dir = json_str(json_get(config, "WorkingDir"));
    const char *user = json_str(json_get(config, "User"));
    const struct json *env = json_get(config, "Env");

    if (dir != NULL && dir[0] != '\0' && (!is_dir(dir) || !is_text(dir)))
        return err_set(err, SP_PROTOCOL,
                       "WorkingDir of the image is no absolute path that a box can begin in");
    if (user != NULL && !is_user(user))
        return err_set(err, SP_PROTOCOL, "User of the image is no user");
    if (env != NULL && is_words(env) && !are_variables(env))
        return err_set(err, SP_PROTOCOL, "Env of the image has something that is no variable");
    return SP_OK;
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
