/* top_view.c - what is looked at: filter, order and selection. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/top.h"

enum { DETAILS_MAX = 64 * 1024 };

void top_view_init(struct top_view *v)
{
    *v = (struct top_view){.page = 1};
    v->order = xcalloc(TOP_BOXES_MAX, sizeof(*v->order));
    buf_init(&v->details, DETAILS_MAX);
}

void top_view_fini(struct top_view *v)
{
    free(v->order);
    buf_fini(&v->details);
}

const char *top_sort_name(enum top_sort sort)
{
    static const char *const names[TOP_SORT_COUNT] = {
        [TOP_BY_AGE] = "AGE",         [TOP_BY_CPU] = "CPU",     [TOP_BY_MEMORY] = "MEMORY",
        [TOP_BY_DISK] = "DISK",       [TOP_BY_IDLE] = "IDLE",   [TOP_BY_STATE] = "STATE",
        [TOP_BY_PROFILE] = "PROFILE", [TOP_BY_OWNER] = "OWNER", [TOP_BY_ID] = "ID",
    };

    return names[sort];
}

/* --- filter and order --- */

static bool matches(const struct top_box *b, const char *filter)
{
    return strstr(b->name, filter) != NULL || strstr(b->state, filter) != NULL ||
           strstr(b->profile, filter) != NULL || strstr(b->user, filter) != NULL ||
           strstr(b->thread, filter) != NULL;
}

/* What is not known comes last. */
static int compare_numbers(double a, double b)
{
    return a > b ? -1 : a < b;
}

static double known(struct top_count c)
{
    return c.is_known ? (double) c.n : -1;
}

static int compare(const struct top_box *a, const struct top_box *b, enum top_sort sort)
{
    int r;

    switch (sort) {
    case TOP_BY_AGE:
        return compare_numbers(a->age_s, b->age_s);
    case TOP_BY_CPU:
        return compare_numbers(a->use.cpu_percent, b->use.cpu_percent);
    case TOP_BY_MEMORY:
        return compare_numbers(known(a->use.memory), known(b->use.memory));
    case TOP_BY_DISK:
        return compare_numbers(known(a->disk), known(b->disk));
    case TOP_BY_IDLE:
        return compare_numbers(a->idle_s, b->idle_s);
    case TOP_BY_STATE:
        return strcmp(a->state, b->state);
    case TOP_BY_PROFILE:
        return strcmp(a->profile, b->profile);
    case TOP_BY_OWNER:
        r = strcmp(a->user, b->user);
        return r != 0 ? r : strcmp(a->thread, b->thread);
    case TOP_BY_ID:
    case TOP_SORT_COUNT:
        break;
    }
    return strcmp(a->name, b->name);
}

struct sorting {
    const struct top *t;
    const struct top_view *v;
};

static int compare_places(const void *a, const void *b, void *ctx)
{
    const struct sorting *s = ctx;
    const struct top_box *x = &s->t->boxes[*(const size_t *) a];
    const struct top_box *y = &s->t->boxes[*(const size_t *) b];
    int r = compare(x, y, s->v->sort);

    if (r == 0)
        r = strcmp(x->key, y->key);
    return s->v->is_reversed ? -r : r;
}

/* The box that was selected stays selected; one that is gone gives its place to the next. */
static void keep_box(struct top_view *v, const struct top *t)
{
    for (size_t i = 0; i < v->count && !str_is_empty(v->key); i++) {
        if (strcmp(t->boxes[v->order[i]].key, v->key) == 0) {
            v->selected = i;
            return;
        }
    }
    v->selected = v->count > 0 ? MIN_OF(v->selected, v->count - 1) : 0;
    str_copy_cut(v->key, sizeof(v->key), v->count > 0 ? t->boxes[v->order[v->selected]].key : "");
}

static void keep_profile(struct top_view *v, const struct top *t)
{
    for (unsigned i = 0; i < t->profile_count && !str_is_empty(v->profile_name); i++) {
        if (strcmp(t->profiles[i].name, v->profile_name) == 0) {
            v->profile = i;
            return;
        }
    }
    v->profile = t->profile_count > 0 ? MIN_OF(v->profile, t->profile_count - 1) : 0;
    str_copy_cut(v->profile_name, sizeof(v->profile_name),
                 t->profile_count > 0 ? t->profiles[v->profile].name : "");
}

void top_view_update(struct top_view *v, struct top *t)
{
    struct sorting s = {.t = t, .v = v};

    v->count = 0;
    for (size_t i = 0; i < t->box_count; i++) {
        if (matches(&t->boxes[i], v->filter))
            v->order[v->count++] = i;
    }
    if (v->count > 0)
        qsort_r(v->order, v->count, sizeof(*v->order), compare_places, &s);
    keep_box(v, t);
    keep_profile(v, t);
}

struct top_box *top_view_next(const struct top_view *v, struct top *t, unsigned rows,
                              uint64_t until_ms)
{
    struct top_box *next = NULL;

    for (size_t i = v->first; i < v->count && i < v->first + rows; i++) {
        struct top_box *b = &t->boxes[v->order[i]];

        if (b->can_be_asked && b->use.asked_ms < until_ms &&
            (next == NULL || b->use.asked_ms < next->use.asked_ms))
            next = b;
    }
    return next;
}
