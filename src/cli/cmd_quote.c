/* cmd_quote.c - sandpool quote: what a lease would cost. */
#include "base/str.h"
#include "cli/cli.h"

static const char *const head[] = {"PART", "RATE", "AMOUNT"};

static void print_quote(const struct json *quote, FILE *out)
{
    const struct json *parts = json_get(quote, "parts");
    struct out_table table;
    bool is_by_use = false;
    char text[64];

    duration_print((double) show_u64(quote, "duration_s"), text);
    out_pair(out, "profile", show_str(quote, "profile"));
    out_pair(out, "for", text);
    if (str_is_empty(show_str(quote, "currency"))) {
        out_pair(out, "total", "the profile has no price");
        return;
    }
    (void) snprintf(text, sizeof(text), "%.40s %.8s", show_str(quote, "total"),
                    show_str(quote, "currency"));
    out_pair(out, "total", text);
    if (json_len(parts) == 0)
        return;
    (void) fputc('\n', out);
    out_table_init(&table, head, ARRAY_LEN(head));
    for (size_t i = 0; i < json_len(parts); i++) {
        const struct json *part = json_at(parts, i);

        out_cell(&table, show_str(part, "name"));
        out_cell(&table, show_str(part, "rate"));
        is_by_use = is_by_use || json_is_null(json_get(part, "amount"));
        out_cell(&table,
                 json_is_null(json_get(part, "amount")) ? "by use" : show_str(part, "amount"));
    }
    out_table_print(&table, out);
    out_table_fini(&table);
    if (is_by_use)
        (void) fputs(
            "\nNot in the total: what is paid by use (sandpool usage shows what it came to).\n",
            out);
}

int cmd_quote(struct cli *c)
{
    uint64_t duration_ms = 60 * 60 * 1000;
    struct json_doc *doc;
    struct buf target;
    int code;

    (void) cli_duration_ms(&c->args, "for", &duration_ms); /* absent: an hour */
    buf_init(&target, 1024);
    buf_printf(&target, "/v1/quote?duration_s=%llu", (unsigned long long) (duration_ms / 1000));
    if (c->args.operand_count > 0) {
        buf_puts(&target, "&profile=");
        cli_escape(&target, c->args.operands[0]);
    }
    code = cli_call(c, "GET", buf_str(&target), NULL, &doc);
    buf_fini(&target);
    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c))
        print_quote(json_root(doc), c->out);
    (void) json_doc_free(doc);
    return CLI_OK;
}
