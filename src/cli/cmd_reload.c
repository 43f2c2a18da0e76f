/* cmd_reload.c - sandpool reload. */
#include "cli/cli.h"

int cmd_reload(struct cli *c)
{
    struct json_doc *doc;
    int code = cli_call(c, "POST", "/v1/pool/reload", NULL, &doc);

    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c))
        (void) fprintf(c->out, "the configuration was read again, profiles: %llu\n",
                       (unsigned long long) show_u64(json_root(doc), "profiles"));
    (void) json_doc_free(doc);
    return CLI_OK;
}
