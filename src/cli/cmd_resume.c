/* cmd_resume.c - sandpool resume: the pool, or one sandbox. */
#include "cli/cli.h"

static int resume_box(struct cli *c)
{
    struct cli_sandbox_call call = {.method = "POST", .suffix = "/resume", .body = "{}"};
    struct json_doc *doc;
    int code = cli_call_sandbox(c, &call, &doc);

    if (code != CLI_OK)
        return code;
    if (!cli_wants_json(c)) {
        out_text(c->out, c->args.operands[0]);
        (void) fprintf(c->out, " goes on\n");
    }
    (void) json_doc_free(doc);
    return CLI_OK;
}

int cmd_resume(struct cli *c)
{
    int code;

    if (c->args.operand_count > 0)
        return resume_box(c);
    code = cli_call(c, "POST", "/v1/pool/resume", NULL, NULL);
    if (code == CLI_OK && !cli_wants_json(c))
        (void) fprintf(c->out, "the pool serves again\n");
    return code;
}
