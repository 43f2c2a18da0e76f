/* api_files_tar.c - /v1/agent/files/tar: a tree as a tar archive, out and in. */
#include <stdio.h>

#include "agent/file/tar_pack.h"
#include "agent/file/tar_unpack.h"
#include "agent/own/files_form.h"
#include "agent/own/routes.h"

static void run_get(void *request, struct file_wire *wire)
{
    const struct files_request *r = request;
    static struct file_error error;

    if (tar_pack_run(wire, r->path, &error) != SP_OK)
        files_send_error(wire, &error, 0);
}

static void begin_get(struct http_exchange *ex, const struct file_head *h, const void *request)
{
    char text[16];

    (void) request;
    (void) snprintf(text, sizeof(text), "%u", h->skipped);
    http_add_header(ex, "X-Sandpool-Skipped", text);
    http_begin(ex, 200, "application/x-tar");
}

static void handle_get(struct http_exchange *ex)
{
    static const struct file_stream_call call = {
        .choose = files_choose, .run = run_get, .begin = begin_get, .dialect = &files_dialect};
    struct files_request *r = files_request_new(ex);

    if (r != NULL)
        file_stream_start(ex, &call, r);
}

static ssize_t read_body(void *ctx, void *dst, size_t cap)
{
    return file_wire_read(ctx, dst, cap);
}

static void run_put(void *request, struct file_wire *wire)
{
    const struct files_request *r = request;
    struct tar_unpack unpack = {
        .path = r->path, .read = read_body, .ctx = wire, .want_owners = r->as->uid == 0};
    static struct file_error error;
    struct json_out o;
    int rc = tar_unpack_run(&unpack, &error);

    if (rc == SP_IO) {
        files_send_error(wire, &error, 0);
        return;
    }
    if (rc != SP_OK)
        return; /* nobody waits for it */
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "path", r->path);
    json_put_u64(&o, "entries", unpack.entries);
    json_put_u64(&o, "bytes", unpack.bytes);
    json_put_u64(&o, "skipped", unpack.skipped);
    json_end(&o);
    files_send_json(wire, &o);
}

static void handle_put(struct http_exchange *ex)
{
    static const struct file_stream_call call = {
        .choose = files_choose, .run = run_put, .dialect = &files_dialect, .has_body = true};
    struct files_request *r = files_request_new(ex);

    if (r != NULL)
        file_stream_start(ex, &call, r);
}

const struct http_route own_files_tar_routes[] = {
    {HTTP_METHOD_GET, "/v1/agent/files/tar", handle_get, 0, 0, "a tree as a tar archive"},
    {HTTP_METHOD_PUT, "/v1/agent/files/tar", handle_put, HTTP_STREAM, 0, "unpacks a tar archive"},
    {.pattern = NULL},
};
