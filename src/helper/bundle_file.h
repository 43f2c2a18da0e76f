/* bundle_file.h - the head and the digest of a file of base/bundle.h; what is between is up to others. */
#ifndef HELPER_BUNDLE_FILE_H
#define HELPER_BUNDLE_FILE_H

#include "base/sha256.h"
#include "base/tar_read.h"
#include "helper/disk_digest.h"
#include "helper/zstd_pipe.h"

struct bundle_head {
    uint64_t bytes;
    uint64_t files;
    char base[DISK_DIGEST_MAX]; /* "": it does not say */
};

struct bundle_writer {
    int fd;
    struct sha256 sum;
    struct zstd_writer *out;
};

/* `about`: the member `snapshot`, JSON. bundle_end() or not, bundle_free() follows. */
MUST_CHECK int bundle_begin(struct bundle_writer *w, int fd, const char *about,
                            const struct bundle_head *head, struct err *err);
/* The next bytes of the archive; `ctx` is the writer. */
MUST_CHECK int bundle_put(void *ctx, const void *data, size_t len, struct err *err);
/* The digest and the end of the archive. */
MUST_CHECK int bundle_end(struct bundle_writer *w, struct err *err);
void bundle_free(struct bundle_writer *w);

/* SP_PROTOCOL: it is none. `sum` goes on with the archive. */
MUST_CHECK int bundle_read_head(int fd, struct sha256 *sum, struct bundle_head *ret,
                                struct err *err);
/* With the reader at the data of an entry of `size` bytes that is the digest; `sum` has all that was read. */
MUST_CHECK int bundle_check_digest(struct tar_reader *reader, uint64_t size,
                                   const struct sha256 *sum, struct err *err);

#endif
