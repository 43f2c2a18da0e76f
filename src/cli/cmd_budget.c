/* cmd_budget.c - sandpool budget: what users may spend. */
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

enum { BODY_MAX = 256, TARGET_MAX = 1024 };

static const char *const head[] = {"USER",  "AMOUNT",   "CREDIT", "LIMIT",
                                   "SPENT", "CURRENCY", "UNTIL"};

static void add_row(struct out_table *t, const struct json *b)
{
    bool is_default = json_bool(json_get(b, "is_default"));
    char amount[64];

    (void) snprintf(amount, sizeof(amount), "%.32s%s", show_str(b, "amount"),
                    is_default ? " (default)" : "");
    out_cell(t, show_str(b, "user_id"));
    out_cell(t, amount);
    out_cell(t, show_str(b, "credit"));
    out_cell(t, show_str(b, "limit"));
    out_cell(t, show_str(b, "spent"));
    out_cell(t, show_str(b, "currency"));
    out_cell(t, show_str(b, "ends_at"));
}

static int list(struct cli *c)
{
    struct out_table table;
    char cursor[256] = "";
    bool has_more = true;
    int code = CLI_OK;

    out_table_init(&table, head, ARRAY_LEN(head));
    while (code == CLI_OK && has_more) {
        struct json_doc *doc;
        const struct json *found;
        struct buf target;

        buf_init(&target, TARGET_MAX);
        buf_puts(&target, "/v1/budgets?limit=1000");
        if (!str_is_empty(cursor)) {
            buf_puts(&target, "&cursor=");
            cli_escape(&target, cursor);
        }
        code = cli_wants_json(c) ? cli_call(c, "GET", buf_str(&target), NULL, &doc)
                                 : cli_fetch(c, "GET", buf_str(&target), &doc);
        buf_fini(&target);
        if (code != CLI_OK)
            break;
        found = json_get(json_root(doc), "budgets");
        for (size_t i = 0; i < json_len(found); i++)
            add_row(&table, json_at(found, i));
        str_copy_cut(cursor, sizeof(cursor), show_str(json_root(doc), "next_cursor"));
        has_more = !str_is_empty(cursor);
        (void) json_doc_free(doc);
    }
    if (code == CLI_OK && !cli_wants_json(c))
        out_table_print(&table, c->out);
    out_table_fini(&table);
    return code;
}

/* One user: as it is, or as it is after the change. */
static int one(struct cli *c, const char *method, const char *suffix, const char *amount)
{
    struct json_doc *doc;
    struct json_out o;
    struct buf target;
    struct buf body;
    int code;

    json_out_init(&o);
    json_begin_obj(&o, NULL);
    json_put_str(&o, "amount", amount);
    json_end(&o);
    buf_init(&body, BODY_MAX);
    json_out_finish(&o, &body);
    buf_init(&target, TARGET_MAX);
    buf_puts(&target, "/v1/budgets/");
    cli_escape(&target, c->args.operands[1]);
    buf_puts(&target, suffix);
    code = cli_call(c, method, buf_str(&target), strcmp(method, "GET") == 0 ? NULL : buf_str(&body),
                    &doc);
    buf_fini(&target);
    buf_fini(&body);
    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c)) {
        struct out_table table;

        out_table_init(&table, head, ARRAY_LEN(head));
        add_row(&table, json_root(doc));
        out_table_print(&table, c->out);
        out_table_fini(&table);
    }
    (void) json_doc_free(doc);
    return CLI_OK;
}

int cmd_budget(struct cli *c)
{
    const char *what = c->args.operands[0];
    unsigned count = c->args.operand_count;
    const char *amount = count == 3 ? c->args.operands[2] : NULL;

    if (strcmp(what, "ls") == 0 || strcmp(what, "list") == 0)
        return count == 1 ? list(c) : cli_fail_usage(c, "budget ls takes no more arguments");
    if (strcmp(what, "show") == 0)
        return count == 2 ? one(c, "GET", "", NULL) : cli_fail_usage(c, "budget show needs a USER");
    if (strcmp(what, "set") == 0)
        return count == 3
                   ? one(c, "PUT", "", strcmp(amount, "default") == 0 ? NULL : amount)
                   : cli_fail_usage(c, "budget set needs a USER and an AMOUNT, or 'default'");
    if (strcmp(what, "credit") == 0)
        return count == 3 ? one(c, "POST", "/credit", amount)
                          : cli_fail_usage(c, "budget credit needs a USER and an AMOUNT");
    return cli_fail_choice(c);
}
