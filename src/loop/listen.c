/* listen.c - a TCP socket of this machine alone. */
#include "loop/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>

#include "base/cleanup.h"

enum { BACKLOG = 512 };

int listen_loopback(int *ret_fd, unsigned *ret_port, struct err *err)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || bind(fd, (const struct sockaddr *) &address, sizeof(address)) != 0 ||
        listen(fd, BACKLOG) != 0 || getsockname(fd, (struct sockaddr *) &address, &len) != 0)
        return err_sys(err, SP_IO, errno, "127.0.0.1");
    *ret_port = ntohs(address.sin_port);
    *ret_fd = TAKE_FD(fd);
    return SP_OK;
}
