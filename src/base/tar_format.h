/* tar_format.h - the header of a tar archive as it is in the file: ustar (POSIX.1-1988), with the extensions that
 * reader and writer know. */
#ifndef BASE_TAR_FORMAT_H
#define BASE_TAR_FORMAT_H

#include <stdint.h>

enum { TAR_BLOCK = 512 };

enum tar_type {
    TAR_FILE = '0',
    TAR_HARD_LINK = '1',
    TAR_SYMLINK = '2',
    TAR_CHAR_DEVICE = '3',
    TAR_BLOCK_DEVICE = '4',
    TAR_DIRECTORY = '5',
    TAR_FIFO = '6',
    TAR_CONTIGUOUS = '7', /* a file */
    TAR_PAX = 'x',
    TAR_PAX_GLOBAL = 'g',
    TAR_GNU_NAME = 'L',
    TAR_GNU_LINK = 'K',
    TAR_GNU_SPARSE = 'S',
    TAR_GNU_DIRECTORY = 'D',
    TAR_GNU_VOLUME = 'V',
};

struct tar_header {
    char name[100];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char mtime[12];
    char sum[8];
    char type;
    char link[100];
    char magic[6];
    char version[2];
    char uname[32];
    char gname[32];
    char major_id[8];
    char minor_id[8];
    char prefix[155];
    char unused[12];
};

/* Zeros behind `size` bytes of data. */
static inline unsigned tar_padding(uint64_t size)
{
    return (unsigned) (-size & (TAR_BLOCK - 1));
}

/* The sum of all bytes, those of the field itself as spaces. */
static inline unsigned tar_sum(const struct tar_header *h)
{
    const unsigned char *bytes = (const unsigned char *) h;
    const unsigned char *field = (const unsigned char *) h->sum;
    unsigned sum = 0;

    for (const unsigned char *p = bytes; p < bytes + TAR_BLOCK; p++)
        sum += p >= field && p < field + sizeof(h->sum) ? ' ' : *p;
    return sum;
}

#endif
