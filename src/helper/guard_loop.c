/* guard_loop.c - decides about the sockets of a box. It makes the netlink sockets itself, in the box's
 * network namespace, and puts them into the process that asked; those of the internet it lets the caller
 * make while there are not too many (guard_count.c), Unix sockets always. It decides by the numbers in the
 * registers of the call, which cannot change meanwhile, and by counts; it never looks into the box's memory. */
#include "helper/guard_loop.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "helper/guard_count.h"

#define QUESTION_MAX 512 /* of the kernel's structure, which may grow; 80 in 2026 */
#define REPORT_MAX 16384 /* of the kernel's list below; less than 100 for each socket */
#define GUARD_NICE (-20)
#define GO_ON 1 /* as an answer: the caller shall make the call itself */

/* Linux 6.6: who answers makes way for the caller at once. */
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif
#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

/* The numbers of the calls that a box's filter asks about (src/backends/oci/seccomp_args.c). */
static const struct table {
    uint32_t arch;
    int make;
    int connect;
    int pair;
} tables[] = {
#if defined(__x86_64__)
    {AUDIT_ARCH_X86_64, SYS_socket, SYS_connect, SYS_socketpair},
    {AUDIT_ARCH_I386, 359, 362, 360},
#elif defined(__aarch64__)
    {AUDIT_ARCH_AARCH64, SYS_socket, SYS_connect, SYS_socketpair},
    {AUDIT_ARCH_ARM, 281, 283, 288},
#else
#error "which numbers have socket(), connect() and socketpair() here?"
#endif
};

struct guard_loop {
    int questions;
    int alive;  /* epoll: the kernel keeps a file there, without a reference, until nobody has it */
    int report; /* /proc/self/fdinfo of `alive` */
    unsigned count; /* of sockets in `alive`, or more */
    struct guard_count all;
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

/* How many of the netlink sockets somebody still has; the same as before if that is not known. */
static unsigned count_alive(const struct guard_loop *l)
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

/* The descriptor of a new netlink socket, or an error as a negative number. */
static int make_netlink(struct guard_loop *l, const struct seccomp_data *call)
{
    int type = (int) (uint32_t) call->args[1];
    struct epoll_event nothing = {0};
    int fd;

    /* What a kernel without the others answers: programs that would write to the audit log go on. */
    if ((uint32_t) call->args[2] != NETLINK_ROUTE)
        return -EPROTONOSUPPORT;
    if (l->count >= GUARD_NETLINK_MAX)
        l->count = count_alive(l);
    if (l->count >= GUARD_NETLINK_MAX || !guard_count_add(&l->all))
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

/* --- the others --- */

/* Others make several sockets of one (MPTCP), or are modules. Raw ones need a capability, which nobody
 * in a box has. */
static bool is_usual(const struct seccomp_data *call)
{
    static const uint32_t usual[] = {0, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6};

    for (size_t i = 0; i < ARRAY_LEN(usual); i++)
        if ((uint32_t) call->args[2] == usual[i])
            return true;
    return ((uint32_t) call->args[1] & 0xf) == SOCK_RAW;
}

/* --- questions --- */

static int let_make(struct guard_loop *l, int thread, enum guard_call call)
{
    return guard_count_let(&l->all, thread, call) ? GO_ON : -ENOBUFS;
}

/* GO_ON, a descriptor for the caller in *ret_fd, or an error as a negative number. */
static int decide(struct guard_loop *l, const struct seccomp_notif *question, int *ret_fd)
{
    const struct seccomp_data *call = &question->data;
    int thread = (int) question->pid;

    for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
        const struct table *t = &tables[i];

        if (call->arch != t->arch)
            continue;
        if (call->nr == t->connect)
            return let_make(l, thread, GUARD_CONNECT);
        if (call->nr == t->pair)
            return let_make(l, thread, GUARD_UNIX_PAIR);
        if (call->nr != t->make)
            break;
        if ((uint32_t) call->args[0] == AF_UNIX)
            return let_make(l, thread, GUARD_UNIX);
        if ((uint32_t) call->args[0] != AF_NETLINK)
            return is_usual(call) ? let_make(l, thread, GUARD_SOCKET) : -EPROTONOSUPPORT;
        *ret_fd = make_netlink(l, call);
        return MIN_OF(*ret_fd, 0);
    }
    return -ENOSYS;
}

static void answer(struct guard_loop *l, const struct seccomp_notif *question)
{
    struct seccomp_notif_resp reply = {.id = question->id};
    struct seccomp_notif_addfd add = {.id = question->id, .flags = SECCOMP_ADDFD_FLAG_SEND};
    int fd = -1;
    int verdict = decide(l, question, &fd);

    if (verdict == GO_ON) {
        reply.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    } else if (fd >= 0) {
        add.srcfd = (uint32_t) fd;
        add.newfd_flags = (uint32_t) question->data.args[1] & SOCK_CLOEXEC ? O_CLOEXEC : 0;
        reply.error = ioctl(l->questions, SECCOMP_IOCTL_NOTIF_ADDFD, &add) < 0 ? -errno : 0;
        (void) close(fd); /* it is the box's now, or gone */
        if (reply.error == 0)
            return; /* that was the answer */
    } else {
        reply.error = verdict;
    }
    /* The caller may be gone meanwhile, which is its own affair. */
    if (ioctl(l->questions, SECCOMP_IOCTL_NOTIF_SEND, &reply) != 0 && verdict == GO_ON)
        guard_count_undo(&l->all, (int) question->pid);
}

static void serve(struct guard_loop *l)
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

static bool open_report(struct guard_loop *l)
{
    char path[48];

    (void) snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", l->alive);
    l->report = open(path, O_RDONLY | O_CLOEXEC);
    return l->report >= 0;
}

void guard_loop_run(int questions, int network, uint32_t id, uint64_t sockets)
{
    static struct guard_loop l; /* large, and most of it is never touched */
    struct seccomp_notif_sizes sizes = {0};

    (void) prctl(PR_SET_NAME, "sandpool-guard"); /* the arguments show it, too */
    /* Among the box's processes, whose time it uses: each question is somebody who waits. A signal that
     * comes meanwhile interrupts calls that are otherwise never interrupted. */
    (void) setpriority(PRIO_PROCESS, 0, GUARD_NICE);
    l.questions = questions;
    l.alive = epoll_create1(EPOLL_CLOEXEC);
    if (l.alive < 0 || syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) != 0 ||
        sizes.seccomp_notif > QUESTION_MAX || sizes.seccomp_notif_resp > QUESTION_MAX ||
        !enter(network) || !open_report(&l) || !guard_count_open(&l.all, sockets) ||
        !drop_privileges(id))
        return;
    (void) ioctl(questions, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
    if (write(GUARD_PARENT_FD, ".", 1) == 1 && close(GUARD_PARENT_FD) == 0)
        serve(&l);
}
