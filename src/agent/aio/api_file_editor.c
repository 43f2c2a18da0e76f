/* api_file_editor.c - /v1/file/str_replace_editor: view, create, str_replace and insert, as tools
 * for language models call them. Lines are counted from 1 here. There is no undo; the answer to an
 * edit contains the text that was replaced. Runs in the helper. */
#include <stdio.h>
#include <string.h>

#include "agent/aio/envelope.h"
#include "agent/aio/file_call.h"
#include "agent/core/plain.h"
#include "agent/file/editor.h"
#include "agent/file/text.h"
#include "agent/file/walk.h"

enum { VIEW_DEPTH = 2, SNIPPET_LINES = 4 };

struct request {
    struct file_edit edit;
    const char *file_text;
    const char *old_str;
    const char *new_str;
    const char *replace_mode;
    const struct json *range;
    uint64_t insert_line;
    struct buf output;
};

static int need(struct request *r, const void *value, const char *key)
{
    if (value != NULL)
        return SP_OK;
    return err_set(&r->edit.job->err, SP_INVALID_FIELD, "'%s' is required for this command", key);
}

/* The text around byte `at` after an edit that wrote `len` bytes there. */
static void print_snippet(struct request *r, size_t at, size_t len)
{
    uint64_t first = file_count_lines(buf_str(&r->edit.after), at);
    uint64_t last = file_count_lines(buf_str(&r->edit.after), at + len);

    buf_printf(&r->output, "The file %s has been edited. Around the change it reads:\n",
               r->edit.job->path);
    file_print_lines(&r->output, &r->edit.after, first > SNIPPET_LINES ? first - SNIPPET_LINES : 1,
                     last + SNIPPET_LINES);
}

static enum file_walk_next show_entry(void *ctx, const struct file_entry *entry)
{
    struct request *r = ctx;

    buf_printf(&r->output, "%s%s\n", entry->full, entry->is_dir ? "/" : "");
    return buf_failed(&r->output) ? FILE_WALK_STOP : FILE_WALK_ON;
}

static int view_directory(struct request *r)
{
    struct file_walk w = {
        .job = r->edit.job, .max_depth = VIEW_DEPTH, .visit = show_entry, .ctx = r};

    if (r->range != NULL)
        return err_set(&r->edit.job->err, SP_INVALID_FIELD, "'view_range' is for files");
    buf_printf(&r->output, "Files and directories below %s, hidden ones left out:\n",
               r->edit.job->path);
    return file_walk_run(&w);
}

/* [first, last], where -1 is the end of the file. */
static int read_range(struct request *r, uint64_t *first, uint64_t *last)
{
    const struct json *to = json_at(r->range, 1);
    bool is_open = to != NULL && json_is_num(to) && json_num(to) == -1;

    if (!json_is_arr(r->range) || json_len(r->range) != 2 ||
        !json_u64(json_at(r->range, 0), first) || (!is_open && !json_u64(to, last)) || *first < 1 ||
        *last < *first)
        return err_set(&r->edit.job->err, SP_INVALID_FIELD,
                       "'view_range' must be [first line, last line or -1]");
    return SP_OK;
}

static int view(struct request *r)
{
    uint64_t first = 1;
    uint64_t last = UINT64_MAX;
    struct stat st;
    int rc;

    if (plain_stat(AT_FDCWD, r->edit.job->path, &st) == 0 && S_ISDIR(st.st_mode))
        return view_directory(r);
    rc = r->range != NULL ? read_range(r, &first, &last) : SP_OK;
    if (rc == SP_OK)
        rc = file_edit_load(&r->edit);
    if (rc == SP_OK && first > file_count_lines(buf_str(&r->edit.before), r->edit.before.len))
        rc =
            err_set(&r->edit.job->err, SP_INVALID_FIELD, "'view_range' begins after the last line");
    if (rc == SP_OK)
        file_print_lines(&r->output, &r->edit.before, first, last);
    return rc;
}

static int create(struct request *r)
{
    int rc = need(r, r->file_text, "file_text");

    if (rc == SP_OK)
        rc = file_edit_create(&r->edit, r->file_text);
    if (rc == SP_OK)
        buf_printf(&r->output, "The file %s has been made.\n", r->edit.job->path);
    return rc;
}

static int replace_found(struct request *r, uint64_t count, size_t first, size_t last)
{
    const char *mode = r->replace_mode;
    char why[128];

    if (mode == NULL && count > 1) {
        (void) snprintf(why, sizeof(why),
                        "'old_str' is there %llu times: give more of its surroundings",
                        (unsigned long long) count);
        return file_job_fail(r->edit.job, 400, "not_unique", why);
    }
    if (mode != NULL && strcmp(mode, "ALL") == 0)
        return file_edit_replace_all(&r->edit, r->old_str, r->new_str);
    if (mode == NULL || strcmp(mode, "FIRST") == 0)
        return file_edit_replace_at(&r->edit, first, r->old_str, r->new_str);
    if (strcmp(mode, "LAST") == 0)
        return file_edit_replace_at(&r->edit, last, r->old_str, r->new_str);
    return err_set(&r->edit.job->err, SP_INVALID_FIELD,
                   "'replace_mode' must be ALL, FIRST or LAST");
}

static int str_replace(struct request *r)
{
    size_t first = 0;
    size_t last = 0;
    uint64_t count;
    int rc = need(r, r->old_str, "old_str");

    if (rc == SP_OK && r->old_str[0] == '\0')
        rc = need(r, NULL, "old_str");
    if (rc == SP_OK)
        rc = file_edit_load(&r->edit);
    if (rc != SP_OK)
        return rc;
    if (r->new_str == NULL)
        r->new_str = "";
    count = file_edit_find(&r->edit, r->old_str, &first, &last);
    if (count == 0)
        return file_job_fail(r->edit.job, 400, "no_match", "'old_str' is not in the file");
    rc = replace_found(r, count, first, last);
    if (rc == SP_OK)
        print_snippet(
            r, r->replace_mode != NULL && strcmp(r->replace_mode, "LAST") == 0 ? last : first,
            strlen(r->new_str));
    return rc;
}

/* After line insert_line; 0 is the start. */
static int insert(struct request *r)
{
    size_t at = 0;
    int rc = need(r, r->new_str, "new_str");

    if (rc == SP_OK && r->insert_line == UINT64_MAX)
        rc = need(r, NULL, "insert_line");
    if (rc == SP_OK)
        rc = file_edit_load(&r->edit);
    if (rc == SP_OK && !file_edit_line_end(&r->edit, r->insert_line, &at))
        rc = err_set(&r->edit.job->err, SP_INVALID_FIELD, "'insert_line' is after the last line");
    if (rc == SP_OK)
        rc = file_edit_insert(&r->edit, at, r->new_str);
    if (rc == SP_OK)
        print_snippet(r, at, strlen(r->new_str));
    return rc;
}

static int run(struct request *r, const char *command)
{
    static const struct {
        const char *name;
        int (*run)(struct request *r);
    } commands[] = {
        {"view", view}, {"create", create}, {"str_replace", str_replace}, {"insert", insert}};

    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (strcmp(commands[i].name, command) == 0)
            return commands[i].run(r);
    return err_set(&r->edit.job->err, SP_INVALID_FIELD,
                   "'command' must be view, create, str_replace or insert");
}

static void put_content(struct json_out *o, const char *key, const struct buf *text, bool is_there)
{
    if (is_there && text->len <= FILE_TEXT_MAX)
        file_put_text(o, key, buf_str(text), text->len);
    else
        json_put_null(o, key);
}

static void put_answer(struct json_out *o, const struct request *r)
{
    file_put_text(o, "output", buf_str(&r->output), r->output.len);
    json_put_null(o, "error");
    json_put_str(o, "path", r->edit.job->path);
    json_put_bool(o, "prev_exist", r->edit.has_old);
    put_content(o, "old_content", &r->edit.before, r->edit.has_old);
    put_content(o, "new_content", &r->edit.after, r->edit.has_text);
}

int aio_run_editor(struct file_job *job, const struct json *req, struct json_out *o)
{
    struct request r = {.insert_line = UINT64_MAX};
    const char *command;
    const struct envelope_field fields[] = {
        {"command", .text = &command, .max = 32, .is_needed = true},
        {"file_text", .text = &r.file_text, .max = FILE_BODY_MAX},
        {"old_str", .text = &r.old_str, .max = FILE_BODY_MAX},
        {"new_str", .text = &r.new_str, .max = FILE_BODY_MAX},
        {"replace_mode", .text = &r.replace_mode, .max = 16},
        {"insert_line", .number = &r.insert_line, .max = INT64_MAX},
        {.key = NULL},
    };
    int rc = aio_file_path(job, req, "path");

    if (rc == SP_OK)
        rc = envelope_fields(req, fields, &job->err);
    if (rc != SP_OK)
        return rc;
    r.range = json_get(req, "view_range");
    if (r.range != NULL && json_is_null(r.range))
        r.range = NULL;
    file_edit_init(&r.edit, job);
    buf_init(&r.output, FILE_TEXT_MAX);
    rc = run(&r, command);
    if (rc == SP_OK && buf_failed(&r.output))
        rc = file_job_fail(job, 413, "too_large", "this is too large for one answer");
    if (rc == SP_OK)
        put_answer(o, &r);
    file_edit_fini(&r.edit);
    buf_fini(&r.output);
    return rc;
}
