/* api_files.c - /v1/agent/files: bytes of a file in and out, removing, stat, list. Each call is done by a helper as
 * the box's user, or with `user=root` as the box's root; nothing here touches a file.
 *
 * Paths are absolute, or relative to the agent's directory ("~" is the home). Regular files and directories are
 * served, nothing below /proc/<pid> (core/plain.h). Errors are {"error":{"code","message","path"}}. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/core/plain.h"
#include "agent/file/place.h"
#include "agent/file/remove.h"
#include "agent/file/send.h"
#include "agent/file/store.h"
#include "agent/file/tree.h"
#include "agent/own/files_form.h"
#include "agent/own/routes.h"
#include "base/file.h"
#include "base/str.h"

/* --- GET, HEAD --- */

static void run_get(void *request, struct file_wire *wire)
{
    const struct files_request *r = request;
    const struct file_send send = {.path = r->path,
                                   .range = r->range,
                                   .only_if = r->only_if,
                                   .unless = r->unless,
                                   .is_head = r->is_head};
    static struct file_error error;
    uint64_t size = 0;

    if (file_send_run(&send, wire, &error, &size) != SP_OK)
        files_send_error(wire, &error, size);
}

static void begin_get(struct http_exchange *ex, const struct file_head *h, const void *request)
{
    char text[96];
    struct tm tm;
    time_t at = (time_t) h->mtime_s;

    (void) request;
    if (h->is_partial != 0) {
        (void) snprintf(text, sizeof(text), "bytes %llu-%llu/%llu", (unsigned long long) h->start,
                        (unsigned long long) h->end - 1, (unsigned long long) h->size);
        http_add_header(ex, "Content-Range", text);
    }
    file_tag_print(text, h);
    http_add_header(ex, "ETag", text);
    if (gmtime_r(&at, &tm) != NULL &&
        strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &tm) > 0)
        http_add_header(ex, "Last-Modified", text);
    (void) snprintf(text, sizeof(text), "%04o", h->mode & 07777);
    http_add_header(ex, "X-Sandpool-Mode", text);
    (void) snprintf(text, sizeof(text), "%u:%u", h->uid, h->gid);
    http_add_header(ex, "X-Sandpool-Owner", text);
    http_add_header(ex, "Accept-Ranges", "bytes");
    http_begin_sized(ex, h->is_partial != 0 ? 206 : 200, "application/octet-stream",
                     h->end - h->start);
}

static void handle_get(struct http_exchange *ex)
{
    static const struct file_stream_call call = {
        .choose = files_choose, .run = run_get, .begin = begin_get, .dialect = &files_dialect};
    struct files_request *r = files_request_new(ex);

    if (r != NULL)
        file_stream_start(ex, &call, r);
}

/* --- PUT --- */

/* 0, errno or -1 when the body never ends. */
static int receive(struct file_wire *wire, int fd, uint64_t *ret_size)
{
    static char data[4 * FILE_WIRE_CHUNK];

    *ret_size = 0;
    for (;;) {
        ssize_t n = file_wire_read(wire, data, sizeof(data));
        int sys;

        if (n <= 0)
            return (int) n;
        sys = file_write_all(fd, data, (size_t) n);
        if (sys != 0)
            return sys;
        *ret_size += (uint64_t) n;
    }
}

/* The owner first: a change of it clears bits of the mode. */
static int set_rights(const struct files_request *r, int fd)
{
    if (r->has_owner && fchown(fd, r->uid, r->gid) != 0)
        return errno;
    return r->has_mode && fchmod(fd, r->mode) != 0 ? errno : 0;
}

static int open_target(const struct files_request *r, struct file_store *store)
{
    struct file_place place;
    int sys = 0;

    file_store_init(store);
    if (!r->want_parents) {
        sys = file_place_name(&place, r->path, false);
        file_place_close(&place);
    }
    return sys != 0 ? sys : file_store_open(store, r->path);
}

static void run_put(void *request, struct file_wire *wire)
{
    const struct files_request *r = request;
    static struct file_store store;
    struct json_out o;
    uint64_t size = 0;
    int sys = open_target(r, &store);

    if (sys == 0)
        sys = set_rights(r, store.fd);
    if (sys == 0)
        sys = receive(wire, store.fd, &size);
    if (sys == 0)
        sys = file_store_commit(&store);
    file_store_drop(&store);
    if (sys < 0)
        return; /* nobody is there to be answered */
    if (sys > 0) {
        files_send_sys(wire, "write", r->path, sys);
        return;
    }
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "path", r->path);
    json_put_u64(&o, "size", size);
    json_put_bool(&o, "created", store.is_new);
    json_end(&o);
    files_send_json(wire, &o);
}

static void handle_put(struct http_exchange *ex)
{
    static const struct file_stream_call call = {
        .choose = files_choose, .run = run_put, .dialect = &files_dialect, .has_body = true};
    struct files_request *r = files_request_new(ex);

    if (r == NULL)
        return;
    r->want_parents = true;
    if (files_query_mode(r) && files_query_owner(r) &&
        files_query_bool(r, "parents", &r->want_parents))
        file_stream_start(ex, &call, r);
}

/* --- DELETE --- */

static void run_delete(void *request, struct file_wire *wire)
{
    const struct files_request *r = request;
    static struct file_remove remove;
    struct file_place place;
    struct json_out o;
    int sys = file_place_name(&place, r->path, false);

    remove.wire = wire;
    remove.removed = 0;
    str_copy_cut(remove.path, sizeof(remove.path), r->path);
    if (sys == 0)
        sys = file_remove_run(&remove, place.dir, place.name, r->is_recursive);
    file_place_close(&place);
    if (sys < 0)
        return; /* nobody waits for it */
    if (sys > 0) {
        files_send_sys(wire, "delete", remove.path, sys);
        return;
    }
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "path", r->path);
    json_put_u64(&o, "removed", remove.removed);
    json_end(&o);
    files_send_json(wire, &o);
}

static void handle_delete(struct http_exchange *ex)
{
    static const struct file_stream_call call = {
        .choose = files_choose, .run = run_delete, .dialect = &files_dialect};
    struct files_request *r = files_request_new(ex);

    if (r != NULL && files_query_bool(r, "recursive", &r->is_recursive))
        file_stream_start(ex, &call, r);
}

/* --- stat --- */

static void run_stat(void *request, struct file_wire *wire)
{
    const struct files_request *r = request;

    files_send_entry(wire, "stat", r->path, r->want_follow, 0);
}

static void handle_stat(struct http_exchange *ex)
{
    static const struct file_stream_call call = {
        .choose = files_choose, .run = run_stat, .dialect = &files_dialect};
    struct files_request *r = files_request_new(ex);

    if (r != NULL && files_query_bool(r, "follow", &r->want_follow))
        file_stream_start(ex, &call, r);
}

/* --- list --- */

struct listing {
    const struct files_request *request;
    struct file_wire *wire;
    struct buf text;
    uint64_t count;
    bool is_cut;
    bool is_broken;
};

static bool put_text(struct listing *l)
{
    l->is_broken = l->is_broken || buf_failed(&l->text) ||
                   !file_wire_put(l->wire, buf_str(&l->text), l->text.len);
    buf_reset(&l->text);
    return !l->is_broken;
}

static enum file_tree_next visit(void *ctx, const struct file_node *n)
{
    struct listing *l = ctx;
    struct json_out o;

    if (l->count == l->request->limit) {
        l->is_cut = true;
        return FILE_TREE_STOP;
    }
    if (l->count++ > 0)
        buf_putc(&l->text, ',');
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    files_put_entry(&o, n->dir, n->name, n->full, &n->st);
    json_end(&o);
    json_out_finish(&o, &l->text);
    return put_text(l) ? FILE_TREE_ON : FILE_TREE_STOP;
}

/* {"path":"...","entries":[ */
static void put_start(struct buf *out, const char *path)
{
    struct json_out o;
    struct buf text;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "path", path);
    json_end(&o);
    buf_init(&text, out->max);
    json_out_finish(&o, &text);
    buf_append(out, buf_str(&text), text.len - 1);
    buf_puts(out, ",\"entries\":[");
    buf_fini(&text);
}

static void run_list(void *request, struct file_wire *wire)
{
    const struct files_request *r = request;
    struct listing l = {.request = r, .wire = wire};
    static struct file_tree tree;
    int dir = plain_open(AT_FDCWD, r->path, O_RDONLY | O_DIRECTORY, 0);

    if (dir < 0) {
        files_send_sys(wire, "list", r->path, errno);
        return;
    }
    memset(&tree, 0, sizeof(tree));
    tree.max_depth = r->depth;
    tree.visit = visit;
    tree.ctx = &l;
    buf_init(&l.text, 64 * 1024);
    put_start(&l.text, r->path);
    if (!file_wire_begin(wire, 0) || !put_text(&l)) {
        (void) close(dir); /* it was only read */
    } else {
        int sys = file_tree_run(&tree, dir, r->path);

        buf_printf(&l.text, "],\"truncated\":%s,\"unreadable\":%llu}",
                   l.is_cut || tree.is_cut ? "true" : "false",
                   (unsigned long long) tree.unreadable);
        if (sys == 0 && put_text(&l))
            (void) !file_wire_end(wire); /* without the end the agent breaks the answer off */
    }
    tree.ctx = NULL;
    buf_fini(&l.text);
}

static void begin_json(struct http_exchange *ex, const struct file_head *h, const void *request)
{
    (void) h;
    (void) request;
    http_begin(ex, 200, "application/json");
}

static void handle_list(struct http_exchange *ex)
{
    static const struct file_stream_call call = {
        .choose = files_choose, .run = run_list, .begin = begin_json, .dialect = &files_dialect};
    struct files_request *r = files_request_new(ex);
    uint64_t depth = 0;

    if (r == NULL || !files_query_bool(r, "recursive", &r->is_recursive) ||
        !files_query_u64(r, "depth", FILE_TREE_DEPTH, &depth) ||
        !files_query_u64(r, "limit", FILES_LIST_MAX, &r->limit))
        return;
    r->depth = r->is_recursive || depth > 0 ? (unsigned) depth : 1;
    files_shorten_path(r);
    file_stream_start(ex, &call, r);
}

const struct http_route own_files_routes[] = {
    {HTTP_METHOD_GET, "/v1/agent/files", handle_get, 0, 0, "the bytes of a file"},
    {HTTP_METHOD_PUT, "/v1/agent/files", handle_put, HTTP_STREAM, 0, "makes or replaces a file"},
    {HTTP_METHOD_DELETE, "/v1/agent/files", handle_delete, 0, 0, "removes a file or a tree"},
    {HTTP_METHOD_GET, "/v1/agent/files/stat", handle_stat, 0, 0, "what a path is"},
    {HTTP_METHOD_GET, "/v1/agent/files/list", handle_list, 0, 0, "what is in a directory"},
    {.pattern = NULL},
};
