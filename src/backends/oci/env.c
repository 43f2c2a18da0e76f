/* env.c - see env.h. */
#include "backends/oci/env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "config/config.h"

static size_t name_len(const char *item)
{
    return strcspn(item, "=");
}

/* Takes `item`. One of the same name is replaced where it stands. */
static void add(struct oci_env *e, char *item)
{
    size_t len = name_len(item);

    for (size_t i = 0; i < e->count; i++) {
        if (name_len(e->items[i]) == len && memcmp(e->items[i], item, len) == 0) {
            free(e->items[i]);
            e->items[i] = item;
            return;
        }
    }
    if (e->count == e->cap) {
        e->cap = e->cap == 0 ? 32 : e->cap * 2;
        e->items = xrealloc(e->items, e->cap * sizeof(*e->items));
    }
    e->items[e->count++] = item;
}

void oci_env_set(struct oci_env *e, const char *name, const char *value)
{
    size_t cap = strlen(name) + strlen(value) + 2;
    char *item = xcalloc(1, cap);

    (void) snprintf(item, cap, "%s=%s", name, value); /* fits by its size */
    add(e, item);
}

void oci_env_begin(struct oci_env *e, const char *user, const char *const *image_env)
{
    char home[sizeof("/home/") + CONFIG_NAME_MAX];

    if (strcmp(user, "root") == 0)
        str_copy_cut(home, sizeof(home), "/root");
    else
        (void) snprintf(home, sizeof(home), "/home/%s", user); /* fits by its size */
    oci_env_set(e, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    oci_env_set(e, "HOME", home);
    oci_env_set(e, "USER", user);
    oci_env_set(e, "LANG", "C.UTF-8");
    for (; image_env != NULL && *image_env != NULL; image_env++)
        if (name_len(*image_env) > 0 && strchr(*image_env, '=') != NULL)
            add(e, xstrdup(*image_env));
}

void oci_env_put(struct oci_env *e, const char *key, struct json_out *o)
{
    json_begin_arr(o, key);
    for (size_t i = 0; i < e->count; i++) {
        json_put_str(o, NULL, e->items[i]);
        free(e->items[i]);
    }
    json_end(o);
    free(e->items);
    *e = (struct oci_env){0};
}
