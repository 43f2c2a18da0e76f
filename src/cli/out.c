/* out.c - text and tables for people. Texts come from callers of the daemon, so control characters
 * are replaced: a thread's name must not be able to write elsewhere on the terminal. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"

enum { GAP = 2 };

static bool is_continuation(char c)
{
    return ((unsigned char) c & 0xc0) == 0x80;
}

/* Columns on the screen: characters, near enough. */
static size_t width_of(const char *s)
{
    size_t n = 0;

    for (; *s != '\0'; s++)
        n += !is_continuation(*s);
    return n;
}

/* Bytes of the control character that begins here; 0: none does. So are U+0080 to U+009F, line ends of Unicode (U+2028, U+2029), and
 * what changes the direction of the text around it (U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069). */
static size_t control_len(const char *text)
{
    const unsigned char *c = (const unsigned char *) text;

    if (c[0] < ' ' || c[0] == 127)
        return 1;
    if (c[0] == 0xc2)
        return c[1] >= 0x80 && c[1] < 0xa0 ? 2 : 0;
    if (c[0] == 0xe2 && c[1] == 0x80)
        return (c[2] >= 0xa8 && c[2] <= 0xae) || c[2] == 0x8e || c[2] == 0x8f ? 3 : 0;
    return c[0] == 0xe2 && c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9 ? 3 : 0;
}

void out_text(FILE *out, const char *text)
{
    while (*text != '\0') {
        size_t len = control_len(text);

        (void) fputc(len > 0 ? '?' : *text, out);
        text += len > 0 ? len : 1;
    }
}

void out_table_init(struct out_table *t, const char *const *head, unsigned columns)
{
    *t = (struct out_table){.columns = columns};
    for (unsigned i = 0; i < columns; i++)
        out_cell(t, head[i]);
}

void out_cell(struct out_table *t, const char *text)
{
    if (t->count == t->cap) {
        t->cap = t->cap > 0 ? t->cap * 2 : 64;
        t->cells = xrealloc(t->cells, t->cap * sizeof(t->cells[0]));
    }
    t->cells[t->count] = xstrdup(text == NULL || str_is_empty(text) ? "-" : text);
    t->count++;
}

void out_cell_u64(struct out_table *t, uint64_t v)
{
    char text[24];

    (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) v);
    out_cell(t, text);
}

static size_t column_width(const struct out_table *t, unsigned column)
{
    size_t widest = 0;

    for (size_t i = column; i < t->count; i += t->columns)
        widest = MAX_OF(widest, width_of(t->cells[i]));
    return widest;
}

void out_table_print(const struct out_table *t, FILE *out)
{
    size_t *widths = xcalloc(t->columns, sizeof(*widths));

    assert(t->count % t->columns == 0);
    for (unsigned i = 0; i < t->columns; i++)
        widths[i] = column_width(t, i);
    for (size_t i = 0; i < t->count; i++) {
        unsigned column = (unsigned) (i % t->columns);

        out_text(out, t->cells[i]);
        if (column + 1 == t->columns)
            (void) fputc('\n', out);
        else
            (void) fprintf(out, "%*s", (int) (widths[column] - width_of(t->cells[i]) + GAP), "");
    }
    free(widths);
}

void out_table_fini(struct out_table *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->cells[i]);
    free(t->cells);
    *t = (struct out_table){0};
}

void out_pair(FILE *out, const char *name, const char *value)
{
    (void) fprintf(out, "%-14s ", name);
    out_text(out, str_is_empty(value) ? "-" : value);
    (void) fputc('\n', out);
}
