/* target.c - request targets. Everything is decoded exactly once: a path is split at its slashes
 * before its parts are decoded, so that an escaped slash never makes a new part. */
#include "http/target.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "http/http.h"

bool target_origin(const char *raw, size_t *ret_start)
{
    const char *path = raw;

    if (strchr(raw, '#') != NULL)
        return false;
    if (strncasecmp(raw, "http://", 7) == 0)
        path = strchr(raw + 7, '/');
    else if (strcmp(raw, "*") != 0 && raw[0] != '/')
        return false;
    if (path == NULL || memchr(raw, '?', (size_t) (path - raw)) != NULL)
        return false;
    *ret_start = (size_t) (path - raw);
    return true;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* The byte behind "%xy", or -1: NUL counts as broken, because strings end there. */
static int unescape(const char *src, size_t len)
{
    int high;
    int low;

    if (len < 3)
        return -1;
    high = hex_value(src[1]);
    low = hex_value(src[2]);
    if (high < 0 || low < 0 || high + low == 0)
        return -1;
    return high * 16 + low;
}

bool target_decode(const char *src, size_t len, bool plus_is_space, char *dst, size_t cap)
{
    size_t n = 0;

    assert(cap > 0);
    for (size_t i = 0; i < len; i++) {
        int c = (unsigned char) src[i];

        if (c == '%') {
            c = unescape(src + i, len - i);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        if (c < 0 || n + 1 >= cap) {
            dst[0] = '\0';
            return false;
        }
        dst[n++] = (char) c;
    }
    dst[n] = '\0';
    return true;
}

static bool name_equals(const char *src, size_t len, const char *name)
{
    char decoded[64];

    return target_decode(src, len, true, decoded, sizeof(decoded)) && strcmp(decoded, name) == 0;
}

bool target_query(const char *target, const char *name, char *dst, size_t cap)
{
    const char *p = strchr(target, '?');

    dst[0] = '\0';
    while (p != NULL) {
        size_t len;
        const char *value;
        size_t name_len;

        p++;
        len = strcspn(p, "&");
        value = memchr(p, '=', len);
        name_len = value != NULL ? (size_t) (value - p) : len;
        if (name_equals(p, name_len, name)) {
            size_t skip = value != NULL ? name_len + 1 : len;

            if (!target_decode(p + skip, len - skip, true, dst, cap))
                (void) snprintf(dst, cap, "%s", HTTP_QUERY_BAD);
            return true;
        }
        p = p[len] == '&' ? p + len : NULL;
    }
    return false;
}
