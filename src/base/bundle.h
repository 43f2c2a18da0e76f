/* bundle.h - a snapshot as one file. It begins with a frame that readers of zstd skip: a JSON object that says what it is. The
 * rest is a tar archive, compressed with zstd:
 *
 *   files/…   what the snapshot changes of its base. Owners are those in the box; attributes are SCHILY.xattr records,
 *             sparse files are in GNU's format 1.0. BUNDLE_WHITEOUT: the base has nothing of this name any more.
 *             BUNDLE_OPAQUE: of this directory nothing of the base is seen
 *   digest    the last entry: "sha256:…" of the JSON text and of all bytes of the archive before, its own header included */
#ifndef BASE_BUNDLE_H
#define BASE_BUNDLE_H

#include <stddef.h>
#include <stdint.h>

#define BUNDLE_FORMAT "sandpool-snapshot"
#define BUNDLE_FILES "files"
#define BUNDLE_DIGEST "digest"
#define BUNDLE_WHITEOUT "SANDPOOL.whiteout"
#define BUNDLE_OPAQUE "SANDPOOL.opaque"
#define BUNDLE_XATTR "SCHILY.xattr."

enum { BUNDLE_VERSION = 1, BUNDLE_FRAME = 8, BUNDLE_HEAD_MAX = 64 * 1024 };

/* The beginning of the frame, for a text of this length. */
static inline void bundle_put_frame(unsigned char ret[BUNDLE_FRAME], uint32_t len)
{
    static const unsigned char magic[] = {0x50, 0x2a, 0x4d, 0x18};

    for (unsigned i = 0; i < 4; i++) {
        ret[i] = magic[i];
        ret[4 + i] = (unsigned char) (len >> (8 * i));
    }
}

/* The length of the text behind these BUNDLE_FRAME bytes; 0: it is no such file. */
static inline size_t bundle_head_len(const unsigned char *frame)
{
    size_t len = (size_t) frame[4] | (size_t) frame[5] << 8 | (size_t) frame[6] << 16 |
                 (size_t) frame[7] << 24;

    return frame[0] == 0x50 && frame[1] == 0x2a && frame[2] == 0x4d && frame[3] == 0x18 &&
                   len <= BUNDLE_HEAD_MAX
               ? len
               : 0;
}

#endif
