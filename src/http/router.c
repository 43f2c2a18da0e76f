/* router.c - a linear walk over a static table: some dozens of patterns that mostly differ in
 * their first bytes, so that a tree would cost more than it saves. */
#include "http/router.h"

#include <string.h>

#include "base/str.h"
#include "http/target.h"

static bool is_param(const char *part)
{
    return part[0] == '{';
}

static bool is_rest(const char *part)
{
    return part[0] == '*';
}

static size_t part_len(const char *part)
{
    return strcspn(part, "/?");
}

bool router_check(const struct http_route *routes)
{
    bool has_connect = false;

    for (const struct http_route *r = routes; r->pattern != NULL; r++) {
        unsigned params = 0;

        assert(r->method != HTTP_METHOD_HEAD && r->method < HTTP_METHOD_OTHER && r->handle != NULL);
        if (r->method == HTTP_METHOD_CONNECT) {
            assert(strcmp(r->pattern, "*") == 0);
            has_connect = true;
            continue;
        }
        assert(r->pattern[0] == '/');
        for (const char *p = strchr(r->pattern, '{'); p != NULL; p = strchr(p + 1, '{')) {
            size_t len = part_len(p);

            assert(p[-1] == '/' && p[len - 1] == '}' && len >= 3);
            assert(len - 2 < sizeof(((struct http_param *) NULL)->name));
            params++;
        }
        assert(params <= HTTP_PARAMS_MAX);
        for (const char *p = strchr(r->pattern, '*'); p != NULL; p = strchr(p + 1, '*'))
            assert(p[-1] == '/' && p[1] == '\0');
    }
    return has_connect;
}

static bool literal_matches(const char *part, size_t len, const char *text, size_t text_len)
{
    char decoded[136];

    if (len == text_len && memcmp(part, text, len) == 0)
        return true;
    return memchr(text, '%', text_len) != NULL &&
           target_decode(text, text_len, false, decoded, sizeof(decoded)) &&
           strlen(decoded) == len && memcmp(part, decoded, len) == 0;
}

/* Whether the part that follows belongs to it. */
static bool is_half(const char *value, const char *pair_prefix)
{
    return pair_prefix != NULL && strncmp(value, pair_prefix, strlen(pair_prefix)) == 0 &&
           strchr(value, '/') == NULL;
}

/* Behind what it takes of the target; NULL when that cannot be its value. */
static const char *take_param(const char *text, const char *pair_prefix, struct http_param *ret)
{
    size_t len = part_len(text);
    size_t have;

    if (len == 0 || !target_decode(text, len, false, ret->value, sizeof(ret->value)))
        return NULL;
    if (text[len] != '/' || !is_half(ret->value, pair_prefix))
        return text + len;
    have = strlen(ret->value);
    if (have + 1 >= sizeof(ret->value))
        return NULL;
    ret->value[have] = '/';
    text += len + 1;
    len = part_len(text);
    return target_decode(text, len, false, ret->value + have + 1, sizeof(ret->value) - have - 1)
               ? text + len
               : NULL;
}

/* Number of parameters, or -1. `params` is scribbled on either way. */
static int match_pattern(const char *pattern, const char *pair_prefix, const char *target,
                         struct http_param *params)
{
    const char *start = target;
    int count = 0;

    for (;;) {
        size_t len;
        size_t text_len;

        if (*pattern != '/' || *target != '/')
            break;
        pattern++;
        target++;
        if (is_rest(pattern))
            return count;
        len = part_len(pattern);
        text_len = part_len(target);
        if (is_param(pattern)) {
            struct http_param *param = &params[count++];

            target = take_param(target, pair_prefix, param);
            if (target == NULL ||
                !str_copy_n(param->name, sizeof(param->name), pattern + 1, len - 2))
                return -1;
            param->end = (size_t) (target - start);
        } else if (literal_matches(pattern, len, target, text_len)) {
            target += text_len;
        } else {
            return -1;
        }
        pattern += len;
    }
    return *pattern == '\0' && (*target == '\0' || *target == '?') ? count : -1;
}

static unsigned methods_of(const struct http_route *r)
{
    unsigned bits = 1U << r->method;
    unsigned all = (1U << HTTP_METHOD_COUNT) - 1;

    if ((r->flags & HTTP_ANY) != 0)
        return all & ~(1U << HTTP_METHOD_CONNECT); /* its target is no path */
    return r->method == HTTP_METHOD_GET ? bits | 1U << HTTP_METHOD_HEAD : bits;
}

void router_find(const struct http_route *routes, const char *pair_prefix, enum http_method method,
                 const char *target, struct router_match *ret)
{
    ret->route = NULL;
    ret->allowed = 0;
    ret->param_count = 0;
    for (const struct http_route *r = routes; r->pattern != NULL; r++) {
        struct http_param params[HTTP_PARAMS_MAX];
        int count = r->method == HTTP_METHOD_CONNECT && method == HTTP_METHOD_CONNECT
                        ? 0
                        : match_pattern(r->pattern, pair_prefix, target, params);

        if (count < 0)
            continue;
        ret->allowed |= methods_of(r);
        if ((methods_of(r) & 1U << method) == 0)
            continue;
        if (ret->route != NULL && ret->param_count <= (unsigned) count)
            continue;
        ret->route = r;
        ret->param_count = (unsigned) count;
        memcpy(ret->params, params, (size_t) count * sizeof(params[0]));
        if (count == 0)
            return;
    }
}

void router_allow(unsigned allowed, struct buf *out)
{
    for (unsigned m = 0; m < HTTP_METHOD_OTHER; m++) {
        if ((allowed & 1U << m) == 0)
            continue;
        if (out->len > 0)
            buf_puts(out, ", ");
        buf_puts(out, http_method_name((enum http_method) m));
    }
}
