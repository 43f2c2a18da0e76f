/* backend.c - what requests to any backend own. A library of its own, below the backends. */
#include "backend/backend.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

void backend_list_fini(struct backend_list *r)
{
    free(r->boxes);
    r->boxes = NULL;
    r->count = 0;
    r->cap = 0;
}

bool backend_list_reserve(struct backend_list *r, size_t count)
{
    size_t cap = MAX_OF(count, 2 * r->cap);
    struct backend_box *grown;

    if (count <= r->cap)
        return true;
    grown = try_realloc(r->boxes, cap * sizeof(*grown));
    if (grown == NULL)
        return false;
    r->boxes = grown;
    r->cap = cap;
    return true;
}

void backend_list_cut(struct backend_list *r, size_t count)
{
    struct backend_box *cut;

    assert(count <= r->count);
    r->count = count;
    cut = count > 0 ? try_realloc(r->boxes, count * sizeof(*cut)) : NULL;
    if (count == 0) {
        backend_list_fini(r);
    } else if (cut != NULL) {
        r->boxes = cut;
        r->cap = count;
    }
}

void backend_report(struct backend_exam *r, enum backend_finding_level level, const char *subject,
                    const char *fmt, ...)
{
    struct backend_finding *f;
    va_list args;

    if (r->count == BACKEND_FINDINGS_MAX)
        return;
    if (r->findings == NULL)
        r->findings = xcalloc(BACKEND_FINDINGS_MAX, sizeof(r->findings[0]));
    f = &r->findings[r->count++];
    f->level = level;
    str_copy_cut(f->subject, sizeof(f->subject), subject);
    va_start(args, fmt);
    (void) vsnprintf(f->text, sizeof(f->text), fmt, args);
    va_end(args);
}

bool backend_program(const char *configured, const char *name, char *dst, size_t cap)
{
    ssize_t len;
    char *end;

    if (!str_is_empty(configured)) {
        str_copy_cut(dst, cap, configured);
        return true;
    }
    len = readlink("/proc/self/exe", dst, cap - 1);
    if (len <= 0)
        return false;
    dst[len] = '\0';
    end = strrchr(dst, '/') + 1;
    str_copy_cut(end, cap - (size_t) (end - dst), name);
    return true;
}

void backend_exam_fini(struct backend_exam *r)
{
    free(r->findings);
    r->findings = NULL;
    r->count = 0;
}
