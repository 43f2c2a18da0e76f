/* descendants.c - the tree of processes as /proc shows it. It is stopped step by step before any process
 * is killed, because the children of a dead process lose their place in the tree. */
#include "agent/process/descendants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/process/mark.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

enum { ROUNDS = 16, SEEN_MAX = 32 * 1024 };

struct seen {
    pid_t pid;
    pid_t parent;
    pid_t group;
    pid_t session;
    unsigned long long started;
    bool is_dead;
    bool is_mine; /* below the one whose tree is looked for */
};

struct tree {
    struct seen *list; /* by pid, once sorted */
    size_t count;
    size_t cap;
};

static bool read_one(pid_t pid, struct seen *ret)
{
    char path[32];
    char text[512];
    char state;
    const char *at;
    int n;

    (void) snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
    if (file_read_start(AT_FDCWD, path, text, sizeof(text)) <= 0)
        return false;
    at = strrchr(text, ')'); /* the name before it may hold anything */
    if (at == NULL)
        return false;
    memset(ret, 0, sizeof(*ret));
    ret->pid = pid;
    n = sscanf(at + 1,
               " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &state, &ret->parent, &ret->group, &ret->session, &ret->started);
    ret->is_dead = state == 'Z' || state == 'X';
    return n == 5;
}

static bool add(struct tree *t, const struct seen *one)
{
    if (t->count == t->cap) {
        size_t cap = t->cap > 0 ? 2 * t->cap : 256;
        struct seen *list = cap <= SEEN_MAX ? try_realloc(t->list, cap * sizeof(*list)) : NULL;

        if (list == NULL)
            return false;
        t->list = list;
        t->cap = cap;
    }
    t->list[t->count++] = *one;
    return true;
}

static int by_pid(const void *a, const void *b)
{
    const struct seen *l = a;
    const struct seen *r = b;

    return (l->pid > r->pid) - (l->pid < r->pid);
}

static void read_tree(struct tree *t)
{
    DIR *dir = opendir("/proc");
    const struct dirent *d = dir != NULL ? readdir(dir) : NULL;

    t->count = 0;
    for (; d != NULL; d = readdir(dir)) {
        struct seen one;
        uint64_t pid;

        if (!str_parse_u64(d->d_name, 1, INT32_MAX, &pid) || !read_one((pid_t) pid, &one))
            continue;
        if (!add(t, &one))
            break;
    }
    if (dir != NULL)
        (void) closedir(dir); /* it was only read */
    if (t->count > 0)
        qsort(t->list, t->count, sizeof(*t->list), by_pid);
}

static bool is_mine(const struct tree *t, pid_t pid)
{
    const struct seen key = {.pid = pid};
    const struct seen *found = bsearch(&key, t->list, t->count, sizeof(*t->list), by_pid);

    return found != NULL && found->is_mine;
}

/* Those that have lost their parents: the agent has them now. */
static void find_marked(struct tree *t, pid_t top, uint64_t mark)
{
    pid_t own = getpid();

    for (size_t i = 0; mark != 0 && i < t->count; i++) {
        struct seen *one = &t->list[i];

        if (one->parent == own && one->pid != top && !one->is_dead)
            one->is_mine = mark_of(one->pid) == mark;
    }
}

/* Finds all below `top`, and with `has_session` all of the session that it leads. */
static void find_below(struct tree *t, pid_t top, bool has_session)
{
    bool is_changed = t->count > 0;

    while (is_changed) {
        is_changed = false;
        for (size_t i = 0; i < t->count; i++) {
            struct seen *one = &t->list[i];

            if (one->is_mine || one->pid == top)
                continue;
            one->is_mine = one->parent == top || (has_session && one->session == top) ||
                           is_mine(t, one->parent);
            is_changed = is_changed || one->is_mine;
        }
    }
}

/* Signals this process, and no other that has got its pid since. False: it is gone. */
static bool signal_one(const struct descendant *one, int signum)
{
    int fd = (int) syscall(SYS_pidfd_open, one->pid, 0);
    bool has_none = fd < 0 && (errno == ENOSYS || errno == EPERM);
    struct seen now;
    bool is_there = (fd >= 0 || has_none) && read_one(one->pid, &now) &&
                    now.started == one->started && !now.is_dead;

    if (is_there && has_none) /* a kernel without them: the look was a moment ago */
        (void) kill(one->pid, signum);
    else if (is_there)
        (void) syscall(SYS_pidfd_send_signal, fd, signum, NULL, 0); /* dead in between is fine */
    if (fd >= 0)
        (void) close(fd);
    return is_there;
}

static void signal_all(const struct descendants *s, int signum)
{
    for (size_t i = 0; i < s->count; i++)
        (void) signal_one(&s->list[i], signum); /* or it has gone */
}

static bool is_known(const struct descendants *s, const struct seen *one)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->list[i].pid == one->pid && s->list[i].started == one->started)
            return true;
    return false;
}

static void remember(struct descendants *s, const struct descendant *one)
{
    if (s->count == s->cap) {
        s->cap = s->cap > 0 ? 2 * s->cap : 16;
        s->list = xrealloc(s->list, s->cap * sizeof(*s->list));
    }
    s->list[s->count++] = *one;
}

/* Stops those that are not known yet, outside of the group of `top` if it has one; returns how
 * many. */
static size_t stop_new(const struct tree *t, struct descendants *s, pid_t top, bool has_group)
{
    size_t count = 0;

    for (size_t i = 0; i < t->count && s->count < DESCENDANTS_MAX; i++) {
        const struct seen *one = &t->list[i];
        struct descendant found = {.pid = one->pid, .started = one->started};

        if (!one->is_mine || one->is_dead || (has_group && one->group == top) || is_known(s, one))
            continue;
        if (!signal_one(&found, SIGSTOP))
            continue;
        remember(s, &found);
        count++;
    }
    return count;
}

/* Until no new one is found: stopped processes fork no others. */
static void stop_all(struct descendants *s, pid_t top, bool has_group)
{
    struct tree t = {0};
    size_t found = 1;

    for (int round = 0; found > 0 && round < ROUNDS; round++) {
        read_tree(&t);
        find_marked(&t, top, s->mark);
        find_below(&t, top, has_group);
        found = stop_new(&t, s, top, has_group);
    }
    free(t.list);
}

void descendants_signal(struct descendants *s, pid_t leader, int signum)
{
    (void) kill(-leader, SIGSTOP);
    stop_all(s, leader, true);
    signal_all(s, signum);
    (void) kill(-leader, signum);
    (void) kill(-leader, SIGCONT); /* it gets the other signal first */
    signal_all(s, SIGCONT);
}

void descendants_kill(struct descendants *s, pid_t leader)
{
    (void) kill(-leader, SIGKILL); /* those that ignored the first signal */
    signal_all(s, SIGKILL);
    stop_all(s, leader, true);
    signal_all(s, SIGKILL);
}

bool descendants_has_living(const struct descendants *s, pid_t leader)
{
    struct tree t = {0};
    struct seen now;
    bool is_any = false;

    for (size_t i = 0; i < s->count && !is_any; i++)
        is_any =
            read_one(s->list[i].pid, &now) && now.started == s->list[i].started && !now.is_dead;
    if (is_any || kill(-leader, 0) != 0)
        return is_any;
    read_tree(&t); /* a group of dead ones that nobody has reaped is there, too */
    for (size_t i = 0; i < t.count && !is_any; i++)
        is_any = t.list[i].group == leader && !t.list[i].is_dead;
    free(t.list);
    return is_any;
}

void descendants_forget(struct descendants *s)
{
    free(s->list);
    *s = (struct descendants){.mark = s->mark};
}

void descendants_end_own(bool (*is_spared)(pid_t pid, void *ctx), void *ctx)
{
    struct descendants s = {0};

    stop_all(&s, getpid(), false);
    for (size_t i = 0; i < s.count; i++)
        if (!is_spared(s.list[i].pid, ctx))
            (void) signal_one(&s.list[i], SIGTERM); /* or it has gone */
    signal_all(&s, SIGCONT);
    descendants_forget(&s);
}

void descendants_kill_own(void)
{
    struct descendants s = {0};

    stop_all(&s, getpid(), false);
    signal_all(&s, SIGKILL);
    descendants_forget(&s);
}

bool descendants_has_own(bool (*is_spared)(pid_t pid, void *ctx), void *ctx)
{
    struct tree t = {0};
    bool is_any = false;

    read_tree(&t);
    find_below(&t, getpid(), false);
    for (size_t i = 0; i < t.count && !is_any; i++)
        is_any = t.list[i].is_mine && !t.list[i].is_dead && !is_spared(t.list[i].pid, ctx);
    free(t.list);
    return is_any;
}
