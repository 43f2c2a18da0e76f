/* cmd_drain.c - sandpool drain. */
#include "cli/cli.h"

int cmd_drain(struct cli *c)
{
    bool want_parked_gone = cli_flag(&c->args, "evict-parked");
    int code = cli_call(c, "POST", "/v1/pool/drain",
                        want_parked_gone ? "{\"evict_parked\":true}" : "{}", NULL);

    if (code == CLI_OK && !cli_wants_json(c))
        (void) fprintf(c->out, "the pool drains: new leases are refused until 'sandpool resume'\n");
    return code;
}
