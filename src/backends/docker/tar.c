/* tar.c - a small ustar writer: directories and files of root, with short names. */
#include <stdio.h>
#include <string.h>

#include "backends/docker/internal.h"

enum { BLOCK = 512, NAME_MAX_LEN = 100, SUM_AT = 148, SUM_LEN = 8 };

struct header {
    char name[NAME_MAX_LEN];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char mtime[12];
    char sum[SUM_LEN];
    char type;
    char link[100];
    char magic[8]; /* with the version */
    char user[32];
    char group[32];
    char major[8];
    char minor[8];
    char prefix[155];
    char rest[12];
};

static_assert(sizeof(struct header) == BLOCK, "a header is one block");

static void put_header(struct buf *out, const char *name, unsigned mode, size_t len, char type)
{
    struct header h = {.type = type};
    unsigned sum = 0;

    assert(strlen(name) < sizeof(h.name));
    memcpy(h.name, name, strlen(name));
    (void) snprintf(h.mode, sizeof(h.mode), "%07o", mode);
    (void) snprintf(h.uid, sizeof(h.uid), "%07o", 0U);
    (void) snprintf(h.gid, sizeof(h.gid), "%07o", 0U);
    (void) snprintf(h.size, sizeof(h.size), "%011llo", (unsigned long long) len);
    (void) snprintf(h.mtime, sizeof(h.mtime), "%011o", 0U);
    memcpy(h.magic, "ustar\00000", sizeof(h.magic));
    memset(h.sum, ' ', sizeof(h.sum)); /* it counts as blanks */
    for (size_t i = 0; i < BLOCK; i++)
        sum += ((const unsigned char *) &h)[i];
    (void) snprintf(h.sum, sizeof(h.sum), "%06o", sum);
    h.sum[SUM_LEN - 1] = ' ';
    buf_append(out, &h, sizeof(h));
}

static void pad(struct buf *out, size_t len)
{
    static const char zeros[BLOCK];

    if (len % BLOCK != 0)
        buf_append(out, zeros, BLOCK - len % BLOCK);
}

void tar_put_dir(struct buf *out, const char *name, unsigned mode)
{
    put_header(out, name, mode, 0, '5');
}

void tar_put_file(struct buf *out, const char *name, unsigned mode, const void *data, size_t len)
{
    put_header(out, name, mode, len, '0');
    buf_append(out, data, len);
    pad(out, len);
}

void tar_end(struct buf *out)
{
    static const char zeros[2 * BLOCK];

    buf_append(out, zeros, sizeof(zeros));
}
