/* netlink_loop.c - makes the netlink sockets of a box, in the box's network namespace, and puts them
 * into the process that asked. It decides by the numbers in the registers of the call, which cannot
 * change meanwhile, and never looks into the memory of the box. */
#include "hands/netlink_loop.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define QUESTION_MAX 512 /* of the kernel's structure, which may grow; 80 in 2026 */
#define REPORT_MAX 16384 /* of the kernel's list of the sockets; less than 100 for each */

struct netlink_loop {
    int questions;
    int alive;  /* epoll: the kernel keeps a file there, without a reference, until nobody has it */
    int report; /* /proc/self/fdinfo of `alive` */
    unsigned count; /* of sockets in `alive`, or more */
};

/* From here on it may do what the box's root may, and less. */
static bool drop_privileges(uint32_t id)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}, {0}};

    /* An ordinary user's boxes have the ids of a namespace in which it is root already. */
    if (id != 0 &&
        (setgroups(0, NULL) != 0 || setresgid(id, id, id) != 0 || setresuid(id, id, id) != 0))
        return false;
    return syscall(SYS_capset, &header, none) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}

/* How many of the sockets somebody still has; the same as before if that cannot be told. */
static unsigned count_alive(const struct netlink_loop *l)
{
    char text[REPORT_MAX];
    ssize_t n = pread(l->report, text, sizeof(text) - 1, 0);
    unsigned count = 0;

    if (n <= 0 || (size_t) n == sizeof(text) - 1)
        return l->count;
    text[n] = '\0';
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        count += strncmp(line, "tfd:", 4) == 0;
    }
    return count;
}

/* The descriptor of a new socket, or an error as a negative number. */
static int make_socket(struct netlink_loop *l, const struct seccomp_data *call)
{
    int type = (int) (uint32_t) call->args[1];
    struct epoll_event nothing = {0};
    int fd;

    /* What a kernel without the others answers: programs that would write to the audit log go on. */
    if ((uint32_t) call->args[2] != NETLINK_ROUTE)
        return -EPROTONOSUPPORT;
    if (l->count >= NETLINK_SOCKETS_MAX)
        l->count = count_alive(l);
    if (l->count >= NETLINK_SOCKETS_MAX)
        return -ENOBUFS;
    fd = socket(AF_NETLINK, type | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return -errno;
    if (epoll_ctl(l->alive, EPOLL_CTL_ADD, fd, &nothing) != 0) {
        (void) close(fd); /* nobody has used it */
        return -ENOBUFS;
    }
    l->count++;
    return fd;
}

static void answer(struct netlink_loop *l, const struct seccomp_notif *question)
{
    struct seccomp_notif_resp reply = {.id = question->id};
    struct seccomp_notif_addfd add = {.id = question->id, .flags = SECCOMP_ADDFD_FLAG_SEND};
    int fd = make_socket(l, &question->data);

    if (fd >= 0) {
        add.srcfd = (uint32_t) fd;
        add.newfd_flags = (uint32_t) question->data.args[1] & SOCK_CLOEXEC ? O_CLOEXEC : 0;
        reply.error = ioctl(l->questions, SECCOMP_IOCTL_NOTIF_ADDFD, &add) < 0 ? -errno : 0;
        (void) close(fd); /* it is the box's now, or gone */
    } else {
        reply.error = fd;
    }
    /* The caller may be gone meanwhile, which is its own affair. */
    if (reply.error != 0)
        (void) ioctl(l->questions, SECCOMP_IOCTL_NOTIF_SEND, &reply);
}

static void serve(struct netlink_loop *l)
{
    struct pollfd wait = {.fd = l->questions, .events = POLLIN};
    union {
        struct seccomp_notif question;
        char bytes[QUESTION_MAX];
    } u;

    for (;;) {
        if (poll(&wait, 1, -1) < 0)
            continue;
        if ((wait.revents & POLLIN) == 0)
            return; /* nobody is left who could ask */
        memset(&u, 0, sizeof(u));
        if (ioctl(l->questions, SECCOMP_IOCTL_NOTIF_RECV, &u) == 0)
            answer(l, &u.question);
    }
}

/* With `network: host` it is there already, and an ordinary user may not enter it again. */
static bool enter(int network)
{
    struct stat own;
    struct stat its;

    if (stat("/proc/self/ns/net", &own) != 0 || fstat(network, &its) != 0)
        return false;
    if (own.st_ino != its.st_ino && setns(network, CLONE_NEWNET) != 0)
        return false;
    return close(network) == 0;
}

void netlink_loop_run(int questions, int network, uint32_t id)
{
    struct netlink_loop l = {.questions = questions, .alive = epoll_create1(EPOLL_CLOEXEC)};
    struct seccomp_notif_sizes sizes = {0};
    char path[48];

    (void) prctl(PR_SET_NAME, "sandpool-netlnk"); /* the arguments tell it, too */
    (void) snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", l.alive);
    l.report = open(path, O_RDONLY | O_CLOEXEC);
    if (l.alive < 0 || l.report < 0 ||
        syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) != 0 ||
        sizes.seccomp_notif > QUESTION_MAX || sizes.seccomp_notif_resp > QUESTION_MAX ||
        !enter(network) || !drop_privileges(id) || write(NETLINK_PARENT_FD, ".", 1) != 1 ||
        close(NETLINK_PARENT_FD) != 0)
        return;
    serve(&l);
}
