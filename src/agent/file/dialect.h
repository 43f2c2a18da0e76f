/* dialect.h - how an interface writes what becomes of its file calls. The engines here know files and
 * failures; the form of an answer is known to the interface that was called. */
#ifndef AGENT_FILE_DIALECT_H
#define AGENT_FILE_DIALECT_H

#include "agent/file/error.h"
#include "http/http.h"

struct file_dialect {
    /* In the agent: answer without having done it. */
    void (*refuse)(struct http_exchange *ex, int status, const char *message);
    void (*refuse_err)(struct http_exchange *ex, const struct err *err);
    /* In the helper: the body of an answer. */
    void (*print_error)(struct buf *out, const struct file_error *e);
    void (*print_stored)(struct buf *out, const char *path, uint64_t size);
};

#endif
