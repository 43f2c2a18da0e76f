/* mounts.c - which paths may be mounted where, judged by their text only. Links are not checked
 * here: they can change, so the code that mounts checks again with the directory open. */
#include <string.h>

#include "base/str.h"
#include "config/config.h"

static const char user_word[] = "{user_id}";
static const char thread_word[] = "{thread_id}";

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

bool config_path_is_within(const char *path, const char *dir)
{
    return is_within(path, dir, strlen(dir));
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

/* --- provisioner.thread_data --- */

static bool is_word(const char *part, size_t len, const char *word)
{
    return len == strlen(word) && strncmp(part, word, len) == 0;
}

/* Names that are complete parts of the path keep threads separate: "{user_id}-{thread_id}" would
 * not. */
const char *config_thread_data_problem(const char *template)
{
    unsigned users = 0;
    unsigned threads = 0;

    if (!config_path_is_plain(template))
        return "must be an absolute path without '..', '.' and double or trailing slashes";
    for (const char *s = template; *s != '\0';) {
        size_t len = strcspn(++s, "/");

        if (is_word(s, len, user_word))
            users++;
        else if (is_word(s, len, thread_word))
            threads++;
        else if (memchr(s, '{', len) != NULL || memchr(s, '}', len) != NULL)
            return "may have {user_id} and {thread_id} only, each as a whole part of the path";
        s += len;
    }
    if (users != 1 || threads != 1)
        return "must have {user_id} and {thread_id}, each once";
    if (template[1] == '{')
        return "must begin with an existing directory";
    return NULL;
}

/* These names are chosen by callers. */
static bool is_name(const char *name)
{
    return str_is_name(name, CONFIG_PATH_MAX, "._-") && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

bool config_thread_path(const char *template, const char *user, const char *thread,
                        char ret[CONFIG_PATH_MAX + 1], size_t *ret_base)
{
    size_t at = 0;

    *ret_base = 0;
    if (!is_name(user) || !is_name(thread))
        return false;
    for (const char *s = template; *s != '\0';) {
        size_t len = strcspn(++s, "/");
        const char *part = is_word(s, len, user_word)     ? user
                           : is_word(s, len, thread_word) ? thread
                                                          : NULL;

        if (part != NULL && *ret_base == 0)
            *ret_base = at;
        if (at + 1 + (part != NULL ? strlen(part) : len) > CONFIG_PATH_MAX)
            return false;
        ret[at++] = '/';
        memcpy(ret + at, part != NULL ? part : s, part != NULL ? strlen(part) : len);
        at += part != NULL ? strlen(part) : len;
        s += len;
    }
    ret[at] = '\0';
    return true;
}

bool config_thread_base(const struct config *c, char ret[CONFIG_PATH_MAX + 1])
{
    const char *word = strstr(c->provisioner.thread_data, "/{");

    return word != NULL && str_copy_n(ret, CONFIG_PATH_MAX + 1, c->provisioner.thread_data,
                                      (size_t) (word - c->provisioner.thread_data));
}

bool config_mount_is_closed(const struct config *c, const char *host_path)
{
    struct config_dirs dirs;

    config_closed_dirs(c, &dirs);
    for (unsigned i = 0; i < dirs.count; i++) {
        if (config_path_is_within(host_path, dirs.dirs[i]) ||
            config_path_is_within(dirs.dirs[i], host_path))
            return true;
    }
    return false;
}

/* Compared with the template part by part. If it has the name of another user or thread, or ends
 * before the thread's part begins, it contains data of other threads. */
bool config_thread_owns(const struct config *c, const char *user, const char *thread,
                        const char *host_path, size_t *ret_own)
{
    const char *t = c->provisioner.thread_data;
    const char *s = host_path;
    unsigned words = 0;

    while (*t != '\0' && *s != '\0') {
        size_t t_len = strcspn(++t, "/");
        size_t s_len = strcspn(++s, "/");
        const char *name = is_word(t, t_len, user_word)     ? user
                           : is_word(t, t_len, thread_word) ? thread
                                                            : NULL;

        words += name != NULL ? 1 : 0;
        if (name != NULL && !is_word(s, s_len, name))
            return false;
        *ret_own = (size_t) (s - host_path) + s_len;
        if (name == NULL && (s_len != t_len || strncmp(s, t, t_len) != 0))
            return words > 0; /* beside the way to the threads */
        if (words == 2)
            return true;
        t += t_len;
        s += s_len;
    }
    return false;
}
