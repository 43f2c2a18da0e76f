/* print.c - the configuration as YAML: the effective one for `--check --print`, and the documented
 * example. Both walk the table, so a key cannot be missing from either. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "config/schema.h"

enum { WIDTH = 98 };

static const char example_head[] =
    "# The configuration of sandpoold, complete: every key with its default, so that this file is\n"
    "# usable as it is; a shorter one needs only the keys that differ. Check one with\n"
    "# `sandpoold --check --config FILE`; `--print` shows the result.\n"
    "#\n"
    "# - Unknown and repeated keys are errors. Times have their unit in the name. Sizes may be\n"
    "#   written 512, 64k, 1M, 2G.\n"
    "# - In values ${NAME} is that environment variable, ${NAME:-text} has a default, $$ is a\n"
    "#   dollar.\n"
    "# - SIGHUP or `sandpool reload` reads the file again and applies all of it or, if anything\n"
    "#   is wrong or a key with \"reload: no\" differs, nothing.\n"
    "\n";

static bool is_plain(const char *s)
{
    if (!isalnum((unsigned char) s[0]) && s[0] != '/')
        return false;
    if (strcmp(s, "null") == 0)
        return false;
    return str_is_name(s, CONFIG_TEXT_MAX, "_./-");
}

/* One non-ASCII character as an escape (some of them are line breaks in YAML); returns its length.
 * The text is valid UTF-8: config_expand() has checked it. */
static size_t print_escape(const unsigned char *s, struct buf *out)
{
    size_t len = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    uint32_t c = s[0] & (0x7fU >> len);

    for (size_t i = 1; i < len; i++)
        c = c << 6 | (s[i] & 0x3fU);
    buf_printf(out, "\\U%08X", (unsigned) c);
    return len;
}

void config_print_text(const char *text, struct buf *out)
{
    const unsigned char *s = (const unsigned char *) text;

    if (is_plain(text)) {
        buf_puts(out, text);
        return;
    }
    buf_putc(out, '"');
    while (*s != '\0') {
        if (*s >= 0x80) {
            s += print_escape(s, out);
            continue;
        }
        if (*s == '"' || *s == '\\')
            buf_printf(out, "\\%c", *s);
        else if (*s == '$')
            buf_puts(out, "$$");
        else if (iscntrl(*s))
            buf_printf(out, "\\x%02X", (unsigned) *s);
        else
            buf_putc(out, (char) *s);
        s++;
    }
    buf_putc(out, '"');
}

static void indent(struct buf *out, unsigned depth)
{
    buf_printf(out, "%*s", (int) depth * 2, "");
}

/* Sentences as comment lines of at most WIDTH columns. */
static void print_comment(struct buf *out, unsigned depth, const char *text)
{
    size_t column = 0;

    while (*text != '\0') {
        size_t len = strcspn(text, " ");

        if (column == 0 || column + 1 + len > WIDTH) {
            if (column > 0)
                buf_putc(out, '\n');
            indent(out, depth);
            buf_putc(out, '#');
            column = depth * 2 + 1;
        }
        buf_putc(out, ' ');
        buf_append(out, text, len);
        column += 1 + len;
        text += len;
        text += strspn(text, " ");
    }
    buf_putc(out, '\n');
}

static void print_range(const struct config_key *k, struct buf *out)
{
    struct config_key edge = *k;

    switch (k->type) {
    case CONFIG_TYPE_STRING:
    case CONFIG_TYPE_PATH:
    case CONFIG_TYPE_LIST:
        buf_printf(out, "%s of up to %u bytes", k->type == CONFIG_TYPE_LIST ? "list" : "text",
                   (unsigned) k->max);
        return;
    case CONFIG_TYPE_U64:
    case CONFIG_TYPE_SIZE:
    case CONFIG_TYPE_MILLI:
    case CONFIG_TYPE_MICRO:
        edge.offset = 0;
        config_value_print(&edge, &k->min, out);
        buf_puts(out, " to ");
        config_value_print(&edge, &k->max, out);
        return;
    case CONFIG_TYPE_MODE:
        buf_printf(out, "0000 to %04o", (unsigned) k->max);
        return;
    case CONFIG_TYPE_BOOL:
        buf_puts(out, "true or false");
        return;
    case CONFIG_TYPE_ENUM:
        for (unsigned i = 0; k->names[i] != NULL; i++)
            buf_printf(out, "%s%s", i == 0 ? "" : (k->names[i + 1] == NULL ? " or " : ", "),
                       k->names[i]);
        return;
    case CONFIG_TYPE_MAP:
        buf_printf(out, "up to %d names, values of %s%u bytes", CONFIG_MAP_MAX,
                   k->min > 0 ? "16 to " : "up to ", (unsigned) k->max);
        return;
    case CONFIG_TYPE_COUNT:
        break;
    }
    assert(false && "unknown type");
}

static void print_map(const struct config_key *k, const void *object, unsigned depth,
                      struct buf *out)
{
    const struct config_map *map = config_value_map(k, object);

    if (map->count == 0) {
        buf_puts(out, " {}\n");
        return;
    }
    buf_putc(out, '\n');
    for (unsigned i = 0; i < map->count; i++) {
        indent(out, depth + 1);
        config_print_text(map->pairs[i].key, out);
        buf_puts(out, ": ");
        config_print_text((k->flags & CONFIG_SECRET) != 0 ? "(secret)" : map->pairs[i].value, out);
        buf_putc(out, '\n');
    }
}

/* The output may show that there is a secret. */
static void print_scalar(const struct config_key *k, const void *object, struct buf *out)
{
    const char *text = (const char *) object + k->offset;

    if ((k->flags & CONFIG_SECRET) != 0 && !str_is_empty(text))
        config_print_text("(secret)", out);
    else
        config_value_print(k, object, out);
}

static void print_default(const struct config_key *k, const void *object, struct buf *out)
{
    if (k->type == CONFIG_TYPE_MAP)
        buf_puts(out, "none");
    else if (str_is_empty(k->def))
        buf_puts(out, "empty");
    else
        config_value_print(k, object, out);
}

void config_print_facts(const struct config_key *k, const void *object, struct buf *out)
{
    buf_puts(out, "default ");
    print_default(k, object, out);
    buf_puts(out, "; ");
    print_range(k, out);
    buf_printf(out, "; reload: %s", (k->flags & CONFIG_RELOADABLE) != 0 ? "yes" : "no");
}

static void print_help(const struct config_key *k, const void *object, unsigned depth,
                       struct buf *out)
{
    struct buf line;

    print_comment(out, depth, k->help);
    buf_init(&line, 4 * WIDTH);
    buf_putc(&line, '[');
    config_print_facts(k, object, &line);
    buf_putc(&line, ']');
    print_comment(out, depth, buf_str(&line));
    buf_fini(&line);
}

static void print_section(const struct config_key *k, size_t len, unsigned depth, bool want_help,
                          struct buf *out)
{
    const char *name = config_key_name(k);
    size_t path_len = (size_t) (name - k->path) + len;

    if (want_help && depth == 0)
        buf_putc(out, '\n');
    for (const struct config_section *s = config_sections; want_help && s->path != NULL; s++) {
        if (strlen(s->path) == path_len && strncmp(s->path, k->path, path_len) == 0)
            print_comment(out, depth, s->help);
    }
    indent(out, depth);
    buf_append(out, name, len);
    buf_puts(out, ":\n");
}

/* All keys of one object; sections are nested at most once. */
static void print_object(bool is_profile, const void *object, bool want_help, struct buf *out)
{
    unsigned base = is_profile ? 2 : 0;
    const char *section = "";
    size_t section_len = 0;

    for (const struct config_key *k = config_key_next(NULL); k != NULL; k = config_key_next(k)) {
        const char *name = config_key_name(k);
        const char *dot = strchr(name, '.');
        size_t len = dot != NULL ? (size_t) (dot - name) : 0;
        unsigned depth = dot != NULL ? base + 1 : base;

        if (config_key_is_profile(k) != is_profile)
            continue;
        if (len > 0 && (len != section_len || strncmp(name, section, len) != 0))
            print_section(k, len, base, want_help, out);
        section = name;
        section_len = len;
        if (want_help)
            print_help(k, object, depth, out);
        indent(out, depth);
        buf_printf(out, "%s:", dot != NULL ? dot + 1 : name);
        if (k->type == CONFIG_TYPE_MAP) {
            print_map(k, object, depth, out);
        } else {
            buf_putc(out, ' ');
            print_scalar(k, object, out);
            buf_putc(out, '\n');
        }
    }
}

static void print_all(const struct config *c, bool want_help, struct buf *out)
{
    print_object(false, c, want_help, out);
    if (want_help)
        buf_putc(out, '\n');
    for (const struct config_section *s = config_sections; want_help && s->path != NULL; s++) {
        if (strcmp(s->path, "profiles") == 0)
            print_comment(out, 0, s->help);
    }
    buf_puts(out, "profiles:\n");
    for (unsigned i = 0; i < c->profile_count; i++) {
        buf_printf(out, "  %s:\n", c->profiles[i].name);
        print_object(true, &c->profiles[i], want_help, out);
    }
}

void config_print(const struct config *c, struct buf *out)
{
    print_all(c, false, out);
}

void config_print_example(struct buf *out)
{
    struct config *c = config_new();

    (void) config_add_profile(c, "default");
    buf_puts(out, example_head);
    print_all(c, true, out);
    (void) config_free(c);
}
