/* text.c - see text.h. The middle is dropped when twice as much has come as is kept, so that a byte is moved once or twice. */
#include "box/aio/text.h"

#include <string.h>

#include "base/compiler.h"

enum { PIECE = 256 * 1024 };

void aio_text_init(struct aio_text *t, size_t max)
{
    *t = (struct aio_text){.max = max};
    buf_init(&t->bytes, 2 * max + PIECE);
}

void aio_text_fini(struct aio_text *t)
{
    buf_fini(&t->bytes);
}

/* A byte in the middle of a character. */
static bool is_inner(char c)
{
    return ((unsigned char) c & 0xC0U) == 0x80;
}

static void drop_middle(struct aio_text *t)
{
    struct buf *b = &t->bytes;
    size_t head = t->dropped > 0 ? t->head : t->max / 2;
    size_t tail;

    if (b->len <= t->max)
        return;
    tail = b->len - t->max / 2;
    for (; t->dropped == 0 && head > 0 && is_inner(b->data[head]); head--)
        continue;
    t->head = head;
    for (; tail < b->len && is_inner(b->data[tail]); tail++)
        continue;
    t->dropped += tail - head;
    memmove(b->data + head, b->data + tail, b->len - tail);
    b->len -= tail - head;
    b->data[b->len] = '\0';
}

void aio_text_add(struct aio_text *t, const char *data, size_t len)
{
    while (len > 0) {
        size_t n = MIN_OF(len, (size_t) PIECE);

        buf_append(&t->bytes, data, n);
        data += n;
        len -= n;
        if (t->bytes.len > 2 * t->max)
            drop_middle(t);
    }
}

void aio_text_finish(struct aio_text *t)
{
    drop_middle(t);
}
