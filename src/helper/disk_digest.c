/* disk_digest.c - see disk_digest.h. */
#include "helper/disk_digest.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "helper/start.h"

enum { BLOCK = 4096, CHUNK = 256 * BLOCK };

void digest_text(const unsigned char digest[32], char ret[DISK_DIGEST_MAX])
{
    str_copy_cut(ret, DISK_DIGEST_MAX, "sha256:");
    str_hex(ret + strlen(ret), digest, 32);
}

static bool is_zero(const unsigned char *block)
{
    return block[0] == 0 && memcmp(block, block + 1, BLOCK - 1) == 0;
}

/* Of the blocks that are not all zeros, each with its number: the same for the same content, wherever the file has holes. */
int disk_digest(int fd, char ret[DISK_DIGEST_MAX], struct err *err)
{
    unsigned char *chunk = xcalloc(1, CHUNK);
    unsigned char digest[32];
    struct sha256 s;
    off_t at = 0;
    int rc = SP_OK;

    sha256_init(&s);
    while (rc == SP_OK && (at = lseek(fd, at, SEEK_DATA)) >= 0) {
        ssize_t n;

        at -= at % BLOCK;
        n = pread(fd, chunk, CHUNK, at);
        if (n <= 0 || n % BLOCK != 0) {
            rc = err_sys(err, SP_IO, n < 0 ? errno : EIO, "read the copy");
            break;
        }
        for (ssize_t i = 0; i < n; i += BLOCK) {
            uint64_t number = (uint64_t) (at + i) / BLOCK;
            unsigned char text[8];

            if (is_zero(chunk + i))
                continue;
            for (unsigned k = 0; k < sizeof(text); k++)
                text[k] = (unsigned char) (number >> (8 * k));
            sha256_add(&s, text, sizeof(text));
            sha256_add(&s, chunk + i, BLOCK);
        }
        at += n;
        if (start_is_stopped())
            rc = err_set(err, SP_CANCELLED, "stopped by a signal");
    }
    free(chunk);
    sha256_end(&s, digest);
    digest_text(digest, ret);
    return rc;
}
