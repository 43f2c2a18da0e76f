/* egress.c - reads lists of what a box may reach, and compares with them. */
#include "base/egress.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

#define NET(a, b, c, d, bits)                                                                   \
    {                                                                                           \
        (uint32_t)(a) << 24 | (uint32_t) (b) << 16 | (uint32_t) (c) << 8 | (uint32_t) (d), bits \
    }

const struct egress_net egress_refused[] = {
    NET(0, 0, 0, 0, 8),
    NET(10, 0, 0, 0, 8),
    NET(100, 64, 0, 0, 10), /* of providers; a cloud has its metadata there */
    NET(127, 0, 0, 0, 8),
    NET(168, 63, 129, 16, 32), /* another cloud's */
    NET(169, 254, 0, 0, 16),   /* most clouds' */
    NET(172, 16, 0, 0, 12),
    NET(192, 0, 0, 0, 24),
    NET(192, 168, 0, 0, 16),
    NET(198, 18, 0, 0, 15),
    NET(224, 0, 0, 0, 3), /* multicast, reserved, broadcast */
    {0, 0},
};

static bool is_in(struct egress_net net, uint32_t address)
{
    return net.bits == 0 || (net.first ^ address) >> (32 - net.bits) == 0;
}

static bool is_net_in(struct egress_net inner, struct egress_net outer)
{
    return inner.bits >= outer.bits && is_in(outer, inner.first);
}

bool egress_is_refused_net(struct egress_net net)
{
    for (const struct egress_net *r = egress_refused; r->bits != 0; r++)
        if (is_net_in(net, *r))
            return true;
    return false;
}

bool egress_is_refused(uint32_t address)
{
    return egress_is_refused_net((struct egress_net){address, 32});
}

/* --- one entry --- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_host_name(const char *s)
{
    if (strlen(s) > EGRESS_NAME_MAX)
        return false;
    for (;; s++) {
        size_t len = strcspn(s, ".");

        if (len == 0 || len > 63 || !is_letter(s[0]) || !is_letter(s[len - 1]))
            return false;
        for (size_t i = 0; i < len; i++)
            if (!is_letter(s[i]) && s[i] != '-')
                return false;
        s += len;
        if (*s == '\0')
            return true;
    }
}

/* NULL: it is one. */
static const char *parse_net(const char *text, struct egress_net *ret)
{
    size_t len = strcspn(text, "/");
    char host[INET_ADDRSTRLEN];
    struct in_addr in;
    uint64_t bits = 32;

    if (!str_copy_n(host, sizeof(host), text, len) || inet_pton(AF_INET, host, &in) != 1 ||
        (text[len] == '/' && !str_parse_u64(text + len + 1, 0, 32, &bits)))
        return "is no IPv4 network like 192.0.2.0/24";
    ret->first = ntohl(in.s_addr);
    ret->bits = (unsigned) bits;
    if (bits < 32 && (ret->first << bits) != 0)
        return "has bits behind its length";
    return NULL;
}

/* What consists of digits, dots and a slash is meant as a network: no name ends in a number. */
static bool is_meant_as_net(const char *text)
{
    return text[strspn(text, "0123456789./")] == '\0';
}

static const char *parse(const char *text, size_t len, struct egress_entry *ret)
{
    char word[EGRESS_NAME_MAX + 3];
    const char *name = word;

    if (!str_copy_n(word, sizeof(word), text, len))
        return "is longer than a name can be";
    for (char *c = word; *c != '\0'; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char) (*c - 'A' + 'a');
    memset(ret, 0, sizeof(*ret));
    if (strchr(word, ':') != NULL)
        return "is IPv6, which boxes do not have";
    if (is_meant_as_net(word)) {
        ret->kind = EGRESS_NET;
        return parse_net(word, &ret->net);
    }
    if (strncmp(word, "*.", 2) == 0) {
        ret->kind = EGRESS_BELOW;
        name += 2;
    }
    if (!is_host_name(name))
        return "is no name like example.com or *.example.com, and no IPv4 network";
    return str_copy(ret->name, sizeof(ret->name), name) ? NULL : "is longer than a name can be";
}

/* --- the list --- */

/* The word at *list, which moves behind it; NULL at the end. */
static const char *next_word(const char **list, size_t *ret_len)
{
    const char *word = *list;

    if (*word == '\0')
        return NULL;
    *ret_len = strcspn(word, ",");
    *list += *ret_len + (word[*ret_len] == ',' ? 1 : 0);
    return word;
}

bool egress_check(const char *list, char why[EGRESS_WHY_MAX])
{
    struct egress_entry entry;
    unsigned count = 0;
    const char *word;
    size_t len;

    if (strlen(list) > EGRESS_TEXT_MAX) {
        (void) snprintf(why, EGRESS_WHY_MAX, "is longer than %d bytes", EGRESS_TEXT_MAX);
        return false;
    }
    while ((word = next_word(&list, &len)) != NULL) {
        const char *problem = parse(word, len, &entry);

        if (problem == NULL && ++count > EGRESS_ENTRIES_MAX) {
            (void) snprintf(why, EGRESS_WHY_MAX, "has more than %d entries", EGRESS_ENTRIES_MAX);
            return false;
        }
        if (problem != NULL) {
            (void) snprintf(why, EGRESS_WHY_MAX, "has '%.*s', which %s",
                            (int) (len > 64 ? 64 : len), word, problem);
            return false;
        }
    }
    return true;
}

bool egress_next(const char **list, struct egress_entry *ret)
{
    const char *word;
    size_t len;

    while ((word = next_word(list, &len)) != NULL)
        if (parse(word, len, ret) == NULL)
            return true;
    return false;
}

static bool is_below(const char *name, const char *top)
{
    size_t len = strlen(name);
    size_t top_len = strlen(top);

    return len > top_len + 1 && name[len - top_len - 1] == '.' &&
           strcmp(name + len - top_len, top) == 0;
}

bool egress_has_name(const char *list, const char *name)
{
    struct egress_entry e;

    while (egress_next(&list, &e))
        if ((e.kind == EGRESS_NAME && strcmp(e.name, name) == 0) ||
            (e.kind == EGRESS_BELOW && is_below(name, e.name)))
            return true;
    return false;
}

static bool has_net(const char *list, struct egress_net net)
{
    bool is_refused = egress_is_refused_net(net);
    struct egress_entry e;

    while (egress_next(&list, &e))
        if (e.kind == EGRESS_NET && is_net_in(net, e.net) &&
            (!is_refused || egress_is_refused_net(e.net)))
            return true;
    return false;
}

bool egress_has_address(const char *list, uint32_t address)
{
    return has_net(list, (struct egress_net){address, 32});
}

static bool has_below(const char *list, const char *top)
{
    struct egress_entry e;

    while (egress_next(&list, &e))
        if (e.kind == EGRESS_BELOW && (strcmp(e.name, top) == 0 || is_below(top, e.name)))
            return true;
    return false;
}

bool egress_is_within(const char *inner, const char *outer, char why[EGRESS_WHY_MAX])
{
    struct egress_entry e;
    const char *at = inner;

    while (egress_next(&inner, &e)) {
        bool is_allowed = e.kind == EGRESS_NAME    ? egress_has_name(outer, e.name)
                          : e.kind == EGRESS_BELOW ? has_below(outer, e.name)
                                                   : has_net(outer, e.net);
        size_t len = strcspn(at, ",");

        if (!is_allowed) {
            (void) snprintf(why, EGRESS_WHY_MAX, "'%.*s' is not allowed by the profile",
                            (int) (len > 100 ? 100 : len), at);
            return false;
        }
        at = inner;
    }
    return true;
}
