/* problem.c - collects the problems of a file into one error. The first problem is always complete,
 * others follow as far as they fit: users fix the first one first. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config/schema.h"

enum {
    FILE_NAME_MAX = 60, /* of the error's 240 bytes; the end of a path is the most useful part */
    ROOM_FOR_COUNT = 20,
};

static const char *tail_of(const char *file)
{
    size_t len = strlen(file);

    return len > FILE_NAME_MAX ? file + (len - FILE_NAME_MAX) : file;
}

void config_problem(struct config_problems *p, unsigned line, unsigned column, const char *fmt, ...)
{
    char text[sizeof(p->err->msg)];
    va_list ap;

    p->count++;
    if (p->err == NULL)
        return;
    va_start(ap, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (p->count == 1) {
        (void) err_set(p->err, SP_CONFIG, "%s:%u:%u: %s", tail_of(p->file), line, column, text);
        return;
    }
    char next[sizeof(text) + 32];
    size_t used = strlen(p->err->msg);
    int len = snprintf(next, sizeof(next), "; %u:%u: %s", line, column, text);

    if (p->left_out > 0 || used + (size_t) len + ROOM_FOR_COUNT >= sizeof(p->err->msg))
        p->left_out++;
    else
        memcpy(p->err->msg + used, next, (size_t) len + 1);
}

int config_problems_end(struct config_problems *p)
{
    if (p->count == 0)
        return SP_OK;
    if (p->err != NULL && p->left_out > 0) {
        size_t used = strlen(p->err->msg);
        char more[ROOM_FOR_COUNT];
        int len = snprintf(more, sizeof(more), "; and %u more", p->left_out);

        if (len < (int) sizeof(more) && used + (size_t) len < sizeof(p->err->msg))
            memcpy(p->err->msg + used, more, (size_t) len + 1);
    }
    return SP_CONFIG;
}
