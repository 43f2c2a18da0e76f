/* grep.c - the matching lines below a directory. Hits are kept separately until the end, because
 * the lines after one may be hits themselves. */
#include "agent/file/grep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/plain.h"
#include "agent/file/text.h"
#include "agent/file/walk.h"
#include "base/cleanup.h"
#include "base/mem.h"

enum {
    BINARY_LOOK = 8 * 1024,
    HITS_STEP = 256,
    WHOLE_STEP = 64 * 1024,
    WHOLE_MAX = 8 * 1024 * 1024 /* of a file that is searched over its lines */
};

static void print_line(struct buf *out, const char *line, size_t len)
{
    if (out->len > 0)
        buf_putc(out, ',');
    file_print_text(out, line, MIN_OF(len, (size_t) FILE_LINE_SHOWN));
}

/* The last lines seen, for the context before a hit. */
struct ring {
    struct buf lines[GREP_CONTEXT_MAX];
    uint64_t count;
};

static void ring_add(struct ring *r, uint64_t keep, const char *line, size_t len)
{
    struct buf *b;

    if (keep == 0)
        return;
    b = &r->lines[r->count++ % keep];
    buf_reset(b);
    b->max = 6 * (size_t) FILE_LINE_SHOWN + 16;
    print_line(b, line, len);
}

static void ring_print(const struct ring *r, uint64_t keep, struct buf *out)
{
    uint64_t n = MIN_OF(r->count, keep);

    for (uint64_t i = r->count - n; i < r->count; i++) {
        if (out->len > 0)
            buf_putc(out, ',');
        buf_puts(out, buf_str(&r->lines[i % keep]));
    }
}

static void ring_fini(struct ring *r)
{
    for (size_t i = 0; i < ARRAY_LEN(r->lines); i++)
        buf_fini(&r->lines[i]);
}

static void add_hit(struct file_grep *g, const char *file, uint64_t number, const char *line,
                    size_t len, const struct ring *ring)
{
    struct file_hit *h;

    if (g->count == g->cap) {
        g->cap += HITS_STEP;
        g->hits = xrealloc(g->hits, g->cap * sizeof(*g->hits));
    }
    h = &g->hits[g->count++];
    memset(h, 0, sizeof(*h));
    h->file = xstrdup(file);
    h->line = number;
    h->after_left = g->req.after;
    buf_init(&h->text, FILE_RESULT_MAX);
    buf_init(&h->before, FILE_RESULT_MAX);
    buf_init(&h->after, FILE_RESULT_MAX);
    print_line(&h->text, line, len);
    ring_print(ring, g->req.before, &h->before);
    g->bytes += sizeof(*h) + strlen(file) + h->text.len + h->before.len;
}

/* Adds the line to the hits that still need lines after them. */
static void add_after(struct file_grep *g, const char *line, size_t len)
{
    while (g->open < g->count && g->hits[g->open].after_left == 0)
        g->open++;
    for (size_t i = g->open; i < g->count; i++) {
        struct file_hit *h = &g->hits[i];
        size_t was = h->after.len;

        if (h->after_left == 0)
            continue;
        h->after_left--;
        print_line(&h->after, line, len);
        g->bytes += h->after.len - was;
    }
}

static bool is_full(const struct file_grep *g)
{
    return g->count >= g->req.max_results || g->bytes > FILE_RESULT_MAX;
}

/* Full, and no hit needs more lines: there is, or may be, one more match than fits in the
 * answer. */
static bool wants_more(const struct file_grep *g)
{
    for (size_t i = g->open; i < g->count; i++) {
        if (g->hits[i].after_left > 0 && g->bytes <= FILE_RESULT_MAX)
            return true;
    }
    return !is_full(g);
}

static bool is_binary(int fd)
{
    char head[BINARY_LOOK];
    ssize_t n = pread(fd, head, sizeof(head), 0);

    return n > 0 && memchr(head, '\0', (size_t) n) != NULL;
}

/* One line; false when nothing more can be taken. */
static bool take_line(struct file_grep *g, const char *file, uint64_t number, const char *line,
                      size_t len, struct ring *ring, bool *ret_has_hit)
{
    bool is_hit = file_regex_match(&g->regex, line, len) != g->req.want_inverse;

    add_after(g, line, len);
    if (is_hit && is_full(g)) {
        g->is_truncated = true;
    } else if (is_hit && g->skipped < g->req.offset) {
        g->skipped++;
    } else if (is_hit) {
        add_hit(g, file, number, line, len, ring);
        *ret_has_hit = true;
    }
    ring_add(ring, g->req.before, line, len);
    return wants_more(g) || !g->is_truncated;
}

static void search_fd(struct file_grep *g, int fd, const char *file)
{
    struct ring ring = {.count = 0};
    struct file_lines lines;
    bool has_hit = false;

    file_lines_init(&lines, fd);
    for (uint64_t number = 1;; number++) {
        size_t len;
        const char *line = file_lines_next(&lines, &len);

        if (line == NULL)
            break;
        if (file_job_is_over(g->job)) {
            g->is_truncated = true;
            break;
        }
        if (!take_line(g, file, number, line, len, &ring, &has_hit))
            break;
    }
    for (size_t i = g->open; i < g->count; i++)
        g->hits[i].after_left = 0; /* the file is over */
    g->files_searched++;
    g->files_matched += has_hit;
    file_lines_fini(&lines);
    ring_fini(&ring);
}

/* --- matches over several lines --- */

/* A whole file, and where its lines start; starts[count] is its end. */
struct whole {
    struct buf text;
    size_t *starts;
    size_t count;
};

static bool read_whole(struct whole *w, int fd)
{
    const char *end;
    size_t lines = 1;

    for (;;) {
        ssize_t n;

        if (!buf_reserve(&w->text, WHOLE_STEP))
            return false;
        n = read(fd, w->text.data + w->text.len, WHOLE_STEP);
        if (n <= 0)
            break;
        w->text.len += (size_t) n;
        w->text.data[w->text.len] = '\0';
    }
    end = buf_str(&w->text) + w->text.len;
    for (const char *p = buf_str(&w->text); p < end; p++)
        lines += *p == '\n';
    w->starts = xcalloc(lines + 1, sizeof(*w->starts));
    for (const char *p = buf_str(&w->text); p < end; w->count++) {
        const char *nl = memchr(p, '\n', (size_t) (end - p));

        w->starts[w->count] = (size_t) (p - buf_str(&w->text));
        p = nl != NULL ? nl + 1 : end;
    }
    w->starts[w->count] = w->text.len;
    return true;
}

static bool has_match(struct file_grep *g, const struct whole *w, size_t first, size_t end)
{
    size_t len = MIN_OF(w->starts[end] - w->starts[first], (size_t) FILE_LINE_MAX);

    return file_regex_match(&g->regex, buf_str(&w->text) + w->starts[first], len);
}

/* The fewest lines in [*first, *end), which have a match, that still have it. More lines do not
 * remove a match, so both ends can be found by binary search. */
static void narrow(struct file_grep *g, const struct whole *w, size_t *first, size_t *end)
{
    size_t low = *first + 1;
    size_t high;

    while (low < *end) {
        size_t mid = low + (*end - low) / 2;

        if (has_match(g, w, *first, mid))
            *end = mid;
        else
            low = mid + 1;
    }
    for (high = *end; high - *first > 1;) {
        size_t mid = *first + (high - *first) / 2;

        if (has_match(g, w, mid, *end))
            *first = mid;
        else
            high = mid;
    }
}

static void print_some(struct buf *out, const struct whole *w, size_t first, size_t end)
{
    for (size_t i = first; i < MIN_OF(end, w->count); i++) {
        const char *line = buf_str(&w->text) + w->starts[i];
        size_t len = w->starts[i + 1] - w->starts[i];

        print_line(out, line, len > 0 && line[len - 1] == '\n' ? len - 1 : len);
    }
}

/* False when nothing more can be taken. */
static bool take_lines(struct file_grep *g, const char *file, const struct whole *w, size_t first,
                       size_t end)
{
    const struct ring none = {.count = 0};
    const char *text = buf_str(&w->text) + w->starts[first];
    size_t len = w->starts[end] - w->starts[first];
    struct file_hit *h;

    if (is_full(g)) {
        g->is_truncated = true;
        return false;
    }
    if (g->skipped < g->req.offset) {
        g->skipped++;
        return true;
    }
    add_hit(g, file, first + 1, text, len > 0 && text[len - 1] == '\n' ? len - 1 : len, &none);
    h = &g->hits[g->count - 1];
    h->after_left = 0;
    print_some(&h->before, w, first > g->req.before ? first - g->req.before : 0, first);
    print_some(&h->after, w, end, end + g->req.after);
    g->bytes += h->before.len + h->after.len;
    return true;
}

/* Windows of FILE_LINE_MAX, each overlapping half of the previous one: a match of half that size is
 * always found, and the cost of one search is bounded as for lines. */
static void search_lines(struct file_grep *g, const char *file, const struct whole *w)
{
    size_t first = 0;
    size_t hits = g->count;

    while (first < w->count && !g->is_truncated) {
        size_t end = first + 1;
        size_t next = first + 1;

        while (end < w->count && w->starts[end + 1] - w->starts[first] <= FILE_LINE_MAX)
            end++;
        while (next < end && w->starts[next] - w->starts[first] < FILE_LINE_MAX / 2)
            next++;
        if (file_job_is_over(g->job)) {
            g->is_truncated = true;
        } else if (has_match(g, w, first, end)) {
            narrow(g, w, &first, &end);
            (void) take_lines(g, file, w, first, end); /* it says so when it is the last */
            first = end;
        } else {
            first = end == w->count ? end : next;
        }
    }
    g->files_searched++;
    g->files_matched += g->count > hits;
}

static void search_whole(struct file_grep *g, int fd, const char *file)
{
    struct whole w = {.count = 0};

    buf_init(&w.text, WHOLE_MAX);
    if (read_whole(&w, fd))
        search_lines(g, file, &w);
    else
        g->files_skipped++;
    buf_fini(&w.text);
    free(w.starts);
}

static void search_file(struct file_grep *g, int dir_fd, const char *name, const char *file)
{
    struct stat st;
    AUTO_CLOSE int fd = plain_open_file(dir_fd, name, O_RDONLY, 0, &st);

    if (fd < 0 || (uint64_t) st.st_size > g->req.max_file_size || is_binary(fd)) {
        g->files_skipped++;
        return;
    }
    if (g->req.is_multiline)
        search_whole(g, fd, file);
    else
        search_fd(g, fd, file);
}

static enum file_walk_next visit(void *ctx, const struct file_entry *e)
{
    struct file_grep *g = ctx;

    if (grep_request_excludes(&g->req, e->rel, e->name))
        return FILE_WALK_PRUNE;
    if (e->is_dir)
        return FILE_WALK_ON;
    if (e->is_link || !grep_request_includes(&g->req, e->rel, e->name))
        return FILE_WALK_ON; /* the target of a link is found where it is, or is outside */
    search_file(g, e->dir_fd, e->name, e->full);
    return g->is_truncated ? FILE_WALK_STOP : FILE_WALK_ON;
}

static int walk(struct file_grep *g)
{
    struct file_walk w = {.job = g->job,
                          .max_depth = g->req.is_recursive ? FILE_WALK_DEPTH + 1 : 1,
                          .show_hidden = true,
                          .visit = visit,
                          .ctx = g};
    struct stat st;
    int rc;

    if (plain_stat(AT_FDCWD, g->job->path, &st) != 0)
        return file_job_sys(g->job, errno);
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return file_job_sys(g->job, ENOTSUP);
    if (!S_ISDIR(st.st_mode)) {
        search_file(g, AT_FDCWD, g->job->path, g->job->path);
        return SP_OK;
    }
    rc = file_walk_run(&w);
    g->is_truncated = g->is_truncated || w.is_truncated;
    return rc;
}

static int compare_hits(const void *a, const void *b)
{
    const struct file_hit *x = a;
    const struct file_hit *y = b;
    int order = strcmp(x->file, y->file);

    return order != 0 ? order : (x->line > y->line) - (x->line < y->line);
}

int file_grep_run(struct file_grep *g)
{
    int rc = file_regex_init(&g->regex, g->req.pattern, g->req.regex_flags, &g->job->err);

    if (rc != SP_OK)
        return rc;
    rc = walk(g);
    file_regex_fini(&g->regex);
    if (rc == SP_OK && g->count > 0)
        qsort(g->hits, g->count, sizeof(*g->hits), compare_hits);
    return rc;
}

void file_grep_fini(struct file_grep *g)
{
    for (size_t i = 0; i < g->count; i++) {
        free(g->hits[i].file);
        buf_fini(&g->hits[i].text);
        buf_fini(&g->hits[i].before);
        buf_fini(&g->hits[i].after);
    }
    free(g->hits);
    grep_request_fini(&g->req);
}
