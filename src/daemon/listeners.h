/* listeners.h - the sockets the daemon listens on, by name. They may come from the service manager or
 * from a predecessor, or are made here. The servers get duplicates: the originals stay, so that the
 * kernel goes on queueing connections while nobody accepts, and can be given to a successor. */
#ifndef DAEMON_LISTENERS_H
#define DAEMON_LISTENERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum { LISTENERS_MAX = 16, LISTENER_NAME_MAX = 31, LISTENER_PATH_MAX = 107 };

/* Names of ours; they are also what FileDescriptorName= of a socket unit says. */
#define LISTENER_API "sandpool"
#define LISTENER_API_TCP "tcp"
#define LISTENER_PROVISIONER "provisioner"

struct listener_socket {
    char name[LISTENER_NAME_MAX + 1];
    int fd;
    bool is_foreign; /* made by the service manager: its name decides, and its file stays */
    bool is_used;
    char path[LISTENER_PATH_MAX + 1]; /* of a Unix socket that is removed at the end; "" for none */
    dev_t dev;                        /* of its file; ino 0: not known */
    ino_t ino;
};

struct listeners {
    struct listener_socket items[LISTENERS_MAX];
    unsigned count;
};

/* Takes what the service manager passed (LISTEN_FDS, LISTEN_PID, LISTEN_FDNAMES), if anything. */
MUST_CHECK int listeners_from_environment(struct listeners *l, struct err *err);
/* Adds a socket that somebody else has made to listen; takes `fd` over, also when it fails. */
MUST_CHECK int listeners_add(struct listeners *l, const char *name, int fd, bool is_foreign,
                             struct err *err);
/* Which file the socket added last was bound to, as its maker knows it: what lies at its path now may be
 * another one. */
void listeners_note_last(struct listeners *l, dev_t dev, ino_t ino);
/* The socket for this purpose: one that was passed, or a new one. Asked again, the same one. It stays
 * the set's. `gid` (uint32_t) -1: leave. */
MUST_CHECK int listeners_unix(struct listeners *l, const char *name, const char *path,
                              unsigned mode, uint32_t gid, struct listener_socket **ret,
                              struct err *err);
MUST_CHECK int listeners_tcp(struct listeners *l, const char *name, const char *address,
                             struct listener_socket **ret, struct err *err);
/* Closes those that were passed and are of no use to this configuration. */
void listeners_drop_unused(struct listeners *l);
/* Closes all. With want_remove also the files of Unix sockets, unless they are somebody else's. */
void listeners_close(struct listeners *l, bool want_remove);

#endif
