/* api_file.c - the routes of the file API. Each buffered one is a job of a helper; nothing
 * here touches a file. */
#include "agent/api_file.h"

#include "agent/api_file_calls.h"

static void handle_read(struct http_exchange *ex)
{
    static const struct file_call call = {.operation = "read", .run = file_call_read};

    file_job_start(ex, &call);
}

static void handle_write(struct http_exchange *ex)
{
    static const struct file_call call = {.operation = "write", .run = file_call_write};

    file_job_start(ex, &call);
}

static void handle_replace(struct http_exchange *ex)
{
    static const struct file_call call = {.operation = "replace", .run = file_call_replace};

    file_job_start(ex, &call);
}

static void handle_editor(struct http_exchange *ex)
{
    static const struct file_call call = {.operation = "edit", .run = file_call_editor};

    file_job_start(ex, &call);
}

static void handle_search(struct http_exchange *ex)
{
    static const struct file_call call = {
        .operation = "search", .run = file_call_search, .is_long = true};

    file_job_start(ex, &call);
}

static void handle_find(struct http_exchange *ex)
{
    static const struct file_call call = {
        .operation = "find", .run = file_call_find, .is_long = true};

    file_job_start(ex, &call);
}

static void handle_grep(struct http_exchange *ex)
{
    static const struct file_call call = {
        .operation = "grep", .run = file_call_grep, .is_long = true};

    file_job_start(ex, &call);
}

static void handle_glob(struct http_exchange *ex)
{
    static const struct file_call call = {
        .operation = "glob", .run = file_call_glob, .is_long = true};

    file_job_start(ex, &call);
}

static void handle_list(struct http_exchange *ex)
{
    static const struct file_call call = {
        .operation = "list", .run = file_call_list, .is_long = true};

    file_job_start(ex, &call);
}

static void handle_dirs(struct http_exchange *ex)
{
    static const struct file_call call = {.operation = "make", .run = file_call_dirs};

    file_job_start(ex, &call);
}

const struct http_route agent_file_routes[] = {
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
    {HTTP_METHOD_POST, "/v1/file/upload", file_handle_upload, HTTP_STREAM, 0, "multipart: a file"},
    {HTTP_METHOD_POST, "/v1/agent/directories", handle_dirs, 0, 0, "directories for the user"},
    {HTTP_METHOD_GET, "/v1/file/download", file_handle_download, 0, 0, "the bytes of a file"},
    {.pattern = NULL},
};
