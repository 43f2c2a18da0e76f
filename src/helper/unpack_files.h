/* unpack_files.h - the entries of such a file, made below a directory. */
#ifndef HELPER_UNPACK_FILES_H
#define HELPER_UNPACK_FILES_H

#include "base/sha256.h"
#include "helper/zstd_pipe.h"

struct unpack_from {
    struct zstd_reader *in;
    struct sha256 *sum; /* of what was read before */
};

/* Until the end of the archive; its digest has been compared then. */
MUST_CHECK int unpack_files(const struct unpack_from *from, int top, uint32_t id_base,
                            struct err *err);

#endif
