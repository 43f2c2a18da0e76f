/* signal_name.c - signals by name and by number. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "agent/process/process.h"
#include "base/json.h"
#include "base/str.h"

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
    {"SIGCHLD", SIGCHLD}, {"SIGURG", SIGURG},     {"SIGVTALRM", SIGVTALRM}, {"SIGPROF", SIGPROF},
    {"SIGIO", SIGIO},     {"SIGPWR", SIGPWR},     {"SIGSTKFLT", SIGSTKFLT},
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
    static char number[16];

    for (size_t i = 0; i < ARRAY_LEN(signal_names); i++)
        if (signal_names[i].number == signum)
            return signal_names[i].name;
    (void) snprintf(number, sizeof(number), "SIG%d", signum); /* those without a name */
    return number;
}

int process_signal_field(const struct json *obj, int *ret, struct err *err)
{
    const char *name = NULL;
    int r = json_field_str(obj, "signal", 16, &name, err);

    if (r != SP_OK || name == NULL)
        return r;
    *ret = process_signal_number(name);
    return *ret != 0 ? SP_OK : err_set(err, SP_INVALID_FIELD, "'signal' is not known");
}
