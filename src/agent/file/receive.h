/* receive.h - the helper's side of an upload: reads frames and writes a file. The file appears
 * under its name only when it is complete; if the agent goes away before, nothing is left. */
#ifndef AGENT_FILE_RECEIVE_H
#define AGENT_FILE_RECEIVE_H

#include "agent/core/identity.h"
#include "agent/file/dialect.h"
#include "agent/file/frame.h"

struct file_receive {
    const struct identity *user;
    const struct file_dialect *dialect;
    const char *base;     /* of relative paths */
    const char *filename; /* by the client, for a path that is a directory */
    const char *path;     /* "": as long as it is not known, or it is `base` */
    bool knows_path;      /* before the first byte comes */
};

/* Until the end or a failure, which it answers. */
void file_receive_run(const struct file_receive *r, int fd);

#endif
