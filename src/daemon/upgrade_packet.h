/* upgrade_packet.h - the packets two daemons exchange when one takes over from the other, on a Unix socket in
 * the state directory. Who may speak: root, and the user the daemon runs as.
 *
 *     successor                      daemon
 *     HELLO {protocol, version, schema, rests}
 *                                    OFFER {..., listeners} + their sockets, or NO
 *     READY                              it can start: configuration, database, sockets are right
 *                                    (finishes requests, closes the store)
 *                                    CONNECTION {server, bytes} + its socket, BYTES...   for each
 *                                    REST + the socket to a daemon before it, for each that has requests left
 *                                    YOURS {connections} + the lock, or NO
 *     DONE                               it serves; the daemon ends, or passes on what is left of its requests to boxes:
 *     LEASE {box, code, why}             this lease has ended
 *     CALLER {principal}                 this caller has lost rights
 *
 * Until DONE the daemon keeps a copy of every socket and of the lock, and goes on by itself when its
 * successor ends. */
#ifndef DAEMON_UPGRADE_PACKET_H
#define DAEMON_UPGRADE_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "daemon/listeners.h"

enum {
    PACKET_PROTOCOL = 1,
    PACKET_DATA_MAX = 32 * 1024,
    PACKET_FDS_MAX = LISTENERS_MAX,
};

enum packet_kind {
    PACKET_HELLO = 'H',
    PACKET_OFFER = 'O',
    PACKET_READY = 'R',
    PACKET_CONNECTION = 'C',
    PACKET_BYTES = 'B',
    PACKET_REST = 'E',
    PACKET_YOURS = 'Y',
    PACKET_DONE = 'D',
    PACKET_LEASE = 'L',
    PACKET_CALLER = 'P',
    PACKET_NO = 'N', /* a sentence */
};

struct packet {
    char kind;
    size_t len;
    unsigned fd_count;
    int fds[PACKET_FDS_MAX];
    char data[PACKET_DATA_MAX + 1]; /* ends with NUL */
};

/* Listens in the state directory; an older socket there is replaced, so the caller holds the lock. */
MUST_CHECK int packet_listen(const char *state_dir, int *ret_fd, struct err *err);
void packet_remove(const char *state_dir);
/* SP_CONNECT_FAILED when nobody listens there. */
MUST_CHECK int packet_connect(const char *state_dir, int *ret_fd, struct err *err);
/* Whether the process at the other end may take part; its pid. */
bool packet_is_allowed(int fd, pid_t *ret_pid);
/* Whether the other end has gone. */
bool packet_is_closed(int fd);
/* From now on sending and receiving wait that long (0 ms: not at all). */
void packet_set_patience(int fd, uint64_t ms);

/* SP_TIMEOUT when the other end takes nothing, SP_CONNECT_FAILED when it is gone. */
MUST_CHECK int packet_send(int fd, enum packet_kind kind, const char *data, size_t len,
                           const int *fds, unsigned fd_count, struct err *err);
/* The descriptors are the caller's: packet_drop_fds() or take them. Codes as above, SP_PROTOCOL for
 * what is no packet. */
MUST_CHECK int packet_receive(int fd, struct packet *ret, struct err *err);
void packet_drop_fds(struct packet *b);

#endif
