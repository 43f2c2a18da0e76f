/* guard.c - the thread. It sleeps until a signal comes, so it costs nothing. It does not log: the loop that it
 * ends may be in the middle of that. */
#include "daemon/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static const int signums[] = {SIGTERM, SIGINT};

static int stop_pipe[2] = {-1, -1}; /* a pipe: a handler may write to it */
static void (*before)(int);         /* libuv's handler, the same for all */
static atomic_uint beats;

static void on_signal(int signum)
{
    int saved = errno;

    (void) !write(stop_pipe[1], "", 1); /* a full pipe has a byte to read already */
    errno = saved;
    before(signum);
}

static void end_process(void)
{
    static const char text[] =
        "sandpoold: daemon.stop_forced: asked to stop, but the loop has not answered for 10 s: does "
        "a disk hang?\n";

    (void) !write(STDERR_FILENO, text, strlen(text)); /* nothing to do about it */
    _exit(1);
}

static void *guard_main(void *arg UNUSED)
{
    unsigned seen = 0;
    unsigned waited_ms = 0;
    char byte;

    while (read(stop_pipe[0], &byte, 1) != 1)
        ; /* all signals are blocked here, so this is not entered in practice */
    while (waited_ms < GUARD_WAIT_MS) {
        unsigned now;

        (void) poll(NULL, 0, GUARD_LOOK_MS); /* only the time */
        now = atomic_load(&beats);
        waited_ms = now == seen ? waited_ms + GUARD_LOOK_MS : 0;
        seen = now;
    }
    end_process();
    return NULL;
}

void guard_beat(void)
{
    (void) atomic_fetch_add(&beats, 1);
}

/* The handler stays until libuv takes its own away. */
static int watch_signal(int signum)
{
    struct sigaction action;

    if (sigaction(signum, NULL, &action) != 0)
        return -1;
    before = action.sa_handler;
    action.sa_handler = on_signal;
    return sigaction(signum, &action, NULL);
}

int guard_start(struct err *err)
{
    pthread_t thread;
    sigset_t all;
    sigset_t old;
    int rc = pipe2(stop_pipe, O_CLOEXEC);

    if (rc != 0)
        return err_sys(err, SP_IO, errno, "pipe of the guard");
    (void) fcntl(stop_pipe[1], F_SETFL, O_NONBLOCK); /* cannot fail on a pipe */
    (void) sigfillset(&all);                         /* signals belong to the loop */
    (void) pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&thread, NULL, guard_main, NULL);
    (void) pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        return err_sys(err, SP_INTERNAL, rc, "the guard's thread does not start");
    (void) pthread_detach(thread); /* ends with the process */
    for (size_t i = 0; i < ARRAY_LEN(signums); i++)
        if (watch_signal(signums[i]) != 0)
            return err_sys(err, SP_INTERNAL, errno, "signal %d", signums[i]);
    return SP_OK;
}
