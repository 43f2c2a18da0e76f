/* api_files_watch.c - /v1/agent/files/watch: changes of a directory or a tree as events, or as lines of JSON. A watch
 * that waits is no use of the box: it does not keep an idle box from being ended. */
#include <string.h>
#include <sys/stat.h>

#include "agent/file/watch.h"
#include "agent/own/files_form.h"
#include "agent/own/routes.h"

struct output {
    const struct files_request *request;
    struct file_wire *wire;
};

static const char *const kind_names[] = {"ready", "created",  "modified", "deleted",
                                         "moved", "overflow", "keepalive"};

static bool put_keepalive(const struct output *out)
{
    static const char line[] = "{\"event\":\"keepalive\"}\n";

    if (out->request->is_ndjson)
        return file_wire_put(out->wire, line, strlen(line));
    return file_wire_put(out->wire, ":\n\n", 3);
}

static bool on_event(void *ctx, enum file_watch_kind kind, const char *path, const char *to,
                     mode_t mode)
{
    const struct output *out = ctx;
    struct json_out o;
    struct buf text;
    bool is_put;

    if (kind == FILE_WATCH_KEEPALIVE)
        return put_keepalive(out);
    buf_init(&text, 64 * 1024);
    if (!out->request->is_ndjson)
        buf_printf(&text, "event: %s\ndata: ", kind_names[kind]);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "event", kind_names[kind]);
    if (path != NULL)
        json_put_str(&o, "path", path);
    if (to != NULL)
        json_put_str(&o, "to", to);
    if (path != NULL && kind != FILE_WATCH_READY)
        json_put_str(&o, "type", mode != 0 ? files_type_name(mode) : NULL);
    json_end(&o);
    json_out_finish(&o, &text);
    buf_puts(&text, out->request->is_ndjson ? "\n" : "\n\n");
    is_put = !buf_failed(&text) && file_wire_put(out->wire, buf_str(&text), text.len);
    buf_fini(&text);
    return is_put;
}

static void run_watch(void *request, struct file_wire *wire)
{
    const struct files_request *r = request;
    struct output out = {.request = r, .wire = wire};
    struct file_watch watch = {.wire = wire,
                               .path = r->path,
                               .is_recursive = r->is_recursive,
                               .on_event = on_event,
                               .ctx = &out};
    static struct file_error error;

    if (file_watch_run(&watch, &error) != SP_OK)
        files_send_error(wire, &error, 0);
}

static void begin_watch(struct http_exchange *ex, const struct file_head *h, const void *request)
{
    const struct files_request *r = request;

    (void) h;
    http_add_header(ex, "Cache-Control", "no-cache");
    http_begin(ex, 200, r->is_ndjson ? "application/x-ndjson" : "text/event-stream");
}

static void handle_watch(struct http_exchange *ex)
{
    static const struct file_stream_call call = {.choose = files_choose,
                                                 .run = run_watch,
                                                 .begin = begin_watch,
                                                 .dialect = &files_dialect,
                                                 .is_watch = true};
    struct files_request *r;

    if (http_method(ex) == HTTP_METHOD_HEAD) {
        http_reply_error(ex, SP_METHOD_NOT_ALLOWED, "a watch has no end to wait for", 0);
        return;
    }
    r = files_request_new(ex);
    if (r == NULL || !files_query_bool(r, "recursive", &r->is_recursive))
        return;
    files_shorten_path(r);
    file_stream_start(ex, &call, r);
}

const struct http_route own_files_watch_routes[] = {
    {HTTP_METHOD_GET, "/v1/agent/files/watch", handle_watch, HTTP_QUIET, 0,
     "changes of a directory as they happen"},
    {.pattern = NULL},
};
