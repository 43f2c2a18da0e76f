/* egress.c - the network of a box that reaches only what is on a list: in which order its parts are made. */
#include "helper/egress.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "helper/cgroup.h"
#include "helper/egress_link.h"
#include "helper/egress_rules.h"
#include "helper/netlink.h"
#include "helper/proc.h"

#define RULES_MAX (64U * 1024) /* fits into a pipe */
#define NFT_MS 10000

/* --- the namespace --- */

static int open_ns(int pid, const char *name, int *ret, struct err *err)
{
    char path[64];

    (void) snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, name);
    *ret = open(path, O_RDONLY | O_CLOEXEC);
    return *ret >= 0 ? SP_OK : err_sys(err, SP_IO, errno, "open '%s'", path);
}

static int open_outside(struct egress *e, int pid, struct err *err)
{
    int rc = open_ns(pid, "net", &e->net, err);

    return rc == SP_OK ? open_ns(pid, "user", &e->user, err) : rc;
}

int egress_begin(const struct plan *p, const struct box_dir *d, struct egress *e, struct err *err)
{
    return p->egress != NULL ? resolver_begin(p, d, &e->resolver, err) : SP_OK;
}

/* --- the rules --- */

/* As root of the namespace's own users, with no right beyond it. Of an ordinary user it is there already. */
static bool enter(const struct egress *e)
{
    return (setns(e->user, CLONE_NEWUSER) == 0 || errno == EINVAL) && setresgid(0, 0, 0) == 0 &&
           setresuid(0, 0, 0) == 0 && setns(e->net, CLONE_NEWNET) == 0;
}

NORETURN static void become_nft(const struct plan *p, const struct egress *e, pid_t parent, int in,
                                int out)
{
    const char *const argv[] = {p->nft, "-f", "-", NULL};
    char *const env[] = {NULL};

    if (dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(out, 2) == 2 && enter(e)) {
        proc_die_with(parent); /* other rights end this */
        (void) signal(SIGPIPE, SIG_DFL);
        (void) execve(argv[0], (char *const *) (uintptr_t) argv, env);
    }
    (void) dprintf(2, "%s: %s", p->nft, strerror(errno)); /* the tail of the error */
    _exit(127);
}

static int start_nft(const struct plan *p, struct egress *e, const struct buf *text,
                     struct err *err)
{
    pid_t self = getpid();
    int ends[2];
    AUTO_CLOSE int in = -1;
    AUTO_CLOSE int out = -1;
    bool is_put;

    if (buf_failed(text) || pipe2(ends, O_CLOEXEC) != 0)
        return err_sys(err, SP_IO, buf_failed(text) ? EFBIG : errno, "rules of the network");
    in = ends[0];
    is_put = write(ends[1], buf_str(text), text->len) == (ssize_t) text->len;
    (void) close(ends[1]); /* else its end is never seen */
    if (!is_put)
        return err_sys(err, SP_IO, errno, "rules of the network");
    e->nft = proc_fork(&e->said, &out, err);
    if (e->nft == 0)
        become_nft(p, e, self, in, out);
    return e->nft > 0 ? SP_OK : SP_IO;
}

static int await_nft(const struct plan *p, struct egress *e, struct err *err)
{
    struct proc_tail tail = {0};
    uint64_t deadline = proc_now_ms() + NFT_MS;
    char chunk[512];
    int status = 0;

    for (ssize_t n = 1; n != 0;) {
        struct pollfd wait = {.fd = e->said, .events = POLLIN};
        uint64_t now = proc_now_ms();

        if (now >= deadline || poll(&wait, 1, (int) (deadline - now)) == 0) {
            (void) kill(e->nft, SIGKILL); /* our own child */
            break;
        }
        n = wait.revents != 0 ? read(e->said, chunk, sizeof(chunk)) : 1;
        if (wait.revents != 0 && n > 0)
            proc_tail_add(&tail, chunk, (size_t) n);
        if (n < 0 && errno != EINTR)
            break;
    }
    while (waitpid(e->nft, &status, 0) < 0 && errno == EINTR)
        ;
    e->nft = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return err_set(err, SP_BACKEND_FAILED, "%.80s did not set the rules of the network: %.300s",
                       p->nft, tail.len > 0 ? tail.text : "it was killed");
    return SP_OK;
}

int egress_set_up(const struct plan *p, struct egress *e, struct err *err)
{
    struct buf text;
    int rc;

    if (p->egress == NULL)
        return SP_OK;
    if ((rc = resolver_await(&e->resolver, err)) != SP_OK ||
        (rc = open_outside(e, e->resolver.pid, err)) != SP_OK)
        return rc;
    buf_init(&text, RULES_MAX);
    egress_rules(p->egress, &text);
    rc = start_nft(p, e, &text, err);
    buf_fini(&text);
    return rc;
}

int egress_attach(const struct plan *p, struct egress *e, int box_pid, struct err *err)
{
    AUTO_CLOSE int inside = -1;
    int rc;

    if (p->egress == NULL)
        return SP_OK;
    if ((rc = await_nft(p, e, err)) != SP_OK ||
        (rc = open_ns(box_pid, "net", &inside, err)) != SP_OK ||
        (rc = egress_link_make(e->net, inside, err)) != SP_OK)
        return rc;
    return p->cgroup != NULL ? cgroup_add(p->cgroup, e->resolver.pid, err) : SP_OK;
}

void egress_close(struct egress *e)
{
    if (e->nft > 0) {
        (void) kill(e->nft, SIGKILL); /* our own child, not waited for */
        while (waitpid(e->nft, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (e->resolver.report >= 0)
        (void) close(e->resolver.report);
    if (e->said >= 0)
        (void) close(e->said);
    if (e->net >= 0)
        (void) close(e->net);
    if (e->user >= 0)
        (void) close(e->user);
    *e = EGRESS_NONE;
}

/* --- another list --- */

/* So that what is open is looked at again: what is allowed still goes on, the rest ends. */
static int forget_connections(const struct egress *e, struct err *err)
{
    const struct nfgenmsg all = {.nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0};
    static struct netlink n; /* large */
    pid_t self = getpid();
    pid_t pid = fork();

    if (pid < 0)
        return err_sys(err, SP_IO, errno, "fork");
    if (pid == 0) {
        proc_die_with(self);
        netlink_init(&n, enter(e) ? netlink_open(NETLINK_NETFILTER) : -1);
        netlink_begin(&n, NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE, NLM_F_ACK, &all,
                      sizeof(all));
        _exit(n.fd >= 0 ? netlink_send(&n) : errno);
    }
    return proc_await(pid, "end the open connections of the box", err);
}

static int note_list(const struct plan *p, const struct box_dir *d, struct err *err)
{
    static const char temporary[] = RESOLVER_LIST ".new";
    int rc;

    (void) unlinkat(d->fd, temporary, 0); /* of one that was stopped */
    rc = box_dir_write(d, temporary, p->egress, err);
    if (rc == SP_OK && renameat(d->fd, temporary, d->fd, RESOLVER_LIST) != 0)
        rc = err_sys(err, SP_IO, errno, "note the list");
    return rc;
}

/* First the resolver, so that it adds nothing by the old list when the set of what names have led to is emptied. */
static int change(const struct plan *p, const struct box_dir *d, struct egress *e, struct err *err)
{
    unsigned long long pid[2];
    struct buf text;
    int rc;

    box_dir_numbers(d, RESOLVER_PID_FILE, pid);
    if (pid[0] <= 1 || pid[0] > INT32_MAX || proc_start_time((pid_t) pid[0]) != pid[1])
        return err_set(err, SP_BACKEND_FAILED, "the box's resolver does not run");
    if ((rc = open_outside(e, (int) pid[0], err)) != SP_OK ||
        (rc = resolver_change(d, p->egress, err)) != SP_OK)
        return rc;
    buf_init(&text, RULES_MAX);
    egress_rules_change(p->egress, &text);
    rc = start_nft(p, e, &text, err);
    buf_fini(&text);
    if (rc == SP_OK)
        rc = await_nft(p, e, err);
    if (rc == SP_OK)
        rc = forget_connections(e, err);
    return rc == SP_OK ? note_list(p, d, err) : rc;
}

int egress_change(const struct plan *p, struct buf *answer, struct err *err)
{
    struct egress e = EGRESS_NONE;
    struct box_dir d;
    int rc = box_dir_open(p->dir, &d, err);

    if (rc != SP_OK)
        return rc;
    /* One after the other, or one would have its names and another its networks. */
    rc = flock(d.fd, LOCK_EX) == 0 ? change(p, &d, &e, err)
                                   : err_sys(err, SP_IO, errno, "lock the box's directory");
    egress_close(&e);
    box_dir_close(&d);
    if (rc == SP_OK)
        buf_puts(answer, "{}");
    return rc;
}
