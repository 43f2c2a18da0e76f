/* log.h - structured logs that never block the loop. One line is one event: time, level, event
 * name, key=value pairs (logfmt or JSON). Lines go to a ring in memory and from there to the sink
 * as far as it takes them without waiting; what does not fit is dropped and counted.
 *
 * Values of keys that name a secret (token, key, secret, password, authorization, cookie) are
 * replaced whatever they hold, so that a careless call cannot leak one. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_LEVEL_COUNT };
enum log_format { LOG_LOGFMT, LOG_JSON, LOG_FORMAT_COUNT };

enum log_field_type { LOG_FIELD_END, LOG_FIELD_STR, LOG_FIELD_U64, LOG_FIELD_I64, LOG_FIELD_HEX64 };

struct log_field {
    const char *key;
    enum log_field_type type;
    const char *str;
    uint64_t num;
};

#define LF_STR(k, v) ((struct log_field){(k), LOG_FIELD_STR, (v), 0})
#define LF_U64(k, v) ((struct log_field){(k), LOG_FIELD_U64, NULL, (uint64_t) (v)})
#define LF_I64(k, v) ((struct log_field){(k), LOG_FIELD_I64, NULL, (uint64_t) (int64_t) (v)})
#define LF_HEX(k, v) ((struct log_field){(k), LOG_FIELD_HEX64, NULL, (v)}) /* ids of boxes */
#define LF_END ((struct log_field){NULL, LOG_FIELD_END, NULL, 0})

/* log_info("pool.created", LF_HEX("box", id), LF_U64("ms", ms)); at least one field. */
#define log_debug(event, ...) log_write(LOG_DEBUG, event, (struct log_field[]){__VA_ARGS__, LF_END})
#define log_info(event, ...) log_write(LOG_INFO, event, (struct log_field[]){__VA_ARGS__, LF_END})
#define log_warn(event, ...) log_write(LOG_WARN, event, (struct log_field[]){__VA_ARGS__, LF_END})
#define log_error(event, ...) log_write(LOG_ERROR, event, (struct log_field[]){__VA_ARGS__, LF_END})

/* The sink is process-wide: the one global of the tree. Loop thread only. Where it is systemd's journal each line begins
 * with its priority. */
void log_setup(int fd, enum log_level level, enum log_format format);
void log_set_level(enum log_level level, enum log_format format);
/* Somebody else who writes to the sink, for one on which a write can hang although poll() says it is ready (a file). */
#define LOG_WRITER_MAX (64 * 1024)
struct log_writer {
    ssize_t (*write)(int fd, const char *data, size_t len); /* EAGAIN: the last one is under way */
    bool (*wait)(int wait_ms);                              /* until the last one has ended */
};
/* After log_setup(), which sets it back to NULL. */
void log_set_writer(const struct log_writer *writer);
/* What a line written to fd by other means begins with: the priority, or "". */
const char *log_mark(int fd, enum log_level level);

/* The same event more than 20 times within a second is suppressed; a line log.suppressed with its
 * name and count comes before the next one that passes. */
void log_write(enum log_level level, const char *event, const struct log_field *fields);

/* Moves what the sink takes now; true when the ring is empty. Called at the end of every turn. */
bool log_flush(void);
/* At exit and in crashes: waits for the sink up to a second. */
void log_flush_wait(void);
uint64_t log_dropped(void);

/* Formats one line without its newline; what log_write() uses, exposed for tests. */
void log_format_line(struct buf *out, enum log_format format, uint64_t wall_ms,
                     enum log_level level, const char *event, const struct log_field *fields);

#endif
