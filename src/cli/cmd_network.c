/* cmd_network.c - sandpool network. */
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

static void put_allow(const struct cli *c, struct json_out *o)
{
    json_begin_arr(o, "allow");
    for (unsigned i = 1; i < c->args.operand_count; i++)
        json_put_str(o, NULL, c->args.operands[i]);
    json_end(o);
}

int cmd_network(struct cli *c)
{
    struct cli_sandbox_call call = {.method = "POST", .suffix = "/network"};
    struct json_doc *doc;
    struct json_out o;
    struct buf body;
    int code;

    buf_init(&body, 16384);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    put_allow(c, &o);
    json_end(&o);
    json_out_finish(&o, &body);
    call.body = buf_str(&body);
    code = cli_call_sandbox(c, &call, &doc);
    buf_fini(&body);
    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c)) {
        const struct json *allow = json_get(json_root(doc), "network_allow");

        out_text(c->out, c->args.operands[0]);
        (void) fputs(json_len(allow) > 0 ? " reaches only" : " reaches nothing", c->out);
        for (size_t i = 0; i < json_len(allow); i++) {
            (void) fputc(' ', c->out);
            out_text(c->out, json_str(json_at(allow, i)));
        }
        (void) fputc('\n', c->out);
    }
    (void) json_doc_free(doc);
    return CLI_OK;
}
