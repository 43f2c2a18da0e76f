/* cmd_destroy.c - sandpool destroy: some boxes, or all, or those that conditions name. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/list.h"

enum { OUTPUT_MAX = 64 * 1024 * 1024 };

/* `generation` 0: whatever it is, unless an option says it. */
static int destroy(struct cli *c, const char *name, uint64_t generation)
{
    const char *separator = "?";
    struct json_doc *doc;
    struct cli_sandbox_call call = {.method = "DELETE", .name = name};
    struct buf query;
    int code;

    buf_init(&query, 256);
    if (cli_flag(&c->args, "quick")) {
        buf_puts(&query, "?quick=1");
        separator = "&";
    }
    (void) cli_number(&c->args, "generation", &generation); /* may not be given */
    if (generation > 0)
        buf_printf(&query, "%sgeneration=%llu", separator, (unsigned long long) generation);
    call.suffix = buf_str(&query);
    code = cli_call_sandbox(c, &call, &doc);
    buf_fini(&query);
    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c))
        show_ended(json_root(doc), name, c->out);
    (void) json_doc_free(doc);
    return CLI_OK;
}

/* --- all, or those of --where --- */

/* What --where may ask for, and what the daemon calls it. */
static const struct where_key {
    const char *name;
    const char *filter;
    bool is_time;
    bool is_flag;
} where_keys[] = {
    {"state", "state", false, false},         {"profile", "profile", false, false},
    {"user", "user_id", false, false},        {"thread", "thread_id", false, false},
    {"principal", "principal", false, false}, {"leased-for", "min_leased_s", true, false},
    {"idle-for", "min_idle_s", true, false},  {"leaking", "leaking", false, true},
};

static const struct where_key *find_key(const char *text, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(where_keys); i++)
        if (strlen(where_keys[i].name) == len && strncmp(where_keys[i].name, text, len) == 0)
            return &where_keys[i];
    return NULL;
}

/* Nothing is left out: a condition that is not understood must not destroy more than was meant. */
static int add_condition(struct cli *c, const char *text, struct buf *filters)
{
    size_t len = strcspn(text, "=");
    const struct where_key *key = find_key(text, len);
    const char *value = text[len] == '=' ? text + len + 1 : "";
    uint64_t ms;

    if (key == NULL || str_is_empty(value))
        return cli_fail_usage(
            c,
            "--where takes KEY=VALUE with state, profile, user, thread, principal, "
            "leased-for, idle-for or leaking=1, not '%s'",
            text);
    if (key->is_flag && strcmp(value, "1") != 0)
        return cli_fail_usage(c, "--where %s takes 1, not '%s'", key->name, value);
    if (key->is_time && (!duration_parse_ms(value, &ms) || ms < 1000))
        return cli_fail_usage(c, "--where %s takes a time from 1s, not '%s'", key->name, value);
    buf_printf(filters, "&%s=", key->filter);
    if (key->is_time)
        buf_printf(filters, "%llu", (unsigned long long) (ms / 1000));
    else
        cli_escape(filters, value);
    return CLI_OK;
}

/* Blank boxes are the pool's own business: it would make new ones. */
static void drop_blank(struct list_boxes *l)
{
    size_t count = 0;

    for (size_t i = 0; i < l->count; i++)
        if (!str_is_empty(show_str(l->boxes[i], "sandbox_id")) &&
            strcmp(show_str(l->boxes[i], "state"), "deleting") != 0)
            l->boxes[count++] = l->boxes[i];
    l->count = count;
}

static bool is_confirmed(struct cli *c, size_t count)
{
    char answer[16] = "";

    if (cli_flag(&c->args, "yes"))
        return true;
    (void) fprintf(c->err, "Destroy %zu sandbox%s with all that is in %s? [y/N] ", count,
                   count == 1 ? "" : "es", count == 1 ? "it" : "them");
    (void) fflush(c->err);
    return fgets(answer, sizeof(answer), stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y');
}

/* Before it asks, for whoever is asked; of a dry run it is the answer. */
static void show_what(struct cli *c, const struct list_boxes *l, bool is_answer)
{
    static const char *const head[] = {"ID",     "STATE",     "PROFILE", "USER",
                                       "THREAD", "PRINCIPAL", "LEASED"};
    struct out_table t;
    struct json_out o;
    struct buf text;
    char age[24];

    out_table_init(&t, head, ARRAY_LEN(head));
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_bool(&o, "dry_run", true);
    json_begin_arr(&o, "sandboxes");
    for (size_t i = 0; i < l->count; i++) {
        const struct json *box = l->boxes[i];

        json_put_str(&o, NULL, show_str(box, "sandbox_id"));
        out_cell(&t, show_str(box, "sandbox_id"));
        out_cell(&t, show_str(box, "state"));
        out_cell(&t, show_str(box, "profile"));
        out_cell(&t, show_str(box, "user_id"));
        out_cell(&t, show_str(box, "thread_id"));
        out_cell(&t, show_str(box, "principal_name"));
        out_cell(&t, show_age(box, "leased_s", age));
    }
    json_end(&o);
    json_end(&o);
    buf_init(&text, OUTPUT_MAX);
    json_out_finish(&o, &text);
    if (!is_answer)
        out_table_print(&t, c->err);
    else if (cli_wants_json(c))
        (void) fprintf(c->out, "%s\n", buf_str(&text));
    else
        out_table_print(&t, c->out);
    buf_fini(&text);
    out_table_fini(&t);
}

/* Each as it was listed: an id that has got another box meanwhile keeps that. */
static int destroy_listed(struct cli *c, const struct list_boxes *l)
{
    int code = CLI_OK;

    for (size_t i = 0; i < l->count; i++) {
        int r =
            destroy(c, show_str(l->boxes[i], "sandbox_id"), show_u64(l->boxes[i], "generation"));

        code = r != CLI_OK && r != CLI_NOT_FOUND ? r : code; /* the rest goes all the same */
    }
    return code;
}

static int destroy_all(struct cli *c)
{
    bool is_dry = cli_flag(&c->args, "dry-run");
    struct list_boxes l = {.pages = NULL};
    struct buf filters;
    int code = CLI_OK;

    if (c->args.operand_count > 0)
        return cli_fail_usage(c, "give ids or --all, not both");
    if (!is_dry && !cli_flag(&c->args, "yes") && isatty(STDIN_FILENO) == 0)
        return cli_fail_usage(c, "--all asks first, and there is no terminal: add --yes");
    buf_init(&filters, 8192);
    for (unsigned i = 0; code == CLI_OK && cli_list(&c->args, "where", i) != NULL; i++)
        code = add_condition(c, cli_list(&c->args, "where", i), &filters);
    if (code == CLI_OK)
        code = list_fetch(c, buf_str(&filters), UINT64_MAX, &l);
    buf_fini(&filters);
    drop_blank(&l);
    if (code == CLI_OK && (is_dry || (l.count > 0 && !cli_flag(&c->args, "yes"))))
        show_what(c, &l, is_dry);
    if (code == CLI_OK && l.count == 0)
        (void) fprintf(c->err, "There are none.\n");
    else if (code == CLI_OK && !is_dry)
        code = is_confirmed(c, l.count) ? destroy_listed(c, &l) : CLI_FAILED;
    list_fini(&l);
    return code;
}

int cmd_destroy(struct cli *c)
{
    int code = CLI_OK;

    if (cli_flag(&c->args, "all"))
        return destroy_all(c);
    if (cli_list(&c->args, "where", 0) != NULL || cli_flag(&c->args, "dry-run"))
        return cli_fail_usage(c, "--where and --dry-run need --all");
    if (c->args.operand_count == 0)
        return cli_fail_usage(c, "ID is missing, or --all");
    for (unsigned i = 0; i < c->args.operand_count; i++) {
        int r = destroy(c, c->args.operands[i], 0);

        code = r != CLI_OK ? r : code;
    }
    return code;
}
