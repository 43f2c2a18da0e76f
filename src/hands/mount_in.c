/* mount_in.c - attaches directories of the host to a box that runs. */
#include "hands/mount_in.h"

int mount_in(const struct plan *p, struct buf *answer, struct err *err)
{
    (void) p;
    (void) answer;
    return err_set(err, SP_UNSUPPORTED, "mounts into running boxes are not there yet");
}
