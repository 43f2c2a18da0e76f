/* run_signals.c - signals as something to poll for. They stay blocked to the end of the program, so
 * that none of them can end it while it holds a box. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/run.h"

static const struct {
    int signum;
    const char *name;
} passed_on[] = {{SIGINT, "INT"},   {SIGTERM, "TERM"}, {SIGHUP, "HUP"},    {SIGQUIT, "QUIT"},
                 {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}, {SIGWINCH, "WINCH"}};

static bool is_ignored(int signum)
{
    struct sigaction now;

    return sigaction(signum, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

int run_signals_open(const struct cli *c)
{
    struct sp_failure f = {.code = SP_IO};
    sigset_t set;
    int fd;

    (void) sigemptyset(&set); /* these three cannot fail for valid numbers */
    for (size_t i = 0; i < ARRAY_LEN(passed_on); i++) {
        if (!is_ignored(passed_on[i].signum))
            (void) sigaddset(&set, passed_on[i].signum);
    }
    (void) sigprocmask(SIG_BLOCK, &set, NULL);
    fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd < 0) {
        (void) snprintf(f.message, sizeof(f.message), "no descriptor for signals: %s",
                        strerror(errno));
        cli_say(c, &f);
    }
    return fd;
}

int run_signals_next(int fd)
{
    struct signalfd_siginfo info;

    return read(fd, &info, sizeof(info)) == (ssize_t) sizeof(info) ? (int) info.ssi_signo : 0;
}

const char *run_signal_name(int signum)
{
    for (size_t i = 0; i < ARRAY_LEN(passed_on); i++) {
        if (passed_on[i].signum == signum)
            return passed_on[i].name;
    }
    return signum == SIGPIPE ? "PIPE" : "TERM";
}

int run_signal_number(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } known[] = {
        {"SIGABRT", SIGABRT}, {"SIGALRM", SIGALRM},     {"SIGBUS", SIGBUS},   {"SIGFPE", SIGFPE},
        {"SIGHUP", SIGHUP},   {"SIGILL", SIGILL},       {"SIGINT", SIGINT},   {"SIGIO", SIGIO},
        {"SIGKILL", SIGKILL}, {"SIGPIPE", SIGPIPE},     {"SIGPROF", SIGPROF}, {"SIGQUIT", SIGQUIT},
        {"SIGSEGV", SIGSEGV}, {"SIGSYS", SIGSYS},       {"SIGTRAP", SIGTRAP}, {"SIGUSR1", SIGUSR1},
        {"SIGUSR2", SIGUSR2}, {"SIGVTALRM", SIGVTALRM}, {"SIGXCPU", SIGXCPU}, {"SIGXFSZ", SIGXFSZ},
    };
    uint64_t n;

    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (strcmp(known[i].name, name) == 0)
            return known[i].number;
    }
    if (strncmp(name, "SIG", 3) == 0 && str_parse_u64(name + 3, 1, 127, &n))
        return (int) n;
    return SIGTERM;
}
