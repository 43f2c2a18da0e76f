/* cmd_get.c - sandpool get. */
#include "cli/cli.h"

int cmd_get(struct cli *c)
{
    struct json_doc *doc;
    struct buf target;
    int code;

    buf_init(&target, 4096);
    cli_sandbox_target(c, &target, cli_flag(&c->args, "alive") ? "?alive=1" : "");
    code = cli_call(c, "GET", buf_str(&target), NULL, &doc);
    buf_fini(&target);
    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c))
        show_members(json_root(doc), c->out);
    (void) json_doc_free(doc);
    return CLI_OK;
}
