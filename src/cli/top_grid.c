/* top_grid.c - a picture in cells. Texts come from callers of the daemon: only characters that a terminal shows, and
 * does not obey, get into a cell. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/top.h"

void top_grid_init(struct top_grid *g, unsigned cols, unsigned rows)
{
    g->cols = MIN_OF(MAX_OF(cols, 1U), (unsigned) TOP_COLS_MAX);
    g->rows = MAX_OF(rows, 1U);
    g->cells = xcalloc((size_t) g->cols * g->rows, sizeof(*g->cells));
    for (size_t i = 0; i < (size_t) g->cols * g->rows; i++)
        g->cells[i] = (struct top_cell){.c = ' ', .attr = TOP_PLAIN};
}

void top_grid_fini(struct top_grid *g)
{
    free(g->cells);
    *g = (struct top_grid){.cells = NULL};
}

struct range {
    uint32_t first, last;
};

static bool is_in(const struct range *ranges, size_t n, uint32_t c)
{
    for (size_t i = 0; i < n; i++) {
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    }
    return false;
}

/* Takes no column, or changes the direction or form of others, or is private. */
static bool is_unfit(uint32_t c)
{
    static const struct range ranges[] = {
        {0, 0x1f},          {0x7f, 0x9f},        {0xad, 0xad},     {0x300, 0x36f},
        {0x483, 0x489},     {0x591, 0x5bd},      {0x610, 0x61c},   {0x64b, 0x65f},
        {0x6d6, 0x6ed},     {0x900, 0x902},      {0xe31, 0xe3a},   {0xe47, 0xe4e},
        {0x1160, 0x11ff},   {0x180b, 0x180e},    {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},
        {0x200b, 0x200f},   {0x2028, 0x202e},    {0x2060, 0x206f}, {0x20d0, 0x20ff},
        {0x302a, 0x302f},   {0x3099, 0x309a},    {0xd800, 0xf8ff}, {0xfe00, 0xfe0f},
        {0xfe20, 0xfe2f},   {0xfeff, 0xfeff},    {0xfff0, 0xfffb}, {0x1d165, 0x1d1ad},
        {0x1f3fb, 0x1f3ff}, {0xe0000, 0x10ffff},
    };

    return is_in(ranges, ARRAY_LEN(ranges), c);
}

static bool is_wide(uint32_t c)
{
    static const struct range ranges[] = {
        {0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},   {0xac00, 0xd7a3},
        {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},
        {0x1f300, 0x1f64f}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
    };

    return is_in(ranges, ARRAY_LEN(ranges), c);
}

/* The next character of the text, which is moved behind it. */
static uint32_t next(const char **text)
{
    static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    size_t len = str_utf8_len(*text);
    uint32_t c;

    if (len == 0) { /* no character */
        *text += 1;
        return '?';
    }
    c = (unsigned char) **text & masks[len];
    for (size_t i = 1; i < len; i++)
        c = c << 6 | ((unsigned char) (*text)[i] & 0x3f);
    *text += len;
    return is_unfit(c) ? '?' : c;
}

unsigned top_grid_width(const char *text)
{
    unsigned n = 0;

    while (*text != '\0' && n < TOP_COLS_MAX)
        n += is_wide(next(&text)) ? 2 : 1;
    return n;
}

unsigned top_grid_put(struct top_grid *g, unsigned row, unsigned col, unsigned width,
                      enum top_attr attr, const char *text)
{
    struct top_cell *cells;
    unsigned n = 0;

    if (row >= g->rows || col >= g->cols)
        return 0;
    width = MIN_OF(width, g->cols - col);
    cells = &g->cells[(size_t) row * g->cols + col];
    while (*text != '\0') {
        uint32_t c = next(&text);
        unsigned takes = is_wide(c) ? 2 : 1;

        if (n + takes > width)
            break;
        cells[n] = (struct top_cell){.c = c, .attr = (uint8_t) attr};
        if (takes == 2)
            cells[n + 1] = (struct top_cell){.c = 0, .attr = (uint8_t) attr};
        n += takes;
    }
    return n;
}

void top_grid_fill(struct top_grid *g, unsigned row, enum top_attr attr)
{
    for (unsigned i = 0; row < g->rows && i < g->cols; i++)
        g->cells[(size_t) row * g->cols + i].attr = (uint8_t) attr;
}

static void print_char(uint32_t c, FILE *out)
{
    char text[5] = "";

    if (c < 0x80) {
        text[0] = (char) c;
    } else if (c < 0x800) {
        text[0] = (char) (0xc0 | c >> 6);
        text[1] = (char) (0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        text[0] = (char) (0xe0 | c >> 12);
        text[1] = (char) (0x80 | (c >> 6 & 0x3f));
        text[2] = (char) (0x80 | (c & 0x3f));
    } else {
        text[0] = (char) (0xf0 | c >> 18);
        text[1] = (char) (0x80 | (c >> 12 & 0x3f));
        text[2] = (char) (0x80 | (c >> 6 & 0x3f));
        text[3] = (char) (0x80 | (c & 0x3f));
    }
    (void) fputs(text, out);
}

void top_grid_print(const struct top_grid *g, FILE *out)
{
    for (unsigned row = 0; row < g->rows; row++) {
        const struct top_cell *cells = &g->cells[(size_t) row * g->cols];
        unsigned len = g->cols;

        while (len > 0 && cells[len - 1].c == ' ')
            len--;
        for (unsigned i = 0; i < len; i++) {
            if (cells[i].c != 0)
                print_char(cells[i].c, out);
        }
        (void) fputc('\n', out);
    }
}
