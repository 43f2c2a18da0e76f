/* cmd_events.c - sandpool events. A broken stream is taken up again after the last event that
 * was printed; the daemon says so itself when some are no longer kept. */
#include <poll.h>
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "cli/cli.h"

enum { PAUSE_MS = 1000, TRIES_MAX = 60, QUIET_MS = 90 * 1000 };

struct watch {
    struct sse sse;
    struct cli *c;
    bool has_news; /* since the last connect */
    bool has_limit;
    uint64_t left; /* with a limit */
    uint64_t since_ms;
    uint64_t until_ms;
};

/* "2026-11-16T00:34:38.123Z 17 leased sandbox_id=... thread_id=..." */
static void print_event(struct watch *w, const struct json *data)
{
    FILE *out = w->c->out;
    const char *key;
    const struct json *v;

    out_text(out, str_is_empty(show_str(data, "at")) ? "-" : show_str(data, "at"));
    (void) fprintf(out, " %s ", w->sse.id);
    out_text(out, w->sse.event);
    for (size_t i = 0; json_member(data, i, &key, &v); i++) {
        struct buf text;

        if (json_is_null(v) || strcmp(key, "at") == 0 || strcmp(key, "event") == 0)
            continue;
        buf_init(&text, 64 * 1024);
        if (json_is_str(v) && strpbrk(json_str(v), " \"=") == NULL)
            buf_puts(&text, json_str(v));
        else
            json_print(v, &text);
        (void) fprintf(out, " %s=", key);
        out_text(out, buf_str(&text));
        buf_fini(&text);
    }
    (void) fputc('\n', out);
}

static bool on_event(struct sse *s)
{
    struct watch *w = container_of(s, struct watch, sse);

    w->has_news = true;
    if (w->has_limit && w->left > 0)
        w->left--;
    if (cli_wants_json(w->c)) {
        (void) fprintf(w->c->out, "%s\n", buf_str(&s->data));
    } else {
        struct json_doc *doc = json_parse(buf_str(&s->data), s->data.len, s->data.len, NULL);

        print_event(w, json_root(doc));
        (void) json_doc_free(doc);
    }
    return fflush(w->c->out) == 0; /* a reader that left ends it */
}

static bool on_data(void *ctx, const char *data, size_t len)
{
    struct watch *w = ctx;

    return sse_feed(&w->sse, data, len);
}

static uint64_t ago(uint64_t ms)
{
    uint64_t now_ms = (uint64_t) time(NULL) * 1000;

    return ms < now_ms ? now_ms - ms : 1;
}

static bool is_number(const char *text)
{
    return text[strspn(text, "0123456789")] == '\0';
}

/* Times are counted from the start of the program, also when the stream is taken up again. */
static bool read_times(struct watch *w)
{
    const char *since = cli_option(&w->c->args, "since");
    uint64_t ms;

    if (cli_duration_ms(&w->c->args, "until", &ms))
        w->until_ms = ago(ms);
    if (since == NULL || is_number(since))
        return true;
    if (!duration_parse_ms(since, &ms)) {
        (void) cli_fail_usage(w->c, "--since '%s' is neither the id of an event nor a time like 2h",
                              since);
        return false;
    }
    w->since_ms = ago(ms);
    return true;
}

static void put_target(const struct watch *w, bool want_follow, struct buf *target)
{
    const char *since = cli_option(&w->c->args, "since");

    buf_printf(target, "/v1/events?follow=%d", want_follow ? 1 : 0);
    if (w->since_ms > 0)
        buf_printf(target, "&since_ms=%llu", (unsigned long long) w->since_ms);
    else if (since != NULL && str_is_empty(w->sse.id))
        buf_printf(target, "&since=%s", since);
    if (w->until_ms > 0)
        buf_printf(target, "&until_ms=%llu", (unsigned long long) w->until_ms);
    if (w->has_limit)
        buf_printf(target, "&limit=%llu", (unsigned long long) w->left);
    cli_add_filter(w->c, target, "event", "event");
    cli_add_filter(w->c, target, "box", "box");
    cli_add_sandbox(w->c, target, "id");
    cli_add_filter(w->c, target, "user", "user");
    cli_add_filter(w->c, target, "thread", "thread");
}

static int stream_once(struct watch *w, bool want_follow, struct sp_failure *f)
{
    struct buf target;
    int r;

    sse_restart(&w->sse);
    w->has_news = false;
    buf_init(&target, 8192);
    put_target(w, want_follow, &target);
    r = sp_stream(w->c->client, buf_str(&target), str_is_empty(w->sse.id) ? NULL : w->sse.id,
                  on_data, w, f);
    buf_fini(&target);
    return r;
}

/* True when it is worth connecting again: the daemon restarts, or the connection broke. */
static bool is_passing(const struct sp_failure *f)
{
    return f->code == SP_IO || f->code == SP_TIMEOUT || f->code == SP_CONNECT_FAILED ||
           f->code == SP_STARTING;
}

int cmd_events(struct cli *c)
{
    struct watch w = {.c = c};
    struct sp_failure failure = {.code = SP_OK};
    bool want_follow = !cli_flag(&c->args, "no-follow");
    uint64_t timeout_ms = QUIET_MS; /* the daemon sends a comment more often than that */
    unsigned tries = 0;
    bool was_connected = false;
    int r;

    w.has_limit = cli_number(&c->args, "limit", &w.left);
    if (w.has_limit && w.left == 0)
        return CLI_OK;
    if (!read_times(&w))
        return CLI_USAGE;
    want_follow = want_follow && w.until_ms == 0;
    (void) cli_duration_ms(&c->args, "request-timeout", &timeout_ms);
    sp_client_set_timeout(c->client, timeout_ms);
    sse_init(&w.sse, on_event);
    for (;;) {
        r = stream_once(&w, want_follow, &failure);
        was_connected = was_connected || w.has_news;
        tries = w.has_news ? 0 : tries + 1;
        if (!want_follow || (w.has_limit && w.left == 0) || tries > TRIES_MAX || ferror(c->out) ||
            buf_failed(&w.sse.line))
            break;
        if (r != SP_OK && (!was_connected || !is_passing(&failure)))
            break;
        if (tries == 0)
            (void) fprintf(c->err, "sandpool: the stream broke, connecting again\n");
        (void) poll(NULL, 0, PAUSE_MS);
    }
    sse_fini(&w.sse);
    return r == SP_OK ? CLI_OK : cli_fail(c, &failure);
}
