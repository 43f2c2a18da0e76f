/* glob.c - matching without recursion: after a mismatch only the last star is tried again, which is
 * enough because an earlier star could not do better. The same holds for `**` over parts. */
#include "agent/file/glob.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

/* --- alternatives --- */

/* The end of the brace group at `open`, NULL when it is not closed or has no comma. */
static const char *group_end(const char *open)
{
    unsigned depth = 0;
    bool has_comma = false;

    for (const char *p = open; *p != '\0'; p++) {
        if (*p == '\\' && p[1] != '\0')
            p++;
        else if (*p == '{')
            depth++;
        else if (*p == ',' && depth == 1)
            has_comma = true;
        else if (*p == '}') {
            depth--;
            if (depth == 0)
                return has_comma ? p : NULL;
        }
    }
    return NULL;
}

/* The first group, NULL when there is none. */
static const char *find_group(const char *pattern, const char **ret_end)
{
    for (const char *p = pattern; *p != '\0'; p++) {
        if (*p == '\\' && p[1] != '\0') {
            p++;
        } else if (*p == '{') {
            *ret_end = group_end(p);
            if (*ret_end != NULL)
                return p;
        }
    }
    return NULL;
}

/* The end of the alternative that starts at p. */
static const char *alternative_end(const char *p)
{
    unsigned depth = 0;

    for (;; p++) {
        if (*p == '\\' && p[1] != '\0')
            p++;
        else if (*p == '{')
            depth++;
        else if ((*p == ',' || *p == '}') && depth == 0)
            return p;
        else if (*p == '}')
            depth--;
    }
}

static char *join(const char *start, size_t start_len, const char *mid, size_t mid_len,
                  const char *end)
{
    size_t end_len = strlen(end);
    char *text = xcalloc(1, start_len + mid_len + end_len + 1);

    memcpy(text, start, start_len);
    memcpy(text + start_len, mid, mid_len);
    memcpy(text + start_len + mid_len, end, end_len + 1);
    return text;
}

/* Replaces pattern i, which has a group, by its alternatives; false when there would be too many. */
static bool expand(struct glob *g, unsigned i)
{
    const char *end = NULL;
    char *pattern = g->patterns[i];
    const char *group = find_group(pattern, &end);
    const char *p = group;
    bool is_first = true;

    assert(group != NULL);
    do { /* at least once: the first takes the place of the pattern */
        const char *stop = alternative_end(p + 1);
        char *text =
            join(pattern, (size_t) (group - pattern), p + 1, (size_t) (stop - p - 1), end + 1);

        p = stop;
        if (is_first) {
            g->patterns[i] = text;
        } else if (g->count < GLOB_ALTERNATIVES_MAX) {
            g->patterns[g->count++] = text;
        } else {
            free(text);
            free(pattern);
            return false;
        }
        is_first = false;
    } while (p != end);
    free(pattern);
    return true;
}

int glob_init(struct glob *g, const char *pattern, unsigned flags, struct err *err)
{
    const char *end;

    memset(g, 0, sizeof(*g));
    g->flags = flags;
    while (strncmp(pattern, "./", 2) == 0)
        pattern += 2;
    if (str_is_empty(pattern) || strlen(pattern) > GLOB_LEN_MAX)
        return err_set(err, SP_INVALID_FIELD, "a glob has 1 to %d characters", GLOB_LEN_MAX);
    g->patterns[g->count++] = xstrdup(pattern);
    for (unsigned i = 0; i < g->count; i++) {
        while (find_group(g->patterns[i], &end) != NULL) {
            if (!expand(g, i)) {
                glob_fini(g);
                return err_set(err, SP_INVALID_FIELD, "a glob has at most %d alternatives",
                               GLOB_ALTERNATIVES_MAX);
            }
        }
    }
    return SP_OK;
}

void glob_fini(struct glob *g)
{
    for (unsigned i = 0; i < g->count; i++)
        free(g->patterns[i]);
    g->count = 0;
}

/* --- one part --- */

static unsigned char fold(char c, unsigned flags)
{
    return (unsigned char) ((flags & GLOB_ICASE) != 0 ? tolower((unsigned char) c) : c);
}

static size_t char_len(const char *s, const char *end)
{
    size_t len = str_utf8_len(s);

    return len == 0 || len > (size_t) (end - s) ? 1 : len;
}

/* The end of the set that starts at p ('['), NULL when it is not closed. */
static const char *set_end(const char *p, const char *end)
{
    p++;
    if (p < end && (*p == '!' || *p == '^'))
        p++;
    if (p < end && *p == ']')
        p++;
    while (p < end && *p != ']')
        p++;
    return p < end ? p : NULL;
}

static bool set_has(const char *p, const char *stop, const char *s, size_t len, unsigned flags)
{
    bool is_inverse = false;
    bool is_in = false;

    p++;
    if (*p == '!' || *p == '^') {
        is_inverse = true;
        p++;
    }
    while (p < stop) {
        size_t n = char_len(p, stop);

        if (n == 1 && p + 2 < stop && p[1] == '-') {
            is_in = is_in || (len == 1 && fold(*s, flags) >= fold(p[0], flags) &&
                              fold(*s, flags) <= fold(p[2], flags));
            p += 3;
            continue;
        }
        if (n == len && (n == 1 ? fold(*p, flags) == fold(*s, flags) : memcmp(p, s, n) == 0))
            is_in = true;
        p += n;
    }
    return is_in != is_inverse;
}

/* Matches one character; false when it does not. Moves *p over what stands for it. */
static bool match_char(const char **p, const char *p_end, const char *s, size_t len, unsigned flags)
{
    const char *q = *p;
    const char *stop;

    if (q == p_end)
        return false;
    if (*q == '?') {
        *p = q + 1;
        return true;
    }
    if (*q == '[') {
        stop = set_end(q, p_end);
        if (stop != NULL) {
            *p = stop + 1;
            return set_has(q, stop, s, len, flags);
        }
    }
    if (*q == '\\' && q + 1 < p_end)
        q++;
    if (len > (size_t) (p_end - q))
        return false;
    *p = q + len;
    return len == 1 ? fold(*q, flags) == fold(*s, flags) : memcmp(q, s, len) == 0;
}

static bool match_part(const char *p, size_t p_len, const char *s, size_t s_len, unsigned flags)
{
    const char *p_end = p + p_len;
    const char *s_end = s + s_len;
    const char *star = NULL;
    const char *star_s = NULL;

    if (s_len > 0 && s[0] == '.' && (flags & GLOB_HIDDEN) == 0 && (p_len == 0 || p[0] != '.'))
        return false;
    while (s < s_end) {
        size_t len = char_len(s, s_end);
        const char *q = p;

        if (p < p_end && *p == '*') {
            star = ++p;
            star_s = s;
        } else if (match_char(&q, p_end, s, len, flags)) {
            p = q;
            s += len;
        } else if (star != NULL) {
            star_s += char_len(star_s, s_end);
            p = star;
            s = star_s;
        } else {
            return false;
        }
    }
    while (p < p_end && *p == '*')
        p++;
    return p == p_end;
}

/* --- whole paths --- */

static size_t part_len(const char *s)
{
    return strcspn(s, "/");
}

static const char *next_part(const char *s)
{
    s += part_len(s);
    return *s == '/' ? s + 1 : s;
}

static bool is_any_parts(const char *p)
{
    return part_len(p) == 2 && p[0] == '*' && p[1] == '*';
}

static bool match_path(const char *p, const char *s, unsigned flags)
{
    const char *star = NULL;
    const char *star_s = NULL;

    while (*s != '\0') {
        if (*p != '\0' && is_any_parts(p)) {
            p = next_part(p);
            star = p;
            star_s = s;
        } else if (*p != '\0' && match_part(p, part_len(p), s, part_len(s), flags)) {
            p = next_part(p);
            s = next_part(s);
        } else if (star != NULL) {
            if (star_s[0] == '.' && (flags & GLOB_HIDDEN) == 0)
                return false;
            star_s = next_part(star_s);
            p = star;
            s = star_s;
        } else {
            return false;
        }
    }
    while (*p != '\0' && is_any_parts(p))
        p = next_part(p);
    return *p == '\0';
}

bool glob_match(const struct glob *g, const char *path)
{
    for (unsigned i = 0; i < g->count; i++) {
        if (match_path(g->patterns[i], path, g->flags))
            return true;
    }
    return false;
}

unsigned glob_depth(const struct glob *g)
{
    unsigned depth = 0;

    for (unsigned i = 0; i < g->count; i++) {
        unsigned parts = 0;

        for (const char *p = g->patterns[i]; *p != '\0'; p = next_part(p)) {
            if (is_any_parts(p))
                return UINT_MAX;
            parts++;
        }
        depth = MAX_OF(depth, parts);
    }
    return depth;
}
