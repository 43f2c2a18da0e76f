/* listeners.c - which socket serves which purpose. What was passed under a name by the service manager
 * is used for that name, wherever it listens; anything else is found again by its address. */
#include "daemon/listeners.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "http/listen.h"

enum { FIRST_FD = 3 }; /* of the service manager's */

/* Which file it is, so that a successor's at the same path is not removed. */
static void note_file(struct listener_socket *s, const char *path)
{
    struct stat st;

    if (lstat(path, &st) != 0 || !str_copy(s->path, sizeof(s->path), path))
        return;
    s->dev = st.st_dev;
    s->ino = st.st_ino;
}

static void remove_file(const struct listener_socket *s)
{
    struct stat st;

    if (!str_is_empty(s->path) && lstat(s->path, &st) == 0 && st.st_dev == s->dev &&
        st.st_ino == s->ino)
        (void) unlink(s->path); /* a stale socket is removed at the next start */
}

static int append(struct listeners *l, const char *name, int fd, struct listener_socket **ret,
                  struct err *err)
{
    struct listener_socket *s = &l->items[l->count];

    if (l->count == LISTENERS_MAX) {
        (void) close(fd); /* of no use */
        return err_set(err, SP_TOO_BIG, "more than %d sockets to listen on", LISTENERS_MAX);
    }
    *s = (struct listener_socket){.fd = fd};
    str_copy_cut(s->name, sizeof(s->name), name); /* a longer one is none of ours */
    l->count++;
    *ret = s;
    return SP_OK;
}

int listeners_add(struct listeners *l, const char *name, int fd, bool is_foreign, struct err *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNSPEC};
    socklen_t len = sizeof(addr);
    struct listener_socket *s = NULL;
    int is_on = 0;
    socklen_t size = sizeof(is_on);
    int r;

    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_on, &size) != 0 || is_on == 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        (void) close(fd); /* whatever it is */
        return err_set(err, SP_CONFIG, "the descriptor passed as '%s' does not listen", name);
    }
    r = append(l, name, fd, &s, err);
    if (r != SP_OK)
        return r;
    s->is_foreign = is_foreign;
    if (!is_foreign && getsockname(fd, (struct sockaddr *) &addr, &len) == 0 &&
        addr.sun_family == AF_UNIX && len < sizeof(addr))
        note_file(s, addr.sun_path); /* shorter than the array: it ends with NUL */
    return SP_OK;
}

void listeners_note_last(struct listeners *l, dev_t dev, ino_t ino)
{
    struct listener_socket *s = &l->items[l->count - 1];

    if (str_is_empty(s->path))
        return; /* it has no file, or that is gone */
    s->dev = dev;
    s->ino = ino;
}

/* The next name of a list with colons; "" when there are no more. */
static void next_name(const char **names, char *ret, size_t cap)
{
    size_t len = strcspn(*names, ":");

    if (!str_copy_n(ret, cap, *names, len))
        ret[0] = '\0';
    *names += len + ((*names)[len] == ':');
}

int listeners_from_environment(struct listeners *l, struct err *err)
{
    const char *pid_text = getenv("LISTEN_PID");
    const char *count_text = getenv("LISTEN_FDS");
    const char *names = getenv("LISTEN_FDNAMES");
    char name[LISTENER_NAME_MAX + 1];
    uint64_t pid = 0;
    uint64_t count = 0;
    int r = SP_OK;

    if (pid_text == NULL || count_text == NULL || !str_parse_u64(pid_text, 1, INT32_MAX, &pid) ||
        (pid_t) pid != getpid() || !str_parse_u64(count_text, 0, LISTENERS_MAX, &count))
        return SP_OK; /* meant for somebody else */
    if (names == NULL)
        names = "";
    for (uint64_t i = 0; i < count && r == SP_OK; i++) {
        next_name(&names, name, sizeof(name));
        r = listeners_add(l, name, FIRST_FD + (int) i, true, err);
    }
    /* Children must not take them for theirs. */
    (void) unsetenv("LISTEN_PID"); /* these cannot fail for valid names */
    (void) unsetenv("LISTEN_FDS");
    (void) unsetenv("LISTEN_FDNAMES");
    return r;
}

static bool is_unix_socket(int fd)
{
    int domain = 0;
    socklen_t len = sizeof(domain);

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX;
}

/* Whether callers who connect to `path` get to this socket. Its file may have been deleted, and another
 * socket may have been made there since, by us or by a successor that failed. */
static bool is_at(const struct listener_socket *s, const char *path)
{
    struct stat st;

    if (!listen_is_unix(s->fd, path))
        return false;
    return s->is_foreign || (!str_is_empty(s->path) && lstat(path, &st) == 0 &&
                             st.st_dev == s->dev && st.st_ino == s->ino);
}

static struct listener_socket *find(struct listeners *l, const char *name, const char *address,
                                    bool want_unix)
{
    struct listener_socket *found = NULL;

    for (unsigned i = 0; i < l->count; i++) {
        struct listener_socket *s = &l->items[i];
        bool is_named = strcmp(s->name, name) == 0;

        if (is_unix_socket(s->fd) != want_unix || (s->is_used && !is_named))
            continue;
        if (is_named && s->is_foreign)
            return s;
        if (found == NULL && (want_unix ? is_at(s, address) : listen_is_tcp(s->fd, address)))
            found = s;
    }
    return found;
}

static void use(struct listener_socket *s, const char *name)
{
    s->is_used = true;
    str_copy_cut(s->name, sizeof(s->name), name); /* a name of ours: it fits */
}

int listeners_unix(struct listeners *l, const char *name, const char *path, unsigned mode,
                   uint32_t gid, struct listener_socket **ret, struct err *err)
{
    struct listener_socket *s = find(l, name, path, true);
    int r = SP_OK;
    int fd;

    if (s == NULL) {
        fd = listen_unix(path, mode, gid, err);
        if (fd < 0)
            return fd;
        r = append(l, name, fd, &s, err);
        if (r == SP_OK)
            note_file(s, path);
    } else if (!s->is_foreign && !s->is_used) {
        r = listen_open_up(path, mode, gid, err); /* they may have changed */
    }
    if (r != SP_OK)
        return r;
    use(s, name);
    *ret = s;
    return SP_OK;
}

int listeners_tcp(struct listeners *l, const char *name, const char *address,
                  struct listener_socket **ret, struct err *err)
{
    struct listener_socket *s = find(l, name, address, false);
    int fd;

    if (s == NULL) {
        fd = listen_tcp(address, err);
        if (fd < 0)
            return fd;
        if (append(l, name, fd, &s, err) != SP_OK)
            return err->code;
    }
    use(s, name);
    *ret = s;
    return SP_OK;
}

void listeners_drop_unused(struct listeners *l)
{
    for (unsigned i = 0; i < l->count; i++) {
        struct listener_socket *s = &l->items[i];

        if (s->is_used || s->fd < 0)
            continue;
        log_warn("daemon.socket_unused", LF_STR("name", s->name), LF_STR("path", s->path));
        remove_file(s);
        (void) close(s->fd);                     /* nobody of this configuration listens there */
        *s = (struct listener_socket){.fd = -1}; /* the others stay where they are */
    }
}

void listeners_close(struct listeners *l, bool want_remove)
{
    for (unsigned i = 0; i < l->count; i++) {
        if (want_remove)
            remove_file(&l->items[i]);
        if (l->items[i].fd >= 0)
            (void) close(l->items[i].fd); /* nothing to do about it here */
    }
    l->count = 0;
}
