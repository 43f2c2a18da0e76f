/* listen.c - binds sockets. A Unix socket is made with no access at all and opened up when its
 * mode and group are right; a file in its place is removed only when it is a socket and nobody
 * answers on it. The caller holds the state directory's lock, so two daemons do not race here. */
#include "http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

static int open_socket(int family, struct err *err)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    return fd >= 0 ? fd : err_sys(err, SP_IO, errno, "socket");
}

static int start_listening(int fd, const char *name, struct err *err)
{
    if (listen(fd, SOMAXCONN) != 0)
        return err_sys(err, SP_IO, errno, "listen on '%s'", name);
    return SP_OK;
}

/* SP_OK when nothing is in the way any more. */
static int clear_place(const struct sockaddr_un *addr, struct err *err)
{
    const char *path = addr->sun_path;
    AUTO_CLOSE int fd = -1;
    struct stat st;

    if (lstat(path, &st) != 0)
        return errno == ENOENT ? SP_OK : err_sys(err, SP_IO, errno, "look at '%s'", path);
    if (!S_ISSOCK(st.st_mode))
        return err_set(err, SP_CONFIG, "'%s' exists and is not a socket", path);
    fd = open_socket(AF_UNIX, err);
    if (fd < 0)
        return fd;
    /* EAGAIN: its queue is full, so somebody is there. */
    if (connect(fd, (const struct sockaddr *) addr, sizeof(*addr)) == 0 || errno == EAGAIN)
        return err_set(err, SP_LOCKED, "another daemon answers on '%s'", path);
    if (errno == ENOENT)
        return SP_OK;
    if (errno != ECONNREFUSED)
        return err_sys(err, SP_IO, errno, "find out who listens on '%s'", path);
    if (unlink(path) != 0 && errno != ENOENT)
        return err_sys(err, SP_IO, errno, "remove the stale socket '%s'", path);
    return SP_OK;
}

static int bind_closed(int fd, const struct sockaddr_un *addr, struct err *err)
{
    mode_t old = umask(0777);
    int r = bind(fd, (const struct sockaddr *) addr, sizeof(*addr));
    int sys = errno;

    (void) umask(old);
    return r == 0 ? SP_OK : err_sys(err, SP_IO, sys, "bind '%s'", addr->sun_path);
}

int listen_open_up(const char *path, unsigned mode, uint32_t gid, struct err *err)
{
    if (gid != UINT32_MAX && chown(path, (uid_t) -1, (gid_t) gid) != 0)
        return err_sys(err, SP_IO, errno, "give '%s' to group %u", path, gid);
    if (chmod(path, (mode_t) mode) != 0)
        return err_sys(err, SP_IO, errno, "set the mode of '%s'", path);
    return SP_OK;
}

int listen_unix(const char *path, unsigned mode, uint32_t gid, struct err *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    AUTO_CLOSE int fd = -1;
    int r;

    if (str_is_empty(path) || !str_copy(addr.sun_path, sizeof(addr.sun_path), path))
        return err_set(err, SP_CONFIG, "a socket path has 1 to %zu characters: '%.150s'",
                       sizeof(addr.sun_path) - 1, path);
    r = clear_place(&addr, err);
    if (r != SP_OK)
        return r;
    fd = open_socket(AF_UNIX, err);
    if (fd < 0)
        return fd;
    r = bind_closed(fd, &addr, err);
    if (r != SP_OK)
        return r;
    r = start_listening(fd, path, err);
    if (r == SP_OK)
        r = listen_open_up(path, mode, gid, err);
    if (r != SP_OK) {
        (void) unlink(path); /* ours, and of no use */
        return r;
    }
    return TAKE_FD(fd);
}

/* "1.2.3.4:80", "[::1]:80", "localhost:80": names are not looked up. */
static bool parse_address(const char *address, struct sockaddr_storage *ret, socklen_t *ret_len)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *) ret;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *) ret;
    const char *colon = strrchr(address, ':');
    char host[64];
    size_t len;
    uint64_t port;

    memset(ret, 0, sizeof(*ret));
    if (colon == NULL || !str_parse_u64(colon + 1, 0, 65535, &port) ||
        !str_copy_n(host, sizeof(host), address, (size_t) (colon - address)))
        return false;
    len = strlen(host);
    if (len > 2 && host[0] == '[' && host[len - 1] == ']') {
        host[len - 1] = '\0';
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t) port);
        *ret_len = sizeof(*v6);
        return inet_pton(AF_INET6, host + 1, &v6->sin6_addr) == 1;
    }
    v4->sin_family = AF_INET;
    v4->sin_port = htons((uint16_t) port);
    *ret_len = sizeof(*v4);
    return inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, &v4->sin_addr) ==
           1;
}

int listen_tcp(const char *address, struct err *err)
{
    struct sockaddr_storage ss;
    AUTO_CLOSE int fd = -1;
    socklen_t len;
    int on = 1;
    int r;

    if (!parse_address(address, &ss, &len))
        return err_set(err, SP_CONFIG, "'%s' is not an address like 127.0.0.1:8001", address);
    fd = open_socket(ss.ss_family, err);
    if (fd < 0)
        return fd;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, (struct sockaddr *) &ss, len) != 0)
        return err_sys(err, SP_IO, errno, "bind '%s'", address);
    r = start_listening(fd, address, err);
    return r == SP_OK ? TAKE_FD(fd) : r;
}

int listen_port(int fd)
{
    struct sockaddr_storage ss = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(ss);

    if (getsockname(fd, (struct sockaddr *) &ss, &len) != 0)
        return 0;
    if (ss.ss_family == AF_INET)
        return ntohs(((struct sockaddr_in *) &ss)->sin_port);
    if (ss.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *) &ss)->sin6_port);
    return 0;
}

static bool is_listening(int fd)
{
    int is_on = 0;
    socklen_t len = sizeof(is_on);

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_on, &len) == 0 && is_on != 0;
}

bool listen_is_unix(int fd, const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNSPEC};
    socklen_t len = sizeof(addr);
    struct stat st;

    return is_listening(fd) && getsockname(fd, (struct sockaddr *) &addr, &len) == 0 &&
           addr.sun_family == AF_UNIX && len > offsetof(struct sockaddr_un, sun_path) &&
           strncmp(addr.sun_path, path, sizeof(addr.sun_path)) == 0 && lstat(path, &st) == 0 &&
           S_ISSOCK(st.st_mode);
}

bool listen_is_tcp(int fd, const char *address)
{
    struct sockaddr_storage want;
    struct sockaddr_storage have = {.ss_family = AF_UNSPEC};
    const struct sockaddr_in *v4 = (const struct sockaddr_in *) &want;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *) &want;
    socklen_t len;
    int port;

    if (!is_listening(fd) || !parse_address(address, &want, &len))
        return false;
    len = sizeof(have);
    if (getsockname(fd, (struct sockaddr *) &have, &len) != 0 || have.ss_family != want.ss_family)
        return false;
    port = ntohs(want.ss_family == AF_INET ? v4->sin_port : v6->sin6_port);
    if (port != 0 && port != listen_port(fd))
        return false;
    if (want.ss_family == AF_INET)
        return v4->sin_addr.s_addr == ((const struct sockaddr_in *) &have)->sin_addr.s_addr;
    return memcmp(&v6->sin6_addr, &((const struct sockaddr_in6 *) &have)->sin6_addr,
                  sizeof(v6->sin6_addr)) == 0;
}
