/* oci.h - the `oci` backend: real boxes on this machine, made by an OCI runtime.
 *
 * Everything about a box lies in one directory, <state_dir>/oci/boxes/<box id>:
 *   box.json     labels, token, url, id range, runtime; written before the box starts, replaced
 *                whole when it is bound
 *   config.json  the bundle
 *   lock         locked (flock) by whoever makes the box, and then by its agent, for life. So
 *                "nobody holds the lock" is the proof that nothing of the box runs
 *   pid          of its init, once it runs
 *   disk, upper, work   its writable layer
 * No mount of a box exists on the host: they live and die with the box's mount namespace.
 * Making, changing and removing boxes is done by sandpool-helper (src/helper), one process per step. */
#ifndef OCI_OCI_H
#define OCI_OCI_H

#include "backend/backend.h"

extern const struct backend_ops oci_ops;

/* Where a program is: in $PATH or the usual directories. False, and dst is "", when it is nowhere. */
bool oci_find_program(const char *name, char *dst, size_t cap);

#endif
