/* mounts.c - which paths may be mounted where, as far as their text tells. Links are not looked at:
 * they can change, so whoever mounts checks again with the directory open in its hands. */
#include <string.h>

#include "config/config.h"

bool config_path_is_plain(const char *path)
{
    size_t total = strlen(path);

    if (path[0] != '/' || total > CONFIG_PATH_MAX)
        return false;
    for (size_t i = 0; i < total; i++) {
        if ((unsigned char) path[i] < ' ' || path[i] == 0x7f)
            return false;
    }
    if (total == 1)
        return true;
    for (const char *s = path; *s != '\0';) {
        size_t len = strcspn(++s, "/");

        if (len == 0 || (len == 1 && s[0] == '.') || (len == 2 && s[0] == '.' && s[1] == '.'))
            return false;
        s += len;
    }
    return true;
}

/* The directory itself, or something in it. */
static bool is_within(const char *path, const char *dir, size_t len)
{
    return len > 1 && strncmp(path, dir, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

bool config_mount_is_allowed(const struct config *c, const char *host_path)
{
    const char *list = c->mounts.allow;

    while (*list != '\0') {
        size_t len = strcspn(list, ",");

        if (is_within(host_path, list, len))
            return true;
        list += list[len] == ',' ? len + 1 : len;
    }
    return false;
}

bool config_box_path_is_free(const char *box_path)
{
    static const char *const taken[] = {"/proc", "/sys", "/dev", "/.sandpool"};

    for (size_t i = 0; i < ARRAY_LEN(taken); i++) {
        if (is_within(box_path, taken[i], strlen(taken[i])))
            return false;
    }
    return box_path[1] != '\0';
}
