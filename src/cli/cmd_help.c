/* cmd_help.c - sandpool help. */
#include "cli/cli.h"

int cmd_help(struct cli *c)
{
    const struct cli_command *command;

    if (c->args.operand_count == 0) {
        cli_print_help(c->out);
        return CLI_OK;
    }
    command = cli_find_command(c->args.operands[0]);
    if (command == NULL)
        return cli_fail_usage(c, "unknown command '%.64s'; 'sandpool help' lists them",
                              c->args.operands[0]);
    cli_print_command_help(command, c->out);
    return CLI_OK;
}
