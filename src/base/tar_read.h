/* tar_read.h - reads a tar archive as it comes: ustar, pax and GNU's long names. It touches no file; whether a name is
 * safe is decided by whoever unpacks it. */
#ifndef BASE_TAR_READ_H
#define BASE_TAR_READ_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/tar_format.h"

enum { TAR_PATH_MAX = 4096 }; /* with NUL */

enum tar_result { TAR_ENTRY, TAR_END, TAR_BAD, TAR_GONE, TAR_RESULT_COUNT };

struct tar_entry {
    char type; /* enum tar_type, only of: file, links, directory, devices, FIFO */
    char name[TAR_PATH_MAX];
    char link[TAR_PATH_MAX];
    uint64_t size; /* of its data; 0 for all but files */
    mode_t mode;   /* of permissions */
    uint64_t uid;
    uint64_t gid;
    int64_t mtime_s;
    uint32_t mtime_ns;
};

struct tar_reader {
    /* Bytes; 0 at the end, -1 when it is never reached. */
    ssize_t (*read)(void *ctx, void *dst, size_t cap);
    void *ctx;
    /* May be NULL. A record of a pax header that the reader does not know itself; false: it is refused. With it a sparse file
     * (GNU's format 1.0) is an entry like any other, and its map is in its data. */
    bool (*on_record)(void *ctx, const char *key, size_t key_len, const char *value, size_t len);
    /* Nothing may be in the archive that another reader could take for something else, so that no other finds more in it:
     * data behind what is no file, headers that hold for the next entry here and for none elsewhere. */
    bool is_strict;
    /* The reader's. */
    uint64_t left; /* data of the entry that was not read, without padding */
    unsigned padding;
    uint64_t entries;
    const char *problem; /* of TAR_BAD: a sentence; static */
    struct buf extra;    /* a header of names that is being read */
};

void tar_reader_init(struct tar_reader *r, ssize_t (*read)(void *ctx, void *dst, size_t cap),
                     void *ctx);
void tar_reader_fini(struct tar_reader *r);
/* The next entry; what was not read of the one before is skipped. TAR_BAD: `ret` has the name as far as it is known.
 * After TAR_END everything was read. */
MUST_CHECK enum tar_result tar_reader_next(struct tar_reader *r, struct tar_entry *ret);
/* Data of the entry; 0 at its end, -1 when the archive ends before. */
MUST_CHECK ssize_t tar_reader_data(struct tar_reader *r, void *dst, size_t cap);

#endif
