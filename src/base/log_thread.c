/* log_thread.c - one piece of the log at a time is given to a thread. Usually that has written it before the loop goes
 * on; when it has not, the loop does not wait again until it has: lines stay in the ring, and are dropped and counted
 * when that is full. */
#include "base/log_thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/log.h"

#define PATIENCE_MS 50 /* for a disk that is only busy */

static struct {
    pthread_mutex_t lock; /* never held while something is written */
    pthread_cond_t changed;
    int fd;
    int error; /* of the last piece, to be reported with the next */
    bool is_busy;
    size_t len;
    char data[LOG_WRITER_MAX];
} piece = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* An errno or 0. */
static int write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno != EINTR)
            return errno;
        data += n > 0 ? n : 0;
        len -= n > 0 ? (size_t) n : 0;
    }
    return 0;
}

static void *run(void *arg)
{
    (void) pthread_mutex_lock(&piece.lock);
    for (;;) {
        int error;

        while (!piece.is_busy)
            (void) pthread_cond_wait(&piece.changed, &piece.lock);
        (void) pthread_mutex_unlock(&piece.lock);
        error = write_all(piece.fd, piece.data, piece.len);
        (void) pthread_mutex_lock(&piece.lock);
        piece.error = error;
        piece.is_busy = false;
        (void) pthread_cond_broadcast(&piece.changed);
    }
    return arg;
}

/* With the lock. True: the last piece has been written. */
static bool wait_until_idle(int wait_ms)
{
    struct timespec until;

    (void) clock_gettime(CLOCK_MONOTONIC, &until); /* cannot fail */
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += (long) (wait_ms % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (piece.is_busy && wait_ms > 0)
        if (pthread_cond_timedwait(&piece.changed, &piece.lock, &until) == ETIMEDOUT)
            break;
    return !piece.is_busy;
}

static bool thread_wait(int wait_ms)
{
    bool is_idle;

    (void) pthread_mutex_lock(&piece.lock);
    is_idle = wait_until_idle(wait_ms);
    (void) pthread_mutex_unlock(&piece.lock);
    return is_idle;
}

static ssize_t thread_write(int fd, const char *data, size_t len)
{
    int error = 0;

    (void) pthread_mutex_lock(&piece.lock);
    if (piece.is_busy) {
        error = EAGAIN;
    } else if (piece.error != 0) {
        error = piece.error;
        piece.error = 0;
    } else {
        piece.fd = fd;
        piece.len = MIN_OF(len, sizeof(piece.data));
        memcpy(piece.data, data, piece.len);
        piece.is_busy = true;
        (void) pthread_cond_broadcast(&piece.changed);
        (void) wait_until_idle(
            PATIENCE_MS); /* so that a line is there when its cause is answered */
    }
    (void) pthread_mutex_unlock(&piece.lock);
    errno = error;
    return error == 0 ? (ssize_t) MIN_OF(len, sizeof(piece.data)) : -1;
}

static bool begin(void)
{
    pthread_condattr_t attributes;
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    bool is_good;

    if (pthread_condattr_init(&attributes) != 0)
        return false;
    is_good = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
              pthread_cond_init(&piece.changed, &attributes) == 0;
    (void) pthread_condattr_destroy(&attributes);
    (void) sigfillset(&all); /* signals are for the loop */
    (void) pthread_sigmask(SIG_SETMASK, &all, &before);
    is_good = is_good && pthread_create(&thread, NULL, run, NULL) == 0;
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (is_good)
        (void) pthread_detach(thread);
    return is_good;
}

void log_thread_start(void)
{
    static const struct log_writer writer = {.write = thread_write, .wait = thread_wait};
    static bool is_running;

    is_running = is_running || begin();
    if (is_running)
        log_set_writer(&writer);
}
