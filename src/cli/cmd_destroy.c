/* cmd_destroy.c - sandpool destroy. */
#include "base/str.h"
#include "cli/cli.h"

int cmd_destroy(struct cli *c)
{
    const char *separator = "?";
    struct json_doc *doc;
    struct cli_sandbox_call call = {.method = "DELETE"};
    struct buf query;
    uint64_t generation;
    int code;

    buf_init(&query, 256);
    if (cli_flag(&c->args, "quick")) {
        buf_puts(&query, "?quick=1");
        separator = "&";
    }
    if (cli_number(&c->args, "generation", &generation))
        buf_printf(&query, "%sgeneration=%llu", separator, (unsigned long long) generation);
    call.suffix = buf_str(&query);
    code = cli_call_sandbox(c, &call, &doc);
    buf_fini(&query);
    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c)) {
        const char *report = show_str(json_root(doc), "report");

        out_text(c->out, c->args.operands[0]);
        (void) fprintf(c->out, " is %s%s", show_str(json_root(doc), "state"),
                       str_is_empty(report) ? "" : ": ");
        out_text(c->out, report);
        (void) fputc('\n', c->out);
    }
    (void) json_doc_free(doc);
    return CLI_OK;
}
