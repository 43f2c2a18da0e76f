/* suggest.c - "did you mean": the nearest name at the same place of the file, else the same name at
 * another place. */
#include <string.h>

#include "config/schema.h"

enum { WORD_MAX = 64 };

/* Edits (insert, delete, replace, swap of neighbours) from a to b; words over WORD_MAX are far. */
static unsigned distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    unsigned row[3][WORD_MAX + 1];

    if (a_len > WORD_MAX || b_len > WORD_MAX)
        return WORD_MAX;
    for (unsigned j = 0; j <= b_len; j++)
        row[0][j] = j;
    for (unsigned i = 1; i <= a_len; i++) {
        unsigned *cur = row[i % 3];
        const unsigned *prev = row[(i + 2) % 3];
        const unsigned *before = row[(i + 1) % 3];

        cur[0] = i;
        for (unsigned j = 1; j <= b_len; j++) {
            unsigned best = prev[j - 1] + (a[i - 1] != b[j - 1]);

            best = MIN_OF(best, prev[j] + 1);
            best = MIN_OF(best, cur[j - 1] + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = MIN_OF(best, before[j - 2] + 1);
            cur[j] = best;
        }
    }
    return row[a_len % 3][b_len];
}

/* The part of `name` that would stand in section `prefix`; NULL when it does not live there. */
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

bool config_suggest(bool is_profile, const char *prefix, const char *word, struct buf *out)
{
    size_t word_len = strlen(word);
    unsigned best = (unsigned) MIN_OF(word_len / 3, 3U) + 1; /* at most this far, exclusive */
    const char *found = NULL;
    size_t found_len = 0;

    for (const struct config_key *k = config_keys; k->path != NULL; k++) {
        /* "profiles" itself is a member of the root, by way of the keys in it. */
        const char *name = is_profile ? config_key_name(k) : k->path;
        size_t len;
        const char *member = NULL;

        if (!is_profile || config_key_is_profile(k))
            member = member_of(name, prefix, &len);
        if (member == NULL)
            continue;
        unsigned d = distance(word, word_len, member, len);
        if (d < best) {
            best = d;
            found = member;
            found_len = len;
        }
    }
    if (found != NULL) {
        buf_append(out, found, found_len);
        return true;
    }
    for (const struct config_key *k = config_keys; k->path != NULL; k++) {
        if (strcmp(last_part(k->path), word) == 0) {
            buf_puts(out, k->path);
            return true;
        }
    }
    return false;
}
