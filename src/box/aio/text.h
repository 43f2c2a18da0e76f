/* text.h - the beginning and the end of a text that may be long. */
#ifndef BOX_AIO_TEXT_H
#define BOX_AIO_TEXT_H

#include <stdint.h>

#include "base/buf.h"

struct aio_text {
    struct buf bytes;
    size_t max;       /* of them are kept: half at the beginning, half at the end */
    size_t head;      /* how long the beginning is, once something was dropped */
    uint64_t dropped; /* between the two */
};

void aio_text_init(struct aio_text *t, size_t max);
void aio_text_fini(struct aio_text *t);
void aio_text_add(struct aio_text *t, const char *data, size_t len);
/* No more will come: at most `max` bytes are left, and no half characters. */
void aio_text_finish(struct aio_text *t);

#endif
