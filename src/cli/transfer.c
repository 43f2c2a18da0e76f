/* transfer.c - how much of a file or archive has passed, a few times per second. */
#include "cli/transfer.h"

#include <time.h>
#include <unistd.h>

enum { SHOW_EVERY_MS = 200 };

static uint64_t now_ms(void)
{
    struct timespec ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts); /* cannot fail for this clock */
    return (uint64_t) ts.tv_sec * 1000 + (uint64_t) ts.tv_nsec / NS_PER_MS;
}

static void show(struct transfer *t, bool is_last)
{
    uint64_t at_ms = now_ms();
    double seconds = (double) (at_ms - t->started_ms) / 1000;
    double mb = (double) t->done / 1e6;

    if (t->out == NULL || (!is_last && at_ms - t->shown_ms < SHOW_EVERY_MS))
        return;
    t->shown_ms = at_ms;
    (void) fputc('\r', t->out);
    out_text(t->out, t->name);
    if (t->total > 0)
        (void) fprintf(t->out, "  %3.0f%%", 100.0 * (double) t->done / (double) t->total);
    (void) fprintf(t->out, "  %.1f MB  %.1f MB/s   ", mb, seconds > 0 ? mb / seconds : 0.0);
    if (is_last)
        (void) fputc('\n', t->out);
    (void) fflush(t->out);
}

void transfer_begin(struct transfer *t, const struct cli *c)
{
    t->out = !cli_flag(&c->args, "quiet") && isatty(fileno(c->err)) != 0 ? c->err : NULL;
    t->started_ms = now_ms();
}

void transfer_count(void *ctx, size_t len)
{
    struct transfer *t = ctx;

    t->done += len;
    show(t, false);
}

void transfer_end(struct transfer *t)
{
    show(t, true);
}
