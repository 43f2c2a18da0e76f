/* send.h - the bytes of a file as an answer (stream.h), whole or a range of them. In the helper; it blocks. */
#ifndef AGENT_FILE_SEND_H
#define AGENT_FILE_SEND_H

#include "agent/file/wire.h"

struct file_send {
    const char *path;    /* absolute */
    const char *range;   /* header, "" for none */
    const char *only_if; /* header If-Range, "" for none: the range is for a file with this tag */
    const char *unless;  /* header If-None-Match, "" for none: 304 for a file with this tag */
    bool is_head;        /* no bytes */
};

enum { FILE_TAG_LEN = 64 };

/* The file as it is now; `dst` has room for FILE_TAG_LEN. */
void file_tag_print(char *dst, const struct file_head *head);

/* Sends the answer and returns SP_OK, or fills `error` (and `head` for 416) when nothing was sent. */
MUST_CHECK int file_send_run(const struct file_send *s, struct file_wire *wire,
                             struct file_error *error, uint64_t *ret_size);

#endif
