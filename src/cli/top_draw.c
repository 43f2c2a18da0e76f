/* top_draw.c - the picture of `sandpool top`: what is known, as far as it fits. */
#include <string.h>

#include "base/str.h"
#include "cli/top.h"

enum { NUMBER = 24, ROOMY = 16, TALL = 24 };

/* Rows from the top; 0 rows of a part: it is not shown. */
struct layout {
    bool has_trouble;
    bool has_rates;
    unsigned gap;      /* between parts */
    unsigned profiles; /* each with a line above, if has_heads */
    unsigned sources;
    unsigned boxes;
    bool has_heads;
};

static unsigned sources_seen(const struct top *t)
{
    unsigned n = 0;

    for (unsigned i = 0; i < t->acquires.count; i++) {
        struct top_acquires a;

        top_acquires_of(t, i, false, &a);
        if (a.count > 0)
            n++;
    }
    return n;
}

static const char *trouble_of(const struct top *t)
{
    return !str_is_empty(t->away) ? t->away : t->trouble;
}

/* `rows` 0: as many as it takes. */
static unsigned plan(const struct top *t, const struct top_view *v, unsigned rows,
                     struct layout *ret)
{
    unsigned used;

    *ret = (struct layout){.has_trouble = !str_is_empty(trouble_of(t)),
                           .has_rates = rows == 0 || rows >= 8,
                           .gap = rows == 0 || rows >= ROOMY ? 1 : 0,
                           .has_heads = rows == 0 || rows >= 8};
    used = 1U + ret->has_trouble + ret->has_rates;
    if (rows > 0)
        used++; /* the last line */
    ret->sources = rows == 0 || rows >= TALL ? sources_seen(t) : 0;
    used += ret->sources > 0 ? ret->gap + 1 + ret->sources : 0;
    used += 2 * ret->gap + (ret->has_heads ? 2 : 0);
    if (rows == 0) {
        ret->profiles = t->profile_count;
        ret->boxes = (unsigned) v->count;
        return used + ret->profiles + ret->boxes;
    }
    ret->profiles = MIN_OF(t->profile_count, MAX_OF((rows - used) / 3, 1U));
    ret->boxes = rows - MIN_OF(used + ret->profiles, rows);
    return rows;
}

/* --- profiles --- */

enum {
    P_NAME,
    P_MODE,
    P_BLANK,
    P_LEASED,
    P_PARKED,
    P_STARTING,
    P_FAILING,
    P_WAITING,
    P_OLDEST,
    P_WARM,
    P_STATE,
    P_COUNT
};

static const struct top_column profile_columns[P_COUNT] = {
    [P_NAME] = {"PROFILE", 8, 20, 0, false},     [P_MODE] = {"MODE", 8, 8, 8, false},
    [P_BLANK] = {"BLANK", 7, 9, 1, true},        [P_LEASED] = {"LEASED", 6, 6, 2, true},
    [P_PARKED] = {"PARKED", 6, 6, 5, true},      [P_STARTING] = {"START", 5, 6, 6, true},
    [P_FAILING] = {"FAIL", 5, 5, 4, true},       [P_WAITING] = {"WAIT", 5, 5, 3, true},
    [P_OLDEST] = {"OLDEST", 6, 6, 7, true},      [P_WARM] = {"HITS", 6, 6, 9, true},
    [P_STATE] = {"BREAKER", 12, 300, 10, false},
};

static void put_u64(const struct top_table *table, struct top_grid *g, unsigned row,
                    unsigned column, enum top_attr attr, uint64_t n)
{
    char text[NUMBER];

    (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) n);
    top_table_cell(table, g, row, column, attr, text);
}

static void print_breaker(const struct top_profile *p, char text[TOP_CELL_MAX])
{
    char in[NUMBER] = "";
    const char *state = p->is_open ? "open" : p->is_ready ? "closed" : "not ready";

    if (p->retry_ms > 0)
        top_print_seconds(p->retry_ms / 1000, in);
    (void) snprintf(text, TOP_CELL_MAX, "%s%s%s%s%s", state,
                    p->retry_ms > 0 ? ", next try in " : "", in,
                    str_is_empty(p->reason) ? "" : ": ", p->reason);
    if (str_is_empty(p->reason) && p->leaking > 0) {
        size_t len = strlen(text);

        (void) snprintf(text + len, TOP_CELL_MAX - len, "; %llu leases leak",
                        (unsigned long long) p->leaking);
    }
}

static void draw_profile(const struct top_table *table, struct top_grid *g, unsigned row,
                         const struct top_profile *p, bool is_chosen)
{
    enum top_attr attr = is_chosen ? TOP_CHOSEN : TOP_PLAIN;
    enum top_attr bad = is_chosen ? TOP_CHOSEN : TOP_BAD;
    enum top_attr warn = is_chosen ? TOP_CHOSEN : TOP_WARN;
    bool is_running = str_is_empty(p->mode) || strcmp(p->mode, "running") == 0;
    uint64_t all = p->warm_hits + p->cold_starts;
    char text[TOP_CELL_MAX];

    top_grid_fill(g, row, attr);
    top_table_cell(table, g, row, P_NAME, attr, p->name);
    top_table_cell(table, g, row, P_MODE, is_running ? attr : warn,
                   str_is_empty(p->mode) ? "-" : p->mode);
    (void) snprintf(text, sizeof(text), "%llu/%llu", (unsigned long long) p->blank,
                    (unsigned long long) p->target);
    top_table_cell(table, g, row, P_BLANK, attr, text);
    put_u64(table, g, row, P_LEASED, attr, p->leased);
    put_u64(table, g, row, P_PARKED, attr, p->parked);
    put_u64(table, g, row, P_STARTING, attr, p->starting);
    put_u64(table, g, row, P_FAILING, p->failures > 0 ? bad : attr, p->failures);
    put_u64(table, g, row, P_WAITING, p->waiting > 0 ? warn : attr, p->waiting);
    top_print_seconds(p->waiting > 0 ? p->oldest_wait_ms / 1000 : -1, text);
    top_table_cell(table, g, row, P_OLDEST, p->waiting > 0 ? warn : attr, text);
    top_print_percent(all > 0 ? (double) p->warm_hits / (double) all : -1, text);
    top_table_cell(table, g, row, P_WARM, attr, text);
    print_breaker(p, text);
    top_table_cell(table, g, row, P_STATE, p->is_open || !p->is_ready ? bad : attr, text);
}

/* The first row of a list that shows the selected one. */
static size_t scroll(size_t first, size_t selected, size_t rows, size_t count)
{
    if (first + rows > count)
        first = count > rows ? count - rows : 0;
    if (selected < first)
        return selected;
    return rows > 0 && selected >= first + rows ? selected - rows + 1 : first;
}

static unsigned draw_profiles(const struct top *t, struct top_view *v, struct top_grid *g,
                              unsigned row, const struct layout *l, bool is_live)
{
    struct top_table table;

    top_table_fit(&table, profile_columns, P_COUNT, g->cols);
    if (l->has_heads)
        top_table_head(&table, g, row++, -1, TOP_HEAD);
    v->first_profile =
        (unsigned) scroll(v->first_profile, v->profile, l->profiles, t->profile_count);
    for (unsigned i = 0; i < l->profiles; i++) {
        unsigned n = v->first_profile + i;

        draw_profile(&table, g, row++, &t->profiles[n],
                     is_live && v->pane == TOP_PROFILES && n == v->profile);
    }
    return row;
}

/* --- acquires --- */

static const struct top_column source_columns[] = {
    {"ACQUIRES", 10, 12, 0, false}, {"COUNT", 9, 9, 3, true},         {"P50", 7, 7, 1, true},
    {"P99", 7, 7, 2, true},         {"LAST MINUTE", 11, 11, 4, true}, {"P50", 7, 7, 5, true},
    {"P99", 7, 7, 6, true},
};

static unsigned draw_sources(const struct top *t, struct top_grid *g, unsigned row)
{
    struct top_table table;
    char text[NUMBER];

    top_table_fit(&table, source_columns, ARRAY_LEN(source_columns), g->cols);
    top_table_head(&table, g, row++, -1, TOP_HEAD);
    for (unsigned i = 0; i < t->acquires.count; i++) {
        struct top_acquires all;

        top_acquires_of(t, i, false, &all);
        if (all.count == 0)
            continue;
        top_table_cell(&table, g, row, 0, TOP_PLAIN, t->acquires.sources[i].name);
        for (unsigned k = 0; k < 2; k++) {
            struct top_acquires a;

            top_acquires_of(t, i, k == 1, &a);
            put_u64(&table, g, row, 1 + 3 * k, TOP_PLAIN, a.count);
            top_print_seconds(a.p50_s, text);
            top_table_cell(&table, g, row, 2 + 3 * k, TOP_PLAIN, text);
            top_print_seconds(a.p99_s, text);
            top_table_cell(&table, g, row, 3 + 3 * k, TOP_PLAIN, text);
        }
        row++;
    }
    return row;
}

/* --- boxes --- */

enum { B_ID, B_STATE, B_PROFILE, B_OWNER, B_AGE, B_IDLE, B_CPU, B_MEMORY, B_IO, B_DISK, B_COUNT };

static const struct top_column box_columns[B_COUNT] = {
    [B_ID] = {"ID", 16, 26, 0, false},          [B_STATE] = {"STATE", 8, 13, 1, false},
    [B_PROFILE] = {"PROFILE", 8, 16, 5, false}, [B_OWNER] = {"OWNER", 12, 60, 4, false},
    [B_AGE] = {"AGE", 4, 5, 6, true},           [B_IDLE] = {"IDLE", 4, 5, 7, true},
    [B_CPU] = {"CPU", 6, 6, 2, true},           [B_MEMORY] = {"MEMORY", 6, 6, 3, true},
    [B_IO] = {"I/O/s", 6, 6, 9, true},          [B_DISK] = {"DISK", 5, 6, 8, true},
};

static int marked_column(enum top_sort sort)
{
    static const int columns[TOP_SORT_COUNT] = {
        [TOP_BY_AGE] = B_AGE,         [TOP_BY_CPU] = B_CPU,     [TOP_BY_MEMORY] = B_MEMORY,
        [TOP_BY_DISK] = B_DISK,       [TOP_BY_IDLE] = B_IDLE,   [TOP_BY_STATE] = B_STATE,
        [TOP_BY_PROFILE] = B_PROFILE, [TOP_BY_OWNER] = B_OWNER, [TOP_BY_ID] = B_ID,
    };

    return columns[sort];
}

static void put_age(const struct top_table *table, struct top_grid *g, unsigned row,
                    unsigned column, enum top_attr attr, double s)
{
    char text[NUMBER] = "-";

    if (s >= 0)
        duration_print(s, text);
    top_table_cell(table, g, row, column, attr, text);
}

static void draw_box(const struct top_table *table, struct top_grid *g, unsigned row,
                     const struct top_box *b, bool is_chosen)
{
    enum top_attr attr = is_chosen ? TOP_CHOSEN : TOP_PLAIN;
    struct top_count io = {.is_known = b->use.io_per_s >= 0};
    char text[TOP_CELL_MAX];

    top_grid_fill(g, row, attr);
    top_table_cell(table, g, row, B_ID, attr, b->name);
    top_table_cell(table, g, row, B_STATE, is_chosen || !b->is_leaking ? attr : TOP_WARN, b->state);
    top_table_cell(table, g, row, B_PROFILE, attr, b->profile);
    (void) snprintf(text, sizeof(text), "%s%s%s", b->user,
                    str_is_empty(b->user) && str_is_empty(b->thread) ? "-" : "/", b->thread);
    top_table_cell(table, g, row, B_OWNER, attr, text);
    put_age(table, g, row, B_AGE, attr, b->age_s);
    put_age(table, g, row, B_IDLE, attr, b->idle_s);
    top_print_percent(b->use.cpu_percent / 100, text);
    top_table_cell(table, g, row, B_CPU, attr, text);
    top_print_bytes(b->use.memory, text);
    top_table_cell(table, g, row, B_MEMORY, attr, text);
    io.n = io.is_known ? (uint64_t) MIN_OF(b->use.io_per_s, 1e15) : 0;
    top_print_bytes(io, text);
    top_table_cell(table, g, row, B_IO, attr, text);
    top_print_bytes(b->disk, text);
    top_table_cell(table, g, row, B_DISK, attr, text);
}

static void draw_boxes(const struct top *t, struct top_view *v, struct top_grid *g, unsigned row,
                       const struct layout *l, bool is_live)
{
    struct top_table table;

    top_table_fit(&table, box_columns, B_COUNT, g->cols);
    if (l->has_heads)
        top_table_head(&table, g, row++, is_live ? marked_column(v->sort) : -1, TOP_HEAD);
    v->page = MAX_OF(l->boxes, 1U);
    v->first = scroll(v->first, v->selected, l->boxes, v->count);
    for (size_t i = v->first; i < v->count && i < v->first + l->boxes; i++)
        draw_box(&table, g, row++, &t->boxes[v->order[i]],
                 is_live && v->pane == TOP_BOXES && i == v->selected);
}

static void draw_lists(const struct top *t, struct top_view *v, struct top_grid *g,
                       const struct layout *l, bool is_live)
{
    unsigned row = 1;

    top_draw_summary(t, g, 0, l->has_rates);
    row += l->has_rates ? 1 : 0;
    if (l->has_trouble)
        (void) top_grid_put(g, row++, 0, g->cols, TOP_BAD, trouble_of(t));
    row = draw_profiles(t, v, g, row + l->gap, l, is_live);
    if (l->sources > 0)
        row = draw_sources(t, g, row + l->gap);
    draw_boxes(t, v, g, row + l->gap, l, is_live);
}

/* --- the rest of the screen --- */

static void draw_details(struct top_view *v, struct top_grid *g)
{
    const char *text = buf_str(&v->details);
    char line[TOP_CELL_MAX];
    size_t lines = 0;
    size_t rows = g->rows - 2;
    size_t n = 0;

    for (const char *s = text; *s != '\0'; s++)
        lines += *s == '\n' ? 1 : 0;
    v->page = (unsigned) MAX_OF(rows, (size_t) 1);
    v->first_line = MIN_OF(v->first_line, lines > rows ? lines - rows : 0);
    (void) top_grid_put(g, 0, 0, g->cols, TOP_STRONG, v->target);
    for (; *text != '\0'; text += strcspn(text, "\n"), text += *text == '\n', n++) {
        size_t len = MIN_OF(strcspn(text, "\n"), sizeof(line) - 1);

        if (n < v->first_line || n - v->first_line >= rows)
            continue;
        memcpy(line, text, len);
        line[len] = '\0';
        (void) top_grid_put(g, (unsigned) (1 + n - v->first_line), 0, g->cols, TOP_PLAIN, line);
    }
}

static void print_foot(const struct top *t, const struct top_view *v, char *text, size_t cap)
{
    static const char *const what[] = {
        [TOP_DESTROY] = "Destroy", [TOP_PAUSE] = "Pause profile", [TOP_RESUME] = "Resume profile"};

    if (v->mode == TOP_CONFIRM)
        (void) snprintf(text, cap, "%s %s? y/n", what[v->asked], v->target);
    else if (v->mode == TOP_FILTER)
        (void) snprintf(text, cap, "/%s_", v->filter);
    else if (!str_is_empty(v->message))
        str_copy_cut(text, cap, v->message);
    else if (v->mode == TOP_DETAILS)
        str_copy_cut(text, cap, "q back  s shell  d destroy");
    else
        (void) snprintf(text, cap, "? help  q quit  by %s%s%s%s  %zu of %llu boxes%s",
                        top_sort_name(v->sort), v->is_reversed ? " reversed" : "",
                        str_is_empty(v->filter) ? "" : "  with ", v->filter, v->count,
                        (unsigned long long) MAX_OF(t->total, t->box_count),
                        t->has_more ? " (the rest is not listed)" : "");
}

void top_draw(const struct top *t, struct top_view *v, struct top_grid *g)
{
    struct layout l;
    char text[TOP_CELL_MAX];

    if (g->cols < TOP_COLS_MIN || g->rows < TOP_ROWS_MIN) {
        (void) top_grid_put(g, 0, 0, g->cols, TOP_BAD, "too small: 20 x 5 is the least");
        return;
    }
    if (v->mode == TOP_HELP) {
        top_draw_help(g);
        return;
    }
    if (v->mode == TOP_DETAILS) {
        draw_details(v, g);
    } else {
        (void) plan(t, v, g->rows, &l);
        draw_lists(t, v, g, &l, true);
    }
    print_foot(t, v, text, sizeof(text));
    (void) top_grid_put(g, g->rows - 1, 0, g->cols, v->mode == TOP_CONFIRM ? TOP_WARN : TOP_FAINT,
                        text);
}

void top_draw_all(const struct top *t, struct top_view *v, unsigned cols, struct top_grid *ret)
{
    struct layout l;
    unsigned rows = plan(t, v, 0, &l);

    top_grid_init(ret, MAX_OF(cols, (unsigned) TOP_COLS_MIN), rows);
    draw_lists(t, v, ret, &l, false);
}
