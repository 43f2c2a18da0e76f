/* wire.h - the helper's side of a streamed call (stream.h): reads the body of the request, and sends the answer, as
 * a whole, or as a head and then bytes. All of it blocks. When the agent is gone every function fails, and the
 * helper has nothing more to do. */
#ifndef AGENT_FILE_WIRE_H
#define AGENT_FILE_WIRE_H

#include <sys/types.h>

#include "agent/file/error.h"
#include "agent/file/result.h"

enum { FILE_WIRE_CHUNK = 64 * 1024 };

struct file_wire {
    int fd;
    uint32_t body_left; /* of the frame */
    bool is_body_over;
    uint64_t worked_ns; /* when the last sign of life was sent */
    bool is_begun;      /* what is sent now are frames */
    struct buf out;     /* not sent yet */
};

void file_wire_init(struct file_wire *w, int fd);
void file_wire_fini(struct file_wire *w);

/* Bytes of the body; 0 when it is complete, -1 when it never will be. */
MUST_CHECK ssize_t file_wire_read(struct file_wire *w, void *dst, size_t cap);
/* For long work before the answer or between its pieces: call it often. False: nobody waits for the answer any
 * more. */
MUST_CHECK bool file_wire_is_wanted(struct file_wire *w);

/* A stream of any length: begin, put and send_file as often as needed, end. Without the end the client's
 * connection is broken. */
MUST_CHECK bool file_wire_begin(struct file_wire *w, uint32_t skipped);
MUST_CHECK bool file_wire_put(struct file_wire *w, const void *data, size_t len);
/* From `at` on; fails when the file has fewer. */
MUST_CHECK bool file_wire_send_file(struct file_wire *w, int file, uint64_t at, uint64_t len);
MUST_CHECK bool file_wire_flush(struct file_wire *w);
MUST_CHECK bool file_wire_end(struct file_wire *w);

#endif
