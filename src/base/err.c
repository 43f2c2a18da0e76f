/* err.c - building error values. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
