/* resolver.c - starts the resolver of a box, and is it until it serves. What it then does is in resolver_loop.c. */
#include "helper/resolver.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/egress.h"
#include "base/file.h"
#include "base/str.h"
#include "helper/egress_rules.h"
#include "helper/idmap.h"
#include "helper/netlink.h"
#include "helper/proc.h"
#include "helper/relay_spawn.h"
#include "helper/resolver_filter.h"
#include "helper/resolver_loop.h"

/* Descriptors of the process. */
enum { FD_LIST = 3, FD_CHANGES, FD_REPORT };

#define CHANGE_MS 5000

/* --- starting it --- */

/* By way of the directory's descriptor, as its path can be longer than an address. */
static void name_socket(const struct box_dir *d, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    (void) snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/" RESOLVER_SOCKET,
                    d->fd);
}

static int listen_for_changes(const struct box_dir *d, int *ret, struct err *err)
{
    struct sockaddr_un name;

    name_socket(d, &name);
    *ret = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*ret < 0 || bind(*ret, (const struct sockaddr *) &name, sizeof(name)) != 0 ||
        listen(*ret, 1) != 0)
        return err_sys(err, SP_IO, errno, "socket of the resolver");
    return SP_OK;
}

/* All of it fits into a pipe. */
static int put_list(const char *allow, int *ret, struct err *err)
{
    size_t len = strlen(allow);
    int ends[2];
    bool is_put;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_sys(err, SP_IO, errno, "pipe");
    *ret = ends[0];
    is_put = write(ends[1], allow, len) == (ssize_t) len;
    (void) close(ends[1]); /* else its end is never seen */
    return is_put ? SP_OK : err_sys(err, SP_IO, errno, "list of the resolver");
}

NORETURN static void become_resolver(const struct plan *p, const int fds[3])
{
    char id[16];
    char count[16];
    const char *const argv[] = {"sandpool-helper", "resolver", p->dir, id, count, NULL};

    (void) snprintf(id, sizeof(id), "%u", p->id_base);
    (void) snprintf(count, sizeof(count), "%u", p->id_count);
    relay_exec(argv, fds, 3);
}

int resolver_begin(const struct plan *p, const struct box_dir *d, struct resolver *r,
                   struct err *err)
{
    AUTO_CLOSE int list = -1;
    AUTO_CLOSE int changes = -1;
    AUTO_CLOSE int report = -1;
    char text[64];
    int ends[2];
    pid_t pid;
    int rc;

    if ((rc = box_dir_write(d, RESOLVER_LIST, p->egress, err)) != SP_OK ||
        (rc = put_list(p->egress, &list, err)) != SP_OK ||
        (rc = listen_for_changes(d, &changes, err)) != SP_OK)
        return rc;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return err_sys(err, SP_IO, errno, "socketpair");
    r->report = ends[0];
    report = ends[1];
    pid = fork();
    if (pid < 0)
        return err_sys(err, SP_IO, errno, "fork");
    if (pid == 0)
        become_resolver(p, (const int[]){list, changes, report});
    r->pid = (int) pid;
    (void) snprintf(text, sizeof(text), "%d %llu\n", (int) pid,
                    (unsigned long long) proc_start_time(pid));
    return box_dir_write(d, RESOLVER_PID_FILE, text, err);
}

int resolver_await(struct resolver *r, struct err *err)
{
    int rc = relay_read_report(r->report, "resolver", err);

    (void) close(r->report); /* only read */
    r->report = -1;
    return rc;
}

int resolver_change(const struct box_dir *d, const char *allow, struct err *err)
{
    struct sockaddr_un name;
    struct pollfd wait = {.events = POLLIN};
    size_t len = strlen(allow);
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    char byte = 0;

    name_socket(d, &name);
    wait.fd = fd;
    /* One byte more, as a message of none is the end of a connection. */
    if (fd < 0 || connect(fd, (const struct sockaddr *) &name, sizeof(name)) != 0 ||
        send(fd, allow, len + 1, MSG_NOSIGNAL) != (ssize_t) len + 1)
        return err_sys(err, SP_BACKEND_FAILED, errno, "the box's resolver");
    if (poll(&wait, 1, CHANGE_MS) <= 0 || recv(fd, &byte, 1, 0) != 1 || byte != '.')
        return err_set(err, SP_BACKEND_FAILED, "the box's resolver did not take the list");
    return SP_OK;
}

/* --- the process itself --- */

static bool write_setting(const char *path, const char *text)
{
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);

    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t) strlen(text);
}

/* Root of a user namespace that has nothing but this network. The box's own one would do less: whoever got the right to
 * change networks there could change these rules. An ordinary user is root of one already. */
static bool enter(uint32_t id, uint32_t count, struct err *err)
{
    const struct idmap map = {.to_uid = id, .to_gid = id, .count = count};
    AUTO_CLOSE int ns = -1;

    if (id != 0 && idmap_user_ns(&map, id, &ns, err) != SP_OK)
        return false;
    return (id == 0 || (setns(ns, CLONE_NEWUSER) == 0 && setresgid(0, 0, 0) == 0 &&
                        setresuid(0, 0, 0) == 0)) &&
           unshare(CLONE_NEWNET) == 0;
}

/* No IPv6: the box has none. The others may be missing, where the kernel has no such limits. */
static bool set_up(void)
{
    bool has_ipv6 = access("/proc/sys/net/ipv6/conf/all/disable_ipv6", F_OK) == 0;

    (void) write_setting("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established", "7200");
    (void) write_setting("/proc/sys/net/ipv4/conf/all/send_redirects", "0");
    /* What connections to us leave behind, and what they send while we do not read, is memory charged to nobody. */
    if (!write_setting("/proc/sys/net/ipv4/tcp_max_tw_buckets", "64") ||
        !write_setting("/proc/sys/net/ipv4/tcp_rmem", "4096 16384 65536") ||
        !write_setting("/proc/sys/net/ipv4/ip_local_port_range", "61000 65535")) /* not the box's */
        return false;
    /* Else some refusals are not answered, and programs wait. */
    return write_setting("/proc/sys/net/ipv4/icmp_ratelimit", "0") &&
           write_setting("/proc/sys/net/ipv4/ip_forward", "1") &&
           (!has_ipv6 || (write_setting("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1") &&
                          write_setting("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")));
}

/* The address comes later, with the link to the box. */
static int open_socket(int type)
{
    const struct sockaddr_in own = {
        .sin_family = AF_INET, .sin_port = htons(DNS_PORT), .sin_addr = {htonl(EGRESS_OUTSIDE)}};
    int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;

    if (fd >= 0 && setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof(on)) == 0 &&
        bind(fd, (const struct sockaddr *) &own, sizeof(own)) == 0 &&
        (type == SOCK_DGRAM || listen(fd, RESOLVER_CLIENTS_MAX) == 0))
        return fd;
    return -1; /* this process ends */
}

static bool open_sockets(struct resolver_sockets *s)
{
    s->udp = open_socket(SOCK_DGRAM);
    s->tcp = open_socket(SOCK_STREAM);
    s->netlink = netlink_open(NETLINK_NETFILTER);
    return s->udp >= 0 && s->tcp >= 0 && s->netlink >= 0;
}

static bool read_list(char ret[EGRESS_TEXT_MAX + 1])
{
    char why[EGRESS_WHY_MAX];
    size_t len = 0;
    ssize_t n;

    while (len < EGRESS_TEXT_MAX && (n = read(FD_LIST, ret + len, EGRESS_TEXT_MAX - len)) > 0)
        len += (size_t) n;
    ret[len] = '\0';
    return close(FD_LIST) == 0 && egress_check(ret, why);
}

void resolver_run(const char *id, const char *count)
{
    static char list[EGRESS_TEXT_MAX + 1];
    struct resolver_sockets s = {.changes = FD_CHANGES};
    struct err err = {0};
    uint64_t id_base;
    uint64_t id_count;

    (void) prctl(PR_SET_NAME, "sandpool-names"); /* the arguments show it, too */
    (void) fcntl(FD_REPORT, F_SETFD, FD_CLOEXEC);
    if (!str_parse_u64(id, 0, UINT32_MAX - 1, &id_base) ||
        !str_parse_u64(count, 1, UINT32_MAX, &id_count) || !read_list(list) ||
        !enter((uint32_t) id_base, (uint32_t) id_count, &err) || !set_up() || !open_sockets(&s) ||
        !relay_keep_network() || !resolver_filter_install()) {
        (void) dprintf(FD_REPORT, "%s", err.msg[0] != '\0' ? err.msg : strerror(errno));
        return;
    }
    if (send(FD_REPORT, ".", 1, MSG_NOSIGNAL) == 1 && close(FD_REPORT) == 0) /* else nobody waits */
        resolver_loop_run(&s, list);
    (void) syscall(SYS_exit_group, 0); /* sanitizers do more in _exit() than is allowed */
}
