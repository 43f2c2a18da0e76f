/* machine.c - see machine.h. Each finding says what was found and, if it is not good, what to do. */
#include "front/machine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "http/listen.h"

#define MB (1024 * 1024)

enum {
    FILES_LEFT_MIN = 64, /* fewer and boxes and callers are refused */
    INODES_MIN = 1024,
    MODE_BITS = 07777,
    OTHERS = 0002, /* may connect */
    GROUP = 0020,
};

void machine_place(const struct config *c, bool is_serving, struct machine_place *ret)
{
    *ret = (struct machine_place){.is_serving = is_serving,
                                  .mode = (unsigned) c->socket.mode,
                                  .floor_bytes = c->store.min_free,
                                  .max_boxes = c->pool.max_boxes};
    str_copy_cut(ret->socket, sizeof(ret->socket), c->socket.path); /* all are as long there */
    str_copy_cut(ret->tcp, sizeof(ret->tcp), c->tcp.listen);
    str_copy_cut(ret->state_dir, sizeof(ret->state_dir), c->state_dir);
    if (c->provisioner.enabled)
        str_copy_cut(ret->provisioner, sizeof(ret->provisioner), c->provisioner.listen);
}

/* --- open files --- */

static uint64_t open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    uint64_t count = 0;

    if (dir == NULL)
        return 0;
    while (readdir(dir) != NULL)
        count++;
    (void) closedir(dir);             /* was only read */
    return count > 3 ? count - 3 : 0; /* ".", ".." and the directory's own */
}

static void examine_files(const struct machine_place *p, struct backend_exam *r)
{
    struct rlimit limit;
    uint64_t used = open_files();
    uint64_t max;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    max = p->is_serving ? limit.rlim_cur : limit.rlim_max; /* the daemon raises it */
    if (p->is_serving && used + FILES_LEFT_MIN > max)
        backend_report(r, BACKEND_FINDING_FAIL, "open files",
                       "%llu of %llu are used: callers and boxes are refused. Raise LimitNOFILE of "
                       "the unit, or ulimit -n",
                       (unsigned long long) used, (unsigned long long) max);
    else if (p->is_serving && used >= max / 10 * 8)
        backend_report(r, BACKEND_FINDING_WARN, "open files",
                       "%llu of %llu are used. Raise LimitNOFILE of the unit, or ulimit -n",
                       (unsigned long long) used, (unsigned long long) max);
    else if (max < 4 * p->max_boxes)
        backend_report(
            r, BACKEND_FINDING_WARN, "open files",
            "%llu may be open, which is little for pool.max_boxes of %llu: fewer callers "
            "are served at once. Raise LimitNOFILE of the unit, or ulimit -n",
            (unsigned long long) max, (unsigned long long) p->max_boxes);
    else if (p->is_serving)
        backend_report(r, BACKEND_FINDING_OK, "open files", "%llu of %llu are used",
                       (unsigned long long) used, (unsigned long long) max);
    else
        backend_report(r, BACKEND_FINDING_OK, "open files", "%llu may be open",
                       (unsigned long long) max);
}

/* --- the socket --- */

/* 0: somebody answers; else an errno. A queue that is full (EAGAIN) is somebody's, too. */
static int try_socket(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return errno;
    if (!str_copy(addr.sun_path, sizeof(addr.sun_path), path))
        return ENAMETOOLONG;
    if (connect(fd, (const struct sockaddr *) &addr, sizeof(addr)) == 0 || errno == EAGAIN)
        return 0;
    return errno;
}

static bool find_directory(const char *path, char ret[CONFIG_PATH_MAX + 1])
{
    char *slash;

    str_copy_cut(ret, CONFIG_PATH_MAX + 1, path);
    slash = strrchr(ret, '/');
    if (slash == NULL)
        str_copy_cut(ret, CONFIG_PATH_MAX + 1, ".");
    else
        slash[slash == ret ? 1 : 0] = '\0';
    return access(ret, F_OK) == 0;
}

static void report_rights(const struct machine_place *p, const struct stat *st,
                          struct backend_exam *r)
{
    unsigned mode = st->st_mode & MODE_BITS;
    char dir[CONFIG_PATH_MAX + 1];
    struct stat above;
    bool is_closed = find_directory(p->socket, dir) && stat(dir, &above) == 0 &&
                     (((mode & OTHERS) != 0 && (above.st_mode & S_IXOTH) == 0) ||
                      ((mode & GROUP) != 0 && (above.st_mode & (S_IXGRP | S_IXOTH)) == 0));

    if (is_closed)
        backend_report(r, BACKEND_FINDING_WARN, "socket",
                       "%.160s has mode %04o, but not all whom that admits may enter %.60s",
                       p->socket, mode, dir);
    else if ((mode & OTHERS) != 0)
        backend_report(r, BACKEND_FINDING_WARN, "socket",
                       "%.160s has mode %04o: every user of this machine may get boxes", p->socket,
                       mode);
    else
        backend_report(r, BACKEND_FINDING_OK, "socket", "%.160s, mode %04o, uid %u, gid %u",
                       p->socket, mode, (unsigned) st->st_uid, (unsigned) st->st_gid);
}

/* The path of a descriptor that listens on a Unix socket; false for others. */
static bool listens_at(int fd, char ret[CONFIG_PATH_MAX + 1])
{
    struct sockaddr_un addr = {.sun_family = AF_UNSPEC};
    socklen_t len = sizeof(addr);
    int is_on = 0;
    socklen_t size = sizeof(is_on);

    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_on, &size) != 0 || is_on == 0 ||
        getsockname(fd, (struct sockaddr *) &addr, &len) != 0 || addr.sun_family != AF_UNIX ||
        len <= offsetof(struct sockaddr_un, sun_path))
        return false;
    str_copy_cut(ret, CONFIG_PATH_MAX + 1, addr.sun_path); /* shorter than the array: it ends */
    return true;
}

/* A service manager may have made it elsewhere than the configuration says. */
static void find_own_socket(struct machine_place *p)
{
    DIR *dir = opendir("/proc/self/fd");
    char found[CONFIG_PATH_MAX + 1] = "";

    if (dir == NULL)
        return;
    for (const struct dirent *d = readdir(dir); d != NULL; d = readdir(dir)) {
        char path[CONFIG_PATH_MAX + 1];
        uint64_t fd;

        if (!str_parse_u64(d->d_name, 0, INT32_MAX, &fd) || !listens_at((int) fd, path))
            continue;
        if (str_is_empty(found) || strcmp(path, p->socket) == 0)
            str_copy_cut(found, sizeof(found), path);
    }
    (void) closedir(dir); /* was only read */
    if (!str_is_empty(found))
        str_copy_cut(p->socket, sizeof(p->socket), found);
}

static void examine_own_socket(const struct machine_place *place, struct backend_exam *r)
{
    struct machine_place own = *place;
    const struct machine_place *p = &own;
    struct stat st;
    int sys;

    find_own_socket(&own);
    sys = lstat(p->socket, &st) == 0 ? try_socket(p->socket) : errno;

    if (sys != 0)
        backend_report(
            r, BACKEND_FINDING_FAIL, "socket",
            "nobody can connect to %.160s: %s. Restart the daemon: boxes and leases stay",
            p->socket, strerror(sys));
    else
        report_rights(p, &st, r);
}

static void examine_free_socket(const struct machine_place *p, struct backend_exam *r)
{
    char dir[CONFIG_PATH_MAX + 1];

    if (try_socket(p->socket) == 0)
        backend_report(r, BACKEND_FINDING_WARN, "socket", "a daemon answers at %.160s", p->socket);
    else if (!find_directory(p->socket, dir))
        backend_report(r, BACKEND_FINDING_WARN, "socket",
                       "%.160s does not exist; the unit makes /run/sandpool", dir);
    else if (access(dir, W_OK | X_OK) != 0)
        backend_report(r, BACKEND_FINDING_FAIL, "socket", "no socket can be made in %.160s: %s",
                       dir, strerror(errno));
    else
        backend_report(r, BACKEND_FINDING_OK, "socket", "can be made in %.160s", dir);
}

/* --- ports --- */

static void examine_port(const char *key, const char *address, bool is_serving,
                         struct backend_exam *r)
{
    struct err err;
    int fd;

    if (str_is_empty(address))
        return;
    if (is_serving) { /* it would not have started without */
        backend_report(r, BACKEND_FINDING_OK, key, "listens at %.100s", address);
        return;
    }
    fd = listen_tcp(address, &err);
    if (fd >= 0) {
        (void) close(fd); /* nobody has connected */
        backend_report(r, BACKEND_FINDING_OK, key, "%.100s is free", address);
    } else {
        backend_report(r, BACKEND_FINDING_WARN, key, "%.240s (by a daemon that runs?)", err.msg);
    }
}

/* A box of this machine has a port of 127.0.0.1 of its own. */
static void examine_box_ports(const struct machine_place *p, struct backend_exam *r)
{
    char text[64];
    unsigned low = 0;
    unsigned high = 0;

    if (file_read_start(AT_FDCWD, "/proc/sys/net/ipv4/ip_local_port_range", text, sizeof(text)) <=
            0 ||
        sscanf(text, "%u %u", &low, &high) != 2 || high < low)
        return;
    if (high - low + 1 < p->max_boxes + p->max_boxes / 2)
        backend_report(r, BACKEND_FINDING_WARN, "ports of boxes",
                       "%u to %u (net.ipv4.ip_local_port_range) are few for pool.max_boxes of %llu",
                       low, high, (unsigned long long) p->max_boxes);
    else
        backend_report(r, BACKEND_FINDING_OK, "ports of boxes", "%u to %u", low, high);
}

/* --- clock, kernel, disk --- */

static void examine_clock(struct backend_exam *r)
{
    struct timex t = {.modes = 0};
    int state = adjtimex(&t);

    if (state < 0)
        return;
    if (state == TIME_ERROR || (t.status & STA_UNSYNC) != 0)
        backend_report(r, BACKEND_FINDING_WARN, "clock",
                       "the kernel does not know it to be synchronised: times in lists and events "
                       "may be wrong, deadlines are not. Run chrony or systemd-timesyncd");
    else
        backend_report(r, BACKEND_FINDING_OK, "clock", "synchronised, within %ld ms",
                       t.maxerror / 1000);
}

static bool has_word(const char *path, const char *word)
{
    char text[4096];

    return file_read_start(AT_FDCWD, path, text, sizeof(text)) > 0 && strstr(text, word) != NULL;
}

static bool has_user_namespaces(void)
{
    char text[16];

    return access("/proc/self/ns/user", F_OK) == 0 &&
           file_read_start(AT_FDCWD, "/proc/sys/user/max_user_namespaces", text, sizeof(text)) >
               0 &&
           strcmp(text, "0\n") != 0;
}

/* What boxes of this machine are made with. A runtime that was tried with a box has proven that it is there. */
static void examine_kernel(struct backend_exam *r)
{
    const struct {
        const char *name;
        bool is_there;
    } features[] = {
        {"user namespaces", has_user_namespaces()},
        {"seccomp", access("/proc/sys/kernel/seccomp/actions_avail", F_OK) == 0},
        {"overlayfs", has_word("/proc/filesystems", "overlay")},
        {"network namespaces", access("/proc/self/ns/net", F_OK) == 0},
        {"cgroup namespaces", access("/proc/self/ns/cgroup", F_OK) == 0},
    };
    char missing[160] = "";
    char there[160] = "";

    for (size_t i = 0; i < ARRAY_LEN(features); i++) {
        char *dst = features[i].is_there ? there : missing;
        size_t len = strlen(dst);

        (void) snprintf(dst + len, sizeof(there) - len, "%s%s", len > 0 ? ", " : "",
                        features[i].name);
    }
    if (!str_is_empty(missing))
        backend_report(r, BACKEND_FINDING_WARN, "kernel features",
                       "not there: %s. Boxes of this machine need them (overlayfs may be a module "
                       "that is loaded at first use)",
                       missing);
    else
        backend_report(r, BACKEND_FINDING_OK, "kernel features", "%s", there);
}

static void report_controllers(struct backend_exam *r)
{
    static const char *const wanted[] = {"memory", "cpu", "pids"};
    static const char v2[] = "/sys/fs/cgroup/cgroup.controllers";
    bool is_v2 = access(v2, F_OK) == 0;
    char missing[64] = "";

    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        size_t len = strlen(missing);

        if (!has_word(is_v2 ? v2 : "/proc/cgroups", wanted[i]))
            (void) snprintf(missing + len, sizeof(missing) - len, "%s%s", len > 0 ? ", " : "",
                            wanted[i]);
    }
    if (!str_is_empty(missing))
        backend_report(r, BACKEND_FINDING_WARN, "cgroup controllers",
                       "not there: %s. Those limits of boxes have no effect", missing);
    else
        backend_report(r, BACKEND_FINDING_OK, "cgroup controllers", "memory, cpu, pids");
}

/* The engine of a daemon that runs knows more, and says so. */
static void examine_disk(const struct machine_place *p, struct backend_exam *r)
{
    char dir[CONFIG_PATH_MAX + 1];
    struct statvfs fs;
    uint64_t free_bytes;

    if (p->is_serving)
        return;
    if (statvfs(p->state_dir, &fs) != 0 &&
        (!find_directory(p->state_dir, dir) || statvfs(dir, &fs) != 0)) {
        backend_report(r, BACKEND_FINDING_WARN, "disk", "%.200s: %s", p->state_dir,
                       strerror(errno));
        return;
    }
    free_bytes = (uint64_t) fs.f_bavail * fs.f_frsize;
    if (free_bytes < p->floor_bytes)
        backend_report(r, BACKEND_FINDING_FAIL, "disk",
                       "%llu MB free for %.120s, below the floor of %llu MB (store.min_free): no "
                       "box will be made",
                       (unsigned long long) (free_bytes / MB), p->state_dir,
                       (unsigned long long) (p->floor_bytes / MB));
    else if (fs.f_files > 0 && fs.f_favail < INODES_MIN)
        backend_report(r, BACKEND_FINDING_FAIL, "disk",
                       "%llu inodes free for %.120s: no box will be made",
                       (unsigned long long) fs.f_favail, p->state_dir);
    else
        backend_report(r, BACKEND_FINDING_OK, "disk", "%llu MB and %llu inodes free for %.120s",
                       (unsigned long long) (free_bytes / MB), (unsigned long long) fs.f_favail,
                       p->state_dir);
}

void machine_examine(const struct machine_place *p, struct backend_exam *r)
{
    examine_kernel(r);
    report_controllers(r);
    examine_files(p, r);
    if (p->is_serving)
        examine_own_socket(p, r);
    else
        examine_free_socket(p, r);
    examine_port("tcp.listen", p->tcp, p->is_serving, r);
    examine_port("provisioner.listen", p->provisioner, p->is_serving, r);
    examine_box_ports(p, r);
    examine_clock(r);
    examine_disk(p, r);
}
