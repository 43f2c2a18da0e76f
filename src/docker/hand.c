/* hand.c - the socket of a box without a network: bound on the host's loopback, and handed to the
 * agent over a Unix socket in a directory that only this container sees. Once it is taken, or the
 * box given up, nothing of it is left here. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "docker/internal.h"

#define SOCKET_NAME "socket"

enum { BACKLOG = 512 };

struct docker_hand {
    char dir[DOCKER_PATH_MAX + 32];
    int lock_fd; /* of the directory: held as long as it is in use */
    int box_fd;
    int meet_fd; /* owned by the watch */
    unsigned port;
    struct fdwatch *watch;
    void (*on_taken)(void *ctx, int rc);
    void *ctx;
};

const char *docker_hand_dir(const struct docker_hand *h)
{
    return h->dir;
}

unsigned docker_hand_port(const struct docker_hand *h)
{
    return h->port;
}

static void remove_dir(const char *dir)
{
    char path[DOCKER_PATH_MAX + 64];

    (void) snprintf(path, sizeof(path), "%s/" SOCKET_NAME, dir);
    (void) unlink(path); /* may never have been made */
    (void) rmdir(dir);   /* likewise */
}

void docker_hand_free(struct docker_hand *h)
{
    if (h == NULL)
        return;
    fdwatch_free(h->watch);
    if (h->box_fd >= 0)
        (void) close(h->box_fd); /* the box has its own */
    remove_dir(h->dir);
    if (h->lock_fd >= 0)
        (void) close(h->lock_fd);
    free(h);
}

/* Another backend of this daemon sweeps the same place when it is opened. -1: it is in use. */
static int lock_dir(const char *dir)
{
    AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 ? TAKE_FD(fd) : -1;
}

static int send_fd(int to, int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
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
    return sendmsg(to, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ? SP_OK : SP_IO;
}

static void on_asked(void *ctx)
{
    struct docker_hand *h = ctx;
    AUTO_CLOSE int fd = accept4(h->meet_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int rc = fd >= 0 ? send_fd(fd, h->box_fd) : SP_IO;

    h->on_taken(h->ctx, rc);
}

/* On loopback: the box is reached there whatever network it has. */
static int listen_for_box(struct docker_hand *h, struct err *err)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);

    h->box_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (h->box_fd < 0 ||
        bind(h->box_fd, (const struct sockaddr *) &address, sizeof(address)) != 0 ||
        listen(h->box_fd, BACKLOG) != 0 ||
        getsockname(h->box_fd, (struct sockaddr *) &address, &len) != 0)
        return err_sys(err, SP_IO, errno, "socket of the box");
    h->port = ntohs(address.sin_port);
    return SP_OK;
}

/* The path may be longer than a socket's may be: it is reached through the open directory. Any user
 * of the container may connect; nobody else sees the directory. */
static int listen_for_agent(struct docker *d, struct docker_hand *h, struct err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    AUTO_CLOSE int dir_fd = open(h->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    (void) snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" SOCKET_NAME,
                    dir_fd);
    if (dir_fd < 0 || fd < 0 ||
        bind(fd, (const struct sockaddr *) &address, sizeof(address)) != 0 ||
        fchmodat(dir_fd, SOCKET_NAME, 0666, 0) != 0 || chmod(h->dir, 0711) != 0 ||
        listen(fd, 1) != 0)
        return err_sys(err, SP_IO, errno, "socket in '%.140s'", h->dir);
    h->meet_fd = fd;
    return fdwatch_new(d->loop, TAKE_FD(fd), on_asked, h, &h->watch, err);
}

int docker_hand_new(struct docker *d, uint64_t box_id, void (*on_taken)(void *ctx, int rc),
                    void *ctx, struct docker_hand **ret, struct err *err)
{
    struct docker_hand *h;
    char hex[17];
    int rc;

    if (str_is_empty(d->dir))
        return err_set(err, SP_CONFIG, "there is no directory for sockets in state_dir");
    h = xcalloc(1, sizeof(*h));
    str_hex64(hex, box_id);
    (void) snprintf(h->dir, sizeof(h->dir), "%s/%s", d->dir, hex);
    h->lock_fd = -1;
    h->box_fd = -1;
    h->on_taken = on_taken;
    h->ctx = ctx;
    remove_dir(h->dir);
    if (mkdir(h->dir, 0700) != 0)
        rc = err_sys(err, SP_IO, errno, "directory '%.160s'", h->dir);
    else
        rc = listen_for_box(h, err);
    h->lock_fd = lock_dir(h->dir);
    if (rc == SP_OK)
        rc = listen_for_agent(d, h, err);
    if (rc != SP_OK) {
        docker_hand_free(h);
        return rc;
    }
    *ret = h;
    return SP_OK;
}

void docker_hand_sweep(struct docker *d)
{
    DIR *dir = str_is_empty(d->dir) ? NULL : opendir(d->dir);
    struct dirent *entry;
    uint64_t id;

    if (dir == NULL)
        return;
    for (entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char path[DOCKER_PATH_MAX + 32];
        int fd;

        if (!str_parse_hex64(entry->d_name, &id))
            continue;
        (void) snprintf(path, sizeof(path), "%s/%.16s", d->dir, entry->d_name);
        fd = lock_dir(path);
        if (fd < 0)
            continue;
        remove_dir(path);
        (void) close(fd);
    }
    (void) closedir(dir);
}
