/* baton.h - the packets two daemons exchange when one takes over from the other, on a Unix socket in
 * the state directory. Who may speak: root, and the user the daemon runs as.
 *
 *     successor                      daemon
 *     HELLO {protocol, version, schema}
 *                                    OFFER {..., listeners} + their sockets, or NO
 *     READY                              it can start: configuration, database, sockets are right
 *                                    (finishes requests, closes the store)
 *                                    CONNECTION {server, bytes} + its socket, BYTES...   for each
 *                                    YOURS {connections} + the lock, or NO
 *     DONE                               it serves; the daemon ends
 *
 * Until DONE the daemon keeps a copy of every socket and of the lock, and goes on by itself when its
 * successor ends. */
#ifndef DAEMON_BATON_H
#define DAEMON_BATON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "daemon/listeners.h"

enum {
    BATON_PROTOCOL = 1,
    BATON_DATA_MAX = 32 * 1024,
    BATON_FDS_MAX = LISTENERS_MAX,
};

enum baton_kind {
    BATON_HELLO = 'H',
    BATON_OFFER = 'O',
    BATON_READY = 'R',
    BATON_CONNECTION = 'C',
    BATON_BYTES = 'B',
    BATON_YOURS = 'Y',
    BATON_DONE = 'D',
    BATON_NO = 'N', /* a sentence */
};

struct baton {
    char kind;
    size_t len;
    unsigned fd_count;
    int fds[BATON_FDS_MAX];
    char data[BATON_DATA_MAX + 1]; /* ends with NUL */
};

/* Listens in the state directory; an older socket there is replaced, so the caller holds the lock. */
MUST_CHECK int baton_listen(const char *state_dir, int *ret_fd, struct err *err);
void baton_remove(const char *state_dir);
/* SP_CONNECT_FAILED when nobody listens there. */
MUST_CHECK int baton_connect(const char *state_dir, int *ret_fd, struct err *err);
/* Whether the process at the other end may take part; its pid. */
bool baton_is_allowed(int fd, pid_t *ret_pid);
/* From now on sending and receiving wait that long (0 ms: not at all). */
void baton_set_patience(int fd, uint64_t ms);

/* SP_TIMEOUT when the other end takes nothing, SP_CONNECT_FAILED when it is gone. */
MUST_CHECK int baton_send(int fd, enum baton_kind kind, const char *data, size_t len,
                          const int *fds, unsigned fd_count, struct err *err);
/* The descriptors are the caller's: baton_drop_fds() or take them. Codes as above, SP_PROTOCOL for
 * what is no packet. */
MUST_CHECK int baton_receive(int fd, struct baton *ret, struct err *err);
void baton_drop_fds(struct baton *b);

#endif
