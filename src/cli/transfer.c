/* transfer.c - one file or archive, in pieces: what the slower side has not taken is not read from the other. */
#include "cli/transfer.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    PIECE = 64 * 1024,
    SHOW_EVERY_MS = 200,
    STILL_MS = 120 * 1000, /* without a byte in either direction: the box or the daemon hangs */
};

static uint64_t now_ms(void)
{
    struct timespec ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts); /* cannot fail for this clock */
    return (uint64_t) ts.tv_sec * 1000 + (uint64_t) ts.tv_nsec / NS_PER_MS;
}

/* --- progress --- */

FILE *transfer_progress(const struct cli *c)
{
    return !cli_flag(&c->args, "quiet") && isatty(fileno(c->err)) != 0 ? c->err : NULL;
}

static void show(struct transfer *t, bool is_last)
{
    uint64_t at_ms = now_ms();
    double seconds = (double) (at_ms - t->started_ms) / 1000;
    double mb = (double) t->done / 1e6;

    if (t->progress == NULL || (!is_last && at_ms - t->shown_ms < SHOW_EVERY_MS))
        return;
    t->shown_ms = at_ms;
    (void) fputc('\r', t->progress);
    out_text(t->progress, t->name);
    if (t->total > 0)
        (void) fprintf(t->progress, "  %3.0f%%", 100.0 * (double) t->done / (double) t->total);
    (void) fprintf(t->progress, "  %.1f MB  %.1f MB/s   ", mb, seconds > 0 ? mb / seconds : 0.0);
    if (is_last)
        (void) fputc('\n', t->progress);
    (void) fflush(t->progress);
}

static void count(struct transfer *t, size_t len)
{
    t->done += len;
    show(t, false);
}

/* --- sending --- */

struct piece {
    char data[PIECE];
    size_t len;
    size_t at;
    bool has_ended;
};

static int fail_here(const char *what, struct sp_failure *f)
{
    *f = (struct sp_failure){.code = SP_IO};
    (void) snprintf(f->message, sizeof(f->message), "%s failed: %s", what, strerror(errno));
    return SP_IO;
}

/* Gives the box what it takes now, and reads on when all of it was taken. */
static int feed(struct transfer *t, struct piece *p, struct sp_failure *f)
{
    ssize_t n;

    if (p->at == p->len && !p->has_ended) {
        n = read(t->fd, p->data, sizeof(p->data));
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            return SP_OK;
        if (n < 0)
            return fail_here("reading", f);
        p->at = 0;
        p->len = (size_t) n;
        p->has_ended = n == 0;
        if (p->has_ended)
            sp_box_end_body(t->box);
    }
    if (p->at < p->len) {
        size_t taken = sp_box_write(t->box, p->data + p->at, p->len - p->at);

        p->at += taken;
        count(t, taken);
    }
    return SP_OK;
}

static int wait_box(const struct sp_box *b, struct sp_failure *f)
{
    struct pollfd p = {.fd = sp_box_fd(b), .events = sp_box_events(b)};
    int n = poll(&p, 1, STILL_MS);

    if (n > 0 || (n < 0 && errno == EINTR))
        return SP_OK;
    *f = (struct sp_failure){.code = SP_TIMEOUT,
                             .message = "the box has taken and given nothing for two minutes"};
    return SP_TIMEOUT;
}

int transfer_send(struct transfer *t, const char *target, struct sp_failure *failure)
{
    struct sp_box_call call = {
        .method = "PUT", .target = target, .is_streamed = true, .length = -1};
    struct piece p = {.len = 0};
    int r = sp_box_begin(t->box, &call, failure);

    t->started_ms = now_ms();
    while (r == SP_OK && sp_box_is_busy(t->box)) {
        if (!p.has_ended && (sp_box_events(t->box) & POLLOUT) == 0)
            r = feed(t, &p, failure);
        if (r == SP_OK)
            r = wait_box(t->box, failure);
        if (r == SP_OK)
            r = sp_box_step(t->box, failure);
    }
    show(t, true);
    return r;
}

/* --- receiving --- */

static bool on_data(void *ctx, const char *data, size_t len)
{
    struct transfer *t = ctx;

    while (len > 0) {
        ssize_t n = write(t->fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            t->write_error = errno;
            return false;
        }
        data += n;
        len -= (size_t) n;
        count(t, (size_t) n);
    }
    return true;
}

int transfer_receive(struct transfer *t, const char *target, struct sp_failure *failure)
{
    struct sp_box_call call = {.method = "GET", .target = target, .on_data = on_data, .ctx = t};
    int r = sp_box_begin(t->box, &call, failure);

    t->started_ms = now_ms();
    while (r == SP_OK && sp_box_is_busy(t->box)) {
        r = wait_box(t->box, failure);
        if (r == SP_OK)
            r = sp_box_step(t->box, failure);
    }
    show(t, true);
    if (r == SP_OK && t->write_error != 0) {
        errno = t->write_error;
        r = fail_here("writing", failure);
    }
    return r;
}
