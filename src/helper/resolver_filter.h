/* resolver_filter.h - the system calls a resolver may make once it serves. */
#ifndef HELPER_RESOLVER_FILTER_H
#define HELPER_RESOLVER_FILTER_H

#include <stdbool.h>

/* From here on this process can answer on sockets it has, make sockets of IPv4 in its network namespace, wait, and end.
 * Any other system call kills it. Needs PR_SET_NO_NEW_PRIVS. False: errno. */
bool resolver_filter_install(void);

#endif
