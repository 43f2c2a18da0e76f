/* top_text.c - numbers as short texts, and the parts of the picture that are no tables. */
#include <math.h>
#include <string.h>

#include "base/str.h"
#include "cli/top.h"

enum { NUMBER = 24 };

void top_print_bytes(struct top_count n, char *dst)
{
    static const char units[] = "BKMGTP";
    double v = (double) n.n;
    unsigned i = 0;

    if (!n.is_known) {
        str_copy_cut(dst, NUMBER, "-");
        return;
    }
    while (v >= 999.5 && i + 2 < sizeof(units)) {
        v /= 1024;
        i++;
    }
    (void) snprintf(dst, NUMBER, i > 0 && v < 9.95 ? "%.1f%c" : "%.0f%c", v, units[i]);
}

void top_print_seconds(double s, char *dst)
{
    if (isinf(s))
        str_copy_cut(dst, NUMBER, "longer");
    else if (!(s >= 0))
        str_copy_cut(dst, NUMBER, "-");
    else if (s < 0.00995)
        (void) snprintf(dst, NUMBER, "%.1fms", s * 1000);
    else if (s < 0.9995)
        (void) snprintf(dst, NUMBER, "%.0fms", s * 1000);
    else if (s < 99.95)
        (void) snprintf(dst, NUMBER, "%.1fs", s);
    else
        duration_print(s, dst);
}

void top_print_percent(double part, char *dst)
{
    if (!(part >= 0))
        str_copy_cut(dst, NUMBER, "-");
    else
        (void) snprintf(dst, NUMBER, part < 9.995 ? "%.1f%%" : "%.0f%%", MIN_OF(part, 999.0) * 100);
}

/* --- the first lines --- */

static uint64_t creating(const struct top *t)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < t->profile_count; i++)
        n += t->profiles[i].starting;
    return n;
}

static void draw_state(const struct top *t, struct top_grid *g, unsigned row)
{
    char text[TOP_CELL_MAX];
    char wait[NUMBER];
    unsigned at;

    top_print_seconds(t->oldest_wait_ms / 1000, wait);
    at = top_grid_put(g, row, 0, g->cols, TOP_STRONG, "sandpool ");
    if (str_is_empty(t->mode)) {
        (void) top_grid_put(g, row, at, g->cols, TOP_BAD, "no answer yet");
        return;
    }
    at += top_grid_put(g, row, at, g->cols, strcmp(t->mode, "running") == 0 ? TOP_GOOD : TOP_WARN,
                       t->mode);
    (void) snprintf(text, sizeof(text), "  boxes %llu/%llu", (unsigned long long) t->total,
                    (unsigned long long) t->max_boxes);
    at += top_grid_put(g, row, at, g->cols - at, TOP_PLAIN, text);
    (void) snprintf(text, sizeof(text), "  waiting %llu (oldest %s)",
                    (unsigned long long) t->waiting, wait);
    if (t->waiting == 0)
        str_copy_cut(text, sizeof(text), "  waiting 0");
    at += top_grid_put(g, row, at, g->cols - at, t->waiting > 0 ? TOP_WARN : TOP_PLAIN, text);
    (void) snprintf(text, sizeof(text), "  store %s", t->store);
    (void) top_grid_put(g, row, at, g->cols - at, strcmp(t->store, "up") == 0 ? TOP_PLAIN : TOP_BAD,
                        text);
}

static void draw_rates(const struct top *t, struct top_grid *g, unsigned row)
{
    char text[TOP_CELL_MAX];
    char recent[NUMBER];
    char all[NUMBER];
    char per_s[NUMBER] = "-";
    char has_free[NUMBER];
    char whole[NUMBER];
    double rate = top_acquires_per_s(t);

    top_print_percent(top_hit_rate(t, true), recent);
    top_print_percent(top_hit_rate(t, false), all);
    top_print_bytes(t->disk_free, has_free);
    top_print_bytes(t->disk_total, whole);
    if (rate >= 0)
        (void) snprintf(per_s, sizeof(per_s), "%.1f/s", rate);
    (void) snprintf(text, sizeof(text),
                    "hit rate %s (last minute %s)  acquires %s  creating %llu  disk %s of %s free",
                    all, recent, per_s, (unsigned long long) creating(t), has_free, whole);
    (void) top_grid_put(g, row, 0, g->cols, TOP_PLAIN, text);
}

void top_draw_summary(const struct top *t, struct top_grid *g, unsigned row, bool has_room)
{
    draw_state(t, g, row);
    if (has_room)
        draw_rates(t, g, row + 1);
}

void top_draw_help(struct top_grid *g)
{
    static const char *const lines[] = {
        "up, down, j, k  move; also Page Up, Page Down, g, G",
        "Tab             boxes or profiles",
        "Enter           all about the selected box",
        "s               a shell in it",
        "d               destroy it; asks first",
        "p               pause or resume the profile; asks first",
        "o, O            sort by the next column; the other way round",
        "/               show boxes with this text; Escape: all",
        "r, Space        ask the daemon now",
        "q               leave",
        "",
        "CPU, memory and I/O are asked for while a box is on the screen. CPU is in percent",
        "of one processor. Disk is known of the largest boxes. Any key goes back.",
    };

    for (unsigned i = 0; i < ARRAY_LEN(lines); i++)
        (void) top_grid_put(g, i, 0, g->cols, TOP_PLAIN, lines[i]);
}
