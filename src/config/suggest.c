/* suggest.c - "did you mean": the most similar name at the same place of the file, else the same
 * name at another place. */
#include <string.h>

#include "base/str.h"
#include "config/schema.h"

/* The part of `name` below section `prefix`; NULL if it is not in that section. */
static const char *member_of(const char *name, const char *prefix, size_t *ret_len)
{
    size_t len = strlen(prefix);

    if (len > 0) {
        if (strncmp(name, prefix, len) != 0 || name[len] != '.')
            return NULL;
        name += len + 1;
    }
    *ret_len = strcspn(name, ".");
    return name;
}

static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot != NULL ? dot + 1 : path;
}

static const struct {
    const char *old;
    const char *now;
} renamed[] = {
    {"oci.agent", "agent.path"},
    {"oci.helper", "helper.path"},
};

const char *config_renamed(const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(renamed); i++)
        if (strcmp(renamed[i].old, path) == 0)
            return renamed[i].now;
    return NULL;
}

bool config_suggest(bool is_profile, const char *prefix, const char *word, struct buf *out)
{
    size_t word_len = strlen(word);
    unsigned best = STR_WORD_MAX;
    const char *found = NULL;
    size_t found_len = 0;

    for (const struct config_key *k = config_key_next(NULL); k != NULL; k = config_key_next(k)) {
        /* "profiles" itself is a member of the root, by way of the keys in it. */
        const char *name = is_profile ? config_key_name(k) : k->path;
        size_t len;
        const char *member = NULL;

        if (!is_profile || config_key_is_profile(k))
            member = member_of(name, prefix, &len);
        if (member == NULL)
            continue;
        unsigned d = str_distance(word, word_len, member, len);
        if (d < best && str_is_near(d, word_len)) {
            best = d;
            found = member;
            found_len = len;
        }
    }
    if (found != NULL) {
        buf_append(out, found, found_len);
        return true;
    }
    for (const struct config_key *k = config_key_next(NULL); k != NULL; k = config_key_next(k)) {
        if (strcmp(last_part(k->path), word) == 0) {
            buf_puts(out, k->path);
            return true;
        }
    }
    return false;
}
