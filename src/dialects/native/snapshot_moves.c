/* snapshot_moves.c - a snapshot as one file, or as a container image: GET /v1/snapshots/{snapshot}/export sends it, POST /v1/snapshots/import makes a new
 * one of it, which is its caller's. Both pass as they come; who goes away in the middle leaves nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bundle.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/tar_format.h"
#include "dialects/native/internal.h"
#include "engine/snapshot_moves.h"

/* --- export --- */

struct sending {
    struct engine_export export;
    struct http_exchange *ex; /* NULL: the caller has gone */
    bool has_begun;
};

static void on_sent_drain(struct http_exchange *ex)
{
    engine_export_resume(&((struct sending *) http_ctx(ex))->export);
}

static const char *type_of(bool is_image)
{
    return is_image ? "application/x-tar" : "application/zstd";
}

static void begin(struct sending *s)
{
    char name[64];
    char hex[17];

    if (s->has_begun)
        return;
    s->has_begun = true;
    str_hex64(hex, s->export.request.id);
    (void) snprintf(name, sizeof(name), "attachment; filename=\"%s.tar%s\"", hex,
                    s->export.request.is_image ? "" : ".zst");
    http_add_header(s->ex, "Content-Disposition", name);
    http_add_header(s->ex, "Cache-Control", "no-store");
    http_set_drain(s->ex, on_sent_drain);
    http_begin(s->ex, 200, type_of(s->export.request.is_image));
}

static void on_packed_data(struct engine_export *x, const char *data, size_t len)
{
    struct sending *s = container_of(x, struct sending, export);

    if (s->ex == NULL)
        return;
    begin(s);
    if (http_write(s->ex, data, len) >= HTTP_HIGH_WATER)
        engine_export_pause(x);
}

static void on_exported(struct engine_export *x, int code, const char *reason)
{
    struct sending *s = container_of(x, struct sending, export);

    if (s->ex != NULL && code == SP_OK) {
        begin(s);
        http_end(s->ex);
    } else if (s->ex != NULL && s->has_begun) {
        http_abort(s->ex);
    } else if (s->ex != NULL) {
        http_reply_error(s->ex, code, reason, 0);
    }
    free(s);
}

static void on_receiver_gone(void *ctx)
{
    struct sending *s = ctx;

    s->ex = NULL;
    engine_export_cancel(&s->export);
}

void api_snapshot_export(struct http_exchange *ex)
{
    struct engine_snapshot *found = api_snapshot_of_path(ex);
    struct api_caller caller;
    struct sending *s;
    char format[16];
    bool is_image;

    if (found == NULL)
        return;
    if (!http_query(ex, "format", format, sizeof(format)))
        str_copy_cut(format, sizeof(format), "sandpool");
    is_image = strcmp(format, "oci") == 0;
    if (!is_image && strcmp(format, "sandpool") != 0) {
        http_reply_error(ex, SP_INVALID_FIELD, "'format' is 'sandpool' or 'oci'", 0);
        return;
    }
    (void) api_identify(ex, &caller); /* the guard has let it in */
    if (http_method(ex) == HTTP_METHOD_HEAD) {
        http_reply(ex, 200, type_of(is_image), "", 0);
        return;
    }
    s = xcalloc(1, sizeof(*s));
    s->ex = ex;
    s->export.request.is_image = is_image;
    s->export.on_data = on_packed_data;
    s->export.on_done = on_exported;
    http_set_ctx(ex, s, on_receiver_gone);
    engine_export_start(api_of(ex)->engine, &s->export, found, caller.principal);
}

/* --- import --- */

#define NOT_OURS "this is no snapshot that was exported"
#define NOT_AN_IMAGE                                                                     \
    "this is a tar archive, as container images are, and no snapshot that was exported " \
    "(a .tar.zst file): an image is for 'docker load' or 'podman load', or for `image` of a profile"

struct receiving {
    struct engine_import import;
    struct http_exchange *ex; /* NULL: the caller has gone */
    uint64_t principal;
    struct buf head; /* until it is whole */
    bool has_started;
    char profile[CONFIG_NAME_MAX + 1];
    char name[SNAPSHOT_NAME_MAX + 2];
    bool is_any_base;
};

static void drop(struct receiving *r)
{
    buf_fini(&r->head);
    free(r);
}

static void on_imported(struct engine_import *x, int code, const char *reason)
{
    struct receiving *r = container_of(x, struct receiving, import);

    if (r->ex != NULL && code != SP_OK)
        api_snapshot_refuse(r->ex, code, reason);
    else if (r->ex != NULL)
        api_snapshot_reply(r->ex, &x->request.snapshot);
    drop(r);
}

static void on_taken(struct engine_import *x)
{
    struct receiving *r = container_of(x, struct receiving, import);

    if (r->ex != NULL)
        http_body_resume(r->ex);
}

static void on_sender_gone(void *ctx)
{
    struct receiving *r = ctx;

    r->ex = NULL;
    if (r->has_started)
        engine_import_cancel(&r->import);
    else
        drop(r);
}

static void pass(struct receiving *r, const char *data, size_t len)
{
    if (engine_import_write(&r->import, data, len))
        http_body_pause(r->ex);
}

static void refuse(struct receiving *r, const char *text)
{
    struct http_exchange *ex = r->ex;

    drop(r);
    http_reply_error(ex, SP_INVALID_FIELD, text, 0);
}

/* Images of docker save, podman save and our own export are such. */
static bool is_tar(const struct buf *head)
{
    const struct tar_header *h = (const struct tar_header *) (const void *) head->data;

    return head->len >= sizeof(*h) && memcmp(h->magic, "ustar", 5) == 0;
}

/* The head is looked at before anything is made. */
static void start(struct receiving *r, size_t len)
{
    struct engine_import_options options = {.principal = r->principal,
                                            .profile = str_is_empty(r->profile) ? NULL : r->profile,
                                            .name = str_is_empty(r->name) ? NULL : r->name,
                                            .is_any_base = r->is_any_base,
                                            .head = r->head.data + BUNDLE_FRAME,
                                            .head_len = len};

    r->has_started = true;
    r->import.on_drain = on_taken;
    r->import.on_done = on_imported;
    engine_import_start(api_of(r->ex)->engine, &r->import, &options);
    pass(r, r->head.data, r->head.len);
    buf_fini(&r->head);
}

static void on_body(struct http_exchange *ex, const char *data, size_t len)
{
    struct receiving *r = http_ctx(ex);
    size_t head_len;

    if (r->has_started) {
        pass(r, data, len);
        return;
    }
    buf_append(&r->head, data, len);
    if (r->head.len < BUNDLE_FRAME)
        return;
    head_len = bundle_head_len((const unsigned char *) r->head.data);
    if (head_len == 0 && r->head.len < TAR_BLOCK)
        return;
    if (head_len == 0 || buf_failed(&r->head))
        refuse(r, is_tar(&r->head) ? NOT_AN_IMAGE : NOT_OURS);
    else if (r->head.len >= BUNDLE_FRAME + head_len)
        start(r, head_len);
}

static void on_body_end(struct http_exchange *ex)
{
    struct receiving *r = http_ctx(ex);

    if (r->has_started)
        engine_import_end(&r->import);
    else
        refuse(r, "the file is cut, or no snapshot that was exported (a .tar.zst file)");
}

void api_snapshot_import(struct http_exchange *ex)
{
    struct receiving *r;
    struct api_caller caller;
    char any[8];

    (void) api_identify(ex, &caller); /* the guard has let it in */
    if (http_body_length(ex) == 0) {
        http_reply_error(ex, SP_INVALID_FIELD, "the body has to be a snapshot that was exported",
                         0);
        return;
    }
    r = xcalloc(1, sizeof(*r));
    r->ex = ex;
    r->principal = caller.principal;
    r->is_any_base = http_query(ex, "any_base", any, sizeof(any)) && strcmp(any, "1") == 0;
    (void) http_query(ex, "profile", r->profile, sizeof(r->profile));
    (void) http_query(ex, "name", r->name, sizeof(r->name));
    buf_init(&r->head, BUNDLE_FRAME + BUNDLE_HEAD_MAX + 1024 * 1024);
    http_set_ctx(ex, r, on_sender_gone);
    http_body_start(ex, on_body, on_body_end);
}
