/* watch.h - what changes in a directory, or in a tree, as it happens. In the helper; it blocks until the client goes.
 *
 * New directories are watched as they appear; what is in them by then is reported as created, and may be reported
 * again when it was made at that moment. After an overflow the tree is looked at again, so that no directory stays
 * without a watch. */
#ifndef AGENT_FILE_WATCH_H
#define AGENT_FILE_WATCH_H

#include "agent/file/wire.h"

enum { FILE_WATCH_DIRS = 8192 };

enum file_watch_kind {
    FILE_WATCH_READY,
    FILE_WATCH_CREATED,
    FILE_WATCH_MODIFIED, /* its bytes, or when it was closed after a write; its mode or owner */
    FILE_WATCH_DELETED,
    FILE_WATCH_MOVED,
    FILE_WATCH_OVERFLOW, /* events were lost, or there are too many directories to watch */
    FILE_WATCH_KEEPALIVE,
    FILE_WATCH_KIND_COUNT
};

struct file_watch {
    struct file_wire *wire;
    const char *path; /* a directory */
    bool is_recursive;
    /* Puts an event to the wire; false when that fails. `path` and `to` may be NULL, `mode` is 0 when it is not
     * known. */
    bool (*on_event)(void *ctx, enum file_watch_kind kind, const char *path, const char *to,
                     mode_t mode);
    void *ctx;
};

/* Begins the answer when everything is watched. SP_IO and `error` when nothing was sent; SP_OK when the client has
 * gone, or the directory. */
MUST_CHECK int file_watch_run(struct file_watch *w, struct file_error *error);

#endif
