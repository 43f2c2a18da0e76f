/* seccomp_args.h - the part of the filter that looks at arguments. */
#ifndef OCI_SECCOMP_ARGS_H
#define OCI_SECCOMP_ARGS_H

#include "backends/oci/seccomp.h"

/* Puts the rules of all calls that are decided by their arguments; see oci_seccomp_put(). */
void oci_seccomp_put_args(struct json_out *o, const char *guard, enum oci_sockets sockets);

#endif
