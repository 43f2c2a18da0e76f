/* reap.c - burying the dead: children that were started here, and orphans that an init inherits.
 * A leader is looked at before it is buried: until then its number, and its group's, is taken. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/process.h"
#include "base/str.h"

static int open_count(bool is_v2, const char *group)
{
    char path[512];

    if ((size_t) snprintf(path, sizeof(path), "/sys/fs/cgroup%s%s/%s", is_v2 ? "" : "/memory",
                          group, is_v2 ? "memory.events" : "memory.oom_control") >= sizeof(path))
        return -1;
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* The line of our group: "0::/path" (v2) or "7:memory:/path" (v1). Inside a box the path is often
 * that of the host, and the group itself is mounted at the top. */
static int open_for_line(char *line)
{
    char *names = strchr(line, ':');
    char *path = names != NULL ? strchr(names + 1, ':') : NULL;
    bool is_v2;
    int fd;

    if (path == NULL)
        return -1;
    *path = '\0';
    path++;
    path[strcspn(path, "\n")] = '\0';
    is_v2 = strcmp(names, ":") == 0;
    if (!is_v2 && strcmp(names, ":memory") != 0)
        return -1;
    fd = open_count(is_v2, path);
    return fd >= 0 ? fd : open_count(is_v2, "");
}

int process_open_oom_count(void)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[512];
    int fd = -1;

    if (file == NULL)
        return -1;
    while (fd < 0 && fgets(line, sizeof(line), file) != NULL)
        fd = open_for_line(line);
    (void) fclose(file); /* only read */
    return fd;
}

uint64_t process_oom_count(const struct process_table *t)
{
    static const char key[] = "oom_kill ";
    char text[512];
    const char *at;
    ssize_t n;

    if (t->oom_fd < 0)
        return 0;
    n = pread(t->oom_fd, text, sizeof(text) - 1, 0);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    at = strstr(text, key);
    return at != NULL ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static bool has_pid(const struct map_node *n, const void *key)
{
    return container_of(n, struct process, pid_node)->pid == *(const pid_t *) key;
}

static enum process_outcome judge(const struct process *p)
{
    bool is_killed = p->signum == SIGKILL || (p->signum == 0 && p->exit_code == 128 + SIGKILL);

    if (p->is_timed_out)
        return PROCESS_TIMED_OUT;
    if (p->is_killing)
        return PROCESS_KILLED;
    if (p->signum != 0 && p->signum == p->wanted_signal)
        return PROCESS_KILLED;
    if (is_killed && p->wanted_signal != SIGKILL && process_oom_count(p->table) > p->ooms_before)
        return PROCESS_OOM;
    return p->signum != 0 ? PROCESS_SIGNALLED : PROCESS_EXITED;
}

/* `p` is dead and not buried. */
static void finish(struct process *p, const siginfo_t *info)
{
    struct process_table *t = p->table;
    struct rt *rt = &t->loop->rt;

    if (p->is_killing || p->wanted_signal == SIGKILL)
        (void) kill(-p->pid, SIGKILL); /* those of its group that did not listen */
    process_drain(p);
    p->signum = info->si_code == CLD_EXITED ? 0 : info->si_status;
    p->exit_code = info->si_code == CLD_EXITED ? info->si_status : 128 + info->si_status;
    p->outcome = judge(p);
    p->ended_ns = rt_now(rt);
    rt_timer_cancel(rt, &p->timeout);
    rt_timer_cancel(rt, &p->grace);
    map_remove(&t->by_pid, &p->pid_node);
    list_remove(&t->running, &p->link);
    list_push_back(&t->finished, &p->link);
    process_notify(p);
}

void process_table_reap(struct process_table *t)
{
    for (;;) {
        siginfo_t info = {0};
        struct map_node *n;

        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
            break;
        n = map_find(&t->by_pid, hash_u64((uint64_t) info.si_pid), has_pid, &info.si_pid);
        if (n != NULL)
            finish(container_of(n, struct process, pid_node), &info);
        (void) waitpid(info.si_pid, NULL, WNOHANG); /* dead: it is there */
    }
    if (t->on_closed != NULL)
        process_table_close(t, t->on_closed, t->closed_ctx);
}

static const struct signal_name {
    const char *name;
    int number;
} signal_names[] = {
    {"SIGHUP", SIGHUP},   {"SIGINT", SIGINT},     {"SIGQUIT", SIGQUIT},     {"SIGKILL", SIGKILL},
    {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2},   {"SIGALRM", SIGALRM},     {"SIGTERM", SIGTERM},
    {"SIGCONT", SIGCONT}, {"SIGSTOP", SIGSTOP},   {"SIGTSTP", SIGTSTP},     {"SIGTTIN", SIGTTIN},
    {"SIGTTOU", SIGTTOU}, {"SIGWINCH", SIGWINCH}, {"SIGABRT", SIGABRT},     {"SIGPIPE", SIGPIPE},
    {"SIGSEGV", SIGSEGV}, {"SIGILL", SIGILL},     {"SIGBUS", SIGBUS},       {"SIGFPE", SIGFPE},
    {"SIGTRAP", SIGTRAP}, {"SIGXCPU", SIGXCPU},   {"SIGXFSZ", SIGXFSZ},     {"SIGSYS", SIGSYS},
    {"SIGCHLD", SIGCHLD}, {"SIGURG", SIGURG},     {"SIGVTALRM", SIGVTALRM},
};

int process_signal_number(const char *name)
{
    uint64_t n;

    if (str_parse_u64(name, 1, NSIG - 1, &n))
        return (int) n;
    for (size_t i = 0; i < ARRAY_LEN(signal_names); i++)
        if (strcmp(name, signal_names[i].name) == 0 || strcmp(name, signal_names[i].name + 3) == 0)
            return signal_names[i].number;
    return 0;
}

const char *process_signal_name(int signum)
{
    for (size_t i = 0; i < ARRAY_LEN(signal_names); i++)
        if (signal_names[i].number == signum)
            return signal_names[i].name;
    return "SIGRTMIN"; /* the nameless ones */
}
