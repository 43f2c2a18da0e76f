/* layer_check.c - what is read has to be an archive for us and for the engine, which looks at the first bytes to find out how a
 * layer is compressed. Some formats leave room for both at once: a name that begins like one of them is refused, too. */
#include "helper/layer_check.h"

#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/tar_read.h"

enum { FIRST = 6, PIECE = 256 * 1024 };

struct checking {
    ssize_t (*read)(void *ctx, void *dst, size_t cap);
    void *ctx;
    unsigned char first[FIRST];
    size_t have; /* bytes of `first` */
};

static ssize_t read_layer(void *ctx, void *dst, size_t cap)
{
    struct checking *c = ctx;
    ssize_t n = c->read(c->ctx, dst, cap);

    if (n > 0 && c->have < FIRST) {
        size_t more = MIN_OF((size_t) n, FIRST - c->have);

        memcpy(c->first + c->have, dst, more);
        c->have += more;
    }
    return n;
}

/* gzip, bzip2, xz, lzma, lz4, zstd and what zstd skips. */
static bool looks_compressed(const struct checking *c)
{
    static const struct {
        unsigned char bytes[FIRST];
        size_t len;
    } formats[] = {
        {{0x1f, 0x8b}, 2}, {{'B', 'Z', 'h'}, 3},          {{0xfd, '7', 'z', 'X', 'Z', 0}, 6},
        {{0x5d, 0, 0}, 3}, {{0x04, 0x22, 0x4d, 0x18}, 4}, {{0x28, 0xb5, 0x2f, 0xfd}, 4}};

    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        if (c->have >= formats[i].len && memcmp(c->first, formats[i].bytes, formats[i].len) == 0)
            return true;
    return c->have >= 4 && (c->first[0] & 0xf0) == 0x50 &&
           memcmp(c->first + 1, "\x2a\x4d\x18", 3) == 0;
}

/* What the reader would skip by itself in small pieces. */
static void skip_data(struct tar_reader *r)
{
    static char piece[PIECE];

    while (tar_reader_data(r, piece, sizeof(piece)) > 0) {
    }
}

int layer_check(ssize_t (*read)(void *ctx, void *dst, size_t cap), void *ctx, struct err *err)
{
    struct checking c = {.read = read, .ctx = ctx};
    AUTO_FREE struct tar_entry *entry = xcalloc(1, sizeof(*entry));
    struct tar_reader reader;
    enum tar_result result;
    int rc = SP_OK;

    tar_reader_init(&reader, read_layer, &c);
    reader.is_strict = true;
    while ((result = tar_reader_next(&reader, entry)) == TAR_ENTRY && !looks_compressed(&c))
        skip_data(&reader);
    if (looks_compressed(&c))
        rc = err_set(err, SP_PROTOCOL, "it is compressed");
    else if (result != TAR_END)
        rc = err_set(err, SP_PROTOCOL, "%s",
                     result == TAR_BAD ? reader.problem : "it is not complete");
    tar_reader_fini(&reader);
    return rc;
}
