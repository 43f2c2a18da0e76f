/* fdpass.c - descriptors through Unix sockets. */
#include "base/fdpass.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

union control {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
};

bool fdpass_send(int to, int fd)
{
    union control control = {.bytes = {0}};
    char byte = 'f';
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr msg = {.msg_iov = &data,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(int));
    return sendmsg(to, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

int fdpass_receive(int from)
{
    union control control = {.bytes = {0}};
    char byte;
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr msg = {.msg_iov = &data,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t len = recvmsg(from, &msg, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *c = len > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
    int fd = -1;

    if (c != NULL && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&fd, CMSG_DATA(c), sizeof(int));
    else if (len >= 0)
        errno = len == 0 ? EPIPE : EBADMSG;
    return fd;
}
