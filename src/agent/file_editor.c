/* file_editor.c - /v1/file/str_replace_editor: view, create, str_replace and insert, as tools for
 * language models call them. Lines are counted from 1 here. There is no undo: what an edit replaced
 * is in its answer. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/api_file_calls.h"
#include "agent/envelope.h"
#include "agent/file_store.h"
#include "agent/file_text.h"
#include "agent/file_walk.h"
#include "agent/plain.h"

enum { VIEW_DEPTH = 2, SNIPPET_LINES = 4 };

struct edit {
    struct file_job *job;
    const char *file_text;
    const char *old_str;
    const char *new_str;
    const char *replace_mode;
    const struct json *range;
    uint64_t insert_line;
    bool has_old;  /* the file was there */
    bool has_text; /* `after` is what it is now */
    struct buf before;
    struct buf after;
    struct buf output;
};

static int need(struct edit *e, const void *value, const char *key)
{
    if (value != NULL)
        return SP_OK;
    return err_set(&e->job->err, SP_INVALID_FIELD, "'%s' is required for this command", key);
}

static int load(struct edit *e)
{
    int rc = file_slurp(e->job, &e->before);

    if (rc != SP_OK)
        return rc;
    e->has_old = true;
    if (file_is_utf8(buf_str(&e->before), e->before.len))
        return SP_OK;
    return file_job_fail(e->job, 400, "not_text", "the file is not UTF-8 text");
}

static int save(struct edit *e)
{
    int sys;

    if (buf_failed(&e->after))
        return file_job_fail(e->job, 413, "too_large", "the file would become too large");
    sys = file_store_put(e->job->path, buf_str(&e->after), e->after.len);
    if (sys != 0)
        return file_job_sys(e->job, sys);
    e->has_text = true;
    return SP_OK;
}

/* The lines first to last of the text, each with its number. */
static void print_lines(struct buf *out, const struct buf *text, uint64_t first, uint64_t last)
{
    const char *p = buf_str(text);
    const char *end = p + text->len;

    for (uint64_t number = 1; p < end && number <= last; number++) {
        const char *nl = memchr(p, '\n', (size_t) (end - p));
        const char *next = nl != NULL ? nl : end;

        if (number >= first) {
            buf_printf(out, "%6llu\t", (unsigned long long) number);
            buf_append(out, p, (size_t) (next - p));
            buf_putc(out, '\n');
        }
        p = nl != NULL ? nl + 1 : end;
    }
}

static uint64_t count_lines(const char *text, size_t len)
{
    uint64_t lines = 1;

    for (const char *p = memchr(text, '\n', len); p != NULL;
         p = memchr(p + 1, '\n', len - (size_t) (p + 1 - text)))
        lines++;
    return lines;
}

/* What is around byte `at` after an edit that made `len` bytes there. */
static void print_snippet(struct edit *e, size_t at, size_t len)
{
    uint64_t first = count_lines(buf_str(&e->after), at);
    uint64_t last = count_lines(buf_str(&e->after), at + len);

    buf_printf(&e->output, "The file %s has been edited. Around the change it reads:\n",
               e->job->path);
    print_lines(&e->output, &e->after, first > SNIPPET_LINES ? first - SNIPPET_LINES : 1,
                last + SNIPPET_LINES);
}

static enum file_walk_next show_entry(void *ctx, const struct file_entry *entry)
{
    struct edit *e = ctx;

    buf_printf(&e->output, "%s%s\n", entry->full, entry->is_dir ? "/" : "");
    return buf_failed(&e->output) ? FILE_WALK_STOP : FILE_WALK_ON;
}

static int view_directory(struct edit *e)
{
    struct file_walk w = {.job = e->job, .max_depth = VIEW_DEPTH, .visit = show_entry, .ctx = e};

    if (e->range != NULL)
        return err_set(&e->job->err, SP_INVALID_FIELD, "'view_range' is for files");
    buf_printf(&e->output, "Files and directories below %s, hidden ones left out:\n", e->job->path);
    return file_walk_run(&w);
}

/* [first, last], where -1 is the end of the file. */
static int read_range(struct edit *e, uint64_t *first, uint64_t *last)
{
    const struct json *to = json_at(e->range, 1);
    bool is_open = to != NULL && json_is_num(to) && json_num(to) == -1;

    if (!json_is_arr(e->range) || json_len(e->range) != 2 ||
        !json_u64(json_at(e->range, 0), first) || (!is_open && !json_u64(to, last)) || *first < 1 ||
        *last < *first)
        return err_set(&e->job->err, SP_INVALID_FIELD,
                       "'view_range' must be [first line, last line or -1]");
    return SP_OK;
}

static int view(struct edit *e)
{
    uint64_t first = 1;
    uint64_t last = UINT64_MAX;
    struct stat st;
    int rc;

    if (plain_stat(AT_FDCWD, e->job->path, &st) == 0 && S_ISDIR(st.st_mode))
        return view_directory(e);
    rc = e->range != NULL ? read_range(e, &first, &last) : SP_OK;
    if (rc == SP_OK)
        rc = load(e);
    if (rc == SP_OK && first > count_lines(buf_str(&e->before), e->before.len))
        rc = err_set(&e->job->err, SP_INVALID_FIELD, "'view_range' begins after the last line");
    if (rc == SP_OK)
        print_lines(&e->output, &e->before, first, last);
    return rc;
}

static int create(struct edit *e)
{
    struct stat st;
    int rc = need(e, e->file_text, "file_text");

    if (rc != SP_OK)
        return rc;
    if (lstat(e->job->path, &st) == 0)
        return file_job_sys(e->job, EEXIST);
    buf_puts(&e->after, e->file_text);
    buf_printf(&e->output, "The file %s has been made.\n", e->job->path);
    return save(e);
}

/* Where the text is, how often, and where first and last. */
static uint64_t find_all(const struct buf *text, const char *what, size_t *first, size_t *last)
{
    const char *start = buf_str(text);
    size_t len = strlen(what);
    uint64_t count = 0;

    for (const char *p = start;; p += len) {
        p = memmem(p, text->len - (size_t) (p - start), what, len);
        if (p == NULL)
            return count;
        *last = (size_t) (p - start);
        *first = count == 0 ? *last : *first;
        count++;
    }
}

static void replace_at(struct edit *e, size_t at)
{
    size_t end = at + strlen(e->old_str);

    buf_append(&e->after, buf_str(&e->before), at);
    buf_puts(&e->after, e->new_str);
    buf_append(&e->after, buf_str(&e->before) + end, e->before.len - end);
}

static int replace_found(struct edit *e, uint64_t count, size_t first, size_t last)
{
    const char *mode = e->replace_mode;
    char why[128];

    if (mode == NULL && count > 1) {
        (void) snprintf(why, sizeof(why),
                        "'old_str' is there %llu times: give more of its surroundings",
                        (unsigned long long) count);
        return file_job_fail(e->job, 400, "not_unique", why);
    }
    if (mode != NULL && strcmp(mode, "ALL") == 0)
        (void) file_replace_all(&e->before, e->old_str, e->new_str, &e->after);
    else if (mode == NULL || strcmp(mode, "FIRST") == 0)
        replace_at(e, first);
    else if (strcmp(mode, "LAST") == 0)
        replace_at(e, last);
    else
        return err_set(&e->job->err, SP_INVALID_FIELD, "'replace_mode' must be ALL, FIRST or LAST");
    return save(e);
}

static int str_replace(struct edit *e)
{
    size_t first = 0;
    size_t last = 0;
    uint64_t count;
    int rc = need(e, e->old_str, "old_str");

    if (rc == SP_OK && e->old_str[0] == '\0')
        rc = need(e, NULL, "old_str");
    if (rc == SP_OK)
        rc = load(e);
    if (rc != SP_OK)
        return rc;
    if (e->new_str == NULL)
        e->new_str = "";
    count = find_all(&e->before, e->old_str, &first, &last);
    if (count == 0)
        return file_job_fail(e->job, 400, "no_match", "'old_str' is not in the file");
    rc = replace_found(e, count, first, last);
    if (rc == SP_OK)
        print_snippet(
            e, e->replace_mode != NULL && strcmp(e->replace_mode, "LAST") == 0 ? last : first,
            strlen(e->new_str));
    return rc;
}

/* After line insert_line; 0 is the start. */
static int insert(struct edit *e)
{
    const char *text;
    size_t at = 0;
    int rc = need(e, e->new_str, "new_str");

    if (rc == SP_OK && e->insert_line == UINT64_MAX)
        rc = need(e, NULL, "insert_line");
    if (rc == SP_OK)
        rc = load(e);
    if (rc != SP_OK)
        return rc;
    text = buf_str(&e->before);
    for (uint64_t i = 0; i < e->insert_line; i++) {
        const char *nl = memchr(text + at, '\n', e->before.len - at);

        if (at == e->before.len)
            return err_set(&e->job->err, SP_INVALID_FIELD, "'insert_line' is after the last line");
        at = nl != NULL ? (size_t) (nl - text) + 1 : e->before.len;
    }
    buf_append(&e->after, text, at);
    if (at > 0 && text[at - 1] != '\n')
        buf_putc(&e->after, '\n');
    buf_puts(&e->after, e->new_str);
    if (at < e->before.len)
        buf_putc(&e->after, '\n');
    buf_append(&e->after, text + at, e->before.len - at);
    rc = save(e);
    if (rc == SP_OK)
        print_snippet(e, at, strlen(e->new_str));
    return rc;
}

static int run(struct edit *e, const char *command)
{
    static const struct {
        const char *name;
        int (*run)(struct edit *e);
    } commands[] = {
        {"view", view}, {"create", create}, {"str_replace", str_replace}, {"insert", insert}};

    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (strcmp(commands[i].name, command) == 0)
            return commands[i].run(e);
    return err_set(&e->job->err, SP_INVALID_FIELD,
                   "'command' must be view, create, str_replace or insert");
}

static void put_content(struct json_out *o, const char *key, const struct buf *text, bool is_there)
{
    if (is_there && text->len <= FILE_TEXT_MAX)
        file_put_text(o, key, buf_str(text), text->len);
    else
        json_put_null(o, key);
}

static void put_answer(struct json_out *o, const struct edit *e)
{
    file_put_text(o, "output", buf_str(&e->output), e->output.len);
    json_put_null(o, "error");
    json_put_str(o, "path", e->job->path);
    json_put_bool(o, "prev_exist", e->has_old);
    put_content(o, "old_content", &e->before, e->has_old);
    put_content(o, "new_content", &e->after, e->has_text);
}

int file_call_editor(struct file_job *job, const struct json *req, struct json_out *o)
{
    struct edit e = {.job = job, .insert_line = UINT64_MAX};
    const char *command;
    const struct envelope_field fields[] = {
        {"command", .text = &command, .max = 32, .is_needed = true},
        {"file_text", .text = &e.file_text, .max = FILE_BODY_MAX},
        {"old_str", .text = &e.old_str, .max = FILE_BODY_MAX},
        {"new_str", .text = &e.new_str, .max = FILE_BODY_MAX},
        {"replace_mode", .text = &e.replace_mode, .max = 16},
        {"insert_line", .number = &e.insert_line, .max = INT64_MAX},
        {.key = NULL},
    };
    int rc = file_job_path(job, req, "path");

    if (rc == SP_OK)
        rc = envelope_fields(req, fields, &job->err);
    if (rc != SP_OK)
        return rc;
    e.range = json_get(req, "view_range");
    if (e.range != NULL && json_is_null(e.range))
        e.range = NULL;
    buf_init(&e.before, FILE_EDIT_MAX);
    buf_init(&e.after, FILE_EDIT_MAX);
    buf_init(&e.output, FILE_TEXT_MAX);
    rc = run(&e, command);
    if (rc == SP_OK && buf_failed(&e.output))
        rc = file_job_fail(job, 413, "too_large", "this is too large for one answer");
    if (rc == SP_OK)
        put_answer(o, &e);
    buf_fini(&e.before);
    buf_fini(&e.after);
    buf_fini(&e.output);
    return rc;
}
