/* top_table.c - rows in columns: the important ones stay where there is little room, and long ones get what is left. */
#include "cli/top.h"

#include "base/str.h"

void top_table_fit(struct top_table *t, const struct top_column *columns, unsigned count,
                   unsigned width)
{
    unsigned used = 0;

    assert(count <= TOP_COLUMNS_MAX);
    *t = (struct top_table){.columns = columns, .count = count};
    for (unsigned rank = 0; rank < count; rank++) {
        for (unsigned i = 0; i < count; i++) {
            unsigned gap = used > 0 ? 1 : 0;

            if (columns[i].rank != rank || used + gap + columns[i].min > width)
                continue;
            t->widths[i] = columns[i].min;
            used += gap + columns[i].min;
        }
    }
    for (unsigned rank = 0; rank < count; rank++) {
        for (unsigned i = 0; i < count; i++) {
            unsigned more = columns[i].max - columns[i].min;

            if (columns[i].rank != rank || t->widths[i] == 0)
                continue;
            more = MIN_OF(more, width - used);
            t->widths[i] += more;
            used += more;
        }
    }
}

void top_table_cell(const struct top_table *t, struct top_grid *g, unsigned row, unsigned column,
                    enum top_attr attr, const char *text)
{
    unsigned col = 0;
    static const char marks[] = "####################";
    unsigned width = t->widths[column];
    unsigned takes;

    if (width == 0)
        return;
    for (unsigned i = 0; i < column; i++)
        col += t->widths[i] > 0 ? t->widths[i] + 1 : 0;
    takes = top_grid_width(text);
    if (t->columns[column].is_right && takes > width)
        text = &marks[20 - MIN_OF(width, 20U)]; /* half a number is a wrong one */
    else if (t->columns[column].is_right)
        col += width - takes;
    (void) top_grid_put(g, row, col, width, attr, text);
}

void top_table_head(const struct top_table *t, struct top_grid *g, unsigned row, int marked,
                    enum top_attr attr)
{
    top_grid_fill(g, row, attr);
    for (unsigned i = 0; i < t->count; i++)
        top_table_cell(t, g, row, i, (int) i == marked ? TOP_STRONG : attr, t->columns[i].title);
}
