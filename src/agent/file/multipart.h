/* multipart.h - multipart/form-data as it arrives, in pieces of any size. The content of a part is
 * passed on at once; memory does not grow with the body. */
#ifndef AGENT_FILE_MULTIPART_H
#define AGENT_FILE_MULTIPART_H

#include "base/buf.h"
#include "base/err.h"

enum {
    MULTIPART_BOUNDARY_MAX = 70,
    MULTIPART_HEADERS_MAX = 8 * 1024, /* of one part */
    MULTIPART_NAME_MAX = 128,
    MULTIPART_FILENAME_MAX = 1024,
    MULTIPART_PARTS_MAX = 64
};

enum multipart_state {
    MULTIPART_PREAMBLE, /* before the first boundary */
    MULTIPART_AFTER,    /* after a boundary: CRLF or -- */
    MULTIPART_HEADERS,
    MULTIPART_DATA,
    MULTIPART_END, /* the last boundary has come; the rest is ignored */
    MULTIPART_STATE_COUNT
};

struct multipart {
    /* A part begins: its name and file name ("" when it has none), valid for the call. */
    void (*on_part)(void *ctx, const char *name, const char *filename);
    void (*on_data)(void *ctx, const char *data, size_t len);
    void (*on_part_end)(void *ctx);
    void *ctx;
    /* The rest is the parser's. */
    enum multipart_state state;
    char delimiter[MULTIPART_BOUNDARY_MAX + 5]; /* CR LF - - boundary */
    size_t delimiter_len;
    size_t matched; /* bytes of the delimiter seen so far */
    struct buf head;
    unsigned parts;
};

/* Takes the boundary from the Content-Type; SP_INVALID_FIELD when it is no multipart/form-data. */
MUST_CHECK int multipart_init(struct multipart *m, const char *content_type, struct err *err);
void multipart_fini(struct multipart *m);
/* SP_OK or SP_BAD_REQUEST; after an error do not call it again. */
MUST_CHECK int multipart_feed(struct multipart *m, const char *data, size_t len, struct err *err);
/* The body is over: SP_BAD_REQUEST when the last boundary has not come. */
MUST_CHECK int multipart_finish(const struct multipart *m, struct err *err);

#endif
