/* tar_unpack.h - unpacks a tar archive into a directory. In the helper; it blocks.
 *
 * No entry leaves the directory: absolute names and ".." are refused, and no link below the directory is ever followed,
 * whoever made it. A link itself may have any target. Each file is written beside its place and renamed; what is
 * there already is replaced, but a directory never by something else. Devices and FIFOs are left out and counted.
 * Owners are set by root only; bits that give rights to others (setuid, setgid) are not set. After an error what was
 * unpacked before it stays. */
#ifndef AGENT_FILE_TAR_UNPACK_H
#define AGENT_FILE_TAR_UNPACK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/file/error.h"

struct tar_unpack {
    const char *path; /* of the directory, which is made with those above it */
    ssize_t (*read)(void *ctx, void *dst, size_t cap); /* see struct tar_reader */
    void *ctx;
    bool want_owners;
    /* Filled. */
    uint64_t entries;
    uint64_t bytes;
    uint64_t skipped;
};

/* SP_OK, SP_IO and `error`, or another code when nobody waits for it. */
MUST_CHECK int tar_unpack_run(struct tar_unpack *u, struct file_error *error);

#endif
