/* seccomp.h - which system calls a box may make: an allow-list of ours. */
#ifndef OCI_SECCOMP_H
#define OCI_SECCOMP_H

#include "base/json.h"

enum oci_sockets {
    OCI_SOCKETS_ANY,     /* as many as it likes */
    OCI_SOCKETS_COUNTED, /* each is asked for */
    OCI_SOCKETS_UNIX,    /* none of the internet */
};

/* Puts the "seccomp" object of a config.json under `key`. `guard`: the Unix socket on which requests for
 * sockets are answered, those for netlink and all that are counted; NULL: they are allowed. */
void oci_seccomp_put(struct json_out *o, const char *key, const char *guard,
                     enum oci_sockets sockets);

/* Names, separated by spaces, that no box may call whatever its arguments: what the tests try. */
const char *oci_seccomp_refused(unsigned i); /* NULL after the last group */

#endif
