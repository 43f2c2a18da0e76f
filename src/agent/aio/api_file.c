/* api_file.c - /v1/file/...: read, write, replace, str_replace_editor, search, find, grep, glob, list,
 * upload, download. Each call is done by a helper; nothing here touches a file.
 *
 * Paths are absolute, or relative to the agent's directory ("~" is the home). There is no list of
 * allowed places: the user's own rights are the limit, or those of the box's root for a JSON request
 * with "sudo": true. A new file belongs to the user it was made for. Regular files and directories are served,
 * nothing else, and nothing below /proc/<pid> (core/plain.h).
 *
 * Answers are envelopes. A failed operation has success false, data {path, operation, message,
 * error_type, retryable, errno?, errno_name?} and always a status that says so, because clients take
 * a 200 without content for an empty file: 404 no such file, 403 not permitted, 400 wrong kind of file
 * or not text, 409 busy or changed, 413 too large, 416 no such range, 507 no space, 500 other
 * failures, 503 no resources, 504 no time. A malformed request is answered with 422.
 *
 * Limits: JSON requests of 64 MiB, 16 MiB of text in an answer, 20 s of work. "truncated": true says that
 * something was not shown; only read never truncates, it fails. Uploads and downloads have no limit
 * and need the same memory for every size. grep with "multiline" reads files of at most 8 MiB and finds
 * every match of up to 16 KiB; its answer has the whole lines of a match. */
#include <string.h>

#include "agent/aio/envelope.h"
#include "agent/aio/file_call.h"
#include "agent/aio/routes.h"
#include "agent/core/agent.h"
#include "agent/file/download.h"
#include "agent/file/upload.h"
#include "base/str.h"

static void handle_read(struct http_exchange *ex)
{
    static const struct aio_file_call call = {.operation = "read", .run = aio_run_read};

    aio_file_start(ex, &call);
}

static void handle_write(struct http_exchange *ex)
{
    static const struct aio_file_call call = {.operation = "write", .run = aio_run_write};

    aio_file_start(ex, &call);
}

static void handle_replace(struct http_exchange *ex)
{
    static const struct aio_file_call call = {.operation = "replace", .run = aio_run_replace};

    aio_file_start(ex, &call);
}

static void handle_editor(struct http_exchange *ex)
{
    static const struct aio_file_call call = {.operation = "edit", .run = aio_run_editor};

    aio_file_start(ex, &call);
}

static void handle_search(struct http_exchange *ex)
{
    static const struct aio_file_call call = {
        .operation = "search", .run = aio_run_search, .is_long = true};

    aio_file_start(ex, &call);
}

static void handle_find(struct http_exchange *ex)
{
    static const struct aio_file_call call = {
        .operation = "find", .run = aio_run_find, .is_long = true};

    aio_file_start(ex, &call);
}

static void handle_grep(struct http_exchange *ex)
{
    static const struct aio_file_call call = {
        .operation = "grep", .run = aio_run_grep, .is_long = true};

    aio_file_start(ex, &call);
}

static void handle_glob(struct http_exchange *ex)
{
    static const struct aio_file_call call = {
        .operation = "glob", .run = aio_run_glob, .is_long = true};

    aio_file_start(ex, &call);
}

static void handle_list(struct http_exchange *ex)
{
    static const struct aio_file_call call = {
        .operation = "list", .run = aio_run_list, .is_long = true};

    aio_file_start(ex, &call);
}

static void handle_upload(struct http_exchange *ex)
{
    const struct agent *a = http_server_ctx(ex);
    const struct file_upload request = {
        .dialect = &aio_file_dialect, .user = &a->user, .base = agent_directory(a, &a->user)};

    file_upload_start(ex, &request);
}

static void handle_download(struct http_exchange *ex)
{
    const struct agent *a = http_server_ctx(ex);
    struct file_download request = {.dialect = &aio_file_dialect, .user = &a->user};
    char given[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];
    char policy[16];

    if (!http_query(ex, "path", given, sizeof(given)) || given[0] == '\0') {
        envelope_fail(ex, 422, "'path' is required");
        return;
    }
    if (!http_query(ex, "change_policy", policy, sizeof(policy)))
        str_copy_cut(policy, sizeof(policy), "ignore");
    if (strcmp(policy, "ignore") != 0 && strcmp(policy, "abort") != 0) {
        envelope_fail(ex, 422, "'change_policy' must be ignore or abort");
        return;
    }
    if (!file_path_resolve(agent_directory(a, &a->user), a->user.home, given, path, sizeof(path))) {
        envelope_fail(ex, 422, "'path' is too long");
        return;
    }
    request.path = path;
    request.want_abort = strcmp(policy, "abort") == 0;
    file_download_start(ex, &request);
}

const struct http_route aio_file_routes[] = {
    {HTTP_METHOD_POST, "/v1/file/read", handle_read, 0, 0, "text of a file, or lines of it"},
    {HTTP_METHOD_POST, "/v1/file/write", handle_write, 0, FILE_BODY_MAX, "replaces or appends"},
    {HTTP_METHOD_POST, "/v1/file/replace", handle_replace, 0, FILE_BODY_MAX, "edits a text"},
    {HTTP_METHOD_POST, "/v1/file/str_replace_editor", handle_editor, 0, FILE_BODY_MAX,
     "views and edits a text"},
    {HTTP_METHOD_POST, "/v1/file/search", handle_search, 0, 0, "matching lines of a file"},
    {HTTP_METHOD_POST, "/v1/file/find", handle_find, 0, 0, "files by glob"},
    {HTTP_METHOD_POST, "/v1/file/grep", handle_grep, 0, 0, "matching lines below a directory"},
    {HTTP_METHOD_POST, "/v1/file/glob", handle_glob, 0, 0, "files and directories by glob"},
    {HTTP_METHOD_POST, "/v1/file/list", handle_list, 0, 0, "what is in a directory"},
    {HTTP_METHOD_POST, "/v1/file/upload", handle_upload, HTTP_STREAM, 0, "multipart: a file"},
    {HTTP_METHOD_GET, "/v1/file/download", handle_download, 0, 0, "the bytes of a file"},
    {.pattern = NULL},
};
