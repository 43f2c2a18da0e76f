/* output.h - what one stream of a process wrote, by byte offset. Its beginning stays in memory, the
 * rest goes to a file without a name. The file grows up to a limit and is then used as a ring: the
 * beginning and a long end are kept, what lies between is lost (and counted). */
#ifndef AGENT_PROCESS_OUTPUT_H
#define AGENT_PROCESS_OUTPUT_H

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

enum {
    OUTPUT_HEAD_MAX = 32 * 1024,
    OUTPUT_LATE_MAX = 16 * 1024, /* of small pieces, before they are written to disk together */
    OUTPUT_READ_MAX = 64 * 1024, /* appended at once */
    /* Kept in memory when there is no disk: at least what comes before that is known. */
    OUTPUT_TAIL_MAX = OUTPUT_LATE_MAX + OUTPUT_READ_MAX,
    OUTPUT_SPARE =
        4 * 1024 * 1024, /* of what is kept: for what comes at the end of a process at once */
};

/* Disk that all streams share. */
struct output_disk {
    const char *dir; /* where the files are made */
    uint64_t stream_max;
    uint64_t total_max;
    uint64_t used;
    /* What was appended last, in memory that is its writer's: who follows a stream reads it from there. */
    const struct output *recent_of; /* NULL: none */
    const char *recent;
    uint64_t recent_at;
};

struct output {
    struct output_disk *disk;
    struct buf head; /* [0, head.len) */
    uint64_t end;    /* bytes ever written */
    char *late;      /* the last of them, not on disk yet; NULL: there is no room for any */
    size_t late_len;
    int fd;        /* file of [OUTPUT_HEAD_MAX, ...), -1: none */
    uint64_t ring; /* bytes of the file; fixed once it is full */
    bool is_full;
    bool is_broken;    /* no disk: `tail` holds the end */
    uint64_t broke_at; /* first offset of the tail */
    char *tail;
};

void output_init(struct output *o, struct output_disk *disk);
void output_fini(struct output *o);
/* `data` is also read from where it is, until the next append to any stream of this disk, or output_forget(). */
void output_append(struct output *o, const char *data, size_t len);
void output_forget(struct output_disk *disk);
/* The stream has ended: frees memory that was reserved. */
void output_finish(struct output *o);

/* The first kept offset at or after `offset`. */
uint64_t output_seek(const struct output *o, uint64_t offset);
/* Copies up to `cap` kept bytes from `offset`, which must be a kept one; 0 at the end. */
size_t output_read(const struct output *o, uint64_t offset, char *dst, size_t cap);

/* How far behind the end a reader may be that must not lose anything: somewhat less than is kept. */
uint64_t output_reach(const struct output *o);
/* How much can be appended until a reader at `offset` is that far behind; it is on disk or in memory
 * as long as the box has room on its disk. */
uint64_t output_room(const struct output *o, uint64_t offset);

/* Appends the kept bytes of [offset, offset + max) to `dst` as text without NULs; with
 * `want_whole`, a character cut at the end is left for the next call. Returns the offset after. */
uint64_t output_text(const struct output *o, uint64_t offset, size_t max, bool want_whole,
                     struct buf *dst);
/* All of [from, until) when that is at most `max` bytes, else both ends with a note between. */
void output_summary(const struct output *o, uint64_t from, uint64_t until, size_t max,
                    struct buf *dst);

#endif
