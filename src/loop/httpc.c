/* httpc.c - libcurl's multi interface driven by the loop.
 *
 * The one rule: nothing is added to or removed from the multi handle inside one of its callbacks.
 * It holds because no code of a caller runs there: completions are deferred by op, and pump() reads
 * every message after every action, so none is forgotten and a cancel never races a success. */
#include "loop/httpc.h"

#include <curl/curl.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "loop/httpc_easy.h"
#include "loop/httpc_stream.h"

struct watcher {
    uv_poll_t poll;
    curl_socket_t fd;
    int events; /* of libuv */
    struct httpc *client;
    struct list_node link;
};

struct httpc {
    struct loop *loop;
    CURLM *multi;
    struct httpc_limits limits;
    struct rt_timer timer; /* the one libcurl asks for */
    struct list active;    /* operations */
    struct list watchers;
    struct resolve_cache names;
    struct effort effort; /* of the chunks of all answers */
    struct list resting;  /* requests */
    struct rt_timer rest_timer;
    unsigned closing_watchers;
    bool is_closing;
    struct rt_task gone;
    void (*on_closed)(void *ctx);
    void *on_closed_ctx;
};

/* --- the end of a request --- */

/* Takes the transfer away from libcurl. The handle is not used again: libcurl 7.88 keeps a pointer to
 * the last header of the answer in it, beyond a reset, and follows that when the next answer begins
 * with a folded line. Connections are the multi's. */
static void detach(struct httpc_request *r)
{
    CURL *easy = r->easy;

    if (easy != NULL) {
        (void) curl_multi_remove_handle(r->client->multi, easy); /* fine if it was never added */
        curl_easy_cleanup(easy);
    }
    curl_slist_free_all(r->header_list);
    curl_slist_free_all(r->connect_list);
    curl_slist_free_all(r->resolve_list);
    curl_slist_free_all(r->tunnel_list);
    r->easy = NULL;
    r->header_list = NULL;
    r->connect_list = NULL;
    r->resolve_list = NULL;
    r->tunnel_list = NULL;
}

static void finish(struct httpc_request *r, int result, const struct err *err)
{
    if (op_is_active(&r->lookup.op))
        op_cancel(&r->lookup.op); /* its on_done() comes before ours */
    detach(r);
    httpc_stream_stop(r, result == SP_OK); /* after the detach, which may wake it */
    op_finish(&r->op, result, err);
}

void httpc_complete(struct httpc_request *r, int curl_code)
{
    struct err err;
    long status = 0;

    (void) curl_easy_getinfo((CURL *) r->easy, CURLINFO_HTTP_CONNECTCODE, &status);
    r->tunnel_status = (int) status;
    if (curl_code != CURLE_OK && !httpc_stream_is_answered(r, curl_code)) {
        if (r->is_named)
            resolve_forget(&r->client->names, r->host);
        finish(r, httpc_easy_error(r, curl_code, &err), &err);
        return;
    }
    (void) curl_easy_getinfo((CURL *) r->easy, CURLINFO_RESPONSE_CODE, &status);
    r->status = (int) status;
    finish(r, SP_OK, NULL);
}

static void on_cancel(struct op *op)
{
    finish(container_of(op, struct httpc_request, op), SP_CANCELLED, NULL);
}

/* --- how much work in a turn --- */

static void on_rest_timer(struct rt_timer *timer);

/* One tick ahead: after this run of the queue. */
static void set_rest_timer(struct httpc *c)
{
    struct rt *rt = &c->loop->rt;

    rt_timer_set(rt, &c->rest_timer, rt_after(rt_now(rt), 1), on_rest_timer);
}

static bool has_used_up(const struct httpc *c, const struct httpc_request *r)
{
    return effort_used(&r->effort, c->loop->turn) >= EFFORT_ONE_MAX ||
           effort_used(&c->effort, c->loop->turn) >= EFFORT_ALL_MAX;
}

static void on_rest_timer(struct rt_timer *timer)
{
    struct httpc *c = container_of(timer, struct httpc, rest_timer);
    size_t left = c->resting.len; /* who rests again comes behind these */

    for (; left > 0 && !list_is_empty(&c->resting); left--) {
        struct httpc_request *r =
            container_of(list_first(&c->resting), struct httpc_request, resting);

        if (has_used_up(c, r))
            break;
        httpc_rest_end(r);
        httpc_stream_go_on(r);
    }
    if (!list_is_empty(&c->resting))
        set_rest_timer(c);
}

bool httpc_rests(struct httpc_request *r)
{
    struct httpc *c = r->client;

    if (!has_used_up(c, r))
        return false;
    if (!list_is_linked(&r->resting))
        list_push_back(&c->resting, &r->resting);
    set_rest_timer(c);
    return true;
}

void httpc_count_effort(struct httpc_request *r, size_t cost)
{
    effort_add(&r->effort, r->client->loop->turn, cost);
    effort_add(&r->client->effort, r->client->loop->turn, cost);
}

void httpc_rest_end(struct httpc_request *r)
{
    list_remove(&r->client->resting, &r->resting);
}

/* --- libcurl's view of the loop --- */

static void pump(struct httpc *c, curl_socket_t fd, int events)
{
    CURLMsg *msg;
    int count;

    (void) curl_multi_socket_action(c->multi, fd, events, &count); /* errors are per transfer */
    msg = curl_multi_info_read(c->multi, &count);
    while (msg != NULL) {
        if (msg->msg == CURLMSG_DONE) {
            CURLcode curl_code = msg->data.result; /* dies with the removal */
            char *r = NULL;

            (void) curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &r);
            httpc_complete((struct httpc_request *) (void *) r, (int) curl_code);
        }
        msg = curl_multi_info_read(c->multi, &count);
    }
}

static void on_timer(struct rt_timer *timer)
{
    pump(container_of(timer, struct httpc, timer), CURL_SOCKET_TIMEOUT, 0);
}

static int on_curl_timer(CURLM *multi, long timeout_ms, void *arg)
{
    struct httpc *c = arg;
    struct rt *rt = &c->loop->rt;

    (void) multi;
    if (timeout_ms < 0)
        rt_timer_cancel(rt, &c->timer);
    else /* 0 is one tick ahead: after this run of the queue, so that I/O gets its turn */
        rt_timer_set(rt, &c->timer,
                     rt_after(rt_now(rt), timeout_ms > 0 ? (uint64_t) timeout_ms * NS_PER_MS : 1),
                     on_timer);
    return 0;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct watcher *w = container_of(poll, struct watcher, poll);
    int flags = 0;

    if (status < 0) /* libcurl must find out why: an answer may lie in front of a reset */
        flags = CURL_CSELECT_ERR | CURL_CSELECT_IN | CURL_CSELECT_OUT;
    if ((events & UV_READABLE) != 0)
        flags |= CURL_CSELECT_IN;
    if ((events & UV_WRITABLE) != 0)
        flags |= CURL_CSELECT_OUT;
    pump(w->client, w->fd, flags);
    if (status < 0 && !uv_is_closing((uv_handle_t *) poll)) /* libuv stopped watching */
        (void) uv_poll_start(poll, w->events, on_poll);
}

static void on_gone(struct rt_task *task)
{
    struct httpc *c = container_of(task, struct httpc, gone);
    void (*on_closed)(void *ctx) = c->on_closed;
    void *ctx = c->on_closed_ctx;

    free(c);
    curl_global_cleanup();
    if (on_closed != NULL)
        on_closed(ctx);
}

static void maybe_gone(struct httpc *c)
{
    if (c->is_closing && c->multi == NULL && c->closing_watchers == 0)
        rt_defer(&c->loop->rt, &c->gone, on_gone); /* behind the on_done() of what was cancelled */
}

static void on_watcher_closed(void *ctx)
{
    struct watcher *w = ctx;
    struct httpc *c = w->client;

    free(w);
    c->closing_watchers--;
    maybe_gone(c);
}

static void watcher_close(struct watcher *w)
{
    list_remove(&w->client->watchers, &w->link);
    w->client->closing_watchers++;
    loop_close_handle((uv_handle_t *) &w->poll, on_watcher_closed, w);
}

static struct watcher *watcher_new(struct httpc *c, curl_socket_t fd)
{
    struct watcher *w = xcalloc(1, sizeof(*w));

    if (uv_poll_init_socket(&c->loop->uv, &w->poll, fd) != 0) {
        free(w); /* the handle was not initialised */
        return NULL;
    }
    w->fd = fd;
    w->client = c;
    list_push_back(&c->watchers, &w->link);
    (void) curl_multi_assign(c->multi, fd, w); /* libcurl has just named this socket */
    return w;
}

static int on_curl_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    struct httpc *c = arg;
    struct watcher *w = socket_arg;
    char *r = NULL;

    (void) curl_easy_getinfo(easy, CURLINFO_PRIVATE, &r);
    if (r != NULL) /* else one of libcurl's own */
        httpc_stream_polled((struct httpc_request *) (void *) r, fd, what);
    if (what == CURL_POLL_REMOVE) {
        if (w != NULL)
            watcher_close(w);
        return 0;
    }
    if (w == NULL)
        w = watcher_new(c, fd);
    if (w == NULL)
        return 0; /* no descriptor space in the kernel: the deadline ends the transfer */
    w->events = 0;
    if ((what & CURL_POLL_IN) != 0)
        w->events |= UV_READABLE;
    if ((what & CURL_POLL_OUT) != 0)
        w->events |= UV_WRITABLE;
    (void) uv_poll_start(&w->poll, w->events, on_poll); /* cannot fail for an open handle */
    return 0;
}

/* --- starting --- */

static int launch(struct httpc *c, struct httpc_request *r, struct err *err)
{
    r->easy = curl_easy_init();
    if (r->easy == NULL || !httpc_easy_set(r, c->limits.connect_timeout_ms) ||
        curl_multi_add_handle(c->multi, r->easy) != CURLM_OK)
        return err_set(err, SP_NO_MEMORY, "no memory for a request");
    return SP_OK;
}

static void on_looked_up(struct op *op)
{
    struct resolve *lookup = container_of(op, struct resolve, op);
    struct httpc_request *r = container_of(lookup, struct httpc_request, lookup);
    struct err err = op->err;
    int code = op->result;

    if (!op_is_active(&r->op))
        return; /* cancelled, and its own on_done() is next */
    if (code == SP_OK)
        code = launch(r->client, r, &err);
    if (code != SP_OK)
        finish(r, code, &err);
}

static int start(struct httpc *c, struct httpc_request *r, struct err *err)
{
    int code;

    if (c->is_closing)
        return err_set(err, SP_CANCELLED, "the HTTP client is closing");
    code = httpc_easy_check(r, err);
    if (code != SP_OK)
        return code;
    if (!r->is_named)
        return launch(c, r, err);
    r->lookup.host = r->host;
    resolve_start(c->loop, &r->lookup, &c->names, RT_NEVER, on_looked_up); /* ours rules */
    return SP_OK;
}

void httpc_start(struct httpc *c, struct httpc_request *r, uint64_t deadline_ns,
                 void (*on_done)(struct op *))
{
    struct err err;
    int code;

    op_begin(&r->op, &c->loop->rt, &c->active, deadline_ns, on_cancel, on_done);
    r->client = c;
    r->easy = NULL;
    r->header_list = NULL;
    r->connect_list = NULL;
    r->resolve_list = NULL;
    r->tunnel_list = NULL;
    httpc_stream_reset(r);
    code = start(c, r, &err);
    if (code != SP_OK)
        finish(r, code, &err);
}

void httpc_request_fini(struct httpc_request *r)
{
    assert(!op_is_active(&r->op));
    buf_fini(&r->response);
    buf_fini(&r->response_headers);
}

/* --- the client --- */

int httpc_new(struct loop *l, const struct httpc_limits *limits, struct httpc **ret,
              struct err *err)
{
    struct httpc *c;

    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) /* counted: one cleanup per client */
        return err_set(err, SP_INTERNAL, "libcurl cannot be initialised");
    c = xcalloc(1, sizeof(*c));
    c->loop = l;
    c->limits = *limits;
    c->multi = curl_multi_init();
    if (c->multi == NULL) {
        free(c);
        curl_global_cleanup();
        return err_set(err, SP_IO, "no descriptors or memory for the HTTP client");
    }
    list_init(&c->active);
    list_init(&c->watchers);
    list_init(&c->resting);
    /* These only store the values. */
    (void) curl_multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, on_curl_socket);
    (void) curl_multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c);
    (void) curl_multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, on_curl_timer);
    (void) curl_multi_setopt(c->multi, CURLMOPT_TIMERDATA, c);
    (void) curl_multi_setopt(c->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
    (void) curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long) limits->connections);
    (void) curl_multi_setopt(c->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long) limits->connections);
    (void) curl_multi_setopt(c->multi, CURLMOPT_MAX_HOST_CONNECTIONS,
                             (long) limits->connections_per_host);
    *ret = c;
    return SP_OK;
}

void httpc_close(struct httpc *c, void (*on_closed)(void *ctx), void *ctx)
{
    assert(!c->is_closing);
    c->is_closing = true;
    c->on_closed = on_closed;
    c->on_closed_ctx = ctx;
    op_cancel_all(&c->active); /* takes every transfer off the multi handle */
    assert(list_is_empty(&c->active));
    (void) curl_multi_cleanup(c->multi); /* closes the idle connections, calls on_curl_socket() */
    c->multi = NULL;
    rt_timer_cancel(&c->loop->rt, &c->timer);
    rt_timer_cancel(&c->loop->rt, &c->rest_timer);
    while (!list_is_empty(&c->watchers))
        watcher_close(container_of(list_first(&c->watchers), struct watcher, link));
    maybe_gone(c);
}
