/* api_jobs.c - /v1/agent/jobs: commands that run on when their caller goes. A job is a process of the
 * process table, seen from outside. Answers are plain objects; errors have the same form as the
 * daemon's. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "agent/own/body.h"
#include "agent/own/job_request.h"
#include "agent/own/process_view.h"
#include "agent/own/routes.h"
#include "base/mem.h"

enum { STDIN_BODY_MAX = 1024 * 1024, WAIT_S_MAX = 3600 };

#define WAIT_DEFAULT_NS (60 * NS_PER_S)
#define DELETE_WAIT_NS (60 * NS_PER_S) /* what the kernel does not let die is not waited for */

struct waiter {
    struct agent *agent;
    struct http_exchange *ex;
    struct process_watch watch;
    struct rt_timer timer;
};

static int read_start(const struct json *root, struct launch *l, struct err *err)
{
    static const char *const known[] = {"argv", "command", "cwd",       "env",  "stdin",
                                        "pty",  "tag",     "timeout_s", "user", NULL};
    struct spawn_request *s = &l->request.spawn;
    const struct json *pty = NULL;
    int r = json_only_fields(root, known, err);

    if (r == SP_OK)
        r = json_field_bool(root, "stdin", &s->want_stdin, err);
    if (r == SP_OK)
        r = json_field_obj(root, "pty", &pty, err);
    if (r == SP_OK && pty != NULL)
        r = job_read_size(pty, &s->cols, &s->rows, err);
    s->want_pty = pty != NULL;
    return r == SP_OK ? job_read_common(root, l, err) : r;
}

static void handle_start(struct http_exchange *ex)
{
    struct agent *a = http_server_ctx(ex);
    struct json_doc *doc = agent_read_body(ex);
    struct launch l;
    struct process *p;
    struct err err;
    int r;

    if (doc == NULL)
        return;
    launch_init(&l, a);
    r = read_start(json_root(doc), &l, &err);
    if (r == SP_OK)
        r = process_start(a->processes, &l.request, &p, &err);
    if (r == SP_OK)
        process_reply(ex, p);
    else
        http_reply_err(ex, &err);
    launch_fini(&l);
    (void) json_doc_free(doc);
}

static void put_list(struct json_out *o, const struct list *l, const char *tag)
{
    for (struct list_node *n = list_first(l); n != NULL; n = list_next(l, n)) {
        const struct process *p = container_of(n, struct process, link);

        if (tag != NULL && (p->tag == NULL || strcmp(p->tag, tag) != 0))
            continue;
        json_begin_obj(o, NULL);
        process_put(o, p);
        json_end(o);
    }
}

/* Those that run and those whose output is kept; all, or those with a tag. */
static void handle_list(struct http_exchange *ex)
{
    const struct agent *a = http_server_ctx(ex);
    char tag[JOB_TAG_MAX + 1];
    bool has_tag = http_query(ex, "tag", tag, sizeof(tag));
    struct json_out o;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_begin_arr(&o, "jobs");
    put_list(&o, &a->processes->finished, has_tag ? tag : NULL);
    put_list(&o, &a->processes->running, has_tag ? tag : NULL);
    json_end(&o);
    json_end(&o);
    http_reply_json(ex, 200, &o);
}

static void handle_get(struct http_exchange *ex)
{
    struct job job;

    if (job_of(ex, &job))
        job_reply(ex, &job);
}

static void handle_stdin(struct http_exchange *ex)
{
    struct process *p = process_of(ex);
    char eof[8];
    struct err err;
    size_t len = 0;
    const char *body = http_body(ex, &len);

    if (p == NULL)
        return;
    if (len > 0 && process_write(p, body, len, &err) != SP_OK) {
        http_reply_err(ex, &err);
        return;
    }
    if (http_query(ex, "eof", eof, sizeof(eof)) && strcmp(eof, "0") != 0 &&
        process_close_stdin(p, &err) != SP_OK) {
        http_reply_err(ex, &err);
        return;
    }
    process_reply(ex, p);
}

static void handle_resize(struct http_exchange *ex)
{
    struct process *p = process_of(ex);
    struct json_doc *doc = p != NULL ? agent_read_body(ex) : NULL;
    uint16_t cols = 80;
    uint16_t rows = 24;
    struct err err;
    int r;

    if (doc == NULL)
        return;
    r = job_read_size(json_root(doc), &cols, &rows, &err);
    if (r == SP_OK)
        r = process_resize(p, cols, rows, &err);
    if (r == SP_OK)
        process_reply(ex, p);
    else
        http_reply_err(ex, &err);
    (void) json_doc_free(doc);
}

static void handle_signal(struct http_exchange *ex)
{
    static const char *const known[] = {"signal", NULL};
    struct process *p = process_of(ex);
    struct json_doc *doc = p != NULL ? agent_read_body(ex) : NULL;
    int signum = SIGTERM;
    struct err err;
    int r;

    if (doc == NULL)
        return;
    r = json_only_fields(json_root(doc), known, &err);
    if (r == SP_OK)
        r = process_signal_field(json_root(doc), &signum, &err);
    if (r == SP_OK)
        r = process_signal(p, signum, &err);
    if (r == SP_OK)
        process_reply(ex, p);
    else
        http_reply_err(ex, &err);
    (void) json_doc_free(doc);
}

static void waiter_free(struct waiter *w)
{
    rt_timer_cancel(&w->agent->loop.rt, &w->timer);
    process_unwatch(&w->watch);
    free(w);
}

static void on_gone(void *ctx)
{
    waiter_free(ctx);
}

static void finish_wait(struct waiter *w)
{
    process_reply(w->ex, w->watch.process);
    waiter_free(w);
}

static void on_change(struct process_watch *watch)
{
    if (!process_is_running(watch->process))
        finish_wait(container_of(watch, struct waiter, watch));
}

static void on_timer(struct rt_timer *timer)
{
    finish_wait(container_of(timer, struct waiter, timer));
}

/* Answers when it has ended, at the latest after timeout_ns. */
static void wait_for(struct http_exchange *ex, struct process *p, uint64_t timeout_ns)
{
    struct agent *a = http_server_ctx(ex);
    struct rt *rt = &a->loop.rt;
    struct waiter *w;

    if (!process_is_running(p) || timeout_ns == 0) {
        process_reply(ex, p);
        return;
    }
    w = xcalloc(1, sizeof(*w));
    w->agent = a;
    w->ex = ex;
    http_set_ctx(ex, w, on_gone);
    process_watch(p, &w->watch, on_change);
    rt_timer_set(rt, &w->timer, rt_after(rt_now(rt), timeout_ns), on_timer);
}

static void handle_wait(struct http_exchange *ex)
{
    static const char *const known[] = {"timeout_s", NULL};
    struct job job;
    struct json_doc *doc = job_of(ex, &job) ? agent_read_body(ex) : NULL;
    uint64_t timeout_ns = WAIT_DEFAULT_NS;
    struct err err;
    int r;

    if (doc == NULL)
        return;
    r = json_only_fields(json_root(doc), known, &err);
    if (r == SP_OK)
        r = agent_field_seconds(json_root(doc), "timeout_s", WAIT_S_MAX, &timeout_ns, &err);
    if (r != SP_OK)
        http_reply_err(ex, &err);
    else if (job.process == NULL)
        job_reply(ex, &job);
    else
        wait_for(ex, job.process, timeout_ns);
    (void) json_doc_free(doc);
}

static void handle_delete(struct http_exchange *ex)
{
    struct job job;

    if (!job_of(ex, &job))
        return;
    if (job.process == NULL) {
        job_reply(ex, &job);
        return;
    }
    process_kill(job.process);
    wait_for(ex, job.process, DELETE_WAIT_NS);
}

const struct http_route own_job_routes[] = {
    {HTTP_METHOD_POST, "/v1/agent/jobs", handle_start, 0, 0, "start a job"},
    {HTTP_METHOD_GET, "/v1/agent/jobs", handle_list, 0, 0, "running and kept jobs"},
    {HTTP_METHOD_GET, "/v1/agent/jobs/{job}", handle_get, 0, 0, "one job"},
    {HTTP_METHOD_GET, "/v1/agent/jobs/{job}/output", process_stream_output, 0, 0,
     "its output from an offset, as bytes or events"},
    {HTTP_METHOD_POST, "/v1/agent/jobs/{job}/stdin", handle_stdin, 0, STDIN_BODY_MAX,
     "bytes for its input"},
    {HTTP_METHOD_POST, "/v1/agent/jobs/{job}/resize", handle_resize, 0, 0, "size of its terminal"},
    {HTTP_METHOD_POST, "/v1/agent/jobs/{job}/signal", handle_signal, 0, 0, "a signal to its group"},
    {HTTP_METHOD_POST, "/v1/agent/jobs/{job}/wait", handle_wait, 0, 0, "wait for its end"},
    {HTTP_METHOD_DELETE, "/v1/agent/jobs/{job}", handle_delete, 0, 0,
     "end it with its descendants"},
    {.pattern = NULL},
};
