/* err.h - an error is a code of the closed list in sandpool/errors.h plus a sentence for people,
 * wrapped with context on the way up. It lives on the caller's stack; nothing is allocated while
 * failing. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "base/compiler.h"
#include "sandpool/errors.h"

struct err {
    int code; /* SP_OK or one of enum sp_error, negative */
    int sys;  /* errno, CURLcode or SQLite code behind it, for the log */
    char msg[240];
};

/* Fills `err` (which may be NULL) and returns `code`, so that `return err_set(...)` is one line. */
int err_set(struct err *err, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The same with ": strerror(sys)" added. */
int err_sys(struct err *err, int code, int sys, const char *fmt, ...) PRINTF_LIKE(4, 5);
/* Puts "context: " before the message; returns the code unchanged. */
int err_wrap(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
