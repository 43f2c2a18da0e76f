/* upgrade_connections.h - open connections on their way from one daemon to the next, or back. */
#ifndef DAEMON_UPGRADE_CONNECTIONS_H
#define DAEMON_UPGRADE_CONNECTIONS_H

#include "base/buf.h"
#include "base/list.h"
#include "daemon/servers.h"

enum { CARGO_BYTES_MAX = 256 * 1024 * 1024, CARGO_NAME_MAX = 31 };

struct cargo_conn {
    struct list_node link;
    char server[CARGO_NAME_MAX + 1]; /* which one serves it */
    int fd;
    struct buf bytes; /* read and not answered */
};

/* Takes `fd` over. */
struct cargo_conn *cargo_add(struct list *cargo, const char *server, int fd);
/* Everything that paused servers can give. */
void cargo_load(struct list *cargo, struct servers *servers);
/* Gives each to its server; one whose server is no more is closed. Returns how many are served. */
size_t cargo_unload(struct list *cargo, struct servers *servers);
/* Closes all. */
void cargo_drop(struct list *cargo);

#endif
