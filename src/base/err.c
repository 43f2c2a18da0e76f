/* err.c - building error values. */
#include "base/err.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#undef err_set /* those for clang's analyzer */
#undef err_sys

static_assert((int) ERR_INNER_END < -(int) SP_ERROR_INDEX_COUNT,
              "an inner result has a number of the public table");

static const struct inner_result {
    int outer;
    const char *text;
} inner_results[] = {
#define X(name, outer, text) {SP_##outer, text},
    ERR_INNER_TABLE(X)
#undef X
};

static const struct inner_result *inner_of(int code)
{
    return code > (int) ERR_INNER_TOP && code < (int) ERR_INNER_END
               ? &inner_results[code - (int) ERR_INNER_TOP - 1]
               : NULL;
}

bool err_is_inner(int code)
{
    return inner_of(code) != NULL;
}

int err_for_caller(int code)
{
    const struct inner_result *i = inner_of(code);

    return i != NULL ? i->outer : code;
}

const char *err_text(int code)
{
    const struct inner_result *i = inner_of(code);

    return i != NULL ? i->text : sp_error_info(code)->text;
}

int err_set(struct err *err, int code, const char *fmt, ...)
{
    va_list ap;

    if (err == NULL)
        return code;
    err->code = code;
    err->sys = 0;
    va_start(ap, fmt);
    (void) vsnprintf(err->msg, sizeof(err->msg), fmt, ap); /* cutting a long message is fine */
    va_end(ap);
    return code;
}

int err_sys(struct err *err, int code, int sys, const char *fmt, ...)
{
    va_list ap;
    size_t len;

    if (err == NULL)
        return code;
    err->code = code;
    err->sys = sys;
    va_start(ap, fmt);
    (void) vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    len = strlen(err->msg);
    (void) snprintf(err->msg + len, sizeof(err->msg) - len, ": %s", strerror(sys));
    return code;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
    char inner[sizeof(err->msg)];
    va_list ap;
    size_t len;

    if (err == NULL)
        return SP_INTERNAL;
    memcpy(inner, err->msg, sizeof(inner));
    va_start(ap, fmt);
    (void) vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    len = strlen(err->msg);
    (void) snprintf(err->msg + len, sizeof(err->msg) - len, ": %s", inner);
    return err->code;
}
