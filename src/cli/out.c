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

void out_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char) *text;
        /* U+0080 to U+009F are control characters too; their first byte is 0xc2 */
        bool is_control =
            c < ' ' || c == 127 ||
            (c == 0xc2 && (unsigned char) text[1] >= 0x80 && (unsigned char) text[1] < 0xa0);

        (void) fputc(is_control ? '?' : c, out);
        if (is_control && c == 0xc2)
            text++;
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
