/* spawn.c - vfork and exec. Until it execs, the child runs in our memory while we are suspended: it
 * may only make system calls, and reports why it failed by writing into the plan. */
#include "agent/process/spawn.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/core/descriptors.h"
#include "agent/core/plain.h"
#include "agent/process/mark.h"
#include "base/cleanup.h"
#include "loop/child.h"

enum { NULL_MAJOR = 1, NULL_MINOR = 3, PTMX_MAJOR = 5, PTMX_MINOR = 2 };

enum stage { STAGE_STREAMS, STAGE_TERMINAL, STAGE_USER, STAGE_CWD, STAGE_EXEC, STAGE_COUNT };

struct plan {
    const struct spawn_request *request;
    const char *path;
    const struct oom_score *score;
    int child[3];                 /* what becomes 0, 1 and 2 */
    volatile int failed;          /* errno of the child */
    volatile enum stage at_stage; /* where it failed */
};

static const char *env_path(const char *const *env)
{
    for (; *env != NULL; env++)
        if (strncmp(*env, "PATH=", 5) == 0)
            return *env + 5;
    return "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
}

static bool is_file(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool is_program(const char *path)
{
    return is_file(path) && identity_access(path, X_OK) == 0;
}

static int find_program(const struct spawn_request *r, char *dst, size_t cap, struct err *err)
{
    const char *name = r->argv[0];
    const char *dir = env_path(r->env);
    bool is_there = false;

    if (strchr(name, '/') != NULL) {
        if ((size_t) snprintf(dst, cap, "%s", name) >= cap)
            return err_set(err, SP_INVALID_FIELD, "the program's path is too long");
        return SP_OK;
    }
    while (*dir != '\0') {
        int len = (int) strcspn(dir, ":");

        if ((size_t) snprintf(dst, cap, "%.*s/%s", len, dir, name) < cap) {
            if (is_program(dst))
                return SP_OK;
            is_there = is_there || is_file(dst);
        }
        dir += len;
        dir += *dir == ':';
    }
    if (is_there)
        return err_set(err, SP_PROGRAM_NOT_EXECUTABLE,
                       "program '%.100s' in the PATH is not executable", name);
    return err_set(err, SP_PROGRAM_NOT_FOUND, "program '%.100s' was not found in the PATH", name);
}

NORETURN static void fail_child(struct plan *p, enum stage stage)
{
    p->at_stage = stage;
    p->failed = errno;
    _exit(127);
}

/* The sources lie above what they become, so that no copy destroys another. */
static bool place_descriptors(struct plan *p)
{
    const struct spawn_request *r = p->request;
    int high[3 + SPAWN_EXTRA_MAX];
    int count = 3 + (int) r->extra_count;

    for (int i = 0; i < count; i++) {
        high[i] = fcntl(i < 3 ? p->child[i] : r->extra[i - 3], F_DUPFD_CLOEXEC, 16);
        if (high[i] < 0)
            return false;
    }
    for (int i = 0; i < count; i++)
        if (dup2(high[i], i) < 0)
            return false;
    /* Before the directory and the program are opened: a caller may name them by /proc/self/fd. */
    return descriptors_close_from(count);
}

NORETURN static void run_child(struct plan *p)
{
    const struct spawn_request *r = p->request;

    child_reset_signals();
    (void) setsid(); /* cannot fail: a new process leads no group */
    mark_set(r->mark);
    if (!place_descriptors(p))
        fail_child(p, STAGE_STREAMS);
    if (r->want_pty && ioctl(0, TIOCSCTTY, 0) != 0)
        fail_child(p, STAGE_TERMINAL);
    errno = identity_become(r->identity);
    if (errno != 0)
        fail_child(p, STAGE_USER);
    if (r->cwd != NULL && chdir(r->cwd) != 0)
        fail_child(p, STAGE_CWD);
    (void) execve(p->path, (char *const *) (uintptr_t) r->argv, (char *const *) (uintptr_t) r->env);
    fail_child(p, STAGE_EXEC);
}

static int exec_code(int sys)
{
    switch (sys) {
    case ENOENT:
    case ENOTDIR:
        return SP_PROGRAM_NOT_FOUND;
    case E2BIG: /* the arguments are too long */
        return SP_INVALID_FIELD;
    case ENOMEM:
    case EAGAIN:
        return SP_NO_MEMORY;
    default:
        return SP_PROGRAM_NOT_EXECUTABLE;
    }
}

static int explain(const struct plan *p, struct err *err)
{
    const struct spawn_request *r = p->request;

    switch (p->at_stage) {
    case STAGE_CWD:
        return err_sys(err, SP_INVALID_FIELD, p->failed, "directory '%.100s'", r->cwd);
    case STAGE_EXEC:
        return err_sys(err, exec_code(p->failed), p->failed, "program '%.100s'", p->path);
    case STAGE_USER:
        return err_sys(err, SP_FORBIDDEN, p->failed, "becoming user '%s'", r->identity->name);
    case STAGE_STREAMS:
    case STAGE_TERMINAL:
    case STAGE_COUNT:
        break;
    }
    return err_sys(err, SP_IO, p->failed, "streams of '%.100s'", p->path);
}

static int run_plan(struct plan *p, pid_t *ret_pid, struct err *err)
{
    sigset_t all;
    sigset_t before;
    pid_t pid;
    int sys;

    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &before);
    oom_score_raise(p->score);
    pid = vfork(); /* the cost of fork() grows with our memory */
    if (pid == 0)
        run_child(p);
    sys = errno;
    oom_score_lower(p->score);
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid < 0 && sys == EAGAIN)
        return err_set(err, SP_QUEUE_FULL, "the box has as many processes as it may have");
    if (pid < 0)
        return err_sys(err, SP_IO, sys, "no new process");
    if (p->failed != 0)
        return explain(p, err); /* it is reaped with all others */
    *ret_pid = pid;
    return SP_OK;
}

int spawn_resize(int fd, uint16_t cols, uint16_t rows, struct err *err)
{
    struct winsize size = {.ws_col = cols, .ws_row = rows};

    if (ioctl(fd, TIOCSWINSZ, &size) != 0)
        return err_sys(err, SP_IO, errno, "window size");
    return SP_OK;
}

/* The other end of a terminal; by its name where the kernel cannot open it otherwise. */
static int open_peer(int master)
{
    char path[32];
    unsigned number;
    struct stat st;
    int fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);

    if (fd >= 0 || (errno != ENOTTY && errno != EINVAL) || ioctl(master, TIOCGPTN, &number) != 0)
        return fd;
    (void) snprintf(path, sizeof(path), "/dev/pts/%u", number);
    fd = plain_open(AT_FDCWD, path, O_RDWR, 0);
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISCHR(st.st_mode) || fcntl(fd, F_SETFL, 0) != 0)) {
        (void) close(TAKE_FD(fd));
        errno = ENODEV;
    }
    return fd;
}

/* ours[i] and theirs[i] are the two ends of stream i. */
static int open_terminal(const struct spawn_request *r, int *ours, int *theirs, struct err *err)
{
    int lock = 0;
    int master = plain_open_device("/dev/ptmx", O_RDWR | O_NONBLOCK, PTMX_MAJOR, PTMX_MINOR);

    if (master < 0 && errno == ENOENT)
        return err_set(err, SP_UNSUPPORTED,
                       "this box has no terminals (terminals: 0 of its profile)");
    if (master < 0 && errno == ENOSPC)
        return err_set(err, SP_QUEUE_FULL, "the box has as many terminals as it may have");
    if (master < 0)
        return err_sys(err, SP_IO, errno, "no terminal");
    ours[1] = master;
    if (ioctl(master, TIOCSPTLCK, &lock) != 0)
        return err_sys(err, SP_IO, errno, "terminal");
    theirs[0] = open_peer(master);
    if (theirs[0] < 0)
        return err_sys(err, SP_IO, errno, "terminal");
    theirs[1] = fcntl(theirs[0], F_DUPFD_CLOEXEC, 3);
    theirs[2] = fcntl(theirs[0], F_DUPFD_CLOEXEC, 3);
    if (theirs[1] < 0 || theirs[2] < 0)
        return err_sys(err, SP_IO, errno, "terminal");
    return spawn_resize(master, r->cols, r->rows, err);
}

static int open_stream(int i, bool want_pipe, int *ours, int *theirs, struct err *err)
{
    int fds[2];

    if (!want_pipe) {
        theirs[i] = plain_open_device("/dev/null", O_RDWR, NULL_MAJOR, NULL_MINOR);
        return theirs[i] >= 0 ? SP_OK : err_sys(err, SP_IO, errno, "/dev/null");
    }
    if (pipe2(fds, O_CLOEXEC) != 0)
        return err_sys(err, SP_IO, errno, "no pipe");
    ours[i] = i == 0 ? fds[1] : fds[0];
    theirs[i] = i == 0 ? fds[0] : fds[1];
    if (fcntl(ours[i], F_SETFL, O_NONBLOCK) != 0)
        return err_sys(err, SP_IO, errno, "pipe");
    return SP_OK;
}

static int open_streams(const struct spawn_request *r, int *ours, int *theirs, struct err *err)
{
    int rc = SP_OK;

    if (r->want_pty)
        return open_terminal(r, ours, theirs, err);
    for (int i = 0; i < 3 && rc == SP_OK; i++)
        rc = open_stream(i, i > 0 || r->want_stdin, ours, theirs, err);
    return rc;
}

static void close_all(const int *fds)
{
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            (void) close(fds[i]);
}

/* As the user, whose streams they are: a program may open its own again (/dev/stdout, the terminal).
 */
static int prepare(struct plan *p, char *path, size_t cap, int *ours, struct err *err)
{
    const struct spawn_request *r = p->request;
    int sys = identity_enter(r->identity);
    int rc;

    if (sys != 0)
        return err_sys(err, SP_FORBIDDEN, sys, "acting as user '%s'", r->identity->name);
    rc = find_program(r, path, cap, err);
    if (rc == SP_OK)
        rc = open_streams(r, ours, p->child, err);
    identity_leave(r->identity);
    return rc;
}

int spawn_start(const struct spawn_request *r, const struct oom_score *score,
                struct spawn_result *ret, struct err *err)
{
    char path[1024];
    int ours[3] = {-1, -1, -1};
    struct plan plan = {.request = r, .path = path, .score = score, .child = {-1, -1, -1}};
    int rc = prepare(&plan, path, sizeof(path), ours, err);

    if (rc == SP_OK)
        rc = run_plan(&plan, &ret->pid, err);
    close_all(plan.child);
    if (rc != SP_OK) {
        close_all(ours);
        return rc;
    }
    ret->in = ours[0];
    ret->out = ours[1];
    ret->err = ours[2];
    return SP_OK;
}
