/* cmd_drain.c - sandpool drain. */
#include "cli/cli.h"

int cmd_drain(struct cli *c)
{
    return cli_set_mode(c, "/drain",
                        "the pool drains: new leases are refused until 'sandpool resume'");
}
