/* templates.c - mounts of a profile whose directory depends on who has the box: /srv/data/{user_id}/{thread_id}. Names are
 * chosen by callers, so each becomes one part of the path, written so that it is never another's, "." or "..". */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "config/config.h"

enum { PART_MAX = 255 }; /* of a name in a directory */

static const char *const words[] = {
    [CONFIG_ID_USER] = "{user_id}",
    [CONFIG_ID_THREAD] = "{thread_id}",
    [CONFIG_ID_SANDBOX] = "{sandbox_id}",
    [CONFIG_ID_PRINCIPAL] = "{principal}",
};

static_assert(ARRAY_LEN(words) == CONFIG_ID_COUNT, "a word for each");

bool config_mount_next(const char **list, struct config_mount *ret)
{
    char word[CONFIG_TEXT_MAX + 1];
    char *there;
    char *how;

    if (!config_list_next(list, word, sizeof(word)))
        return false;
    there = strchr(word, ':');
    assert(there != NULL); /* checked when the file was read */
    *there++ = '\0';
    how = strchr(there, ':');
    if (how != NULL)
        *how++ = '\0';
    str_copy_cut(ret->host_path, sizeof(ret->host_path), word);
    str_copy_cut(ret->box_path, sizeof(ret->box_path), there);
    ret->is_read_only = how != NULL && strcmp(how, "ro") == 0;
    ret->is_template = strchr(ret->host_path, '{') != NULL;
    return true;
}

/* CONFIG_ID_COUNT: it is none of them. */
static enum config_id id_of(const char *part, size_t len)
{
    enum config_id id = CONFIG_ID_USER;

    while (id < CONFIG_ID_COUNT && (strlen(words[id]) != len || strncmp(words[id], part, len) != 0))
        id++;
    return id;
}

bool config_template_has(const char *template, enum config_id id)
{
    return strstr(template, words[id]) != NULL;
}

const char *config_template_problem(const char *template)
{
    if (!config_path_is_plain(template))
        return "needs absolute paths without '..', '.' and double or trailing slashes";
    if (template[1] == '{')
        return "must begin with an existing directory";
    for (const char *s = template; *s != '\0';) {
        size_t len = strcspn(++s, "/");

        if (id_of(s, len) == CONFIG_ID_COUNT &&
            (memchr(s, '{', len) != NULL || memchr(s, '}', len) != NULL))
            return "may have {user_id}, {thread_id}, {sandbox_id} and {principal}, each as a whole "
                   "part of the path";
        s += len;
    }
    if (config_template_has(template, CONFIG_ID_THREAD) &&
        !config_template_has(template, CONFIG_ID_USER))
        return "has {thread_id} and needs {user_id}, too: users may name their threads alike";
    return NULL;
}

void config_template_base(const char *template, char ret[CONFIG_PATH_MAX + 1])
{
    const char *word = strstr(template, "/{");
    bool is_whole;

    assert(word != NULL && word > template);
    is_whole = str_copy_n(ret, CONFIG_PATH_MAX + 1, template, (size_t) (word - template));
    assert(is_whole);
}

static bool is_safe(char ch, bool is_first)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
           ch == '_' || ch == '-' || ch == '@' || (ch == '.' && !is_first);
}

/* As in a URL: what is not safe is %XX, and so is the percent sign. False: it does not fit. */
static bool put_name(const char *name, char *dst, size_t *at)
{
    size_t begin = *at;

    for (const char *s = name; *s != '\0'; s++) {
        bool is_plain = is_safe(*s, s == name);
        size_t len = is_plain ? 1 : 3;

        if (*at + len > CONFIG_PATH_MAX || *at + len - begin > PART_MAX)
            return false;
        if (is_plain)
            dst[*at] = *s;
        else
            (void) snprintf(dst + *at, 4, "%%%02X", (unsigned) (unsigned char) *s);
        *at += len;
    }
    return true;
}

const char *config_template_path(const char *template, const char *const ids[CONFIG_ID_COUNT],
                                 char ret[CONFIG_PATH_MAX + 1])
{
    static const char too_long[] =
        "the path of its directory is too long: shorter names are needed";
    size_t at = 0;

    for (const char *s = template; *s != '\0';) {
        size_t len = strcspn(++s, "/");
        enum config_id id = id_of(s, len);

        if (id < CONFIG_ID_COUNT && str_is_empty(ids[id]))
            return id == CONFIG_ID_THREAD ? "it keeps the data of threads: a thread_id is needed"
                                          : "it keeps the data of users: a user_id is needed";
        if (at + 1 + (id == CONFIG_ID_COUNT ? len : 0) > CONFIG_PATH_MAX)
            return too_long;
        ret[at++] = '/';
        if (id == CONFIG_ID_COUNT) {
            memcpy(ret + at, s, len);
            at += len;
        } else if (!put_name(ids[id], ret, &at)) {
            return too_long;
        }
        s += len;
    }
    ret[at] = '\0';
    return NULL;
}

/* --- what callers may not mount by themselves --- */

static void add(struct config_dirs *dirs, const char *dir)
{
    for (unsigned i = 0; i < dirs->count; i++) {
        if (strcmp(dirs->dirs[i], dir) == 0)
            return;
    }
    if (dirs->count < CONFIG_CLOSED_MAX)
        str_copy_cut(dirs->dirs[dirs->count], sizeof(dirs->dirs[0]), dir);
    dirs->count++;
}

void config_closed_dirs(const struct config *c, struct config_dirs *ret)
{
    char base[CONFIG_PATH_MAX + 1];
    struct config_mount m;

    ret->count = 0;
    if (config_thread_base(c, base))
        add(ret, base);
    for (unsigned i = 0; i < c->profile_count; i++) {
        if (strchr(c->profiles[i].mounts, '{') == NULL)
            continue;
        for (const char *list = c->profiles[i].mounts; config_mount_next(&list, &m);) {
            if (!m.is_template)
                continue;
            config_template_base(m.host_path, base);
            add(ret, base);
        }
    }
}

size_t config_closed_text(const struct config *c, char ret[CONFIG_CLOSED_TEXT])
{
    struct config_dirs dirs;
    size_t len = 0;

    config_closed_dirs(c, &dirs);
    ret[0] = '\0';
    for (unsigned i = 0; i < dirs.count; i++)
        len += (size_t) snprintf(ret + len, CONFIG_CLOSED_TEXT - len, "%s%s", i > 0 ? "\n" : "",
                                 dirs.dirs[i]);
    return len;
}
