/* dialect.h - how an interface formats the results of its file calls. The engines here produce data
 * and errors; the called interface chooses the form of the answer. */
#ifndef AGENT_FILE_DIALECT_H
#define AGENT_FILE_DIALECT_H

#include "agent/file/error.h"
#include "http/http.h"

struct file_dialect {
    /* In the agent: answers without starting a helper. */
    void (*refuse)(struct http_exchange *ex, int status, const char *message);
    void (*refuse_err)(struct http_exchange *ex, const struct err *err);
    /* In the helper: the body of an answer. */
    void (*print_error)(struct buf *out, const struct file_error *e);
    void (*print_stored)(struct buf *out, const char *path, uint64_t size);
};

#endif
