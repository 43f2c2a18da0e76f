/* relay_filter.h - the system calls a relay may make once it serves. */
#ifndef HELPER_RELAY_FILTER_H
#define HELPER_RELAY_FILTER_H

#include <stdbool.h>
#include <sys/socket.h>

/* The only flags it may send with. */
#define RELAY_SEND_FLAGS (MSG_NOSIGNAL | MSG_DONTWAIT)

/* From here on this process can take connections from sockets it has, make pairs of Unix sockets, pass
 * bytes and descriptors through what it has, wait, and end. Any other system call kills it. Needs
 * PR_SET_NO_NEW_PRIVS, or root. False: errno. */
bool relay_filter_install(void);

#endif
