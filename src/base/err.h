/* err.h - an error is a code (of the closed list in sandpool/errors.h, or of the one below) plus a sentence for people,
 * wrapped with context on the way up. It lives on the caller's stack; nothing is allocated while
 * failing. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdbool.h>

#include "base/compiler.h"
#include "sandpool/errors.h"

/* Results by which our own parts decide what to do next. They are below every code of enum sp_error, so that none
 * has a name, a status or a sentence that a caller could be sent by mistake; err_for_caller() translates them where
 * an answer is made.
 *
 * X(NAME, the code a caller gets, sentence for people) */
#define ERR_INNER_TABLE(X)                                           \
    X(NOT_READY, BACKEND_UNAVAILABLE, "it is not ready yet")         \
    X(TAKEN, SPEC_CONFLICT, "something else has this name or place") \
    X(BUSY, SPEC_CONFLICT, "it does something else now")             \
    X(NOTHING_RUNS, JOB_ENDED, "nothing runs there")                 \
    X(BOX_DEAD, SANDBOX_LOST, "the box does not run")

enum err_inner {
    ERR_INNER_TOP = -1000,
#define X(name, outer, text) ERR_##name,
    ERR_INNER_TABLE(X)
#undef X
        ERR_INNER_END
};

struct err {
    int code; /* SP_OK, one of enum sp_error or one of enum err_inner; negative */
    int sys;  /* errno, CURLcode or SQLite code behind it, for the log */
    char msg[240];
};

bool err_is_inner(int code);
/* The code of enum sp_error for any code; those of that table are returned as they are. */
int err_for_caller(int code);
/* The sentence of either table. Never NULL. */
const char *err_text(int code);

/* Fills `err` (which may be NULL) and returns `code`, so that `return err_set(...)` is one line. */
int err_set(struct err *err, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The same with ": strerror(sys)" added. */
int err_sys(struct err *err, int code, int sys, const char *fmt, ...) PRINTF_LIKE(4, 5);
/* Puts "context: " before the message; returns the code unchanged. */
int err_wrap(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* clang's analyzer sees only one file at a time: else it takes what follows a failure for reachable. */
#ifdef __clang_analyzer__
#define err_set(err, code, ...) (err_set(err, code, __VA_ARGS__), (code))
#define err_sys(err, code, ...) (err_sys(err, code, __VA_ARGS__), (code))
#endif

#endif
