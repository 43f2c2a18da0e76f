/* top_ask.c - what `sandpool top` asks the daemon. A call that fails is a sentence on the screen, never the end. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/run.h"
#include "cli/top.h"

enum {
    CALL_MS = 5 * 1000,
    ACTION_MS = 30 * 1000,
    USE_MS = 400,    /* of each turn, for asking about boxes */
    BOXES_PART = 10, /* of the time may be taken by asking for the list */
    PAGE = 1000,
};

static void set_timeout(const struct top_asker *a, uint64_t ms)
{
    (void) cli_duration_ms(&a->cli->args, "request-timeout", &ms);
    sp_client_set_timeout(a->cli->client, MAX_OF(ms, 1U));
}

static bool fail(struct top *t, const char *what, const struct sp_failure *f)
{
    char text[TOP_REASON_MAX];

    (void) snprintf(text, sizeof(text), "%s: %.200s", what,
                    f != NULL ? f->message : "the answer is malformed; see 'sandpool version'");
    top_set_away(t, text);
    return false;
}

static bool ask_pool(struct top_asker *a, struct top *t)
{
    struct sp_failure f;
    struct json_doc *doc;
    bool is_good;

    if (cli_try(a->cli, "GET", "/v1/pool", NULL, &doc, &f) != SP_OK)
        return fail(t, "no state of the pool", &f);
    is_good = top_take_pool(t, json_root(doc));
    (void) json_doc_free(doc);
    return is_good ? true : fail(t, "no state of the pool", NULL);
}

static bool ask_metrics(struct top_asker *a, struct top *t)
{
    AUTO_FREE char *text = NULL;
    struct sp_failure f;

    if (sp_call(a->cli->client, "GET", "/metrics", NULL, &text, &f) != SP_OK)
        return fail(t, "no metrics", &f);
    if (text == NULL || strlen(text) > TOP_METRICS_MAX || !top_take_metrics(t, text, run_now_ms()))
        return fail(t, "no metrics", NULL);
    return true;
}

static bool ask_boxes(struct top_asker *a, struct top *t)
{
    char cursor[128] = "";
    bool is_good = true;
    struct sp_failure f;

    top_begin_boxes(t);
    do {
        struct json_doc *doc;
        struct buf target;
        int r;

        buf_init(&target, 1024);
        buf_printf(&target, "/v1/sandboxes?limit=%d%s", PAGE,
                   str_is_empty(cursor) ? "" : "&cursor=");
        cli_escape(&target, cursor);
        r = cli_try(a->cli, "GET", buf_str(&target), NULL, &doc, &f);
        buf_fini(&target);
        if (r != SP_OK)
            return fail(t, "no list of boxes", &f);
        is_good = top_take_boxes(t, json_root(doc), cursor);
        (void) json_doc_free(doc);
    } while (is_good && !str_is_empty(cursor));
    if (!is_good)
        return fail(t, "no list of boxes", NULL);
    top_end_boxes(t);
    return true;
}

bool top_ask_all(struct top_asker *a, struct top *t)
{
    uint64_t before_ms;

    set_timeout(a, CALL_MS);
    if (!ask_pool(a, t) || !ask_metrics(a, t))
        return false;
    before_ms = run_now_ms();
    if (before_ms < a->boxes_due_ms)
        return true;
    if (!ask_boxes(a, t))
        return false;
    a->boxes_due_ms = run_now_ms() + BOXES_PART * (run_now_ms() - before_ms);
    return true;
}

/* --- one box --- */

static int ask_box(struct top_asker *a, const char *name, struct json_doc **ret,
                   struct sp_failure *f)
{
    struct buf target;
    int r;

    buf_init(&target, 1024);
    buf_puts(&target, "/v1/sandboxes/");
    cli_escape(&target, name);
    buf_puts(&target, "?stats=1");
    r = cli_try(a->cli, "GET", buf_str(&target), NULL, ret, f);
    buf_fini(&target);
    return r;
}

void top_ask_use(struct top_asker *a, struct top *t, const struct top_view *v, unsigned rows)
{
    uint64_t begin_ms = run_now_ms();
    struct top_box *b;
    int r = SP_OK;

    if (!str_is_empty(t->away))
        return;
    sp_client_set_interrupt(a->cli->client, a->interrupt_fd);
    while (r != SP_CANCELLED && run_now_ms() - begin_ms < USE_MS &&
           (b = top_view_next(v, t, rows, begin_ms)) != NULL) {
        char name[TOP_NAME_MAX];
        struct json_doc *doc = NULL;
        struct sp_failure f;

        (void) snprintf(name, sizeof(name), "box:%.100s", b->key);
        r = ask_box(a, name, &doc, &f);
        if (r != SP_CANCELLED)
            top_take_use(b, json_root(doc), run_now_ms());
        (void) json_doc_free(doc);
        if (r == SP_CONNECT_FAILED || r == SP_TIMEOUT)
            break;
    }
    sp_client_set_interrupt(a->cli->client, -1);
}

void top_ask_details(struct top_asker *a, struct top_view *v)
{
    char *text = NULL;
    size_t len = 0;
    struct sp_failure f;
    struct json_doc *doc = NULL;
    FILE *out;

    set_timeout(a, CALL_MS);
    if (ask_box(a, v->target, &doc, &f) != SP_OK) {
        (void) snprintf(v->message, sizeof(v->message), "%.200s", f.message);
        return;
    }
    out = open_memstream(&text, &len);
    if (out != NULL) {
        show_members(json_root(doc), out);
        buf_reset(&v->details);
        if (fclose(out) == 0)
            buf_puts(&v->details, text);
        free(text);
    }
    (void) json_doc_free(doc);
}

/* --- changes --- */

static int change(struct top_asker *a, const struct top_view *v, enum top_action action,
                  struct sp_failure *f)
{
    struct buf target;
    struct buf body;
    struct json_out o;
    int r;

    buf_init(&target, 1024);
    buf_init(&body, 1024);
    if (action == TOP_DESTROY) {
        buf_puts(&target, "/v1/sandboxes/");
        cli_escape(&target, v->target);
        buf_puts(&target, "?quick=1");
        if (strncmp(v->target, "box:", 4) != 0)
            buf_printf(&target, "&generation=%llu", (unsigned long long) v->target_generation);
    } else {
        buf_puts(&target, action == TOP_PAUSE ? "/v1/pool/pause" : "/v1/pool/resume");
        json_out_init(&o);
        json_begin_obj(&o, NULL);
        json_put_str(&o, "profile", v->target);
        json_end(&o);
        json_out_finish(&o, &body);
    }
    r = cli_try(a->cli, action == TOP_DESTROY ? "DELETE" : "POST", buf_str(&target),
                action == TOP_DESTROY ? NULL : buf_str(&body), NULL, f);
    buf_fini(&target);
    buf_fini(&body);
    return r;
}

void top_ask_action(struct top_asker *a, struct top_view *v, enum top_action action)
{
    const char *done = action == TOP_DESTROY ? "is being destroyed"
                       : action == TOP_PAUSE ? "is paused"
                                             : "serves again";
    struct sp_failure f;

    set_timeout(a, ACTION_MS);
    if (change(a, v, action, &f) == SP_OK)
        (void) snprintf(v->message, sizeof(v->message), "%.100s %s.", v->target, done);
    else
        (void) snprintf(v->message, sizeof(v->message), "%.80s: %.160s", v->target, f.message);
    a->boxes_due_ms = 0;
}
