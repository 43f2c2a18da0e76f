/* result.h - the answer of a helper: a head, then the bytes it announces. The agent does not trust
 * it: a helper works on another user's files, so its answer is checked like untrusted input. */
#ifndef AGENT_FILE_RESULT_H
#define AGENT_FILE_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define FILE_RESULT_BODY_MAX (256ULL * 1024 * 1024)

struct file_head {
    uint32_t magic;
    uint32_t status; /* of HTTP; 400 and more: the bytes are an error's text */
    uint64_t len;    /* of the bytes that follow */
    /* Of a download: */
    uint64_t size;
    uint64_t start;
    uint64_t end;
    int64_t mtime_s;
    uint32_t mtime_ns;
    uint32_t is_partial;
};

struct file_result {
    struct file_head head;
    size_t head_len; /* of it, what has come */
    struct buf body;
    uint64_t seen;  /* bytes behind the head */
    bool is_stream; /* the bytes of a good answer are not kept */
    bool is_bad;
};

void file_result_init(struct file_result *r, bool is_stream);
void file_result_fini(struct file_result *r);
/* Takes the received bytes. Returns the bytes of a stream to pass on at once, else 0. is_bad: it is
 * not a valid answer. */
size_t file_result_feed(struct file_result *r, const char *data, size_t len, const char **ret);
static inline bool file_result_has_head(const struct file_result *r)
{
    return !r->is_bad && r->head_len == sizeof(r->head);
}
static inline bool file_result_is_done(const struct file_result *r)
{
    return file_result_has_head(r) && r->seen == r->head.len;
}

/* --- in the helper --- */
void file_head_init(struct file_head *h, int status, uint64_t len);
/* Sends the text as the whole answer; if nobody reads it, nothing can be done. */
void file_result_send(int fd, int status, const struct buf *text);

#endif
