/* files.h - how many of the process's open files each part of the daemon may use. */
#ifndef DAEMON_FILES_H
#define DAEMON_FILES_H

#include <stdint.h>

#include "config/config.h"

struct files {
    unsigned connections;             /* of callers to the native API */
    unsigned requests;                /* to boxes, passed on for those on TCP */
    unsigned calls;                   /* to boxes: /v1/sandboxes/{id}/exec and the like */
    unsigned provisioner_connections; /* to its listener */
    unsigned provisioner_requests;
};

/* Divides `limit` once for all listeners, after a part for boxes, store, backends and operators. Each gets what the
 * configuration says when there is enough, else the largest numbers are cut first. Logs when one is cut. */
void files_divide(const struct config *c, uint64_t limit, struct files *ret);

#endif
