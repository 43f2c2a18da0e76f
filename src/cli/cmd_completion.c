/* cmd_completion.c - sandpool completion. */
#include "cli/cli.h"

int cmd_completion(struct cli *c)
{
    if (!cli_print_completion(c->args.operands[0], c->out))
        return cli_fail_usage(c, "there is a completion for %s, not for '%.40s'",
                              c->args.command->choices, c->args.operands[0]);
    return CLI_OK;
}
