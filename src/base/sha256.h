/* sha256.h - SHA-256, for deterministic sandbox ids, profile hashes and digests of snapshots. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sha256 {
    uint32_t state[8];
    uint64_t len;
    unsigned char block[64];
    bool is_fast; /* by the processor's own instructions */
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t len);
/* Without those instructions; false where there are none (for tests). */
bool sha256_init_plain(struct sha256 *s);
void sha256_end(struct sha256 *s, unsigned char ret_digest[32]);

#endif
