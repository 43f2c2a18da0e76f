/* result.h - the answer of a helper: a head, then the bytes it announces. The agent does not trust
 * it: a helper works on another user's files, so its answer is checked like untrusted input. */
#ifndef AGENT_FILE_RESULT_H
#define AGENT_FILE_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/compiler.h"

#define FILE_RESULT_BODY_MAX (256ULL * 1024 * 1024)

enum file_form {
    FILE_FORM_WHOLE, /* `len` bytes of text, kept and answered at once */
    FILE_FORM_SIZED, /* `len` bytes of a file, passed on as they come */
    FILE_FORM_FRAMES, /* frames (frame.h) until one that says that it is the last; `len` is FILE_LEN_ANY */
    FILE_FORM_COUNT
};

#define FILE_LEN_ANY UINT64_MAX
/* Instead of a status: the work goes on, the real head comes later. */
#define FILE_STATUS_WORKING 102

struct file_head {
    uint32_t magic;
    uint32_t status;  /* of HTTP; 400 and more: the bytes are an error's text */
    uint64_t len;     /* of the bytes that follow */
    uint32_t form;    /* enum file_form */
    uint32_t skipped; /* what a stream leaves out */
    /* Of a download: */
    uint64_t size;
    uint64_t start;
    uint64_t end;
    int64_t mtime_s;
    uint32_t mtime_ns;
    uint32_t is_partial;
    uint32_t mode;
    uint32_t uid;
    uint32_t gid;
};

struct file_result {
    struct file_head head;
    size_t head_len; /* of it, what has come */
    struct buf body;
    uint64_t seen;  /* bytes behind the head */
    bool is_stream; /* the bytes of a good answer may be of a form that is not kept */
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
/* A sign of life before the answer; false: nobody waits for it. */
MUST_CHECK bool file_result_send_working(int fd);
/* Sends the text as the whole answer; if nobody reads it, nothing can be done. */
void file_result_send(int fd, int status, const struct buf *text);

#endif
