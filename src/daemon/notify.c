/* notify.c - the service manager's datagram protocol; small enough to need no library. */
#include "daemon/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/compiler.h"
#include "base/str.h"

void notify_send(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    AUTO_CLOSE int fd = -1;
    size_t len;

    if (path == NULL || (path[0] != '/' && path[0] != '@'))
        return;
    len = strlen(path);
    if (len >= sizeof(addr.sun_path))
        return;
    memcpy(addr.sun_path, path, len);
    if (path[0] == '@')
        addr.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    /* Nobody listening is not our problem: the service manager decides what silence means. */
    (void) sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *) &addr,
                  (socklen_t) (offsetof(struct sockaddr_un, sun_path) + len));
}

uint64_t notify_watchdog_ns(void)
{
    const char *usec = getenv("WATCHDOG_USEC");
    uint64_t v;

    if (usec == NULL || !str_parse_u64(usec, 1, UINT64_MAX / 1000, &v))
        return 0;
    return v * NS_PER_US / 2; /* twice as often as asked, as the protocol advises */
}
