/* wire.c - frames to and from the agent. Small pieces are collected. */
#include "agent/file/wire.h"

#include <string.h>

#include "agent/core/helper.h"
#include "agent/file/frame.h"

#define WORKING_NS (5 * NS_PER_S)

enum { FRAME_MAX = 1 << 20 };

void file_wire_init(struct file_wire *w, int fd)
{
    memset(w, 0, sizeof(*w));
    w->fd = fd;
    w->worked_ns = uv_hrtime();
    buf_init(&w->out, 2 * FILE_WIRE_CHUNK);
}

void file_wire_fini(struct file_wire *w)
{
    buf_fini(&w->out);
}

ssize_t file_wire_read(struct file_wire *w, void *dst, size_t cap)
{
    struct file_frame frame;
    size_t n;

    while (w->body_left == 0 && !w->is_body_over) {
        if (!helper_receive(w->fd, &frame, sizeof(frame)))
            return -1;
        w->is_body_over = frame.kind == FILE_FRAME_END;
        w->body_left = frame.len;
    }
    if (w->is_body_over)
        return 0;
    n = MIN_OF(cap, w->body_left);
    if (!helper_receive(w->fd, dst, n))
        return -1;
    w->body_left -= (uint32_t) n;
    return (ssize_t) n;
}

static bool send_frame(struct file_wire *w, uint32_t kind, size_t len)
{
    const struct file_frame frame = {.kind = kind, .len = (uint32_t) len};

    return helper_send(w->fd, &frame, sizeof(frame));
}

/* Once frames are sent anything else would be taken for one: an empty frame is as good. */
bool file_wire_is_wanted(struct file_wire *w)
{
    uint64_t now = uv_hrtime();

    if (helper_must_stop())
        return false;
    if (now - w->worked_ns < WORKING_NS)
        return true;
    w->worked_ns = now;
    return w->is_begun ? send_frame(w, FILE_FRAME_DATA, 0) : file_result_send_working(w->fd);
}

bool file_wire_begin(struct file_wire *w, uint32_t skipped)
{
    struct file_head head;

    file_head_init(&head, 200, FILE_LEN_ANY);
    head.form = FILE_FORM_FRAMES;
    head.skipped = skipped;
    w->is_begun = true;
    return helper_send(w->fd, &head, sizeof(head));
}

bool file_wire_flush(struct file_wire *w)
{
    bool is_sent = w->out.len == 0 || (send_frame(w, FILE_FRAME_DATA, w->out.len) &&
                                       helper_send(w->fd, buf_str(&w->out), w->out.len));

    buf_reset(&w->out);
    return is_sent;
}

bool file_wire_put(struct file_wire *w, const void *data, size_t len)
{
    const char *at = data;

    while (len > 0) {
        size_t n = MIN_OF(len, FILE_WIRE_CHUNK - w->out.len);

        buf_append(&w->out, at, n);
        if (buf_failed(&w->out))
            return false;
        at += n;
        len -= n;
        if (w->out.len == FILE_WIRE_CHUNK && !file_wire_flush(w))
            return false;
    }
    return !helper_must_stop();
}

bool file_wire_send_file(struct file_wire *w, int file, uint64_t at, uint64_t len)
{
    if (!file_wire_flush(w))
        return false;
    while (len > 0) {
        size_t n = (size_t) MIN_OF(len, (uint64_t) FRAME_MAX);

        if (!send_frame(w, FILE_FRAME_DATA, n) || !helper_send_file(w->fd, file, at, n))
            return false;
        at += n;
        len -= n;
    }
    return true;
}

bool file_wire_end(struct file_wire *w)
{
    return file_wire_flush(w) && send_frame(w, FILE_FRAME_END, 0);
}
