/* find.c - names below a directory: walks, keeps what is wanted up to a limit, and sorts it at the end. */
#include "agent/file/find.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/file/walk.h"
#include "base/mem.h"

enum { FOUND_STEP = 256 };

const char *file_extension(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot != NULL && dot != name ? dot : "";
}

static bool is_type_wanted(const struct file_find *f, const char *name)
{
    const char *extension = file_extension(name);

    for (size_t i = 0; i < f->type_count; i++) {
        const char *type = f->types[i];

        if (strcasecmp(type[0] == '.' ? extension : extension + (extension[0] == '.'), type) == 0)
            return true;
    }
    return f->type_count == 0;
}

static void add(struct file_find *f, const struct file_entry *e)
{
    struct file_found *n;
    struct stat st;

    if (f->count == f->cap) {
        f->cap += MAX_OF(f->cap, (size_t) FOUND_STEP);
        f->found = xrealloc(f->found, f->cap * sizeof(*f->found));
    }
    n = &f->found[f->count++];
    memset(n, 0, sizeof(*n));
    n->path = xstrdup(e->full);
    n->name = strlen(e->full) - strlen(e->name);
    n->is_dir = e->is_dir;
    f->bytes += strlen(e->full);
    if (f->want_stat && file_entry_stat(e, &st)) {
        n->has_stat = true;
        n->size = (uint64_t) st.st_size;
        n->time_ms = st.st_mtim.tv_sec < 0 ? 0
                                           : (uint64_t) st.st_mtim.tv_sec * 1000 +
                                                 (uint64_t) st.st_mtim.tv_nsec / NS_PER_MS;
        n->mode = st.st_mode & 07777;
    }
}

static enum file_walk_next visit(void *ctx, const struct file_entry *e)
{
    struct file_find *f = ctx;

    if ((e->is_dir && !f->want_dirs) || (!e->is_dir && !is_type_wanted(f, e->name)) ||
        (f->glob != NULL && !glob_match(f->glob, e->rel)))
        return FILE_WALK_ON;
    if (f->count >= f->max || f->bytes > FILE_RESULT_MAX) {
        f->is_truncated = true;
        return FILE_WALK_STOP;
    }
    add(f, e);
    return FILE_WALK_ON;
}

int file_find_run(struct file_find *f, uint64_t max_depth, bool show_hidden)
{
    struct file_walk w = {.job = f->job,
                          .max_depth = (unsigned) MIN_OF(max_depth, (uint64_t) FILE_WALK_DEPTH + 1),
                          .show_hidden = show_hidden,
                          .visit = visit,
                          .ctx = f};
    int rc = file_walk_run(&w);

    f->is_truncated = f->is_truncated || w.is_truncated;
    return rc;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct file_found *) a)->path, ((const struct file_found *) b)->path);
}

static int compare_sizes(const void *a, const void *b)
{
    uint64_t x = ((const struct file_found *) a)->size;
    uint64_t y = ((const struct file_found *) b)->size;

    return x != y ? (x > y) - (x < y) : compare_names(a, b);
}

static int compare_times(const void *a, const void *b)
{
    uint64_t x = ((const struct file_found *) a)->time_ms;
    uint64_t y = ((const struct file_found *) b)->time_ms;

    return x != y ? (x > y) - (x < y) : compare_names(a, b);
}

void file_find_sort(struct file_find *f, enum file_order order, bool is_descending)
{
    static int (*const compare[FILE_ORDER_COUNT])(const void *, const void *) = {
        [FILE_ORDER_NAME] = compare_names,
        [FILE_ORDER_SIZE] = compare_sizes,
        [FILE_ORDER_TIME] = compare_times};

    if (f->count == 0)
        return;
    qsort(f->found, f->count, sizeof(*f->found), compare[order]);
    for (size_t i = 0; is_descending && i < f->count / 2; i++) {
        struct file_found t = f->found[i];

        f->found[i] = f->found[f->count - 1 - i];
        f->found[f->count - 1 - i] = t;
    }
}

void file_find_fini(struct file_find *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->found[i].path);
    free(f->found);
}
