/* result.h - what a helper answers: a head, then the bytes it announces. The agent believes nothing
 * of it: a helper works on files of somebody else, and its answer is checked as a stranger's. */
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
/* Takes what came. The bytes to pass on at once, of a stream; 0 otherwise. is_bad: it is no answer. */
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
/* The text as the whole answer; when nobody listens, nothing is to be done. */
void file_result_send(int fd, int status, const struct buf *text);

#endif
