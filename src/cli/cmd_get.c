/* cmd_get.c - sandpool get. */
#include "cli/cli.h"

int cmd_get(struct cli *c)
{
    static const char *const suffixes[] = {"", "?alive=1", "?stats=1", "?alive=1&stats=1"};
    int want = (cli_flag(&c->args, "alive") ? 1 : 0) + (cli_flag(&c->args, "stats") ? 2 : 0);
    struct cli_sandbox_call call = {.method = "GET", .suffix = suffixes[want]};
    struct json_doc *doc;
    int code = cli_call_sandbox(c, &call, &doc);

    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c))
        show_members(json_root(doc), c->out);
    (void) json_doc_free(doc);
    return CLI_OK;
}
