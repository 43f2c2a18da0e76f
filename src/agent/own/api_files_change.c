/* api_files_change.c - /v1/agent/files/mkdir, move, copy: a JSON body, and the entry of the result as the answer. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/core/plain.h"
#include "agent/file/copy.h"
#include "agent/file/place.h"
#include "agent/own/files_form.h"
#include "agent/own/routes.h"

/* --- mkdir --- */

static const struct identity *choose_mkdir(void *request)
{
    struct files_request *r = request;
    struct json_doc *doc = files_read_body(r, "path");
    int rc = doc != NULL ? files_field_mode(r, json_root(doc)) : r->err.code;

    r->want_parents = true;
    if (rc == SP_OK)
        rc = json_field_bool(json_root(doc), "parents", &r->want_parents, &r->err);
    (void) rc; /* run() looks at r->err */
    (void) json_doc_free(doc);
    return r->as;
}

/* With `parents` a directory that is there already is fine. */
static int make_dir(const struct files_request *r)
{
    struct file_place place;
    struct stat st;
    int sys = file_place_name(&place, r->path, r->want_parents);
    bool is_made;

    if (sys == EINVAL && r->want_parents && plain_stat(AT_FDCWD, r->path, &st) == 0)
        return 0; /* "/", or a path that ends with ".." */
    if (sys != 0)
        return sys;
    is_made = mkdirat(place.dir, place.name, 0777) == 0;
    sys = is_made ? 0 : errno;
    if (sys == EEXIST && r->want_parents && plain_stat(place.dir, place.name, &st) == 0 &&
        S_ISDIR(st.st_mode))
        sys = 0;
    if (is_made && r->has_mode) {
        int fd = plain_open(place.dir, place.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);

        if (fd < 0 || fchmod(fd, r->mode) != 0)
            sys = errno;
        if (fd >= 0)
            (void) close(fd); /* it was only named */
    }
    file_place_close(&place);
    return sys;
}

static void run_mkdir(void *request, struct file_wire *wire)
{
    const struct files_request *r = request;
    int sys = r->err.code == SP_OK ? make_dir(r) : 0;

    if (r->err.code != SP_OK)
        files_send_err(wire, &r->err);
    else if (sys != 0)
        files_send_sys(wire, "mkdir", r->path, sys);
    else
        files_send_entry(wire, "mkdir", r->path, true, 0);
}

static void handle_mkdir(struct http_exchange *ex)
{
    static const struct file_stream_call call = {
        .choose = choose_mkdir, .run = run_mkdir, .dialect = &files_dialect};
    struct files_request *r = files_request_new_body(ex);

    if (r != NULL)
        file_stream_start(ex, &call, r);
}

/* --- move, copy --- */

static const struct identity *choose_two(void *request)
{
    struct files_request *r = request;
    struct json_doc *doc = files_read_body(r, "from");
    int rc = doc != NULL ? files_field_path(r, json_root(doc), "to", r->to) : r->err.code;

    r->want_overwrite = true;
    r->is_recursive = true;
    if (rc == SP_OK)
        rc = json_field_bool(json_root(doc), "overwrite", &r->want_overwrite, &r->err);
    if (rc == SP_OK)
        rc = json_field_bool(json_root(doc), "recursive", &r->is_recursive, &r->err);
    (void) rc; /* run() looks at r->err */
    (void) json_doc_free(doc);
    return r->as;
}

static void run_two(const struct files_request *r, struct file_wire *wire, const char *operation,
                    int (*run)(struct file_copy *c))
{
    static struct file_copy copy;
    int sys;

    if (r->err.code != SP_OK) {
        files_send_err(wire, &r->err);
        return;
    }
    memset(&copy, 0, sizeof(copy));
    copy.wire = wire;
    copy.from = r->path;
    copy.to = r->to;
    copy.is_recursive = r->is_recursive;
    copy.want_overwrite = r->want_overwrite;
    sys = run(&copy);
    if (sys > 0)
        files_send_sys(wire, operation, copy.path, sys);
    else if (sys == 0)
        files_send_entry(wire, operation, r->to, false, copy.skipped);
}

static void run_move(void *request, struct file_wire *wire)
{
    run_two(request, wire, "move", file_move_run);
}

static void run_copy(void *request, struct file_wire *wire)
{
    run_two(request, wire, "copy", file_copy_run);
}

static void handle_move(struct http_exchange *ex)
{
    static const struct file_stream_call call = {
        .choose = choose_two, .run = run_move, .dialect = &files_dialect};
    struct files_request *r = files_request_new_body(ex);

    if (r != NULL)
        file_stream_start(ex, &call, r);
}

static void handle_copy(struct http_exchange *ex)
{
    static const struct file_stream_call call = {
        .choose = choose_two, .run = run_copy, .dialect = &files_dialect};
    struct files_request *r = files_request_new_body(ex);

    if (r != NULL)
        file_stream_start(ex, &call, r);
}

const struct http_route own_files_change_routes[] = {
    {HTTP_METHOD_POST, "/v1/agent/files/mkdir", handle_mkdir, 0, 0, "makes a directory"},
    {HTTP_METHOD_POST, "/v1/agent/files/move", handle_move, 0, 0, "renames a file or a tree"},
    {HTTP_METHOD_POST, "/v1/agent/files/copy", handle_copy, 0, 0, "copies a file or a tree"},
    {.pattern = NULL},
};
