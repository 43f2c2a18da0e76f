/* value.c - one value of the configuration by its key's type: from text, to text, compared, freed.
 * An error message never repeats the value of a secret. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "config/schema.h"

static void *at(const struct config_key *k, void *object)
{
    return (char *) object + k->offset;
}

static const void *at_const(const struct config_key *k, const void *object)
{
    return (const char *) object + k->offset;
}

const struct config_map *config_value_map(const struct config_key *k, const void *object)
{
    assert(k->type == CONFIG_TYPE_MAP);
    return at_const(k, object);
}

static bool has_control(const char *s, bool may_have_lines)
{
    for (; *s != '\0'; s++) {
        if (iscntrl((unsigned char) *s) && !(may_have_lines && (*s == '\n' || *s == '\t')))
            return true;
    }
    return false;
}

static bool set_text(const struct config_key *k, char *dst, const char *text,
                     char why[CONFIG_WHY_MAX])
{
    if (strlen(text) < k->min)
        (void) snprintf(why, CONFIG_WHY_MAX, "must not be empty");
    else if (strlen(text) > k->max)
        (void) snprintf(why, CONFIG_WHY_MAX, "is longer than %u bytes", (unsigned) k->max);
    else if (has_control(text, (k->flags & CONFIG_LINES) != 0))
        (void) snprintf(why, CONFIG_WHY_MAX, "has a control character in it");
    else
        return str_copy(dst, (size_t) k->max + 1, text);
    return false;
}

/* "a, b,c" and sequences are stored as "a,b,c". */
static bool set_list(const struct config_key *k, char *dst, const char *text,
                     char why[CONFIG_WHY_MAX])
{
    struct buf joined;
    bool is_set;

    buf_init(&joined, (size_t) k->max + 1);
    while (*text != '\0') {
        size_t skip = strspn(text, ", \t");
        size_t len = strcspn(text + skip, ", \t");

        if (len > 0 && joined.len > 0)
            buf_putc(&joined, ',');
        buf_append(&joined, text + skip, len);
        text += skip + len;
    }
    is_set = !buf_failed(&joined);
    if (!is_set)
        (void) snprintf(why, CONFIG_WHY_MAX, "is longer than %u bytes", (unsigned) k->max);
    else
        is_set = set_text(k, dst, buf_str(&joined), why);
    buf_fini(&joined);
    return is_set;
}

static bool parse_mode(const char *s, uint64_t max, uint64_t *ret)
{
    uint64_t v = 0;

    if (strncmp(s, "0o", 2) == 0)
        s += 2;
    if (*s == '\0' || strlen(s) > 6)
        return false;
    for (; *s != '\0'; s++) {
        if (*s < '0' || *s > '7')
            return false;
        v = v * 8 + (uint64_t) (*s - '0');
    }
    *ret = v;
    return v <= max;
}

/* Up to so many digits after the point; with 3 of them "1.5" is 1500. */
static bool parse_decimal(const char *s, unsigned digits, const struct config_key *k, uint64_t *ret)
{
    char whole[24];
    size_t len = strcspn(s, ".");
    const char *rest = s[len] == '.' ? s + len + 1 : "0";
    uint64_t v;

    if (!str_copy_n(whole, sizeof(whole), s, len) || !str_parse_u64(whole, 0, UINT32_MAX, &v) ||
        *rest == '\0' || strlen(rest) > digits)
        return false;
    for (unsigned i = 0; i < digits; i++) {
        if (*rest != '\0' && (*rest < '0' || *rest > '9'))
            return false;
        v = v * 10 + (*rest != '\0' ? (uint64_t) (*rest++ - '0') : 0);
    }
    *ret = v;
    return v >= k->min && v <= k->max;
}

static void print_decimal(uint64_t v, unsigned digits, struct buf *out)
{
    uint64_t unit = 1;
    char rest[24];
    size_t len = digits;

    for (unsigned i = 0; i < digits; i++)
        unit *= 10;
    buf_printf(out, "%llu", (unsigned long long) (v / unit));
    if (v % unit == 0)
        return;
    (void) snprintf(rest, sizeof(rest), "%0*llu", (int) digits, (unsigned long long) (v % unit));
    while (rest[len - 1] == '0')
        len--;
    buf_putc(out, '.');
    buf_append(out, rest, len);
}

static unsigned digits_of(const struct config_key *k)
{
    return k->type == CONFIG_TYPE_MICRO ? 6 : 3;
}

bool config_parse_micros(const char *text, uint64_t max, uint64_t *ret)
{
    const struct config_key key = {.max = max};

    return parse_decimal(text, 6, &key, ret);
}

void config_print_micros(uint64_t v, char dst[CONFIG_MICROS_MAX])
{
    struct buf text;

    buf_init(&text, CONFIG_MICROS_MAX);
    print_decimal(v, 6, &text);
    str_copy_cut(dst, CONFIG_MICROS_MAX, buf_str(&text));
    buf_fini(&text);
}

static void print_size(uint64_t v, struct buf *out)
{
    static const char units[] = "kMGT";
    unsigned shift = 0;

    while (v > 0 && shift < 40 && (v >> shift) % 1024 == 0)
        shift += 10;
    buf_printf(out, "%llu", (unsigned long long) (v >> shift));
    if (shift > 0)
        buf_putc(out, units[shift / 10 - 1]);
}

static bool set_number(const struct config_key *k, uint64_t *dst, const char *text,
                       char why[CONFIG_WHY_MAX])
{
    uint64_t v = 0;
    bool is_good;
    struct buf range;

    if (k->type == CONFIG_TYPE_SIZE)
        is_good = str_parse_size(text, &v) && v >= k->min && v <= k->max;
    else if (k->type == CONFIG_TYPE_MODE)
        is_good = parse_mode(text, k->max, &v);
    else if (k->type == CONFIG_TYPE_MILLI || k->type == CONFIG_TYPE_MICRO)
        is_good = parse_decimal(text, digits_of(k), k, &v);
    else
        is_good = str_parse_u64(text, k->min, k->max, &v);
    if (is_good) {
        *dst = v;
        return true;
    }
    buf_init(&range, 128);
    if (k->type == CONFIG_TYPE_MODE) {
        buf_printf(&range, "an octal mode up to %04llo", (unsigned long long) k->max);
    } else if (k->type == CONFIG_TYPE_SIZE) {
        buf_puts(&range, "a size like 512M or 1G, from ");
        print_size(k->min, &range);
        buf_puts(&range, " to ");
        print_size(k->max, &range);
    } else if (k->type == CONFIG_TYPE_MILLI || k->type == CONFIG_TYPE_MICRO) {
        buf_puts(&range, "a number from ");
        print_decimal(k->min, digits_of(k), &range);
        buf_puts(&range, " to ");
        print_decimal(k->max, digits_of(k), &range);
    } else {
        buf_printf(&range, "a whole number from %llu to %llu", (unsigned long long) k->min,
                   (unsigned long long) k->max);
    }
    (void) snprintf(why, CONFIG_WHY_MAX, "must be %s, not '%.40s'", buf_str(&range), text);
    buf_fini(&range);
    return false;
}

static bool set_enum(const struct config_key *k, unsigned *dst, const char *text,
                     char why[CONFIG_WHY_MAX])
{
    struct buf choices;

    buf_init(&choices, 128);
    for (unsigned i = 0; k->names[i] != NULL; i++) {
        if (strcmp(k->names[i], text) == 0) {
            *dst = i;
            buf_fini(&choices);
            return true;
        }
        buf_printf(&choices, "%s%s", i == 0 ? "" : (k->names[i + 1] == NULL ? " or " : ", "),
                   k->names[i]);
    }
    (void) snprintf(why, CONFIG_WHY_MAX, "must be %s, not '%.40s'", buf_str(&choices), text);
    buf_fini(&choices);
    return false;
}

bool config_value_set(const struct config_key *k, void *object, const char *text,
                      char why[CONFIG_WHY_MAX])
{
    void *dst = at(k, object);

    switch (k->type) {
    case CONFIG_TYPE_STRING:
    case CONFIG_TYPE_PATH:
        return set_text(k, dst, text, why);
    case CONFIG_TYPE_LIST:
        return set_list(k, dst, text, why);
    case CONFIG_TYPE_U64:
    case CONFIG_TYPE_SIZE:
    case CONFIG_TYPE_MODE:
    case CONFIG_TYPE_MILLI:
    case CONFIG_TYPE_MICRO:
        return set_number(k, dst, text, why);
    case CONFIG_TYPE_BOOL:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) {
            (void) snprintf(why, CONFIG_WHY_MAX, "must be true or false, not '%.40s'", text);
            return false;
        }
        *(bool *) dst = text[0] == 't';
        return true;
    case CONFIG_TYPE_ENUM:
        return set_enum(k, dst, text, why);
    case CONFIG_TYPE_MAP:
    case CONFIG_TYPE_COUNT:
        break;
    }
    assert(false && "a map is set pair by pair");
    return false;
}

static struct config_pair *map_find_pair(const struct config_map *map, const char *name)
{
    for (unsigned i = 0; i < map->count; i++) {
        if (strcmp(map->pairs[i].key, name) == 0)
            return &map->pairs[i];
    }
    return NULL;
}

static void map_push(struct config_map *map, const char *name, const char *text)
{
    map->pairs = xrealloc(map->pairs, (map->count + 1) * sizeof(map->pairs[0]));
    map->pairs[map->count].key = xstrdup(name);
    map->pairs[map->count].value = xstrdup(text);
    map->count++;
}

bool config_map_add(const struct config_key *k, void *object, const char *name, const char *text,
                    char why[CONFIG_WHY_MAX])
{
    struct config_map *map = at(k, object);
    struct config_pair *old = map_find_pair(map, name);

    assert(k->type == CONFIG_TYPE_MAP);
    if (old == NULL && map->count == CONFIG_MAP_MAX)
        (void) snprintf(why, CONFIG_WHY_MAX, "has more than %d entries", CONFIG_MAP_MAX);
    else if (strlen(text) < k->min)
        (void) snprintf(why, CONFIG_WHY_MAX, "must have at least %u characters", (unsigned) k->min);
    else if (strlen(text) > k->max)
        (void) snprintf(why, CONFIG_WHY_MAX, "is longer than %u bytes", (unsigned) k->max);
    else if (old != NULL) {
        free(old->value);
        old->value = xstrdup(text);
        return true;
    } else {
        map_push(map, name, text);
        return true;
    }
    return false;
}

void config_map_copy(const struct config_key *k, void *to, const void *from)
{
    const struct config_map *src = config_value_map(k, from);
    struct config_map *dst = at(k, to);

    *dst = (struct config_map){0};
    for (unsigned i = 0; i < src->count; i++)
        map_push(dst, src->pairs[i].key, src->pairs[i].value);
}

static bool map_equal(const struct config_map *a, const struct config_map *b)
{
    if (a->count != b->count)
        return false;
    for (unsigned i = 0; i < a->count; i++) {
        if (strcmp(a->pairs[i].key, b->pairs[i].key) != 0 ||
            strcmp(a->pairs[i].value, b->pairs[i].value) != 0)
            return false;
    }
    return true;
}

bool config_value_equal(const struct config_key *k, const void *a, const void *b)
{
    const void *x = at_const(k, a);
    const void *y = at_const(k, b);

    switch (k->type) {
    case CONFIG_TYPE_STRING:
    case CONFIG_TYPE_PATH:
    case CONFIG_TYPE_LIST:
        return strcmp(x, y) == 0;
    case CONFIG_TYPE_U64:
    case CONFIG_TYPE_SIZE:
    case CONFIG_TYPE_MODE:
    case CONFIG_TYPE_MILLI:
    case CONFIG_TYPE_MICRO:
        return *(const uint64_t *) x == *(const uint64_t *) y;
    case CONFIG_TYPE_BOOL:
        return *(const bool *) x == *(const bool *) y;
    case CONFIG_TYPE_ENUM:
        return *(const unsigned *) x == *(const unsigned *) y;
    case CONFIG_TYPE_MAP:
        return map_equal(x, y);
    case CONFIG_TYPE_COUNT:
        break;
    }
    assert(false && "unknown type");
    return false;
}

/* What begins with a star would refer to another part of the file. */
static void print_words(const char *list, struct buf *out)
{
    while (*list != '\0') {
        size_t len = strcspn(list, ",");
        const char *quote = *list == '*' ? "\"" : "";

        buf_printf(out, "%s%.*s%s%s", quote, (int) len, list, quote, list[len] == ',' ? ", " : "");
        list += list[len] == ',' ? len + 1 : len;
    }
}

void config_value_print(const struct config_key *k, const void *object, struct buf *out)
{
    const void *src = at_const(k, object);

    switch (k->type) {
    case CONFIG_TYPE_STRING:
    case CONFIG_TYPE_PATH:
        config_print_text(src, out);
        return;
    case CONFIG_TYPE_LIST:
        buf_putc(out, '[');
        print_words(src, out);
        buf_putc(out, ']');
        return;
    case CONFIG_TYPE_U64:
        buf_printf(out, "%llu", (unsigned long long) *(const uint64_t *) src);
        return;
    case CONFIG_TYPE_SIZE:
        print_size(*(const uint64_t *) src, out);
        return;
    case CONFIG_TYPE_MODE:
        buf_printf(out, "%04llo", (unsigned long long) *(const uint64_t *) src);
        return;
    case CONFIG_TYPE_MILLI:
    case CONFIG_TYPE_MICRO:
        print_decimal(*(const uint64_t *) src, digits_of(k), out);
        return;
    case CONFIG_TYPE_BOOL:
        buf_puts(out, *(const bool *) src ? "true" : "false");
        return;
    case CONFIG_TYPE_ENUM:
        buf_puts(out, k->names[*(const unsigned *) src]);
        return;
    case CONFIG_TYPE_MAP:
    case CONFIG_TYPE_COUNT:
        break;
    }
    assert(false && "a map is printed pair by pair");
}

void config_value_fini(const struct config_key *k, void *object)
{
    struct config_map *map = at(k, object);

    if (k->type != CONFIG_TYPE_MAP)
        return;
    for (unsigned i = 0; i < map->count; i++) {
        free(map->pairs[i].key);
        free(map->pairs[i].value);
    }
    free(map->pairs);
    map->pairs = NULL;
    map->count = 0;
}
