/* receive.c - takes the listening socket that whoever made the box holds ready for it. */
#include "agent/receive.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/str.h"

enum { WAIT_S = 5 };

static int take(int fd, int *ret_fd, struct err *err)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    char byte;
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr msg = {.msg_iov = &data,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t len = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *c = len > 0 ? CMSG_FIRSTHDR(&msg) : NULL;

    if (len < 0)
        return err_sys(err, SP_IO, errno, "--fd-from");
    if (c == NULL || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof(int)))
        return err_set(err, SP_PROTOCOL, "--fd-from: no descriptor came");
    memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
    return SP_OK;
}

int receive_fd(const char *path, int *ret_fd, struct err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval wait = {.tv_sec = WAIT_S};
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (!str_copy(address.sun_path, sizeof(address.sun_path), path))
        return err_set(err, SP_CONFIG, "--fd-from: the path is too long for a socket");
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) != 0 ||
        connect(fd, (const struct sockaddr *) &address, sizeof(address)) != 0)
        return err_sys(err, SP_IO, errno, "--fd-from '%.100s'", path);
    return take(fd, ret_fd, err);
}
