/* cmd_snapshot.c - sandpool snapshot: create, ls, rm; export and import are in snapshot_file.c. */
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/snapshot_file.h"

enum { BODY_MAX = 8192, OUTPUT_MAX = 256 * 1024 * 1024 };

static const char *const head[] = {"SNAPSHOT", "NAME",   "PROFILE", "USER", "THREAD",
                                   "MB",       "LAYERS", "MADE",    "USED", "PARENT"};

static int create(struct cli *c)
{
    const char *name = cli_option(&c->args, "name");
    struct cli_sandbox_call call = {
        .name = c->args.operands[1], .method = "POST", .suffix = "/snapshots"};
    struct json_doc *doc;
    struct json_out o;
    struct buf body;
    int code;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    if (name != NULL)
        json_put_str(&o, "name", name);
    json_end(&o);
    buf_init(&body, BODY_MAX);
    json_out_finish(&o, &body);
    call.body = buf_str(&body);
    code = cli_call_sandbox(c, &call, &doc);
    buf_fini(&body);
    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c))
        (void) fprintf(c->out, "%s\n", show_str(json_root(doc), "snapshot_id"));
    (void) json_doc_free(doc);
    return CLI_OK;
}

static void add_row(struct out_table *t, const struct json *s)
{
    out_cell(t, show_str(s, "snapshot_id"));
    out_cell(t, json_get(s, "hibernated") != NULL ? "(hibernated)" : show_str(s, "name"));
    out_cell(t, show_str(s, "profile"));
    out_cell(t, show_str(s, "user_id"));
    out_cell(t, show_str(s, "thread_id"));
    out_cell_u64(t, (show_u64(s, "size_bytes") + 1024 * 1024 - 1) / (1024 * 1024));
    out_cell_u64(t, show_u64(s, "layers"));
    out_cell(t, show_str(s, "created_at"));
    out_cell(t, show_str(s, "last_used_at"));
    out_cell(t, show_str(s, "parent"));
}

/* --json: one list, however many pages it took. */
static void merge(struct json_out *merged, const struct json *s)
{
    struct buf text;

    buf_init(&text, OUTPUT_MAX);
    json_print(s, &text);
    json_put_raw(merged, NULL, buf_str(&text));
    buf_fini(&text);
}

static void print_merged(struct cli *c, struct json_out *merged, bool want_print)
{
    struct buf text;

    json_end(merged);
    json_put_null(merged, "next");
    json_end(merged);
    buf_init(&text, OUTPUT_MAX);
    json_out_finish(merged, &text);
    if (want_print)
        (void) fprintf(c->out, "%s\n", buf_str(&text));
    buf_fini(&text);
}

static int list(struct cli *c)
{
    struct out_table table;
    bool want_all = cli_flag(&c->args, "all");
    struct json_out merged;
    char target[64] = "/v1/snapshots";
    int code = CLI_OK;

    if (want_all)
        (void) snprintf(target, sizeof(target), "/v1/snapshots?all=1");
    out_table_init(&table, head, ARRAY_LEN(head));
    json_out_init(&merged);
    json_begin_obj(&merged, NULL);
    json_begin_arr(&merged, "snapshots");
    while (code == CLI_OK && !str_is_empty(target)) {
        struct json_doc *doc;
        const struct json *found;

        code = cli_fetch(c, "GET", target, &doc);
        if (code != CLI_OK)
            break;
        found = json_get(json_root(doc), "snapshots");
        for (size_t i = 0; i < json_len(found); i++) {
            if (cli_wants_json(c))
                merge(&merged, json_at(found, i));
            else
                add_row(&table, json_at(found, i));
        }
        target[0] = '\0';
        if (!str_is_empty(show_str(json_root(doc), "next")))
            (void) snprintf(target, sizeof(target), "/v1/snapshots?after=%.16s%s",
                            show_str(json_root(doc), "next"), want_all ? "&all=1" : "");
        (void) json_doc_free(doc);
    }
    print_merged(c, &merged, code == CLI_OK && cli_wants_json(c));
    if (code == CLI_OK && !cli_wants_json(c))
        out_table_print(&table, c->out);
    out_table_fini(&table);
    return code;
}

static int drop(struct cli *c)
{
    int code = CLI_OK;

    for (unsigned i = 1; i < c->args.operand_count; i++) {
        struct buf target;
        int r;

        buf_init(&target, 1024);
        buf_puts(&target, "/v1/snapshots/");
        cli_escape(&target, c->args.operands[i]);
        r = cli_call(c, "DELETE", buf_str(&target), NULL, NULL);
        buf_fini(&target);
        if (r == CLI_OK && !cli_wants_json(c)) {
            out_text(c->out, c->args.operands[i]);
            (void) fprintf(c->out, " is deleted\n");
        }
        code = r != CLI_OK ? r : code; /* the rest goes all the same */
    }
    return code;
}

int cmd_snapshot(struct cli *c)
{
    const char *what = c->args.operands[0];
    unsigned count = c->args.operand_count;

    if (strcmp(what, "create") == 0)
        return count == 2 ? create(c)
                          : cli_fail_usage(c, "snapshot create needs the ID of a sandbox");
    if (strcmp(what, "ls") == 0 || strcmp(what, "list") == 0)
        return count == 1 ? list(c) : cli_fail_usage(c, "snapshot ls takes no more arguments");
    if (strcmp(what, "rm") == 0 || strcmp(what, "delete") == 0)
        return count > 1 ? drop(c) : cli_fail_usage(c, "snapshot rm needs a SNAPSHOT");
    if (strcmp(what, "export") == 0)
        return count == 2 || count == 3
                   ? snapshot_export(c)
                   : cli_fail_usage(c, "snapshot export needs a SNAPSHOT, and may have a FILE");
    if (strcmp(what, "import") == 0)
        return count == 2 ? snapshot_import(c) : cli_fail_usage(c, "snapshot import needs a FILE");
    return cli_fail_choice(c);
}
