/* cmd_pause.c - sandpool pause. */
#include "cli/cli.h"

int cmd_pause(struct cli *c)
{
    int code = cli_call(c, "POST", "/v1/pool/pause", NULL, NULL);

    if (code == CLI_OK && !cli_wants_json(c))
        (void) fprintf(c->out, "the pool is paused: no new leases until 'sandpool resume'\n");
    return code;
}
