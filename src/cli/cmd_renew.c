/* cmd_renew.c - sandpool renew. */
#include "base/str.h"
#include "cli/cli.h"

int cmd_renew(struct cli *c)
{
    struct cli_sandbox_call call = {.method = "POST", .suffix = "/renew"};
    struct json_doc *doc;
    struct json_out o;
    struct buf body;
    uint64_t v;
    int code;

    buf_init(&body, 256);
    json_out_init(&o);
    json_begin_obj(&o, NULL);
    if (cli_number(&c->args, "generation", &v))
        json_put_u64(&o, "generation", v);
    if (cli_duration_ms(&c->args, "ttl", &v))
        json_put_u64(&o, "ttl_s", (v + 999) / 1000);
    json_end(&o);
    json_out_finish(&o, &body);
    call.body = buf_str(&body);
    code = cli_call_sandbox(c, &call, &doc);
    buf_fini(&body);
    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c)) {
        const char *until = show_str(json_root(doc), "expires_at");

        out_text(c->out, c->args.operands[0]);
        (void) fprintf(c->out, str_is_empty(until) ? " has no deadline%s\n" : " lasts until %s\n",
                       until);
    }
    (void) json_doc_free(doc);
    return CLI_OK;
}
