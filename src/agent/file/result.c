/* result.c - the agent and its helper are one program: the head is sent over the socket as it is in
 * memory. */
#include "agent/file/result.h"

#include <string.h>

#include "agent/core/helper.h"
#include "base/fault.h"

enum { MAGIC = 0x53504831 };

void file_result_init(struct file_result *r, bool is_stream)
{
    memset(r, 0, sizeof(*r));
    r->is_stream = is_stream;
    buf_init(&r->body, FILE_RESULT_BODY_MAX);
}

void file_result_fini(struct file_result *r)
{
    buf_fini(&r->body);
}

static bool is_stream(const struct file_result *r)
{
    return r->is_stream && r->head.status < 400 && r->head.form != FILE_FORM_WHOLE;
}

static bool is_valid(const struct file_result *r)
{
    const struct file_head *h = &r->head;

    if (h->magic != MAGIC || h->status > 599 || h->mtime_ns >= NS_PER_S ||
        h->form >= FILE_FORM_COUNT)
        return false;
    if (h->status < 200)
        return r->is_stream && h->status == FILE_STATUS_WORKING && h->len == 0;
    if (!is_stream(r))
        return h->len <= FILE_RESULT_BODY_MAX;
    if (h->form == FILE_FORM_FRAMES)
        return h->len == FILE_LEN_ANY;
    return h->size <= INT64_MAX && h->end <= h->size && h->start <= h->end &&
           (h->len == h->end - h->start || h->len == 0) &&
           (h->is_partial == 0 || h->start < h->end);
}

static size_t take_head(struct file_result *r, const char *data, size_t len)
{
    size_t n = MIN_OF(len, sizeof(r->head) - r->head_len);

    memcpy((char *) &r->head + r->head_len, data, n);
    r->head_len += n;
    if (r->head_len == sizeof(r->head) && n > 0)
        r->is_bad = !is_valid(r);
    return n;
}

size_t file_result_feed(struct file_result *r, const char *data, size_t len, const char **ret)
{
    bool is_working = true;

    while (is_working) {
        size_t n = take_head(r, data, len);

        data += n;
        len -= n;
        is_working =
            !r->is_bad && r->head_len == sizeof(r->head) && r->head.status == FILE_STATUS_WORKING;
        if (is_working)
            r->head_len = 0;
    }
    *ret = data;
    if (r->is_bad || r->head_len < sizeof(r->head))
        return 0;
    if (len > r->head.len - r->seen) {
        r->is_bad = true;
        return 0;
    }
    r->seen += len;
    if (is_stream(r))
        return len;
    buf_append(&r->body, data, len);
    return 0;
}

void file_head_init(struct file_head *h, int status, uint64_t len)
{
    memset(h, 0, sizeof(*h));
    h->magic = MAGIC;
    h->status = (uint32_t) status;
    h->len = len;
}

bool file_result_send_working(int fd)
{
    struct file_head head;

    file_head_init(&head, FILE_STATUS_WORKING, 0);
    return helper_send(fd, &head, sizeof(head));
}

void file_result_send(int fd, int status, const struct buf *text)
{
    struct file_head head;

    file_head_init(&head, status, text->len);
    FAULT_POINT("helper.before_answer");
    if (helper_send(fd, &head, sizeof(head)))
        (void) helper_send(fd, buf_str(text), text->len); /* the agent notices what is missing */
}
