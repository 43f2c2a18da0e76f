/* main.c - the command line of sandpoold. */
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/registry.h"
#include "base/buf.h"
#include "base/fault.h"
#include "base/str.h"
#include "daemon/daemon.h"
#include "daemon/doctor.h"
#include "sandpool/version.h"

static const char usage[] =
    "usage: sandpoold [options]\n"
    "\n"
    "Keeps sandboxes warm and hands them out over a Unix socket.\n"
    "\n"
    "  -c, --config FILE     configuration (default: built-in defaults; see config.example.yaml)\n"
    "      --state-dir DIR   where the database and the lock are (overrides state_dir)\n"
    "      --socket PATH     where to listen (overrides socket.path)\n"
    "      --takeover        replace the daemon that runs, with its sockets, connections and boxes;\n"
    "                        no request is lost, and if this one cannot start the other goes on;\n"
    "                        where none runs, just start\n"
    "      --standby         if another daemon uses the state directory, wait and take over\n"
    "      --destroy-on-exit  destroy every sandbox when stopping (default: leave them running)\n"
    "      --check           check the configuration and exit\n"
    "      --print           with --check: print the effective configuration\n"
    "      --doctor          examine what boxes need on this machine, print it as JSON and exit\n"
    "      --example         print a configuration with every key and its default\n"
    "  -V, --version         print the version\n"
    "  -h, --help            print this\n"
    "\n"
    "Runs in the foreground and logs to standard error. SIGHUP reads the configuration again,\n"
    "SIGTERM stops; sandboxes are left running and are found again at the next start. SIGUSR2 starts\n"
    "the program again, from the same file and with the same arguments, with --takeover. Exits 0 when it\n"
    "was stopped or replaced, 1 when it could not start or failed, 2 for wrong arguments.\n"
    "\n"
    "  sandpoold --config sandpool.yaml --state-dir ./state --socket ./sandpool.sock\n"
    "  SANDPOOL_SOCKET=./sandpool.sock sandpool acquire demo\n";

enum {
    OPT_STATE_DIR = 256,
    OPT_SOCKET,
    OPT_TAKEOVER,
    OPT_STANDBY,
    OPT_DESTROY,
    OPT_CHECK,
    OPT_PRINT,
    OPT_DOCTOR,
    OPT_EXAMPLE,
    OPT_FAULT_POINTS,
};

static const struct option long_options[] = {
    {"config", required_argument, NULL, 'c'},
    {"state-dir", required_argument, NULL, OPT_STATE_DIR},
    {"socket", required_argument, NULL, OPT_SOCKET},
    {"takeover", no_argument, NULL, OPT_TAKEOVER},
    {"standby", no_argument, NULL, OPT_STANDBY},
    {"destroy-on-exit", no_argument, NULL, OPT_DESTROY},
    {"check", no_argument, NULL, OPT_CHECK},
    {"print", no_argument, NULL, OPT_PRINT},
    {"doctor", no_argument, NULL, OPT_DOCTOR},
    {"example", no_argument, NULL, OPT_EXAMPLE},
    {"fault-points", no_argument, NULL, OPT_FAULT_POINTS}, /* for the crash tests */
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int print_buf(struct buf *text)
{
    int r = buf_failed(text) || fputs(buf_str(text), stdout) == EOF || fflush(stdout) != 0;

    buf_fini(text);
    return r;
}

static int check_config(const struct daemon_options *options, bool want_print)
{
    struct config *config = NULL;
    struct buf text;
    struct err err;

    if (daemon_load_config(options, &config, &err) != SP_OK) {
        (void) fprintf(stderr, "%ssandpoold: %s\n", log_mark(STDERR_FILENO, LOG_ERROR), err.msg);
        return 1;
    }
    for (unsigned i = 0; i < config->profile_count; i++) {
        if (backend_check(&config->profiles[i], &err) != SP_OK) {
            (void) fprintf(stderr, "%ssandpoold: %s\n", log_mark(STDERR_FILENO, LOG_ERROR),
                           err.msg);
            (void) config_free(config);
            return 1;
        }
    }
    buf_init(&text, CONFIG_FILE_MAX);
    if (want_print)
        config_print(config, &text);
    else
        buf_puts(&text, "configuration is fine\n");
    (void) config_free(config);
    return print_buf(&text);
}

static int print_example(void)
{
    struct buf text;

    buf_init(&text, CONFIG_FILE_MAX);
    config_print_example(&text);
    return print_buf(&text);
}

/* The points at which this build can be made to die; none in a release build. */
static int print_fault_points(void)
{
    if (fault_is_built_in())
        for (const char *const *name = fault_names(); *name != NULL; name++)
            (void) puts(*name);
    return fflush(stdout) != 0;
}

/* getopt_long() has named the option. */
static int refuse_option(const char *arg)
{
    const char *name = arg + strspn(arg, "-");
    size_t len = strcspn(name, "=");
    const char *found = NULL;
    unsigned best = STR_WORD_MAX;

    for (const struct option *o = long_options; o->name != NULL; o++) {
        unsigned d = str_distance(name, len, o->name, strlen(o->name));

        if (d > 0 && d < best && str_is_near(d, len)) {
            best = d;
            found = o->name;
        }
    }
    if (found != NULL)
        (void) fprintf(stderr, "did you mean '--%s'? ", found);
    (void) fputs("try 'sandpoold --help'\n", stderr);
    return 2;
}

static int run(const struct daemon_options *options)
{
    /* Buffers longer than this go back to the system when they are freed. Without it the C library
     * raises the limit with every one that is freed, and keeps what callers have used. */
    (void) mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    return daemon_run(options);
}

int main(int argc, char **argv)
{
    struct daemon_options options = {.argv = argv};
    bool want_check = false;
    bool want_print = false;
    bool want_doctor = false;

    (void) signal(SIGPIPE, SIG_IGN); /* a caller that hangs up must not end the daemon */
    for (;;) {
        int opt = getopt_long(argc, argv, "c:Vh", long_options, NULL);

        if (opt == -1)
            break;
        switch (opt) {
        case 'c':
            options.config_path = optarg;
            break;
        case OPT_STATE_DIR:
            options.state_dir = optarg;
            break;
        case OPT_SOCKET:
            options.socket = optarg;
            break;
        case OPT_TAKEOVER:
            options.want_takeover = true;
            break;
        case OPT_STANDBY:
            options.want_standby = true;
            break;
        case OPT_DESTROY:
            options.want_destroy = true;
            break;
        case OPT_CHECK:
            want_check = true;
            break;
        case OPT_PRINT:
            want_print = true;
            break;
        case OPT_DOCTOR:
            want_doctor = true;
            break;
        case OPT_EXAMPLE:
            return print_example();
        case OPT_FAULT_POINTS:
            return print_fault_points();
        case 'V':
            return puts("sandpoold " SANDPOOL_VERSION) == EOF;
        case 'h':
            return fputs(usage, stdout) == EOF;
        default:
            return refuse_option(argv[optind - 1]);
        }
    }
    if (optind < argc) {
        (void) fprintf(stderr, "sandpoold: unexpected argument '%s'; try --help\n", argv[optind]);
        return 2;
    }
    if (want_check)
        return check_config(&options, want_print);
    return want_doctor ? doctor_run(&options) : run(&options);
}
