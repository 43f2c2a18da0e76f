/* cmd_resume.c - sandpool resume. */
#include "cli/cli.h"

int cmd_resume(struct cli *c)
{
    int code = cli_call(c, "POST", "/v1/pool/resume", NULL, NULL);

    if (code == CLI_OK && !cli_wants_json(c))
        (void) fprintf(c->out, "the pool serves again\n");
    return code;
}
