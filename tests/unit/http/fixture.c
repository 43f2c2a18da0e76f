/* fixture.c - the server of the HTTP tests and its handlers. */
#include "fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/map.h"
#include "base/str.h"
#include "tests/lib/tmpdir.h"

struct fixture fx;

uint64_t fixture_now_ms(void)
{
    struct timespec ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t) ts.tv_sec * 1000 + (uint64_t) ts.tv_nsec / 1000000;
}

static struct fixture *fixture_of(struct http_exchange *ex)
{
    return http_server_ctx(ex);
}

static void on_sent(void *ctx, int result)
{
    struct fixture *f = ctx;

    if (result == SP_OK)
        f->sent_ok++;
    else
        f->sent_io++;
    assert_true(result == SP_OK || result == SP_IO);
}

static void on_gone(void *ctx)
{
    struct fixture *f = ctx;
    struct http_stats stats;

    http_server_get_stats(f->server, &stats);
    f->gone_buffered = stats.buffered;
    f->gone++;
    f->pending = NULL;
    f->paused = NULL;
    f->to_send = 0;
}

static void handle_health(struct http_exchange *ex)
{
    http_reply(ex, 200, "application/json", "{\"status\":\"ok\"}", 15);
}

static void handle_echo(struct http_exchange *ex)
{
    size_t len;
    const char *body = http_body(ex, &len);

    fixture_of(ex)->peer = *http_peer(ex);
    http_on_sent(ex, on_sent, fixture_of(ex));
    http_reply(ex, 200, "text/plain", body, len);
}

static void handle_item(struct http_exchange *ex)
{
    struct json_out o;
    char q[32];
    bool has_q = http_query(ex, "q", q, sizeof(q));

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "id", http_path_param(ex, "id"));
    json_put_str(&o, "path", http_path(ex));
    json_put_str(&o, "method", http_method_name(http_method(ex)));
    json_put_str(&o, "q", has_q ? q : NULL);
    json_put_str(&o, "x", http_header(ex, "x-tEST"));
    json_put_bool(&o, "none", http_path_param(ex, "other") == NULL);
    json_end(&o);
    http_add_header(ex, "X-Kind", "item");
    http_reply_json(ex, 200, &o);
}

static void handle_error(struct http_exchange *ex)
{
    http_reply_error(ex, SP_POOL_EXHAUSTED, "all \"boxes\" are in use", 1200);
}

static void handle_wait(struct http_exchange *ex)
{
    struct fixture *f = fixture_of(ex);

    f->pending = ex;
    f->waits++;
    http_set_ctx(ex, f, on_gone);
    http_on_sent(ex, on_sent, f);
    assert_ptr_equal(http_ctx(ex), f);
    assert_ptr_equal(http_loop(ex), &f->loop);
}

static void handle_none(struct http_exchange *ex)
{
    http_reply(ex, 204, NULL, NULL, 0);
}

static void on_upload_data(struct http_exchange *ex, const char *data, size_t len)
{
    struct fixture *f = fixture_of(ex);

    assert_true(len > 0);
    for (size_t i = 0; i < len; i += 4093) /* position is content: loss and order show */
        assert_int_equal((unsigned char) data[i], (f->uploaded + i) % 251);
    f->uploaded += len;
    f->largest_piece = MAX_OF(f->largest_piece, len);
    if (f->pause_each_piece) {
        f->paused = ex;
        http_body_pause(ex);
    }
}

static void on_upload_end(struct http_exchange *ex)
{
    struct fixture *f = fixture_of(ex);
    char text[32];

    f->ended++;
    (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) f->uploaded);
    http_reply(ex, 200, "text/plain", text, strlen(text));
}

static void on_sink_data(struct http_exchange *ex, const char *data UNUSED, size_t len)
{
    fixture_of(ex)->sunk += len;
}

static void on_sink_end(struct http_exchange *ex)
{
    fixture_of(ex)->ended++;
    http_reply(ex, 200, "text/plain", "", 0);
}

static void handle_sink(struct http_exchange *ex)
{
    http_body_start(ex, on_sink_data, on_sink_end);
}

static void handle_upload(struct http_exchange *ex)
{
    struct fixture *f = fixture_of(ex);

    f->uploaded = 0;
    http_set_ctx(ex, f, on_gone);
    http_body_start(ex, on_upload_data, on_upload_end);
}

static void on_tiny_data(struct http_exchange *ex, const char *data, size_t len)
{
    (void) data;
    (void) len;
    http_reply_error(ex, SP_FORBIDDEN, "seen enough", 0);
}

static void handle_early(struct http_exchange *ex)
{
    http_body_start(ex, on_tiny_data, NULL);
}

static void send_more(struct http_exchange *ex)
{
    struct fixture *f = fixture_of(ex);
    static char data[32 * 1024];
    size_t unsent = 0;

    memset(data, 'd', sizeof(data));
    while (f->to_send > 0) {
        size_t n = MIN_OF((size_t) f->to_send, sizeof(data));

        if (unsent >= HTTP_HIGH_WATER && !f->ignores_backpressure)
            return;
        f->to_send -= n;
        unsent = http_write(ex, data, n);
        f->highest_unsent = MAX_OF(f->highest_unsent, unsent);
    }
    http_end(ex);
}

static void on_drain(struct http_exchange *ex)
{
    fixture_of(ex)->drains++;
    send_more(ex);
}

static void handle_download(struct http_exchange *ex)
{
    struct fixture *f = fixture_of(ex);
    char n[24];

    f->to_send = 0;
    if (http_query(ex, "n", n, sizeof(n)))
        assert_true(str_parse_u64(n, 0, UINT64_MAX, &f->to_send));
    http_set_ctx(ex, f, on_gone);
    http_on_sent(ex, on_sent, f);
    http_set_drain(ex, on_drain);
    http_begin(ex, 200, "application/octet-stream");
    send_more(ex);
}

static void handle_abort(struct http_exchange *ex)
{
    http_set_ctx(ex, fixture_of(ex), on_gone);
    http_on_sent(ex, on_sent, fixture_of(ex));
    http_begin(ex, 200, "text/plain");
    (void) http_write(ex, "half", 4);
    http_abort(ex);
}

static void reply_long(struct http_exchange *ex, size_t len)
{
    char *body = malloc(len);

    assert_non_null(body);
    memset(body, 'b', len);
    http_on_sent(ex, on_sent, fixture_of(ex));
    http_reply(ex, 200, "text/plain", body, len);
    free(body);
}

static void handle_big(struct http_exchange *ex)
{
    reply_long(ex, 8 * 1024 * 1024);
}

static void handle_page(struct http_exchange *ex)
{
    reply_long(ex, 600 * 1024);
}

static void on_turn(struct http_exchange *ex)
{
    struct fixture *f = fixture_of(ex);
    char id[8];

    if (http_query(ex, "id", id, sizeof(id)) && f->turns < TURNS_MAX)
        f->turn_ids[f->turns] = (unsigned) strtoul(id, NULL, 10);
    f->turns++;
    reply_long(ex, 600 * 1024);
}

static void handle_mark(struct http_exchange *ex)
{
    struct fixture *f = fixture_of(ex);
    char id[8];

    assert_true(f->marks < MARKS_MAX && http_query(ex, "id", id, sizeof(id)));
    f->mark_ids[f->marks++] = (unsigned) strtoul(id, NULL, 10);
    http_reply(ex, 200, "text/plain", "", 0);
}

static void handle_turn(struct http_exchange *ex)
{
    http_set_ctx(ex, fixture_of(ex), on_gone);
    http_wait_turn(ex, on_turn);
}

static void on_part(struct http_exchange *ex)
{
    struct fixture *f = fixture_of(ex);
    static const char part[64 * 1024];

    f->parts++;
    (void) http_write(ex, part, sizeof(part));
    f->to_send -= MIN_OF((size_t) f->to_send, sizeof(part));
    if (f->to_send > 0)
        http_wait_turn(ex, on_part);
    else
        http_end(ex);
}

static void handle_parts(struct http_exchange *ex)
{
    struct fixture *f = fixture_of(ex);

    f->to_send = PARTS_BYTES;
    http_set_ctx(ex, f, on_gone);
    http_begin(ex, 200, "application/octet-stream");
    http_wait_turn(ex, on_part);
}

static void handle_upgrade(struct http_exchange *ex)
{
    assert_non_null(fixture_of(ex)->on_upgrade);
    fixture_of(ex)->on_upgrade(ex);
}

static bool is_operator(void *ctx, const struct http_peer *peer)
{
    const struct fixture *f = ctx;

    (void) peer;
    return f->is_operator;
}

static int guard(struct http_exchange *ex, const struct http_route *route, struct err *err)
{
    struct fixture *f = fixture_of(ex);
    const char *caller = http_header(ex, "X-Caller");

    if (caller != NULL)
        http_prove_as(ex, hash_str(caller));
    if (f->guard_code == SP_OK || (route->flags & HTTP_OPEN) != 0)
        return SP_OK;
    return err_set(err, f->guard_code, "the guard says no");
}

static const struct http_route routes[] = {
    {HTTP_METHOD_GET, "/healthz", handle_health, HTTP_OPEN, 0, "health"},
    {HTTP_METHOD_POST, "/echo", handle_echo, 0, 0, "body back"},
    {HTTP_METHOD_POST, "/small", handle_echo, 0, 16, "short body back"},
    {HTTP_METHOD_GET, "/items/{id}", handle_item, 0, 0, "one item"},
    {HTTP_METHOD_DELETE, "/items/{id}", handle_item, 0, 0, "one item"},
    {HTTP_METHOD_GET, "/items/special", handle_none, 0, 0, "literal beats parameter"},
    {HTTP_METHOD_GET, "/error", handle_error, 0, 0, "error"},
    {HTTP_METHOD_GET, "/wait", handle_wait, 0, 0, "answers later"},
    {HTTP_METHOD_PUT, "/upload", handle_upload, HTTP_STREAM, 0, "streamed body"},
    {HTTP_METHOD_PUT, "/upload/small", handle_upload, HTTP_STREAM, 100, "bounded streamed body"},
    {HTTP_METHOD_PUT, "/sink", handle_sink, HTTP_STREAM, 0, "streamed body that is only counted"},
    {HTTP_METHOD_PUT, "/early", handle_early, HTTP_STREAM, 0, "answers within the body"},
    {HTTP_METHOD_GET, "/download", handle_download, 0, 0, "streamed answer"},
    {HTTP_METHOD_GET, "/abort", handle_abort, 0, 0, "half an answer"},
    {HTTP_METHOD_GET, "/big", handle_big, 0, 0, "8 MiB at once"},
    {HTTP_METHOD_GET, "/page", handle_page, 0, 0, "600 KiB at once"},
    {HTTP_METHOD_GET, "/turn", handle_turn, 0, 0, "600 KiB when it is its turn"},
    {HTTP_METHOD_GET, "/mark", handle_mark, 0, 0, "counted"},
    {HTTP_METHOD_POST, "/mark", handle_mark, 0, 0, "counted, with a body"},
    {HTTP_METHOD_GET, "/parts", handle_parts, 0, 0, "2 MiB in parts, each when it is its turn"},
    {HTTP_METHOD_GET, "/upgrade", handle_upgrade, 0, 0, "another protocol"},
    {HTTP_METHOD_CONNECT, "*", handle_upgrade, 0, 0, "the same"},
    {HTTP_METHOD_GET, NULL, NULL, 0, 0, NULL},
};

void fixture_limits(struct http_limits *ret)
{
    *ret = (struct http_limits){
        .max_connections = 64,
        .max_header_bytes = HEAD_MAX,
        .max_body_bytes = BODY_MAX,
        .stream_max = STREAM_MAX,
        .header_timeout_ms = 300,
        .idle_timeout_ms = 2000,
        .write_timeout_ms = 300,
    };
}

struct http_server *fixture_new_server(struct fixture *f, const struct http_limits *limits)
{
    struct http_server_config config = {
        .routes = routes, .ctx = f, .guard = guard, .keeps_requests = true};

    if (limits != NULL)
        config.limits = *limits;
    else
        fixture_limits(&config.limits);
    if (config.limits.share_percent > 0)
        config.is_operator = is_operator;
    return http_server_new(&f->loop, &config);
}

void fixture_start(struct fixture *f, const struct http_limits *limits)
{
    struct err err;

    memset(f, 0, sizeof(*f));
    (void) signal(SIGPIPE, SIG_IGN);
    assert_int_equal(loop_init(&f->loop, &err), SP_OK);
    f->server = fixture_new_server(f, limits);
    tmpdir_make(f->dir);
    (void) snprintf(f->path, sizeof(f->path), "%s/s", f->dir);
    assert_int_equal(http_server_listen_unix(f->server, f->path, 0600, UINT32_MAX, &err), SP_OK);
}

static void on_closed(void *ctx)
{
    struct fixture *f = ctx;

    f->is_closed = true;
}

void fixture_stop(struct fixture *f)
{
    http_server_close(f->server, on_closed, f);
    fixture_until(f, f->is_closed);
    loop_fini(&f->loop); /* asserts that no handle is left */
    assert_int_equal(access(f->path, F_OK), -1);
    tmpdir_remove(f->dir);
}

int fixture_setup(void **state)
{
    (void) state;
    fixture_start(&fx, NULL);
    return 0;
}

int fixture_teardown(void **state)
{
    (void) state;
    fixture_stop(&fx);
    return 0;
}

void fixture_turn(struct fixture *f)
{
    struct timespec pause = {0, 50 * 1000};

    (void) loop_run_once(&f->loop);
    (void) nanosleep(&pause, NULL);
}

void fixture_run_ms(struct fixture *f, unsigned ms)
{
    uint64_t end = fixture_now_ms() + ms;

    while (fixture_now_ms() < end)
        fixture_turn(f);
}
