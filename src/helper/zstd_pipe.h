/* zstd_pipe.h - bytes through a descriptor, compressed on their way, with memory of a fixed size. */
#ifndef HELPER_ZSTD_PIPE_H
#define HELPER_ZSTD_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct zstd_writer;
struct zstd_reader;

/* The descriptor stays the caller's. */
MUST_CHECK int zstd_writer_new(int fd, struct zstd_writer **ret, struct err *err);
MUST_CHECK int zstd_write(struct zstd_writer *w, const void *data, size_t len, struct err *err);
/* The end of the frame. */
MUST_CHECK int zstd_writer_end(struct zstd_writer *w, struct err *err);
void zstd_writer_free(struct zstd_writer *w); /* NULL is fine */

/* One frame, of at most `max` bytes when it is unpacked. */
MUST_CHECK int zstd_reader_new(int fd, uint64_t max, struct zstd_reader **ret, struct err *err);
/* 0: the frame has ended, and nothing follows it. -1: see zstd_reader_problem(). */
ssize_t zstd_read(struct zstd_reader *r, void *dst, size_t cap);
/* SP_OK: none so far. */
MUST_CHECK int zstd_reader_problem(const struct zstd_reader *r, struct err *err);
void zstd_reader_free(struct zstd_reader *r); /* NULL is fine */

#endif
