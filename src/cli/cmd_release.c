/* cmd_release.c - sandpool release. */
#include "cli/cli.h"

int cmd_release(struct cli *c)
{
    struct cli_sandbox_call call = {.method = "POST", .suffix = "/release"};
    struct json_doc *doc;
    struct json_out o;
    struct buf body;
    uint64_t generation;
    int code;

    buf_init(&body, 256);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    if (cli_number(&c->args, "generation", &generation))
        json_put_u64(&o, "generation", generation);
    if (cli_flag(&c->args, "destroy"))
        json_put_bool(&o, "destroy", true);
    json_end(&o);
    json_out_finish(&o, &body);
    call.body = buf_str(&body);
    code = cli_call_sandbox(c, &call, &doc);
    buf_fini(&body);
    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c))
        show_ended(json_root(doc), c->args.operands[0], c->out);
    (void) json_doc_free(doc);
    return CLI_OK;
}
