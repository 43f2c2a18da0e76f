/* cmd_run.c - sandpool run: a box for as long as one command takes. From the moment we may hold a
 * box until it is given back, no signal ends this program. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/run.h"

enum {
    LONGEST_WAIT_MS = 3630 * 1000, /* the daemon's own limit on an acquire, and some */
    RELEASE_MS = 20 * 1000,        /* a daemon that restarts asks its backends first */
    RELEASE_PAUSE_MS = 200,
    DAEMON_MS = 10 * 1000,
    TOUCH_MS = 1000, /* the command's output waits meanwhile */
};

struct holder {
    struct cli *cli;
    struct sp_lease lease;
};

/* Keeps the box from counting as idle. A daemon that is away for a moment does not matter. */
static void touch(void *ctx)
{
    struct holder *h = ctx;
    char target[128];

    (void) snprintf(target, sizeof(target), "/v1/sandboxes/%s/renew", h->lease.sandbox_id);
    sp_client_set_timeout(h->cli->client, TOUCH_MS);
    (void) sp_call(h->cli->client, "POST", target, "{}", NULL, NULL);
}

/* A code of the acquire, SP_CANCELLED when a signal came first. */
static int acquire(struct holder *h, int signal_fd, struct sp_failure *f)
{
    const struct cli_args *a = &h->cli->args;
    struct sp_acquire request = {.thread_id = cli_option(a, "thread"),
                                 .user_id = cli_option(a, "user"),
                                 .profile = cli_option(a, "profile")};
    int progress;
    int r;

    request.request_id = cli_progress_name(h->cli, request.thread_id, NULL);
    progress = cli_progress_start(h->cli, &request);
    sp_client_set_timeout(h->cli->client, LONGEST_WAIT_MS);
    sp_client_set_interrupt(h->cli->client, signal_fd);
    r = sp_acquire(h->cli->client, &request, &h->lease, f);
    sp_client_set_interrupt(h->cli->client, -1);
    cli_progress_stop(h->cli, progress);
    return r;
}

static bool has_signal(int signal_fd, int pause_ms)
{
    struct pollfd p = {.fd = signal_fd, .events = POLLIN};

    return poll(&p, 1, pause_ms) > 0;
}

/* Waits for a daemon that is away, unless a signal comes. */
static void release(struct holder *h, bool want_destroy, int signal_fd)
{
    struct cli *c = h->cli;
    struct sp_failure f = {0};
    struct sp_failure why;
    uint64_t deadline_ms = run_now_ms() + RELEASE_MS;

    while (run_signals_next(signal_fd) != 0)
        continue; /* those that the command outlived or that ended it */
    sp_client_set_timeout(c->client, DAEMON_MS);
    do {
        int r = sp_release(c->client, h->lease.sandbox_id, h->lease.generation, want_destroy, &f);

        /* The box has gone by itself, or belongs to somebody else by now. */
        if (r == SP_OK || r == SP_NOT_FOUND || r == SP_SANDBOX_LOST || r == SP_NOT_LEASED ||
            r == SP_STALE_GENERATION)
            return;
    } while (run_now_ms() < deadline_ms && !has_signal(signal_fd, RELEASE_PAUSE_MS));
    why = f;
    (void) snprintf(why.message, sizeof(why.message),
                    "the box %s was not released: %.300s; 'sandpool destroy %s' does it",
                    h->lease.sandbox_id, f.message, h->lease.sandbox_id);
    cli_say(c, &why);
}

static void run_held(struct holder *h, int signal_fd, struct run_result *ret)
{
    const struct cli_args *a = &h->cli->args;
    struct run_command command = {.argv = a->rest,
                                  .argc = a->rest_count,
                                  .args = a,
                                  .cwd = cli_option(a, "cwd"),
                                  .user = cli_option(a, "as"),
                                  .want_tty = cli_flag(a, "tty"),
                                  .want_stdin = !cli_flag(a, "no-stdin"),
                                  .is_kept = cli_option(a, "thread") != NULL || cli_flag(a, "keep"),
                                  .signal_fd = signal_fd,
                                  .cli = h->cli,
                                  .touch = touch,
                                  .ctx = h};
    uint64_t timeout_ms = 0;

    if (cli_duration_ms(a, "timeout", &timeout_ms))
        command.timeout_ms = MAX_OF(timeout_ms, 1U);
    run_in_box(&(struct run_place){.lease = &h->lease}, &command, ret);
}

int cmd_run(struct cli *c)
{
    struct holder h = {.cli = c};
    struct run_result result = {0};
    struct sp_failure f;
    int signal_fd;
    int signum;

    if (!run_check_env(c))
        return CLI_RUN_FAILED;
    (void) signal(SIGPIPE, SIG_IGN); /* cannot fail for a valid number */
    signal_fd = run_signals_open(c);
    if (signal_fd < 0)
        return CLI_RUN_FAILED;
    if (acquire(&h, signal_fd, &f) != SP_OK) {
        signum = f.code == SP_CANCELLED ? run_signals_next(signal_fd) : 0;
        if (signum != 0)
            return 128 + signum;
        (void) cli_fail(c, &f);
        return CLI_RUN_FAILED;
    }
    run_held(&h, signal_fd, &result);
    if (cli_flag(&c->args, "keep"))
        (void) fprintf(c->err, "%s\n", h.lease.sandbox_id);
    else
        release(&h, cli_option(&c->args, "thread") == NULL, signal_fd);
    (void) close(signal_fd);
    return result.status;
}
