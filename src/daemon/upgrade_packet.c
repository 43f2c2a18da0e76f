/* upgrade_packet.c - packets with descriptors on a SOCK_SEQPACKET socket: one packet, one message. The path is
 * reached through the directory's descriptor, because a socket's address is shorter than a path. */
#include "daemon/upgrade_packet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"

#define PACKET_FILE "takeover.sock"

static int address_of(int dir_fd, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    return snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/" PACKET_FILE, dir_fd);
}

static int open_both(const char *state_dir, int *ret_dir, int *ret_fd, struct err *err)
{
    *ret_dir = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*ret_dir < 0)
        return err_sys(err, errno == ENOENT ? SP_CONNECT_FAILED : SP_IO, errno, "open '%.120s'",
                       state_dir);
    *ret_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    return *ret_fd >= 0 ? SP_OK : err_sys(err, SP_IO, errno, "socket");
}

int packet_listen(const char *state_dir, int *ret_fd, struct err *err)
{
    AUTO_CLOSE int dir_fd = -1;
    AUTO_CLOSE int fd = -1;
    struct sockaddr_un addr;
    mode_t old;
    int r = open_both(state_dir, &dir_fd, &fd, err);

    if (r != SP_OK)
        return r;
    (void) address_of(dir_fd, &addr);        /* a number fits */
    (void) unlinkat(dir_fd, PACKET_FILE, 0); /* bind() fails if it is still there */
    old = umask(0177);
    r = bind(fd, (const struct sockaddr *) &addr, sizeof(addr));
    (void) umask(old);
    if (r != 0 || listen(fd, 4) != 0)
        return err_sys(err, SP_IO, errno, "listen on '%.120s/" PACKET_FILE "'", state_dir);
    *ret_fd = TAKE_FD(fd);
    return SP_OK;
}

void packet_remove(const char *state_dir)
{
    AUTO_CLOSE int dir_fd = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (dir_fd >= 0)
        (void) unlinkat(dir_fd, PACKET_FILE, 0); /* what is left is replaced at the next start */
}

int packet_connect(const char *state_dir, int *ret_fd, struct err *err)
{
    AUTO_CLOSE int dir_fd = -1;
    AUTO_CLOSE int fd = -1;
    struct sockaddr_un addr;
    int r = open_both(state_dir, &dir_fd, &fd, err);

    if (r != SP_OK)
        return r;
    (void) address_of(dir_fd, &addr); /* a number fits */
    packet_set_patience(fd, 2000);    /* for a queue that is full */
    if (connect(fd, (const struct sockaddr *) &addr, sizeof(addr)) != 0)
        return err_sys(err, errno == ENOENT || errno == ECONNREFUSED ? SP_CONNECT_FAILED : SP_IO,
                       errno, "connect to '%.120s/" PACKET_FILE "'", state_dir);
    *ret_fd = TAKE_FD(fd);
    return SP_OK;
}

bool packet_is_allowed(int fd, pid_t *ret_pid)
{
    struct ucred cred = {0};
    socklen_t len = sizeof(cred);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0)
        return false;
    *ret_pid = cred.pid;
    return cred.uid == geteuid() || cred.uid == 0;
}

bool packet_is_closed(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void packet_set_patience(int fd, uint64_t ms)
{
    struct timeval tv = {.tv_sec = (time_t) (ms / 1000),
                         .tv_usec = (suseconds_t) (ms % 1000 * 1000)};
    int flags = fcntl(fd, F_GETFL);

    /* None of these can fail on a socket of ours. */
    (void) fcntl(fd, F_SETFL, ms > 0 ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
    (void) setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
    (void) setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
}

union control {
    struct cmsghdr align;
    char space[CMSG_SPACE(PACKET_FDS_MAX * sizeof(int))];
};

static int failed(const char *what, struct err *err)
{
    if (errno == EAGAIN)
        return err_set(err, SP_TIMEOUT, "%s: the other daemon does not answer", what);
    return err_sys(err, SP_CONNECT_FAILED, errno, "%s", what);
}

int packet_send(int fd, enum packet_kind kind, const char *data, size_t len, const int *fds,
                unsigned fd_count, struct err *err)
{
    char head = (char) kind;
    struct iovec iov[] = {{.iov_base = &head, .iov_len = 1},
                          {.iov_base = (char *) (uintptr_t) data, .iov_len = len}};
    union control control = {0};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = ARRAY_LEN(iov)};
    ssize_t n;

    assert(fd_count <= PACKET_FDS_MAX && len <= PACKET_DATA_MAX);
    if (fd_count > 0) {
        struct cmsghdr *c = &control.align;

        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, fd_count * sizeof(int));
    }
    do
        n = sendmsg(fd, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n >= 0 ? SP_OK : failed("send", err);
}

static void take_fds(struct msghdr *msg, struct packet *ret)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        size_t count;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (ret->fd_count < PACKET_FDS_MAX) {
                ret->fds[ret->fd_count] = fd;
                ret->fd_count++;
            } else {
                (void) close(fd); /* more than there is room for */
            }
        }
    }
}

int packet_receive(int fd, struct packet *ret, struct err *err)
{
    struct iovec iov[] = {{.iov_base = &ret->kind, .iov_len = 1},
                          {.iov_base = ret->data, .iov_len = PACKET_DATA_MAX}};
    union control control = {0};
    struct msghdr msg = {.msg_iov = iov,
                         .msg_iovlen = ARRAY_LEN(iov),
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    ssize_t n;

    ret->fd_count = 0;
    do
        n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return failed("receive", err);
    take_fds(&msg, ret);
    if (n == 0) { /* an empty packet looks the same, and may bring some */
        packet_drop_fds(ret);
        return err_set(err, SP_CONNECT_FAILED, "the other daemon has gone");
    }
    ret->len = (size_t) n - 1;
    ret->data[ret->len] = '\0';
    if ((msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0)
        return SP_OK;
    packet_drop_fds(ret);
    return err_set(err, SP_PROTOCOL, "a packet that is too long");
}

void packet_drop_fds(struct packet *b)
{
    for (unsigned i = 0; i < b->fd_count; i++)
        (void) close(b->fds[i]); /* nobody wants them */
    b->fd_count = 0;
}
